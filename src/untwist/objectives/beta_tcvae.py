"""The beta-TCVAE: the total correlation of the codes weighs beta, the rest of the KL weighs one.

Averaged over the data, the KL of a VAE is a sum of three parts (Chen et al. 2018, Eq. 2), with q(z)
the mixture of all posteriors:

    KL(q(z|x) || p(z)) = I(x; z) + KL(q(z) || prod_j q(z_j)) + sum_j KL(q(z_j) || p(z_j))

the index-code mutual information, the total correlation and the dimension-wise KL. Both densities
of the mixture are estimated within a batch, by `mixture_log_weights`.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from untwist.models import VAE, AbstractPosterior, normal_log_prob
from untwist.objectives.objective import (
    AbstractObjective,
    Batch,
    Needs,
    Terms,
    autoencode,
    strengths,
)
from untwist.types import AnyArray, InputError, known


class BetaTCVAE(AbstractObjective):
    """loss = -log p(x|z) + KL(q(z|x) || N(0, I)) + (beta - 1) TC.

    The KL is exact and counts once; only the total correlation is an estimate. At beta 1 it is the
    VAE. A disent issue (nmichlo/disent#3) tells of beta KL + (beta - 1) TC, which is another loss.

    Attributes:
        beta: The weight of the total correlation.
        stratified: 0 for the minibatch-weighted estimator, 1 for the minibatch-stratified one.
        dataset_size: How many examples the batches are drawn from; 0 leaves the size out, as the
            field's library does. See `mixture_log_weights`.

    Reference: Chen et al. 2018; zietlow2021, Table 2; Locatello et al. 2019 for beta 1 to 10.
    """

    needs: ClassVar[Needs] = Needs(batch=2)

    beta: Float[Array, "..."]
    stratified: Float[Array, "..."]
    dataset_size: Float[Array, "..."]

    def __init__(
        self,
        beta: Float[AnyArray, "..."] | float = 6.0,
        stratified: Float[AnyArray, "..."] | float = 0.0,
        dataset_size: Float[AnyArray, "..."] | float = 0.0,
    ):
        self.beta, self.stratified, self.dataset_size = strengths(
            beta=beta, stratified=stratified, dataset_size=dataset_size
        )
        if known(self.stratified) and not np.isin(self.stratified, (0, 1)).all():
            raise InputError(
                "stratified is 0 for the minibatch-weighted estimator or 1 for the stratified "
                f"one, but got {self.stratified}"
            )

    def __call__(self, model: VAE, critic: PyTree, batch: Batch, *, key: Key[Array, ""]) -> Terms:
        """Returns the loss, the parts of a VAE, and the three parts of the KL."""
        posterior, codes, parts = autoencode(model, batch.examples, key=key)
        weights = mixture_log_weights(len(codes), self.stratified, self.dataset_size)
        decomposed = kl_decomposition(posterior, codes, weights)
        loss = parts["reconstruction"] + parts["kl"]
        loss = loss + (self.beta - 1) * decomposed["total_correlation"]
        return Terms(loss, parts | decomposed)


def mixture_log_weights(
    batch: int, stratified: Float[Array, ""] | float, dataset_size: Float[Array, ""] | float
) -> Float[Array, "batch batch"]:
    """Returns log w_ij with which sum_j w_ij q(z_i|x_j) estimates q(z_i), z_i drawn from q(z|x_i).

    For a batch of M + 1 out of N examples:

    - weighted: every w is 1 / (N (M + 1)); 1 / (M + 1) without the size. It is too small by a
      factor that does not depend on the model, so the size moves the logged numbers and no
      gradient. Where the batch is the data, leaving the size out makes it exact.
    - stratified: 1 / N for x_i itself, (N - M) / (N M) for one other, 1 / M for the rest: unbiased
      over the choice of the others. Here the size does move the gradient. Without it, or with one
      below the batch's, the batch counts as the data.

    Args:
        batch: M + 1, at least 2.
        stratified: 1 or 0.
        dataset_size: N, or 0 to leave it out.

    Reference: Chen et al. 2018, Eq. 5 and S6. Their code has the weights of the stratified
    estimator off the diagonal (rtqichen/beta-tcvae, a stride of M + 1 where it is M + 2).

    >>> [round(w.item(), 4) for w in jnp.exp(mixture_log_weights(3, 1.0, 6.0))[0]]
    [0.1667, 0.3333, 0.5]
    """
    others = batch - 1
    size = jnp.maximum(dataset_size, batch)
    own, next_ = jnp.eye(batch), jnp.roll(jnp.eye(batch), 1, axis=1)
    rest = 1 - own - next_
    special = (size - others) / (size * others)
    stratum = own / size + next_ * special + rest / others
    uniform = jnp.ones((batch, batch)) / (jnp.maximum(dataset_size, 1) * batch)
    return jnp.log(jnp.where(jnp.asarray(stratified) > 0, stratum, uniform))


def kl_decomposition(
    posterior: AbstractPosterior,
    codes: Float[Array, "batch latent"],
    log_weights: Float[Array, "batch batch"],
) -> dict[str, Float[Array, ""]]:
    """Returns `index_code_information`, `total_correlation` and `dimension_wise_kl`, in nats.

    Whatever the weights, the three add up to the mean of log q(z|x) - log p(z) at the codes: an
    estimate of the KL from one sample of each posterior.

    Args:
        posterior: One a row.
        codes: One draw of each.
        log_weights: From `mixture_log_weights`.

    Reference: Chen et al. 2018, Eq. 2.
    """
    densities = jax.vmap(jax.vmap(lambda q, z: q.log_prob(z), (0, None)), (None, 0))
    marginals = jax.vmap(jax.vmap(lambda q, z: q.log_prob_per_latent(z), (0, None)), (None, 0))
    given = densities(posterior, codes)
    joint = jax.nn.logsumexp(given + log_weights, axis=1)
    weighted = marginals(posterior, codes) + log_weights[:, :, None]
    product = jnp.sum(jax.nn.logsumexp(weighted, axis=1), axis=1)
    origin = jnp.zeros(codes.shape[1])
    prior = jax.vmap(lambda z: jnp.sum(normal_log_prob(z, origin, origin)))(codes)
    return {
        "index_code_information": jnp.mean(jnp.diagonal(given) - joint),
        "total_correlation": jnp.mean(joint - product),
        "dimension_wise_kl": jnp.mean(product - prior),
    }
