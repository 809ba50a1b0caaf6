"""Linear and one-nonlinearity maps fitted to a decoder in the neighborhood of a posterior."""

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from untwist.mechanism.decoder import (
    AbstractDecoder,
    Decode,
    Number,
    as_decoder,
    chunk_of,
    number,
    over_items,
    stream,
)
from untwist.mechanism.posterior import Posteriors, scaled
from untwist.types import AnyArray, InputError, RandomKey

DRAWS = 64
STEPS = 60
CONVERGED = 1e-3
"""A fit has converged when the last step changed its error by less than this share."""


@dataclass(frozen=True)
class LocalFits:
    """Errors of local models on fresh noise, as means over items; one number a member.

    Attributes:
        zero: E||Dec(mu + eps) - Dec(mu)||^2, the error of the model that outputs zero: a control
            that no useful fit may fail to beat.
        linear: Error of M eps, fitted (Eq. 12).
        nonlinear: Error of a (tanh(M eps + b) - tanh(b)), fitted (Eq. 11).
        tangent: Error of J eps, which is not fitted.
        stochastic: For `tangent`, `linear` and `nonlinear`: the mean squared error of the
            stochastic loss that each predicts, over the mean square of the true one (Table 2).
        converged: Share of the items whose nonlinear fit had converged.
        matrices: The fitted linear maps M.
        nonlinear_matrices: The slopes a (1 - tanh(b)^2) M of the nonlinear ones at eps = 0.
        per_item: zero, linear, nonlinear and tangent errors [*member, 4, item].
    """

    zero: Number
    linear: Number
    nonlinear: Number
    tangent: Number
    stochastic: dict[str, Number]
    converged: Number
    matrices: Float[ndarray, "*member item pixel latent"]
    nonlinear_matrices: Float[ndarray, "*member item pixel latent"]
    per_item: Float[ndarray, "*member 4 item"]


def local_fits(
    decode: Decode | AbstractDecoder,
    posteriors: Posteriors,
    *,
    key: RandomKey,
    draws: int = DRAWS,
    steps: int = STEPS,
    chunk: int | None = None,
) -> LocalFits:
    """Returns how well linear and one-nonlinearity maps describe a decoder within its posteriors.

    Each item gets its own noise, from which both maps are fitted by the same least squares on the
    same draws, and fresh noise, on which they are compared. Both pass through zero, as the change
    of the output does, and both are fitted to convergence: the linear one in closed form, which is
    where the solver of the other stops after one step, the nonlinear one by damped Gauss-Newton
    steps from the linear solution. One nonlinearity means an elementwise tanh, as in the
    released code, with a scale and an offset for each output, so that outputs need not lie
    between -1 and 1 and the linear map is a limit of it. No label and no other loss enters.

    Args:
        decode: From one code to one example's outputs; or a population of such.
        posteriors: Means and widths.
        key: The noise.
        draws: Noisy codes an item, to fit and again to compare; more than there are latents + 2.
        steps: Gauss-Newton steps.
        chunk: Items at a time.

    Reference: bhowal2024, Eq. 11, 12, Tables 1 and 2.
    """
    codes, latents = posteriors.mean, posteriors.mean.shape[-1]
    if posteriors.sigma is None:
        raise InputError("a plain autoencoder has no posterior whose neighborhood could be fitted")
    if draws < latents + 3:
        raise InputError(
            f"a local fit in {latents} latents has {latents + 2} unknowns an output: give at least "
            f"{latents + 3} draws, but got {draws}"
        )
    decoder = as_decoder(decode)

    def chunked(mean: AnyArray, sigma: AnyArray, seed: AnyArray) -> dict[str, Array]:
        noise, moves = _draw(mean, sigma, key, seed, draws)
        clean = jnp.asarray(decoder.outputs(mean))
        noisy = (jnp.asarray(mean)[..., None, :] + moves).reshape(*mean.shape[:-2], -1, latents)
        change = jnp.asarray(decoder.outputs(noisy)).reshape(*moves.shape[:-1], -1)
        tangent = jnp.asarray(decoder.local(_keep, mean))
        moved = jnp.einsum("...pl,...dl->...dp", tangent, moves)
        return _fit_items(noise, change - clean[..., None, :], moved, draws, steps)

    held = decoder.pixels(codes) * draws * (latents + 2) // 2
    size, axis = chunk or chunk_of(held * int(np.prod(codes.shape[:-2]))), codes.ndim - 2
    rows = np.arange(codes.shape[-2])
    found = stream(chunked, codes, posteriors.sigma, rows, chunk=size, axis=axis, shared=1)
    return _summary(found, posteriors)


@functools.partial(jax.jit, static_argnums=4)
def _draw(
    mean: Array, sigma: Array, key: Array, seeds: Array, draws: int
) -> tuple[Float[Array, "*member item both latent"], Float[Array, "*member item both latent"]]:
    """Standard normal noise of each item, the same for all members, and with its width."""

    def one(sigma: Array, seed: Array) -> tuple[Array, Array]:
        noise = jax.random.normal(jax.random.fold_in(key, seed), (2 * draws, mean.shape[-1]))
        return noise, scaled(noise, sigma)

    return over_items(one, mean)(sigma, jnp.broadcast_to(seeds, mean.shape[:-1]))


def _keep(output: Array, jacobian: Array) -> Array:
    return jacobian


