"""Perturbed datasets on disk: how to make them, not the images.

    perturbation.toml           the source, the kind of change, its size and how it was learned
    perturbation.safetensors    the change's weights, patterns or seed

The directory stands for the dataset wherever a dataset is named. It holds no image: the source is
loaded as ever and the change computed anew, to the same bytes on the same machine.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from untwist.datasets import Dataset, Provenance, load, parse_options
from untwist.models import ARCHITECTURES
from untwist.perturbation.change import AbstractChange, Noise
from untwist.perturbation.control import RandomDirection
from untwist.perturbation.dataset import perturbed_dataset
from untwist.perturbation.features import factor_features
from untwist.perturbation.manipulation import Manipulation
from untwist.store import cannot_write, fill, named_arrays, read_arrays, toml, write_arrays
from untwist.types import InputError

FORMAT = 1
SETTINGS, WEIGHTS = "perturbation.toml", "perturbation.safetensors"
KINDS: dict[type[AbstractChange], str] = {
    Manipulation: "manipulation",
    Noise: "noise",
    RandomDirection: "random-direction",
}


@dataclass(frozen=True)
class Source:
    """How a source is loaded again, and how to know that it is the same.

    Attributes:
        dataset: A name in the catalog, or the path of a perturbed dataset.
        options: The dataset's options.
        checksum: Of the source.
    """

    dataset: str
    options: Mapping[str, Any]
    checksum: str


def write_perturbed(
    path: Path,
    source: Source,
    change: AbstractChange,
    epsilon: float,
    *,
    name: str,
    architecture: str,
    provenance: Provenance,
) -> None:
    """Writes how to make a perturbed dataset into a directory; the settings last.

    Args:
        path: The directory, made if it is not there.
        source: What is changed.
        change: What is done to it.
        epsilon: The largest change of a pixel.
        name: What the dataset is called.
        architecture: The entry of `ARCHITECTURES` whose decoder the change's network has.
        provenance: What the dataset says of itself.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from error
    write_arrays(path / WEIGHTS, named_arrays(change))
    settings = {
        "format": FORMAT,
        "kind": KINDS[type(change)],
        "name": name,
        "epsilon": epsilon,
        "architecture": architecture,
        "source": {
            "dataset": source.dataset,
            "checksum": source.checksum,
            "options": {key: _stored(value) for key, value in source.options.items()},
        },
        "provenance": provenance,
    }
    toml.write(path / SETTINGS, settings)


def is_perturbed(path: Path | str) -> bool:
    """Returns whether a path is the directory of a perturbed dataset."""
    return (Path(path) / SETTINGS).is_file()


def open_perturbed(path: Path | str, *, source: Dataset | None = None) -> Dataset:
    """Returns the perturbed dataset of a directory.

    Args:
        path: The directory.
        source: The source, if it is at hand.
    """
    path = Path(path)
    if not is_perturbed(path):
        raise InputError(f"{path} has no {SETTINGS}: expected the directory of a perturbed dataset")
    settings = toml.read(path / SETTINGS)
    if settings.get("format") != FORMAT or settings.get("kind") not in KINDS.values():
        raise InputError(
            f"{path / SETTINGS} is damaged or of a newer version: expected format {FORMAT} and a "
            f"kind among {', '.join(KINDS.values())}"
        )
    origin = settings["source"]
    if source is None:
        options = {key: _loaded(value) for key, value in origin["options"].items()}
        source = load_dataset(origin["dataset"], **options)
    if source.checksum() != origin["checksum"]:
        raise InputError(
            f"the source of {path}, {origin['dataset']}, is not what it was: expected checksum "
            f"{origin['checksum']}, but got {source.checksum()}; use the version that made it"
        )
    width = factor_features(source.factors[:1], source.space).shape[1]
    template = _template(settings["kind"], settings["architecture"], width, source.shape)
    change = fill(template, read_arrays(path / WEIGHTS), where=path / WEIGHTS)
    change = jax.tree.map(
        lambda leaf: jnp.asarray(leaf) if eqx.is_array_like(leaf) else leaf, change
    )
    return perturbed_dataset(
        source,
        change,
        settings["epsilon"],
        name=settings["name"],
        provenance=settings["provenance"],
    )


def load_dataset(name: str, **options: Any) -> Dataset:
    """Returns a dataset by its name in the catalog, or by the path of a perturbed one.

    >>> len(load_dataset("circles", samples=10))
    10
    """
    if not is_perturbed(name):
        return load(name, **options)
    parse_dataset_options(name, options)
    return open_perturbed(name)


def parse_dataset_options(name: str, assignments: Iterable[str]) -> dict[str, Any]:
    """Returns typed options out of `option=value` texts; a perturbed dataset has none.

    >>> parse_dataset_options("sprites", ["size=32"])
    {'size': 32}
    """
    if not is_perturbed(name):
        return dict(parse_options(name, assignments))
    if given := list(assignments):
        raise InputError(
            f"{name} is a perturbed dataset, which has no options, but got {', '.join(given)}: its "
            "source's options are stored with it"
        )
    return {}


def _template(kind: str, architecture: str, width: int, shape: tuple[int, ...]) -> AbstractChange:
    """A change of this kind with shapes in the place of its arrays."""

    def build(key: jax.Array) -> AbstractChange:
        if kind == "noise":
            return Noise(jnp.zeros((), jnp.uint32), shape)
        network = Manipulation(ARCHITECTURES[architecture].decoder, width, shape, key=key)
        if kind == "manipulation":
            return network
        one, image = jnp.ones(()), jnp.zeros(shape)
        return RandomDirection(
            network, one, image, image, jnp.abs(jnp.fft.rfft2(image, axes=(0, 1))), one
        )

    return eqx.filter_eval_shape(build, jax.random.key(0))


def _stored(value: Any) -> Any:
    """An option as TOML holds it, which has no word for None."""
    return "none" if value is None else value


def _loaded(value: Any) -> Any:
    return None if value == "none" else value
