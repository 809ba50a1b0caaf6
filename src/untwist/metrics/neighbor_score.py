"""The nearest-neighbor disentanglement score of Rolinek, Zietlow and Martius (2019)."""

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from sklearn.neighbors import NearestNeighbors

from untwist.factors import FactorSpace
from untwist.metrics.draws import Split, split
from untwist.metrics.gaps import top_two
from untwist.metrics.record import NotApplicable, Score, check_counts
from untwist.metrics.sample import RawCodes, RawFactors, Sample, sample
from untwist.types import RandomKey

TEST_SHARE = 0.2


def _skill(
    target: Float[ndarray, "item column"],
    index: Int[ndarray, "test neighbor"] | None,
    train: Int[ndarray, " train"],
    test: Int[ndarray, " test"],
    levels: Int[ndarray, " item"] | None,
) -> float:
    """How well the neighbors' mean, or their vote, tells the test items' factor."""
    if levels is not None:
        known, size = levels[train], int(levels.max()) + 1
        if index is None:
            votes = np.tile(np.bincount(known, minlength=size), (len(test), 1))
        else:
            votes = np.eye(size)[known][index].sum(1)
        return float((votes.argmax(1) == levels[test]).mean())
    known = target[train]
    guess = known.mean(0) if index is None else known[index].mean(1)
    # The root mean square error over all columns: a periodic factor has two.
    return -float(np.sqrt(((target[test] - guess) ** 2).sum(1).mean()))


def neighbor_score(
    codes: RawCodes,
    factors: RawFactors,
    space: FactorSpace,
    *,
    key: RandomKey,
    neighbors: int = 5,
    parts: Split | None = None,
    reference: bool = False,
) -> Score:
    """Returns the mean gap of the two latents from which neighbors predict each factor best.

    Disent = mean over factors k of (A_first - A_second) / M_k. From the k nearest neighbors on
    latent j alone: for an ordinal, periodic or continuous factor A_jk = standard deviation of the
    factor - root mean square error and M_k = its standard deviation; for a categorical one A_jk =
    accuracy and M_k = 1 - accuracy of the best constant. A_jk is no less than what a constant
    prediction reaches, and exactly that for a dead latent.

    Range 0 to 1, higher is better. Invariant to order, sign, and scale of each latent, to
    relabeling of categorical factors, and nearly to monotone rescaling.

    Args:
        codes: one row an item.
        factors: one row an item, inside `space`.
        space: names, sizes and kinds of the factors.
        key: draws the 80 percent of items whose neighbors count and the 20 to predict.
        neighbors: how many neighbors vote.
        parts: rows to use in place of a random split.
        reference: the formula as printed: M_k of a categorical factor is the accuracy of the best
            constant (erratum E12: it exceeds 1 then), and A_jk may fall below a constant's.

    Returns:
        The gap; its matrix holds A.

    Reference: Rolinek et al. 2019, equations S65-S71.

    >>> import jax
    >>> space = FactorSpace(("a", "b"), (3, 3), ("ordinal", "categorical"))
    >>> factors = np.tile(space.factors(np.arange(9)), (50, 1))
    >>> round(neighbor_score(factors * 1.0, factors, space, key=jax.random.key(0)).value, 1)
    1.0
    """
    check_counts(1, neighbors=neighbors)
    data = sample(codes, factors, space)
    rows = split(len(data.codes), parts, key=key, test=TEST_SHARE)
    if len(rows.train) < neighbors:
        raise NotApplicable(
            f"{neighbors} neighbors need as many training items, but there are {len(rows.train)}"
        )
    near = [_neighbors(data, latent, rows, neighbors) for latent in range(len(data.live))]
    matrix = np.zeros((len(near), len(data.names)))
    scale = np.zeros(len(data.names))
    constant = np.zeros(len(data.names))
    for factor, kind in enumerate(data.kinds):
        levels = data.levels[:, factor] if kind == "categorical" else None
        target = data.columns(factor)
        best = _skill(target, None, rows.train, rows.test, levels)
        base = float(np.sqrt(target[rows.test].var(0).sum())) if levels is None else 0.0
        constant[factor] = 0.0 if levels is None else best
        scale[factor] = base if levels is None else (best if reference else 1 - best)
        for latent, index in enumerate(near):
            found = _skill(target, index, rows.train, rows.test, levels) + base
            matrix[latent, factor] = found if reference else max(found, constant[factor])
    first, second = top_two(matrix, axis=0)
    if len(matrix) == 1:
        second = constant
    gaps = np.where(scale > 0, (first - second) / np.where(scale > 0, scale, 1.0), 0.0)
    return Score(
        float(gaps.mean()),
        f"nearest neighbors, k = {neighbors}",
        {"neighbors": neighbors, "reference": reference},
        data.names,
        matrix,
        gaps,
    )


def _neighbors(
    data: Sample, latent: int, rows: Split, count: int
) -> Int[ndarray, "test neighbor"] | None:
    """The training items nearest to each test item on one latent; none where it is dead."""
    if not data.live[latent]:
        return None
    column = data.codes[:, [latent]]
    model = NearestNeighbors(n_neighbors=count, algorithm="kd_tree").fit(column[rows.train])
    return model.kneighbors(column[rows.test], return_distance=False)
