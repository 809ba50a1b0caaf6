"""Decoders as callables, and streaming over items: memory does not grow with their number.

Everything here asks three things of a decoder: outputs, Jacobians and second derivatives at codes.
A JAX function of one code gives them by itself (`Traceable`); one that JAX cannot trace is an
`AbstractDecoder` of its own, as the PyTorch modules in `untwist.mechanism.torch` are. To compile
once for many models pass decoders that are pytrees, such as a bound method of an Equinox module.
"""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy import ndarray

from untwist.types import AnyArray, InputError

Decode = Callable[[Array], Array]
PerItem = Callable[..., Any]

CHUNK_NUMBERS = 2**22
"""How many entries of Jacobians are computed at a time, unless a chunk size is given."""


class AbstractDecoder(abc.ABC):
    """Outputs of codes and their derivatives, for one chunk of items."""

    @abc.abstractmethod
    def outputs(self, codes: Float[AnyArray, "item latent"]) -> Float[AnyArray, "item pixel"]:
        """Returns the outputs, each as one vector."""

    @abc.abstractmethod
    def local(self, function: PerItem, codes: AnyArray, *rows: AnyArray) -> Any:
        """Returns `function(output, jacobian, *row)` of each item; function is a JAX function."""

    @abc.abstractmethod
    def bends(
        self, codes: Float[AnyArray, "item latent"], pull: Float[AnyArray, "item pixel"]
    ) -> Float[AnyArray, "item latent latent"]:
        """Returns sum_i pull_i Hess(d_i), the Hessian of the outputs against fixed weights."""


class Traceable(AbstractDecoder):
    """A JAX function from one code to one example's outputs."""

    def __init__(self, decode: Decode):
        self.decode = decode

    def outputs(self, codes: Float[AnyArray, "item latent"]) -> Float[AnyArray, "item pixel"]:
        """Returns the outputs, each as one vector."""
        return _outputs(self.decode, codes)

    def local(self, function: PerItem, codes: AnyArray, *rows: AnyArray) -> Any:
        """Returns `function(output, jacobian, *row)` of each item, by forward mode."""
        return _local(self.decode, function, codes, rows)

    def bends(
        self, codes: Float[AnyArray, "item latent"], pull: Float[AnyArray, "item pixel"]
    ) -> Float[AnyArray, "item latent latent"]:
        """Returns sum_i pull_i Hess(d_i), forward over reverse."""
        return _bends(self.decode, codes, pull)


@eqx.filter_jit
def _outputs(decode: Decode, codes: AnyArray) -> Array:
    return jax.vmap(lambda code: decode(code).ravel())(codes)


@eqx.filter_jit
def _local(decode: Decode, function: PerItem, codes: AnyArray, rows: tuple) -> Any:
    def one(code: Array, *row: Array) -> Any:
        output, jacobian = value_and_jacobian(decode, code)
        return function(output, jacobian, *row)

    return jax.vmap(one)(jnp.asarray(codes), *rows)


def value_and_jacobian(decode: Decode, code: Array) -> tuple[Array, Array]:
    """Returns the output at a code, as a vector, and its Jacobian: one forward pass a latent."""
    flat = lambda z: decode(z).ravel()  # noqa: E731
    push = lambda tangent: jax.jvp(flat, (code,), (tangent,))  # noqa: E731
    return jax.vmap(push, out_axes=(None, -1))(jnp.eye(code.size, dtype=code.dtype))


@eqx.filter_jit
def _bends(decode: Decode, codes: AnyArray, pull: AnyArray) -> Array:
    def one(code: Array, weights: Array) -> Array:
        return jax.jacfwd(jax.grad(lambda z: jnp.sum(weights * decode(z).ravel())))(code)

    return jax.vmap(one)(jnp.asarray(codes), jnp.asarray(pull))


def as_decoder(decode: Decode | AbstractDecoder) -> AbstractDecoder:
    """Returns the decoder itself, or the one that a JAX function is."""
    return decode if isinstance(decode, AbstractDecoder) else Traceable(decode)


def stream(function: Callable[..., Any], *arrays: AnyArray, chunk: int) -> Any:
    """Returns a function's outputs over all items, chunk by chunk, as NumPy arrays.

    Args:
        function: From chunks of rows to a pytree of arrays with one row an item.
        arrays: One row an item each.
        chunk: Items at a time; the last chunk is filled up, so that one shape is compiled.

    >>> stream(lambda x: {"double": 2 * x}, np.arange(5), chunk=2)["double"].tolist()
    [0, 2, 4, 6, 8]
    """
    items = len(arrays[0])
    chunk = max(1, min(chunk, items))
    pieces = []
    for first in range(0, items, chunk):
        rows = np.minimum(np.arange(first, first + chunk), items - 1)
        pieces.append(jax.device_get(function(*(np.asarray(array[rows]) for array in arrays))))
    whole = jax.tree.map(lambda *parts: np.concatenate(parts), *pieces)
    return jax.tree.map(lambda leaf: leaf[:items], whole)


def chunk_size(decoder: AbstractDecoder, codes: AnyArray, chunk: int | None, draws: int = 0) -> int:
    """Returns how many items to take at a time: the one given, or what bounded memory allows."""
    if chunk is not None:
        return chunk
    pixels = np.shape(decoder.outputs(codes[:1]))[1]
    return max(1, CHUNK_NUMBERS // max(1, pixels * max(codes.shape[1], draws)))


def checked_codes(codes: AnyArray, what: str = "codes") -> Float[ndarray, "item latent"]:
    """Returns codes as rows in JAX's precision, or says what is wrong with them."""
    array = np.asarray(codes)
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(
            f"{what} must be one row an item and one column a latent, with at least one of each, "
            f"but got an array of shape {array.shape}"
        )
    if not np.issubdtype(array.dtype, np.number) or not np.isfinite(array).all():
        raise InputError(
            f"{what} must be finite numbers, but got NaN, infinities or no numbers at all: leave "
            "out members that diverged"
        )
    kind = array.dtype if array.dtype.kind == "f" else np.dtype(np.float64)
    return array.astype(jax.dtypes.canonicalize_dtype(kind))