def _summary(found: dict[str, ndarray], posteriors: Posteriors) -> LocalFits:
    """Means over items, and maps of codes instead of standard normal noise."""
    sigma = np.asarray(posteriors.sigma, np.float64)
    if posteriors.diagonal:
        unscale = (1 / sigma)[..., None] * np.eye(sigma.shape[-1])
    else:
        unscale = np.linalg.inv(sigma)
    models = ("tangent", "linear", "nonlinear")
    true = found["true"].astype(np.float64)
    power = np.mean(true**2, axis=-1)
    off = {name: np.mean((found[f"{name}_loss"] - true) ** 2, axis=-1) for name in models}
    errors = [found[name].astype(np.float64) for name in ("zero", *models[1:], models[0])]
    shares = {
        name: np.where(power > 0, o / np.where(power > 0, power, 1), 0.0) for name, o in off.items()
    }
    return LocalFits(
        *(number(error.mean(-1)) for error in errors),
        stochastic={name: number(share) for name, share in shares.items()},
        converged=number(np.mean(found["change"] < CONVERGED, axis=-1)),
        matrices=found["slope"] @ unscale,
        nonlinear_matrices=found["nonlinear_slope"] @ unscale,
        per_item=np.stack(errors, axis=-2),
    )


@functools.partial(jax.jit, static_argnums=(3, 4))
def _fit_items(
    noise: Float[Array, "*member item both latent"],
    change: Float[Array, "*member item both pixel"],
    moved: Float[Array, "*member item both pixel"],
    draws: int,
    steps: int,
) -> dict[str, Array]:
    """Both fits of each item on the first half of its draws, their errors on the second."""

    def one(noise: Array, change: Array, moved: Array) -> dict[str, Array]:
        first, fresh, target, truth = noise[:draws], noise[draws:], change[:draws], change[draws:]
        slope = jnp.linalg.lstsq(first, target)[0].T
        tanh, last = jax.vmap(lambda m, y: _fit_tanh(m, first, y, steps))(slope, target.T)
        guesses = {
            "zero": jnp.zeros_like(truth),
            "linear": fresh @ slope.T,
            "nonlinear": jax.vmap(lambda p: _tanh(p, fresh))(tanh).T,
            "tangent": moved[draws:],
        }
        errors = {n: jnp.mean(jnp.sum((truth - g) ** 2, 1)) for n, g in guesses.items()}
        losses = {f"{n}_loss": jnp.mean(jnp.sum(g**2, 1)) for n, g in guesses.items()}
        scale, offset = jnp.exp(tanh[:, -1:]), tanh[:, -2:-1]
        return {
            **errors,
            **losses,
            "true": jnp.mean(jnp.sum(truth**2, 1)),
            # Outputs that hardly move hardly count.
            "change": jnp.sum(last) / jnp.maximum(jnp.sum(target**2), 1e-30),
            "slope": slope,
            "nonlinear_slope": scale * (1 - jnp.tanh(offset) ** 2) * tanh[:, :-2],
        }

    return over_items(one, noise[..., 0])(noise, change, moved)


def _tanh(parameters: Array, noise: Array) -> Array:
    """The change a (tanh(m eps + b) - tanh b) of each draw, with parameters m, b, log a."""
    slope, offset, scale = parameters[:-2], parameters[-2], jnp.exp(parameters[-1])
    return scale * (jnp.tanh(noise @ slope + offset) - jnp.tanh(offset))


def _fit_tanh(linear: Array, noise: Array, target: Array, steps: int) -> tuple[Array, Array]:
    """One output's parameters by damped Gauss-Newton steps, and the last change of its error."""
    scale = 2 * jnp.max(jnp.abs(target)) + 1e-12
    start = jnp.concatenate([linear / scale, jnp.zeros(1), jnp.log(scale)[None]])
    error = lambda p: jnp.sum((_tanh(p, noise) - target) ** 2)  # noqa: E731

    def step(_: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        now, damping, before, change = state
        residual = _tanh(now, noise) - target
        slopes = _tanh_slopes(now, noise)
        normal = slopes.T @ slopes
        diagonal = jnp.diag(normal)
        ridge = damping * (diagonal + 1e-6 * jnp.max(diagonal) + 1e-30)
        factor = jax.scipy.linalg.cho_factor(normal + jnp.diag(ridge))
        then = now - jax.scipy.linalg.cho_solve(factor, slopes.T @ residual)
        after = error(then)
        better = after < before  # False for a step that is not a number.
        damping = jnp.clip(jnp.where(better, damping / 3, damping * 4), 1e-7, 1e7)
        gained = jnp.where(better, before - after, 0.0)
        change = jnp.maximum(0.5 * change, gained)
        return jnp.where(better, then, now), damping, jnp.where(better, after, before), change

    first = error(start)
    state = (start, jnp.asarray(1e-2, start.dtype), first, first)
    now, _, _, change = jax.lax.fori_loop(0, steps, step, state)
    return now, change


def _tanh_slopes(parameters: Array, noise: Array) -> Array:
    """Derivatives of `_tanh` in m, b and log a, one row a draw."""
    slope, offset, scale = parameters[:-2], parameters[-2], jnp.exp(parameters[-1])
    inner, outer = jnp.tanh(noise @ slope + offset), jnp.tanh(offset)
    steep = scale * (1 - inner**2)
    bend = steep - scale * (1 - outer**2)
    return jnp.concatenate(
        [steep[:, None] * noise, bend[:, None], scale * (inner - outer)[:, None]], 1
    )
