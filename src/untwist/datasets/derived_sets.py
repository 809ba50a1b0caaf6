"""Derived sets by name: another dataset of the catalog with noise, rescaled, correlated or sampled.

Each takes the function that loads a dataset by name and texts, so that it works with all of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import jax
import numpy as np

from untwist.datasets.dataset import Dataset
from untwist.datasets.derived import correlated, rescaled, sampled, with_noise
from untwist.datasets.digits import digit_mixture, moving_digit
from untwist.types import InputError

Load = Callable[[str, Sequence[str]], Dataset]
"""From a name and options as texts, `option=value`, to the dataset."""


def noisy_set(
    _load: Load,
    *,
    of: str = "sprites",
    options: str = "size=32",
    noise: float = 0.1,
    seed: int = 0,
) -> Dataset:
    """Returns another dataset with uniform pixel noise.

    Args:
        of: The dataset, a name of the catalog or of your own data.
        options: Its options, with spaces between.
        noise: The largest change of a value.
        seed: Seed of the noise.
    """
    return _named("noisy", with_noise(_base(_load, of, options), noise, key=_key(seed)), seed)


def rescaled_set(
    _load: Load, *, of: str = "sprites", options: str = "size=32", scale: float = 0.5
) -> Dataset:
    """Returns another dataset with all values times one scale.

    Args:
        of: The dataset, a name of the catalog or of your own data.
        options: Its options, with spaces between.
        scale: The scale; for images above 0 and up to 1.
    """
    return _named("rescaled", rescaled(_base(_load, of, options), scale))


def correlated_set(
    _load: Load,
    *,
    of: str = "sprites",
    options: str = "size=32",
    first: str = "posX",
    second: str = "posY",
    width: float = 0.2,
    samples: int = 20_000,
    seed: int = 0,
) -> Dataset:
    """Returns rows of another dataset in which two factors are correlated.

    Their joint probability falls with the distance from the diagonal of their ranges, from 0 to 1
    each: exp(-(v - w)^2 / (2 width^2)). The other factors stay independent.

    Args:
        of: The dataset, on a full grid: a name of the catalog or of your own data.
        options: Its options, with spaces between.
        first: One factor.
        second: The other factor.
        width: How far from the diagonal; smaller is more correlated.
        samples: How many rows; a row may come more than once.
        seed: Seed of the rows.

    Reference:
        Träuble et al. 2021, section 4, "On disentangled representations learned from correlated
        data".
    """
    if not 0 < width < float("inf"):
        raise InputError(f"correlated: expected a width above 0, but got {width}")
    base = _base(_load, of, options)
    sizes = [_size(base, name) for name in (first, second)]
    v, w = (np.linspace(0, 1, size) for size in sizes)
    joint = np.exp(-((v[:, None] - w) ** 2) / (2 * width**2))
    made = correlated(base, joint, (first, second), samples, key=_key(seed))
    return _named("correlated", made, seed, width=width)


def sampled_set(
    _load: Load,
    *,
    of: str = "sprites",
    options: str = "size=32",
    samples: int = 1000,
    seed: int = 0,
) -> Dataset:
    """Returns some rows of another dataset, drawn uniformly, each at most once.

    Args:
        of: The dataset, a name of the catalog or of your own data.
        options: Its options, with spaces between.
        samples: How many rows.
        seed: Seed of the choice.
    """
    return _named("sampled", sampled(_base(_load, of, options), samples, key=_key(seed)), seed)


def digit_mixture_set(
    _load: Load,
    *,
    of: str = "mnist",
    options: str = "",
    samples: int = 1000,
    noise: float = 1.0,
    seed: int = 0,
) -> Dataset:
    """Returns Gaussian mixtures of ten digits: x = A s + noise · eta, of sikka2019.

    The columns of A are the first image of each class, as they come: the paper does not say which
    digits it took. s and eta are standard normal.

    Args:
        of: The digits: mnist, or another set of gray images whose first factor is their class.
        options: Its options, with spaces between; `path=` or `download=yes` as for mnist.
        samples: How many mixtures.
        noise: The standard deviation of every pixel.
        seed: Seed of sources and noise.

    Reference:
        sikka2019, section V and appendix C.
    """
    base, digits = _digits(_load, of, options)
    made = digit_mixture(digits, samples=samples, noise=noise, seed=seed)
    return _with_origin(made, base)


def moving_digit_set(
    _load: Load,
    *,
    of: str = "mnist",
    options: str = "",
    digit: int = 3,
    canvas: int = 64,
    samples: int = 1000,
    seed: int = 0,
) -> Dataset:
    """Returns one digit on a blank canvas, moved by two Gaussian sources, of sikka2019.

    Args:
        of: The digits: mnist, or another set of gray images whose first factor is their class.
        options: Its options, with spaces between; `path=` or `download=yes` as for mnist.
        digit: Which class; the first image of it is taken.
        canvas: Height and width of the images.
        samples: How many images.
        seed: Seed of the places.

    Reference:
        sikka2019, appendix C.
    """
    base, digits = _digits(_load, of, options)
    if not 0 <= digit < len(digits):
        raise InputError(
            f"moving digit: expected a digit from 0 to {len(digits) - 1}, but got {digit}"
        )
    made = moving_digit(digits[digit], canvas=canvas, samples=samples, seed=seed)
    return _with_origin(made, base)


DERIVED: dict[str, Callable[..., Dataset]] = {
    "correlated": correlated_set,
    "digit_mixture": digit_mixture_set,
    "moving_digit": moving_digit_set,
    "noisy": noisy_set,
    "rescaled": rescaled_set,
    "sampled": sampled_set,
}


def _base(load: Load, of: str, options: str) -> Dataset:
    """The dataset that something is derived from."""
    return load(of, options.split())


def _digits(load: Load, of: str, options: str) -> tuple[Dataset, np.ndarray]:
    """A set of digits, and the first image of each class."""
    base = _base(load, of, options)
    if not base.is_image or base.shape[2] != 1 or base.space.kinds[0] != "categorical":
        raise InputError(
            f"digits: expected gray images whose first factor is their class, but {of} has "
            f"{'×'.join(map(str, base.shape))} and {base.space.names[0]}, {base.space.kinds[0]}"
        )
    classes, first = np.unique(base.factors[:, 0], return_index=True)
    if len(classes) < 2:
        raise InputError(f"digits: expected at least two classes, but {of} has {len(classes)}")
    return base, base.examples(first)[..., 0]


def _size(dataset: Dataset, factor: str) -> int:
    """How many values a factor has."""
    if factor not in dataset.space.names:
        raise InputError(
            f"correlated: expected a factor among {', '.join(dataset.space.names)}, but got "
            f"{factor}"
        )
    return dataset.space.grid_sizes[dataset.space.names.index(factor)]


def _key(seed: int) -> jax.Array:
    """The randomness of a seed."""
    if not 0 <= seed < 2**32:
        raise InputError(f"expected a seed from 0 to 2^32 - 1, but got {seed}")
    return jax.random.key(seed)


def _named(name: str, dataset: Dataset, seed: int | None = None, **facts: float) -> Dataset:
    """The derived dataset under its name; what it is made of stands in its provenance."""
    of = {"of": dataset.provenance.get("of", dataset.name)}
    drawn = {} if seed is None else {"seed": seed}
    return replace(dataset, name=name, provenance=dataset.provenance | of | drawn | facts)


def _with_origin(made: Dataset, base: Dataset) -> Dataset:
    """A digit set that says where its digits are from."""
    origin = {"of": base.name, "digits": str(base.provenance["source"])}
    return replace(made, provenance=made.provenance | origin)
