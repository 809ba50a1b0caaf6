"""Decoders as callables, and streaming over items: memory does not grow with their number.

Everything here asks three things of a decoder: outputs, Jacobians and second derivatives at codes.
A JAX function of one code gives them by itself (`Traceable`); one that JAX cannot trace is an
`AbstractDecoder` of its own, as the PyTorch modules in `untwist.mechanism.torch` are. To compile
once for many models pass decoders that are pytrees, such as a bound method of an Equinox module.

Codes with three axes, [member, item, latent], are those of a population: every array in the decoder
then has a leading member axis as well, as in `population.models.decode`, and all members go through
one program. A function without arrays of its own serves every member.
"""

import abc
from collections import deque
from collections.abc import Callable
from functools import partial
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
Number = float | Float[ndarray, " member"]
"""One number, or one for each member of a population."""

CHUNK_NUMBERS = {"cpu": 2**22, "other": 2**26}
"""Entries of Jacobians that are computed at a time on a device, unless a chunk size is given."""

AHEAD = 2
"""Chunks under way while the one before them is fetched."""


class AbstractDecoder(abc.ABC):
    """Outputs of codes and their derivatives, for one chunk of items."""

    @abc.abstractmethod
    def pixels(self, codes: Float[AnyArray, "*member item latent"]) -> int:
        """Returns how many outputs a code has."""

    @abc.abstractmethod
    def outputs(
        self, codes: Float[AnyArray, "*member item latent"]
    ) -> Float[AnyArray, "*member item pixel"]:
        """Returns the outputs, each as one vector."""

    @abc.abstractmethod
    def local(self, function: PerItem, codes: AnyArray, *rows: AnyArray) -> Any:
        """Returns `function(output, jacobian, *row)` of each item; function is a JAX function."""

    @abc.abstractmethod
    def bends(
        self,
        codes: Float[AnyArray, "*member item latent"],
        pull: Float[AnyArray, "*member item pixel"],
    ) -> Float[AnyArray, "*member item latent latent"]:
        """Returns sum_i pull_i Hess(d_i), the Hessian of the outputs against fixed weights."""


class Traceable(AbstractDecoder):
    """A JAX function from one code to one example's outputs, or one for each member."""

    def __init__(self, decode: Decode):
        self.decode = decode

    def pixels(self, codes: Float[AnyArray, "*member item latent"]) -> int:
        """Returns how many outputs a code has; nothing is computed."""
        self._check_members(codes)
        return eqx.filter_eval_shape(_outputs, self.decode, codes[..., :1, :]).shape[-1]

    def outputs(
        self, codes: Float[AnyArray, "*member item latent"]
    ) -> Float[AnyArray, "*member item pixel"]:
        """Returns the outputs, each as one vector."""
        return _outputs(self.decode, codes)

    def local(self, function: PerItem, codes: AnyArray, *rows: AnyArray) -> Any:
        """Returns `function(output, jacobian, *row)` of each item, by forward mode."""
        return _local(self.decode, function, codes, rows)

    def bends(
        self,
        codes: Float[AnyArray, "*member item latent"],
        pull: Float[AnyArray, "*member item pixel"],
    ) -> Float[AnyArray, "*member item latent latent"]:
        """Returns sum_i pull_i Hess(d_i), forward over reverse."""
        return _bends(self.decode, codes, pull)

    def of(self, member: AnyArray | int) -> "Traceable":
        """Returns the decoder of one member of a population, or of some of them."""
        take = lambda leaf: leaf[member] if eqx.is_array(leaf) else leaf  # noqa: E731
        return Traceable(jax.tree.map(take, self.decode))

    def _check_members(self, codes: AnyArray) -> None:
        """Says so where codes have members and the decoder's arrays do not."""
        arrays = jax.tree.leaves(eqx.filter(self.decode, eqx.is_array))
        if codes.ndim == 3 and any(np.shape(a)[:1] != codes.shape[:1] for a in arrays):
            raise InputError(
                f"codes of shape {codes.shape} are those of {len(codes)} members, so every array "
                f"of the decoder needs a leading axis of {len(codes)}, as `population.models."
                "decode` has: expected stacked models, or codes (item, latent) of one"
            )


@eqx.filter_jit
def _outputs(decode: Decode, codes: AnyArray) -> Array:
    return _each(lambda decode, code: decode(code).ravel(), decode, codes)


@eqx.filter_jit
def _local(decode: Decode, function: PerItem, codes: AnyArray, rows: tuple) -> Any:
    def one(decode: Decode, code: Array, *row: Array) -> Any:
        output, jacobian = value_and_jacobian(decode, code)
        return function(output, jacobian, *row)

    return _each(one, decode, codes, *rows)


def _each(one: Callable[..., Any], decode: Decode, *rows: AnyArray) -> Any:
    """`one(decode, *row)` of each item; of three axes, the first is that of decoders as well."""

    def items(decode: Decode, *rows: Array) -> Any:
        return jax.vmap(partial(one, decode))(*rows)

    if rows[0].ndim == 2:
        return items(decode, *map(jnp.asarray, rows))
    axes = (eqx.if_array(0), *(0 for _ in rows))
    return eqx.filter_vmap(items, in_axes=axes)(decode, *map(jnp.asarray, rows))


