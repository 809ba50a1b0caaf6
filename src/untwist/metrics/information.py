"""Mutual information of every latent with every factor, in nats, by three estimators.

An estimator is a frozen record of its settings that maps a sample to an `Information`. The
histogram one cuts each latent into bins of equal width, as the field's reference implementation
does; the neighbor one needs no bins; the posterior one draws from the encoder's posteriors.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.special import digamma

from untwist.metrics.neighbor_information import continuous_information, discrete_information
from untwist.metrics.posterior_information import posterior_information
from untwist.metrics.record import NotApplicable, Setting, check_counts
from untwist.metrics.sample import Sample
from untwist.types import AnyArray, InputError, RandomKey


@dataclass(frozen=True)
class Information:
    """Mutual information of latents with factors, and the entropies that bound it.

    Attributes:
        sample: the sample that it was estimated on.
        matrix: mutual information in nats.
        entropies: the information of each factor with itself, by the same estimator.
        latent_entropies: entropy of each latent's bins, where the estimator has bins.
        bins: the number of bins of a latent, or zero.
        name: the estimator in a few words.
        settings: its constants.
    """

    sample: Sample
    matrix: Float[ndarray, "latent factor"]
    entropies: Float[ndarray, " factor"]
    latent_entropies: Float[ndarray, " latent"] | None
    name: str
    settings: dict[str, Setting]
    bins: int = 0

    def normalized(self) -> Float[ndarray, "latent factor"]:
        """Returns the information as a share of each factor's entropy."""
        return self.matrix / self.entropies


Estimator = Callable[[Sample], Information]


def entropy(counts: Int[ndarray, " level"]) -> float:
    """Returns the plug-in entropy in nats of a histogram.

    >>> round(entropy(np.array([1, 1, 0])), 6)
    0.693147
    """
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def digitize(column: Float[ndarray, " item"], bins: int) -> Int[ndarray, " item"]:
    """Returns the bin of each value among `bins` of equal width between its extremes.

    >>> digitize(np.array([0.0, 0.4, 0.5, 1.0]), 2).tolist()
    [0, 0, 1, 1]
    """
    try:
        edges = np.histogram_bin_edges(column, bins)[:-1]
    except ValueError:  # single precision has too few numbers between the extremes
        column = column.astype(np.float64) - float(column.min())
        edges = np.histogram_bin_edges(column, bins)[:-1]
    return np.searchsorted(edges, column, side="right") - 1


def _factor_entropies(sample: Sample) -> Float[ndarray, " factor"]:
    return np.array([entropy(np.bincount(column)) for column in sample.levels.T])


def _table_information(counts: Int[ndarray, "bin level"]) -> float:
    joint = counts / counts.sum()
    outer = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
    held = joint > 0
    return max(0.0, float((joint[held] * np.log(joint[held] / outer[held])).sum()))


@dataclass(frozen=True)
class Histogram:
    """Plug-in information of bins of equal width with the factor levels.

    A continuous factor is cut into 20 bins; a discrete factor keeps its levels, however many.
    """

    bins: int = 20

    def __call__(self, sample: Sample) -> Information:
        """Returns the information of every latent with every factor."""
        check_counts(2, bins=self.bins)
        offsets = np.concatenate([[0], np.cumsum(sample.sizes)])
        shifted = sample.levels + offsets[:-1]
        matrix = np.zeros((len(sample.live), len(sample.names)))
        entropies = np.zeros(len(sample.live))
        for latent in np.flatnonzero(sample.live):
            bins = digitize(sample.raw[:, latent], self.bins)
            entropies[latent] = entropy(np.bincount(bins))
            flat = (shifted * self.bins + bins[:, None]).ravel()
            counts = np.bincount(flat, minlength=offsets[-1] * self.bins)
            table = counts.reshape(offsets[-1], self.bins)
            for factor, (low, high) in enumerate(zip(offsets[:-1], offsets[1:], strict=True)):
                matrix[latent, factor] = _table_information(table[low:high])
        return Information(
            sample,
            matrix,
            _factor_entropies(sample),
            entropies,
            f"histogram, {self.bins} bins",
            {"bins": self.bins},
            self.bins,
        )


HISTOGRAM = Histogram()


@dataclass(frozen=True)
class Neighbors:
    """Nearest-neighbor information: Ross 2014 for discrete factors, Kraskov 2004 for continuous.

    Exact ties count as one cluster of neighbors, so no noise is added. The entropy of a continuous
    factor is the most that this estimator can report on so many items, digamma(N) - digamma(k).
    """

    neighbors: int = 3

    def __call__(self, sample: Sample) -> Information:
        """Returns the information of every latent with every factor."""
        check_counts(1, neighbors=self.neighbors)
        items = len(sample.codes)
        if items <= self.neighbors + 1:
            raise NotApplicable(
                f"{self.neighbors} neighbors need {self.neighbors + 2} items or more, "
                f"but there are {items}"
            )
        matrix = np.zeros((len(sample.live), len(sample.names)))
        entropies = _factor_entropies(sample)
        discrete = [i for i, size in enumerate(sample.declared) if size is not None]
        for latent in np.flatnonzero(sample.live):
            column = sample.codes[:, latent]
            matrix[latent, discrete] = discrete_information(
                column, sample.levels[:, discrete], self.neighbors
            )
        for factor in set(range(len(sample.names))) - set(discrete):
            entropies[factor] = digamma(items) - digamma(self.neighbors)
            for latent in np.flatnonzero(sample.live):
                matrix[latent, factor] = continuous_information(
                    sample.codes[:, latent], sample.values[:, factor], self.neighbors
                )
        name = f"nearest neighbors, k = {self.neighbors}"
        return Information(sample, matrix, entropies, None, name, {"neighbors": self.neighbors})


@dataclass(frozen=True)
class Posterior:
    """Information of draws from q(z|x), against the mixture of all posteriors (Chen 2018).

    Here codes are the posterior means, and `variances` has one for each.
    """

    variances: AnyArray
    key: RandomKey
    draws: int = 1000

    def __call__(self, sample: Sample) -> Information:
        """Returns the information of every latent with every factor."""
        check_counts(1, draws=self.draws)
        variances = np.asarray(self.variances, dtype=np.float64)
        if variances.shape != sample.codes.shape or not (variances > 0).all():
            raise InputError(
                f"variances must be positive and of the shape of the means {sample.codes.shape}, "
                f"but got shape {variances.shape} with least value {variances.min(initial=np.inf)}"
            )
        # A posterior that is the same for every item says nothing, however wide it is.
        live = sample.live | (np.ptp(variances, axis=0) > 1e-6 * variances.max(0))
        matrix = posterior_information(
            sample.codes, variances, sample.levels, sample.sizes, draws=self.draws, key=self.key
        )
        matrix[~live] = 0.0
        name = f"draws from the posterior, {self.draws} draws"
        entropies = _factor_entropies(sample)
        moved = replace(sample, live=live)
        return Information(moved, matrix, entropies, None, name, {"draws": self.draws})
