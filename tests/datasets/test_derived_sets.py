"""Derived sets by name: what they are made of, and the digit sets out of MNIST if it is here."""

import os
from pathlib import Path

import numpy as np
import pytest

from untwist.datasets import availability, load, parse_options
from untwist.datasets.derived_sets import DERIVED
from untwist.types import InputError

REAL = Path(os.environ.get("UNTWIST_TEST_DATA", Path(__file__).parents[3] / "shared" / "data"))
GRID = {"of": "sprites", "options": "size=16 scales=2 orientations=3 positions=4"}


@pytest.fixture
def digits(tmp_path):
    """A file with ten classes of small gray images, in another order."""
    labels = np.array([3, 3, 1, 0, 2, 9, 8, 7, 6, 5, 4, 3])
    images = np.zeros((12, 8, 8, 1), np.uint8)
    for image, label in zip(images, labels, strict=True):
        image.flat[: 5 + 2 * label] = 255
    images[1] //= 2
    path = tmp_path / "digits.npz"
    names = np.array([f"class {label}" for label in labels])
    np.savez(path, images=images, factors=names[:, None], names=["class"])
    return path, images[..., 0] / np.float32(255)


@pytest.mark.parametrize("name", ["noisy", "rescaled", "correlated", "sampled"])
def test_a_derived_set_says_what_it_is_of(name):
    options = {"samples": 50} if name in ("correlated", "sampled") else {}
    made = load(name, **GRID, **options)
    made.check()
    assert made.name == name
    assert made.provenance["of"] == "sprites"
    assert made.provenance["twin"] is True
    assert made.space.names == ("shape", "scale", "orientation", "posX", "posY")
    assert len(made) == (50 if options else 288)
    again = load(name, **GRID, **options)
    assert again.checksum() == made.checksum()
    if name != "rescaled":
        assert load(name, **GRID, **options, seed=1).checksum() != made.checksum()


def test_noise_and_scale_are_those_asked_for():
    clean = load("sprites", size=16, scales=2, orientations=3, positions=4).examples(slice(None))
    noisy = load("noisy", **GRID, noise=0.25).examples(slice(None))
    assert 0.24 < np.abs(noisy - clean).max() <= 0.25 + 0.5 / 255
    half = load("rescaled", **GRID, scale=0.5).examples(slice(None))
    np.testing.assert_allclose(half, 0.5 * clean, atol=0.5 / 255)


def test_two_factors_are_correlated_and_no_other():
    grid = {"of": "sprites", "options": "size=32 scales=2 orientations=3 positions=12"}
    made = load("correlated", **grid, width=0.2, samples=4000)
    found = np.corrcoef(made.factors.T)
    v = np.linspace(0, 1, 12)
    joint = np.exp(-((v[:, None] - v) ** 2) / 0.08)
    joint /= joint.sum()
    mean = joint.sum(1) @ v
    expected = ((v - mean) @ joint @ (v - mean)) / (joint.sum(1) @ (v - mean) ** 2)
    assert found[3, 4] == pytest.approx(expected, abs=0.02)
    np.fill_diagonal(found, 0)
    found[[3, 4], [4, 3]] = 0
    assert np.abs(found).max() < 5 / np.sqrt(4000)


def test_digit_sets_take_the_first_image_of_each_class(digits):
    path, images = digits
    first = images[[3, 2, 4, 0, 10, 9, 8, 7, 6, 5]].reshape(10, -1)
    mixture = load("digit_mixture", of=str(path), samples=30, noise=0.0)
    np.testing.assert_allclose(mixture.data, mixture.factors @ first, atol=1e-4)
    assert mixture.name == "digit_mixture"
    assert mixture.provenance["of"] == "digits"
    moving = load("moving_digit", of=str(path), digit=3, canvas=32, samples=20)
    mass = moving.examples(slice(None)).sum((1, 2, 3))
    np.testing.assert_allclose(mass, images[0].sum(), rtol=0.02)


@pytest.mark.skipif(not (REAL / "mnist").is_dir(), reason=f"no files of MNIST in {REAL}")
def test_digit_sets_out_of_the_real_mnist():
    """Ten digits, and one that moves by A A' + 1 around the middle."""
    options = f"split=test path={REAL / 'mnist'}"
    real = load("mnist", split="test", path=str(REAL / "mnist"))
    _, first = np.unique(real.factors[:, 0], return_index=True)
    mixture = load("digit_mixture", options=options, samples=200, noise=0.0)
    assert mixture.shape == (784,)
    expected = mixture.factors @ real.examples(first).reshape(10, -1)
    np.testing.assert_allclose(mixture.data, expected, atol=1e-4)
    assert mixture.provenance["digits"] == real.provenance["source"]
    assert mixture.provenance["twin"] is False
    moving = load("moving_digit", options=options, digit=0, samples=2000)
    images = moving.examples(slice(None))[..., 0]
    mass, places = images.sum((1, 2)), np.arange(64) - 31.5
    centers = np.stack([images.sum(1) @ places, images.sum(2) @ places], -1) / mass[:, None]
    mixing = np.array([[2.73, 0.73], [0.73, 2.73]])
    np.testing.assert_allclose(np.cov(centers.T), mixing @ mixing.T + np.eye(2), rtol=0.12)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("noisy", {"of": "sprits"}, "unknown dataset 'sprits': did you mean 'sprites'"),
        ("noisy", {"options": "sise=16"}, "unknown option of sprites 'sise': did you mean 'size'"),
        ("noisy", GRID | {"seed": -1}, "a seed from 0 to .* but got -1"),
        ("correlated", GRID | {"first": "posx"}, "a factor among .* but got posx"),
        ("correlated", GRID | {"width": 0.0}, "a width above 0, but got 0.0"),
        ("digit_mixture", {"of": "linear"}, "gray images whose first factor is their class, but"),
        ("digit_mixture", {}, "mnist: the file train-images-idx3-ubyte.gz is missing: put it"),
        ("moving_digit", GRID | {"digit": 3}, "a digit from 0 to 2, but got 3"),
    ],
)
def test_what_cannot_be_derived_is_refused(name, options, message):
    with pytest.raises(InputError, match=message):
        load(name, **options)


def test_derived_sets_are_listed_and_read_from_texts():
    assert {availability(name) for name in DERIVED} == {"derived"}
    text = "options=size=16 positions=4"
    assert parse_options("noisy", ["of=sprites", text, "noise=0.2"]) == {
        "of": "sprites",
        "options": "size=16 positions=4",
        "noise": 0.2,
    }
