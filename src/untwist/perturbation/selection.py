"""Choosing the most disentangled and the most entangled members of a population by a score."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from untwist.models import VAE
from untwist.types import InputError


def choose_members(
    scores: Float[np.ndarray, " member"],
    status: np.ndarray,
    count: int = 1,
    *,
    lower_is_better: bool = False,
) -> tuple[Int[np.ndarray, " chosen"], Int[np.ndarray, " chosen"]]:
    """Returns the `count` best members, best first, and the `count` worst, worst first.

    Only members that are `ok` are chosen from: one that collapsed or diverged is no example of an
    entangled latent space. Of equal scores the lower number comes first.

    Args:
        scores: One a member; not a number where a member has none.
        status: One a member: ok, diverged, collapsed, interrupted.
        count: How many of each.
        lower_is_better: For scores that are costs.

    Reference: zietlow2021, Sections 4.2 and 4.3: the highest and the lowest MIG among restarts.

    >>> best, worst = choose_members(np.array([0.2, 0.9, 0.1]), np.array(["ok"] * 3))
    >>> best.tolist(), worst.tolist()
    ([1], [2])
    """
    if count < 1:
        raise InputError(f"expected to choose at least one member of each kind, but got {count}")
    status = np.asarray(status)
    usable = np.flatnonzero((status == "ok") & np.isfinite(scores))
    if (status == "collapsed").all():
        raise InputError(
            f"all {len(status)} members collapsed: their codes say nothing of the images, so none "
            "is disentangled; lower beta or train longer"
        )
    if len(usable) < 2 * count:
        raise InputError(
            f"expected at least {2 * count} members to choose {count} disentangled and {count} "
            f"entangled ones from, but only {len(usable)} of {len(status)} trained well and have "
            "a score: train more seeds"
        )
    ascending = usable[np.argsort(scores[usable], kind="stable")]
    descending = usable[np.argsort(-scores[usable], kind="stable")]
    best, worst = (ascending, descending) if lower_is_better else (descending, ascending)
    return best[:count], worst[:count]


def stack_members(models: VAE, members: Int[np.ndarray, " chosen"]) -> VAE:
    """Returns the models of these members, stacked in this order."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[members], models)