def value_and_jacobian(decode: Decode, code: Array) -> tuple[Array, Array]:
    """Returns the output at a code, as a vector, and its Jacobian: one forward pass a latent."""
    flat = lambda z: decode(z).ravel()  # noqa: E731
    push = lambda tangent: jax.jvp(flat, (code,), (tangent,))  # noqa: E731
    return jax.vmap(push, out_axes=(None, -1))(jnp.eye(code.size, dtype=code.dtype))


@eqx.filter_jit
def _bends(decode: Decode, codes: AnyArray, pull: AnyArray) -> Array:
    def one(decode: Decode, code: Array, weights: Array) -> Array:
        return jax.jacfwd(jax.grad(lambda z: jnp.sum(weights * decode(z).ravel())))(code)

    return _each(one, decode, codes, pull)


def as_decoder(decode: Decode | AbstractDecoder) -> AbstractDecoder:
    """Returns the decoder itself, or the one that a JAX function is."""
    return decode if isinstance(decode, AbstractDecoder) else Traceable(decode)


def stream(
    function: Callable[..., Any], *arrays: AnyArray, chunk: int, axis: int = 0, shared: int = 0
) -> Any:
    """Returns a function's outputs over all items, chunk by chunk, as NumPy arrays.

    While one chunk is fetched from the device, the next ones are under way there.

    Args:
        function: From chunks of rows to a pytree of arrays with one row an item.
        arrays: One row an item each.
        chunk: Items at a time; the last chunk is filled up, so that one shape is compiled.
        axis: That of the items, in arrays and outputs; 1 for a population.
        shared: How many of the last arrays all members share: their items lie on axis 0.

    >>> stream(lambda x: {"double": 2 * x}, np.arange(5), chunk=2)["double"].tolist()
    [0, 2, 4, 6, 8]
    """
    own = len(arrays) - shared
    placed = [(np.asarray(a), axis if index < own else 0) for index, a in enumerate(arrays)]
    items = placed[0][0].shape[placed[0][1]]
    chunk = max(1, min(chunk, items))
    whole: Any = None
    waiting: deque[tuple[int, Any]] = deque()
    for first in range(0, items, chunk):
        rows = np.minimum(np.arange(first, first + chunk), items - 1)
        made = function(*(np.take(array, rows, at) for array, at in placed))
        waiting.append((first, made))
        if len(waiting) > AHEAD:
            place, made = waiting.popleft()
            whole = _stored(whole, place, made, items, axis)
    for first, made in waiting:
        whole = _stored(whole, first, made, items, axis)
    return whole


def _stored(whole: Any, first: int, made: Any, items: int, axis: int) -> Any:
    """The outputs with those of one more chunk in their place, without what filled it up."""
    pieces = jax.device_get(made)
    if whole is None:
        shape = lambda piece: (*piece.shape[:axis], items, *piece.shape[axis + 1 :])  # noqa: E731
        whole = jax.tree.map(lambda piece: np.empty(shape(piece), piece.dtype), pieces)

    def store(place: ndarray, piece: ndarray) -> None:
        room = np.moveaxis(place, axis, 0)[first:]
        rows = np.moveaxis(piece, axis, 0)[: len(room)]
        room[: len(rows)] = rows

    jax.tree.map(store, whole, pieces)
    return whole


def over_items(function: PerItem, codes: AnyArray) -> PerItem:
    """Returns a JAX function of one item's rows as one of all items; of members as well."""
    items = jax.vmap(function)
    return items if np.ndim(codes) == 2 else jax.vmap(items)


def number(value: AnyArray | np.number) -> Number:
    """Returns one number as a float, one for each member as an array."""
    return float(value) if np.ndim(value) == 0 else np.asarray(value)


def chunk_size(decoder: AbstractDecoder, codes: AnyArray, chunk: int | None, draws: int = 0) -> int:
    """Returns how many items to take at a time: the one given, or what bounded memory allows."""
    members = len(codes) if codes.ndim == 3 else 1
    pixels = decoder.pixels(codes)
    if chunk is not None:
        return chunk
    return chunk_of(members * pixels * max(codes.shape[-1], draws))


def chunk_of(numbers: int) -> int:
    """Returns how many items with so many numbers each are computed at a time on this device."""
    bound = CHUNK_NUMBERS.get(jax.default_backend(), CHUNK_NUMBERS["other"])
    return max(1, bound // max(1, numbers))


def checked_codes(codes: AnyArray, what: str = "codes") -> Float[ndarray, "*member item latent"]:
    """Returns codes as rows in JAX's precision, or says what is wrong with them."""
    array = np.asarray(codes)
    if array.ndim not in (2, 3) or 0 in array.shape:
        raise InputError(
            f"{what} must be one row an item and one column a latent, with at least one of each "
            "(and a leading axis of members, for a population), but got an array of shape "
            f"{array.shape}"
        )
    if not np.issubdtype(array.dtype, np.number) or not np.isfinite(array).all():
        raise InputError(
            f"{what} must be finite numbers, but got NaN, infinities or no numbers at all: leave "
            "out members that diverged"
        )
    kind = array.dtype if array.dtype.kind == "f" else np.dtype(np.float64)
    return array.astype(jax.dtypes.canonicalize_dtype(kind))
