"""Run directories: what a training leaves behind, readable without this package.

    run.toml                        the complete configuration, versions, checksum of the data
    members.parquet                 one row a member: seed, hyperparameters, status
    history.parquet                 one row a member and log: the parts of the loss
    weights.safetensors             every member's model, stacked; there once training is done
    scores.parquet                  one row a member and metric; there once it was scored
    explanation.parquet, .safetensors, .png, sentences.parquet    there once it was explained
    checkpoint/state.safetensors    all that resuming needs; goes when training is done

Every file is replaced whole or not at all, and the checkpoint is one file, so a run can be killed
at any moment.
"""

import fcntl
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax

from untwist.store import toml
from untwist.store.atomic import cannot_write
from untwist.types import InputError

FORMAT = 1
"""The layout of a run directory; a directory of a higher one belongs to a newer version."""


@dataclass(frozen=True)
class Run:
    """A run directory and what its `run.toml` says."""

    path: Path
    config: dict[str, Any]

    @property
    def name(self) -> str:
        """The directory's name."""
        return self.path.name

    @property
    def members(self) -> Path:
        """The table of members."""
        return self.path / "members.parquet"

    @property
    def history(self) -> Path:
        """The table of logs."""
        return self.path / "history.parquet"

    @property
    def weights(self) -> Path:
        """The trained models."""
        return self.path / "weights.safetensors"

    @property
    def scores(self) -> Path:
        """The table of scores: one row a member and metric; there once it has been scored."""
        return self.path / "scores.parquet"

    @property
    def explanation(self) -> Path:
        """The table of the mechanism: one row a member and quantity; there once explained."""
        return self.path / "explanation.parquet"

    @property
    def sentences(self) -> Path:
        """What the explanation says: one row a member and sentence."""
        return self.path / "sentences.parquet"

    @property
    def checkpoint(self) -> Path:
        """The state to resume from."""
        return self.path / "checkpoint" / "state.safetensors"

    @property
    def state(self) -> str:
        """`finished`, `running` or `interrupted`."""
        if self.weights.exists():
            return "finished"
        try:
            with holding(self):
                return "interrupted"
        except InputError:
            return "running"

    def require(self, path: Path) -> Path:
        """Returns one of the run's files, or says that it is not there."""
        if not path.exists():
            done = "is not finished: resume it first" if self.state != "finished" else "is damaged"
            raise InputError(f"{self.path} has no {path.name}: the run {done}")
        return path


def create_run(path: Path, spec: Mapping[str, Any], data: Mapping[str, Any]) -> Run:
    """Returns a new run directory with this configuration; it must not exist, or be empty."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InputError(
            f"{path} exists already: choose another directory, or resume it if it is a run"
        )
    config = {
        "format": FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "spec": dict(spec),
        "data": dict(data),
        "environment": environment(),
    }
    try:
        (path / "checkpoint").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from error
    toml.write(path / "run.toml", config)
    return Run(path, config)


def open_run(path: Path) -> Run:
    """Returns the run in this directory."""
    if not path.is_dir():
        raise InputError(f"{path} is not a directory: expected a run that `untwist train` wrote")
    if not (path / "run.toml").exists():
        raise InputError(f"{path} has no run.toml, so it is not a run: give a run's directory")
    config = toml.read(path / "run.toml")
    form = config.get("format")
    if not isinstance(form, int) or not all(key in config for key in ("spec", "data")):
        raise InputError(f"{path / 'run.toml'} is damaged: expected format, spec and data in it")
    if form > FORMAT:
        raise InputError(
            f"{path} was written by a newer version (format {form}, and this one reads up to "
            f"{FORMAT}): install that version"
        )
    return Run(path, config)


def find_runs(root: Path) -> list[Run]:
    """Returns the readable runs below a directory, by path."""
    if not root.is_dir():
        raise InputError(f"{root} is not a directory: give the directory that holds your runs")
    return [open_run(path.parent) for path in sorted(root.rglob("run.toml"))]


@contextmanager
def holding(run: Run) -> Iterator[None]:
    """Holds the run for this process, so that no second one writes to it; a killed one lets go."""
    try:
        handle = os.open(run.path / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise cannot_write(run.path, error) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise InputError(
            f"{run.path} is being trained by another process: wait for it, or stop it first"
        ) from error
    finally:
        os.close(handle)


def environment() -> dict[str, str]:
    """Returns the versions and the device that a result depends on."""
    packages = ("untwist", "jax", "jaxlib", "equinox", "optax", "numpy")
    device = jax.devices()[0]
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "device": f"{device.platform} {device.device_kind}",
        **{package: version(package) for package in packages},
    }
