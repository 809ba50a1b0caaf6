"""PyTorch models for the mechanism: needs the extra `torch`.

`TorchDecoder` and `torch_encoder` wrap modules; `explain`, `align` and every other function then
take them as they take JAX functions. Derivatives go through `torch.func`.

    from untwist.mechanism.torch import TorchDecoder, torch_encoder

    explain(TorchDecoder(decoder), torch_encoder(encoder, width="logvar"), x, key=key)
"""

import importlib
from collections.abc import Callable
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from untwist.mechanism.decoder import AbstractDecoder, PerItem
from untwist.types import AnyArray, InputError, nearest

Width = Literal["logvar", "variance", "sigma"]
Tensor = Any
"""A `torch.Tensor`: PyTorch is imported when it is used, so type checkers need not find it."""


class TorchDecoder(AbstractDecoder):
    """An `nn.Module` from a batch of codes to a batch of outputs.

    It is put into evaluation mode and used without gradients of its weights. Random layers have to
    be off by then: the same code must give the same output.

    Args:
        module: Maps [item, latent] to [item, ...]: logits, under a Bernoulli likelihood.
    """

    def __init__(self, module: Any):
        torch = _torch()
        self.module = _checked(module)
        self.parameters = {name: p.detach() for name, p in module.named_parameters()}
        self.buffers = dict(module.named_buffers())
        like = next(iter((*self.parameters.values(), *self.buffers.values())), torch.zeros(()))
        self.device, self.dtype = like.device, like.dtype

    def pixels(self, codes: Float[AnyArray, "item latent"]) -> int:
        """Returns how many outputs a code has."""
        return self.outputs(codes[:1]).shape[1]

    def outputs(self, codes: Float[AnyArray, "item latent"]) -> Float[ndarray, "item pixel"]:
        """Returns the outputs, each as one vector."""
        with _torch().no_grad():
            return _array(self.module(self._tensor(codes)).flatten(1))

    def local(self, function: PerItem, codes: AnyArray, *rows: AnyArray) -> Any:
        """Returns `function(output, jacobian, *row)` of each item, Jacobians by forward mode."""
        torch = _torch()
        slopes = torch.func.vmap(torch.func.jacfwd(self._one))
        with torch.no_grad():
            matrices = _array(slopes(self._tensor(codes)))
        return _apply(function, jnp.asarray(self.outputs(codes)), jnp.asarray(matrices), rows)

    def bends(
        self, codes: Float[AnyArray, "item latent"], pull: Float[AnyArray, "item pixel"]
    ) -> Float[ndarray, "item latent latent"]:
        """Returns sum_i pull_i Hess(d_i), forward over reverse."""
        torch = _torch()
        weighted = lambda z, weights: torch.sum(weights * self._one(z))  # noqa: E731
        curved = torch.func.vmap(torch.func.jacfwd(torch.func.grad(weighted)))
        return _array(curved(self._tensor(codes), self._tensor(pull)))

    def _one(self, code: Tensor) -> Tensor:
        """The output of one code as a vector, as a pure function."""
        state = (self.parameters, self.buffers)
        return _torch().func.functional_call(self.module, state, (code[None],)).flatten()

    def _tensor(self, array: AnyArray) -> Tensor:
        if np.ndim(array) > 2:
            raise InputError(
                "PyTorch modules are explained one at a time: expected codes (item, latent), but "
                f"got an array of shape {np.shape(array)}"
            )
        # A copy, since tensors must be writable and JAX's buffers are not.
        return _torch().tensor(np.asarray(array), dtype=self.dtype, device=self.device)


def torch_encoder(
    module: Any, *, width: str = "logvar"
) -> Callable[[AnyArray], tuple[ndarray, ndarray | None]]:
    """Returns an encoder for `explain` out of an `nn.Module`.

    Args:
        module: Maps a batch of examples to `(mean, width)`, or to the mean alone.
        width: What the second output is: log-variances, variances or standard deviations.
    """
    torch = _torch()
    _checked(module)
    if width not in get_args(Width):
        raise nearest("width", width, get_args(Width))
    like = next(module.parameters(), torch.zeros(()))

    def encode(x: AnyArray) -> tuple[ndarray, ndarray | None]:
        with torch.no_grad():
            found = module(torch.tensor(np.asarray(x), dtype=like.dtype, device=like.device))
        if isinstance(found, torch.Tensor):
            return _array(found), None
        mean, spread = (_array(part) for part in found)
        if width == "logvar":
            return mean, np.exp(0.5 * spread)
        return mean, np.sqrt(spread) if width == "variance" else spread

    return encode


def _torch() -> Any:
    """PyTorch, or the sentence that says how to get it."""
    try:
        return importlib.import_module("torch")
    except ModuleNotFoundError as error:
        raise InputError(
            "PyTorch models need PyTorch, which is not installed: pip install 'untwist[torch]'"
        ) from error


def _checked(module: Any) -> Any:
    """The module in evaluation mode."""
    if not isinstance(module, _torch().nn.Module):
        raise InputError(
            f"expected a torch.nn.Module, but got {type(module).__name__}: pass JAX functions "
            "as they are"
        )
    return module.eval()


def _array(tensor: Tensor) -> ndarray:
    return tensor.detach().cpu().numpy()


def _apply(function: PerItem, outputs: AnyArray, matrices: AnyArray, rows: tuple) -> Any:
    """A JAX function of each item's output and Jacobian."""
    return jax.vmap(function)(outputs, matrices, *rows)
