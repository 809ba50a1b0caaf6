"""PyTorch modules and JAX functions of the same weights give the same explanation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from untwist.mechanism import (
    Depth,
    align,
    explain,
    jacobians,
    likelihood_hessians,
    local_geometry,
    mean_jacobians,
)
from untwist.models import ARCHITECTURES, LIKELIHOODS, build
from untwist.types import InputError

torch = pytest.importorskip("torch", reason="PyTorch is an extra: pip install 'untwist[torch]'")

from untwist.mechanism.torch import TorchDecoder, torch_encoder  # noqa: E402

# PyTorch itself uses what it deprecates, when torch.func is first called.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")

KEY = jax.random.key(0)
DRAW = np.random.default_rng(0)


def tensor(array):
    return torch.nn.Parameter(torch.tensor(np.asarray(array)))


def dense(layer):
    """A dense layer of ours as one of PyTorch's."""
    weight, bias = np.asarray(layer.weight), np.asarray(layer.bias)
    rows = weight if weight.shape[0] == len(bias) else weight.T
    module = torch.nn.Linear(rows.shape[1], rows.shape[0])
    module.weight, module.bias = tensor(rows), tensor(bias)
    return module


class Encoder(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        layers = [dense(layer) for layer in model.encoder.dense.layers]
        parts = [part for layer in layers for part in (layer, torch.nn.ReLU())]
        self.net = torch.nn.Sequential(torch.nn.Flatten(), *parts[:-1])

    def forward(self, x):
        return self.net(x).chunk(2, dim=1)


def convolutional_decoder(model):
    """Our convolutional decoder as PyTorch's layers."""
    height, width, channels = model.decoder.inner_shape
    parts = [
        part for layer in model.decoder.dense.layers for part in (dense(layer), torch.nn.ReLU())
    ]
    parts += [torch.nn.Unflatten(1, (height, width, channels)), Permute(0, 3, 1, 2)]
    for ours in model.decoder.convolutions:
        inputs, outputs = ours.weight.shape[2:]
        layer = torch.nn.ConvTranspose2d(inputs, outputs, 4, 2, 1)
        layer.weight = tensor(np.asarray(ours.weight).transpose(2, 3, 0, 1))
        layer.bias = tensor(ours.bias)
        parts += [layer, torch.nn.ReLU()]
    return torch.nn.Sequential(*parts[:-1], Permute(0, 2, 3, 1))


class Permute(torch.nn.Module):
    def __init__(self, *order):
        super().__init__()
        self.order = order

    def forward(self, x):
        return x.permute(*self.order)


@pytest.fixture(scope="module")
def small():
    """A small dense model, its two modules, and examples."""
    model = build(
        ARCHITECTURES["rolinek2019-nonlinear"],
        (6,),
        3,
        LIKELIHOODS["squared_error"](),
        key=jax.random.key(1),
    )
    layers = [dense(layer) for layer in model.decoder.dense.layers]
    parts = [part for layer in layers for part in (layer, torch.nn.Tanh())]
    decoder = torch.nn.Sequential(*parts[:-1])
    encoder = Encoder(model)
    encoder.net = torch.nn.Sequential(
        *[torch.nn.Tanh() if isinstance(p, torch.nn.ReLU) else p for p in encoder.net]
    )
    return model, encoder, decoder, DRAW.standard_normal((60, 6)).astype(np.float32)


def test_explanations_agree(small):
    model, encoder, decoder, x = small
    depth = Depth(items=60, costly_items=20, fit_items=3, draws=8, steps=5)

    def encode(batch):
        return jax.vmap(lambda x: (model.encode(x).mean, jnp.sqrt(model.encode(x).variance)))(
            jnp.asarray(batch)
        )

    ours = explain(model.decode, encode, x, key=KEY, depth=depth)
    wrapped = TorchDecoder(decoder), torch_encoder(encoder)
    theirs = explain(*wrapped, x, key=KEY, depth=depth)
    for first, second in zip(ours.table, theirs.table, strict=True):
        assert (first.name, first.reason) == (second.name, second.reason)
        if first.value is not None:
            assert second.value == pytest.approx(first.value, rel=1e-4, abs=1e-4), first.name
    assert theirs.sentences == ours.sentences


def test_hessians_and_alignment_agree(small):
    model, _, decoder, x = small
    codes, wrapped = DRAW.standard_normal((30, 3)).astype(np.float32), TorchDecoder(decoder)
    ours = likelihood_hessians(model.decode, codes, x[:30])
    theirs = likelihood_hessians(wrapped, codes, x[:30])
    np.testing.assert_allclose(theirs, ours, atol=1e-4)
    first, second = align(model.decode, codes, key=KEY), align(wrapped, codes, key=KEY)
    np.testing.assert_allclose(second.to_aligned, first.to_aligned, atol=1e-4)


def test_convolutional_decoders_agree():
    likelihood = LIKELIHOODS["bernoulli"]()
    model = build(ARCHITECTURES["convolutional"], (32, 32, 1), 4, likelihood, key=KEY)
    wrapped = TorchDecoder(convolutional_decoder(model))
    codes = DRAW.standard_normal((6, 4)).astype(np.float32)
    np.testing.assert_allclose(jacobians(wrapped, codes), jacobians(model.decode, codes), atol=1e-4)
    ours, theirs = (
        local_geometry(decode, codes, likelihood="bernoulli") for decode in (model.decode, wrapped)
    )
    np.testing.assert_allclose(theirs.information, ours.information, rtol=1e-4, atol=1e-4)
    ours, theirs = (
        mean_jacobians(decode, codes, likelihood="bernoulli") for decode in (model.decode, wrapped)
    )
    np.testing.assert_allclose(theirs, ours, atol=1e-4)


@pytest.mark.parametrize("width", ["logvar", "variance", "sigma"])
def test_widths_of_an_encoder(width):
    given = {"logvar": np.log(0.25), "variance": 0.25, "sigma": 0.5}[width]

    class Constant(torch.nn.Module):
        def forward(self, x):
            return x, torch.full_like(x, float(given))

    mean, sigma = torch_encoder(Constant(), width=width)(np.ones((2, 3)))
    np.testing.assert_allclose(sigma, 0.5)
    np.testing.assert_allclose(mean, 1.0)


def test_an_encoder_of_points():
    assert torch_encoder(torch.nn.Identity())(np.ones((2, 3)))[1] is None


def test_what_is_no_module_is_refused():
    with pytest.raises(InputError, match=r"expected a torch.nn.Module, but got function"):
        TorchDecoder(lambda z: z)
    with pytest.raises(InputError, match="did you mean 'sigma'"):
        torch_encoder(torch.nn.Identity(), width="sigmas")
