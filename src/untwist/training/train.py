"""Training a spec from start to end: in memory, or into a run directory that survives kills."""

import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from untwist.datasets import Dataset
from untwist.store import (
    Run,
    create_run,
    fill,
    holding,
    named_arrays,
    open_run,
    read_arrays,
    write_arrays,
    write_table,
)
from untwist.training.fit import fit
from untwist.training.history import History
from untwist.training.member import Member
from untwist.training.partners import partners_of
from untwist.training.population import Population, load_population, summarize
from untwist.training.progress import Progress
from untwist.training.spec import Spec, prepare, resolve
from untwist.types import Device, InputError


@dataclass(frozen=True)
class Conduct:
    """How to train, which does not change what comes out.

    Attributes:
        progress: Whether to show a progress bar.
        checkpoint_seconds: How often to write a checkpoint.
        memory: Bytes to use on each device; all that is free if None.
        devices: Devices that share the members; the first if None.
    """

    progress: bool = True
    checkpoint_seconds: float = 30.0
    memory: int | None = None
    devices: list[Device] | None = None


def train(
    spec: Spec,
    path: Path | str | None = None,
    *,
    dataset: Dataset | None = None,
    conduct: Conduct = Conduct(),  # noqa: B008
) -> Population:
    """Returns the trained population of a spec, stored in a new run directory if one is given.

    Args:
        spec: What to train.
        path: The run directory to make; nothing is stored if None.
        dataset: The examples, instead of those that the spec names.
        conduct: Progress, checkpoints, memory and devices.
    """
    spec, dataset = resolve(spec, dataset)
    run = None if path is None else create_run(Path(path), spec.table(), _describe(dataset))
    with holding(run) if run else nullcontext():
        return _drive(spec, dataset, run, conduct)


def resume(
    path: Path | str,
    *,
    dataset: Dataset | None = None,
    conduct: Conduct = Conduct(),  # noqa: B008
) -> Population:
    """Returns a run's population, after training it from its last checkpoint to its end.

    On the same machine the result has the same bits as a run that was never interrupted. A run
    that is finished is only read.

    Args:
        path: The run directory.
        dataset: The examples, if the run was given its own.
        conduct: Progress, checkpoints, memory and devices.
    """
    run = open_run(Path(path))
    if run.weights.exists():
        return load_population(run)
    spec, dataset = resolve(Spec.of(run.config["spec"]), dataset)
    expected = run.config["data"].get("checksum")
    if dataset.checksum() != expected:
        raise InputError(
            f"the data are not those that {path} began with: expected checksum {expected}, but "
            f"got {dataset.checksum()}; give the same dataset"
        )
    with holding(run):
        return _drive(spec, dataset, run, conduct)


def _drive(spec: Spec, dataset: Dataset, run: Run | None, conduct: Conduct) -> Population:
    """Trains from the run's checkpoint, or from the start, to the end or to a first Ctrl-C."""
    partners = partners_of(spec.objective, spec.pairs, dataset)
    members, recipe = prepare(spec, dataset.shape, partners)
    history = History()
    if run and run.checkpoint.exists():
        members, history = _read_checkpoint(run, members)
    snapshots = fit(
        dataset,
        members,
        recipe,
        spec.steps,
        log_every=spec.log_every,
        first=history.last_step,
        memory=conduct.memory,
        devices=conduct.devices,
    )
    written = time.monotonic()
    with Progress(conduct.progress, len(members.seed), spec.steps) as bar, _stop_request() as stop:
        for snapshot in snapshots:
            members = snapshot.members
            history.add(snapshot)
            bar.show(snapshot)
            if stop.is_set():
                break
            if run and time.monotonic() - written >= conduct.checkpoint_seconds:
                _write_checkpoint(run, spec, members, history)
                written = time.monotonic()
        snapshots.close()
    done = not stop.is_set() or history.last_step == spec.steps
    if run and not done:
        _write_checkpoint(run, spec, members, history)
    population = summarize(spec, members, history, done=done)
    if run and done:
        _write_result(run, population)
    return population


def _write_checkpoint(run: Run, spec: Spec, members: Member, history: History) -> None:
    """Writes all that resuming needs as one file, then the tables for people to look at."""
    arrays = named_arrays(members, "members.")
    arrays |= {f"history.{name}": array for name, array in history.arrays().items()}
    write_arrays(run.checkpoint, arrays)
    _write_tables(run, summarize(spec, members, history, done=False))


def _read_checkpoint(run: Run, members: Member) -> tuple[Member, History]:
    """The members and the history that the checkpoint holds."""
    arrays = read_arrays(run.checkpoint)
    members = fill(members, arrays, "members.", where=run.checkpoint)
    logged = {
        name.removeprefix("history."): array
        for name, array in arrays.items()
        if name.startswith("history.")
    }
    return members, History.of(logged)


def _write_result(run: Run, population: Population) -> None:
    """Writes the tables, and last the weights, whose presence says that the run is finished."""
    _write_tables(run, population)
    write_arrays(run.weights, named_arrays(population.models))
    shutil.rmtree(run.checkpoint.parent, ignore_errors=True)


def _write_tables(run: Run, population: Population) -> None:
    write_table(run.members, population.members)
    write_table(run.history, population.history)


def _describe(dataset: Dataset) -> dict[str, Any]:
    """What a run keeps of its data: enough to know them again."""
    return {
        "name": dataset.name,
        "examples": len(dataset),
        "shape": dataset.shape,
        "checksum": dataset.checksum(),
        "provenance": dataset.provenance,
    }


@contextmanager
def _stop_request() -> Iterator[threading.Event]:
    """Yields an event that a first Ctrl-C or SIGTERM sets; a second one acts as ever."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def ask(number: int, frame: object) -> None:
        asked.set()
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, ask)
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
