"""The record: host and device decode alike, checks say what is wrong, the checksum is stable."""

import hashlib
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from untwist.datasets import Dataset, decode_examples
from untwist.datasets import dataset as module
from untwist.factors import FactorSpace
from untwist.types import InputError

GRID = FactorSpace(("shape", "x"), (2, 3), ("categorical", "ordinal"))
LINE = FactorSpace(("u",), (None,), ("continuous",))
SOURCE = {"source": "a test", "twin": False}


def images(peak=255, bits=False, count=6, shape=(3, 5, 2)):
    """A small image set on the whole grid."""
    random = np.random.default_rng(0)
    data = random.integers(0, 2 if bits else peak + 1, (count, *shape), dtype=np.uint8)
    packed = np.packbits(data.reshape(count, -1), axis=-1) if bits else data
    factors = GRID.factors(np.arange(count))
    return Dataset("toy", packed, factors, GRID, "bernoulli", SOURCE, shape, peak, bits), data


def vectors(count=4):
    """A small vector set with one continuous factor."""
    values = np.random.default_rng(1).random((count, 2), dtype=np.float32)
    return Dataset("line", values, values[:, :1], LINE, "gaussian", SOURCE, (2,))


@pytest.mark.parametrize(("peak", "bits"), [(255, False), (1, False), (77, False), (1, True)])
def test_host_and_device_decode_to_the_same_bits(peak, bits):
    dataset, pixels = images(peak, bits)
    index = np.array([5, 0, 2])
    host = dataset.examples(index)
    decode = jax.jit(decode_examples, static_argnames=("shape", "peak", "bits"))
    device = decode(jnp.asarray(dataset.data[index]), shape=dataset.shape, peak=peak, bits=bits)
    assert host.dtype == device.dtype == np.float32
    assert host.shape == (3, *dataset.shape)
    np.testing.assert_array_equal(host, device)
    np.testing.assert_array_equal(np.rint(host * (1 if bits else peak)), pixels[index])


def test_every_byte_decodes_alike_on_host_and_device():
    data = np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1)
    space = FactorSpace(("one",), (1,), ("ordinal",))
    dataset = Dataset("b", data, np.zeros((1, 1), int), space, "bernoulli", SOURCE, (16, 16, 1))
    host = dataset.examples(slice(None))
    decode = jax.jit(decode_examples, static_argnames=("shape", "peak", "bits"))
    np.testing.assert_array_equal(host, decode(data, shape=(16, 16, 1), peak=255, bits=False))
    assert host.min() == 0.0
    assert host.max() == 1.0


def test_vectors_pass_through():
    dataset = vectors()
    assert not dataset.is_image
    np.testing.assert_array_equal(dataset.examples(slice(1, 3)), dataset.data[1:3])
    device = decode_examples(jnp.asarray(dataset.data), shape=(2,), peak=255, bits=False)
    np.testing.assert_array_equal(device, dataset.data)


def test_full_grid_needs_every_row_in_order():
    dataset, _ = images()
    assert dataset.has_full_grid
    assert not dataset.subset(np.array([1, 0, 2, 3, 4, 5])).has_full_grid
    assert not dataset.subset(slice(0, 5)).has_full_grid
    assert not vectors().has_full_grid


def test_subset_keeps_rows_together_and_says_so():
    dataset, pixels = images()
    part = dataset.subset(np.array([4, 1]))
    np.testing.assert_array_equal(part.data, pixels[[4, 1]])
    np.testing.assert_array_equal(part.factors, [[1, 1], [0, 1]])
    assert part.provenance["subset_of"] == 6
    assert "subset_of" not in dataset.provenance


def test_checksum_is_the_streamed_sha256(monkeypatch):
    dataset, _ = images()
    digest = hashlib.sha256()
    for array in (dataset.data, dataset.factors):
        digest.update(f"{array.dtype.str} {array.shape} ".encode() + array.tobytes())
    monkeypatch.setattr(module, "BLOCK_BYTES", 40)
    assert dataset.checksum() == digest.hexdigest()
    assert dataset.subset(slice(0, 5)).checksum() != dataset.checksum()


def test_memory_map_reads_like_an_array(tmp_path):
    dataset, pixels = images()
    np.save(tmp_path / "toy.npy", pixels)
    mapped = replace(dataset, data=np.load(tmp_path / "toy.npy", mmap_mode="r"))
    assert isinstance(mapped.data, np.memmap)
    assert mapped.checksum() == dataset.checksum()
    np.testing.assert_array_equal(mapped.examples(slice(2)), dataset.examples(slice(2)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"likelihood": "bernouli"}, "unknown likelihood 'bernouli': did you mean 'bernoulli'"),
        ({"provenance": {"source": "a"}}, "say with 'twin' .* but it holds source"),
        ({"peak": 0}, "expected 1 to 255, but got 0"),
        ({"peak": 256}, "expected 1 to 255, but got 256"),
        ({"shape": (3, 5)}, r"must be \(height, width, channel\) .* got \(3, 5\)"),
        ({"shape": (5, 3, 2)}, r"shape \(examples, 5, 3, 2\), but got \(6, 3, 5, 2\)"),
        ({"bits": True}, r"packed bits of shape \(examples, 4\), but got"),
        ({"data": np.zeros((6, 3, 5, 2))}, "images as uint8, but got float64: convert"),
        ({"data": np.zeros((5, 3, 5, 2), np.uint8)}, "got 5 examples and 6 rows of factors"),
        ({"data": np.zeros((0, 3, 5, 2), np.uint8)}, "at least one example, but got none"),
        ({"data": np.array(3, np.uint8)}, r"but got \(\)"),
        ({"factors": np.full((6, 2), 2)}, "values of 'shape' from 2 to 2: expected 0 to 1"),
        ({"factors": np.zeros((6, 3), int)}, "one column for each of shape, x"),
    ],
)
def test_wrong_layout_is_one_clear_sentence(change, message):
    with pytest.raises(InputError, match=message):
        replace(images()[0], **change)


def test_bits_are_for_images():
    with pytest.raises(InputError, match="only images are held as bits"):
        replace(vectors(), bits=True)


def test_check_finds_the_byte_above_the_peak(monkeypatch):
    dataset, pixels = images(peak=1)
    dataset.check()
    pixels[4, 0, 0, 0] = 2
    monkeypatch.setattr(module, "BLOCK_BYTES", 60)
    with pytest.raises(InputError, match="0 to 1, the peak, but got 2 among examples 4 to 5"):
        dataset.check()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_check_finds_the_row_that_is_not_finite(bad, monkeypatch):
    dataset = vectors()
    dataset.check()
    dataset.data[2, 1] = bad
    monkeypatch.setattr(module, "BLOCK_BYTES", 8)
    with pytest.raises(InputError, match="row 2 holds a NaN or an infinity"):
        dataset.check()


def test_check_finds_a_factor_that_is_not_finite():
    dataset = vectors()
    with pytest.raises(InputError, match="factors: expected finite numbers, but row 3"):
        replace(dataset, factors=np.array([[0.0], [1.0], [2.0], [np.nan]])).check()
