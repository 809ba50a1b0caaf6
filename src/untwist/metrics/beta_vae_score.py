"""The beta-VAE score: whether differences of codes reveal which factor a pair shares."""

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from untwist.factors import FactorSpace
from untwist.metrics.draws import generator
from untwist.metrics.record import Score, check_counts
from untwist.metrics.sampler import CHUNK, Interventions, Sampler
from untwist.metrics.softmax import SoftmaxRegression
from untwist.types import RandomKey


def _examples(
    interventions: Interventions, count: int, width: int, rng: np.random.Generator
) -> tuple[Float[ndarray, "example latent"], Int[ndarray, " example"]]:
    features, labels = [], []
    for held, (first, second) in interventions.pairs(count, width, rng):
        gap = interventions.codes(first) - interventions.codes(second)
        features.append(np.abs(gap, out=gap).mean(1, dtype=np.float64))
        labels.append(held)
    return np.concatenate(features), np.concatenate(labels)


def beta_vae_score(
    sampler: Sampler,
    space: FactorSpace,
    *,
    key: RandomKey,
    train: int = 10000,
    test: int = 5000,
    batch: int = 64,
    chunk: int = CHUNK,
) -> Score:
    """Returns the accuracy with which a linear classifier names the factor that pairs share.

    An example is the mean over `batch` pairs of |z1 - z2|, where the pairs share the value of one
    random factor; the classifier is a softmax regression with penalty 1.

    Range 1/F (a constant code, in expectation) to 1, higher is better. Invariant to order, sign
    and shift of latents and to relabeling. Entangled codes that are linear in the factors can
    reach 1 too.

    Args:
        sampler: from grid indices to codes.
        space: the factors; those with one value are never shared.
        key: draws the examples.
        train: training examples.
        test: test examples.
        batch: pairs an example.
        chunk: the most codes asked of the sampler at once; one example's half at least.

    Returns:
        The test accuracy; `parts` has the training accuracy.

    Reference: Higgins et al. 2017, beta-VAE, section 3.

    >>> import jax
    >>> space = FactorSpace(("a", "b"), (4, 4), ("ordinal", "ordinal"))
    >>> sampler = lambda index: space.factors(index) * 1.0
    >>> beta_vae_score(sampler, space, key=jax.random.key(0), train=500, test=200).value
    1.0
    """
    check_counts(1, train=train, test=test, batch=batch, chunk=chunk)
    rng = generator(key)
    interventions = Interventions(sampler, space, chunk)
    kept = interventions.factors
    features, labels = _examples(interventions, train, batch, rng)
    probe, truth = _examples(interventions, test, batch, rng)
    center = features.mean(0)
    levels = np.searchsorted(kept, labels)
    fitted = SoftmaxRegression().fit(features - center, levels, len(kept))
    correct = kept[fitted.predict(probe - center)] == truth
    return Score(
        float(correct.mean()),
        "softmax regression on mean absolute differences",
        {"train": train, "test": test, "batch": batch},
        tuple(space.names[i] for i in kept),
        per_factor=np.array(
            [correct[truth == i].mean() if (truth == i).any() else 0.0 for i in kept]
        ),
        parts={"train": float((fitted.predict(features - center) == levels).mean())},
    )
