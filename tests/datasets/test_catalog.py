"""Laws of every dataset in the catalog, and the options given as text."""

import ast
import functools
import inspect
import re
from pathlib import Path

import numpy as np
import pytest

from untwist.datasets import CATALOG, default_options, description, load, parse_options
from untwist.datasets.availability import REAL_FILES
from untwist.datasets.derived_sets import DERIVED
from untwist.types import InputError

TWINS = {
    "faces_twin": {
        "size": 16,
        "identities": 3,
        "azimuths": 3,
        "elevations": 2,
        "lightings": 2,
    },
    "mpi3d_complex_twin": {"size": 16, "axes": 2},
    "mpi3d_twin": {"size": 16, "axes": 2},
    "shapes3d_twin": {"size": 16, "hues": 2, "scales": 2, "orientations": 3},
    "sprites": {"size": 16, "positions": 3},
}
DRAWN = [name for name in CATALOG if name not in REAL_FILES and name not in DERIVED]
SMALL = {name: TWINS.get(name, {"samples": 40}) for name in DRAWN}


@pytest.fixture(params=sorted(SMALL))
def name(request):
    return request.param


@functools.cache
def made(name):
    """Each dataset, made once: a traced one takes seconds to compile."""
    return load(name, **SMALL[name])


def test_examples_and_factors_are_sound(name):
    dataset = made(name)
    dataset.check()
    dataset.space.check(dataset.factors)
    assert dataset.name == name
    examples = dataset.examples(np.array([0, len(dataset) - 1]))
    assert examples.shape == (2, *dataset.shape)
    assert examples.dtype == np.float32
    assert np.ptp(dataset.examples(slice(None)), axis=0).max() > 0
    assert dataset.space.has_grid == dataset.is_image == dataset.has_full_grid


def test_same_options_same_bits(name):
    assert load(name, **SMALL[name]).checksum() == made(name).checksum()


def test_another_seed_other_bits(name):
    if "seed" in default_options(name):
        other = load(name, **SMALL[name], seed=1)
        assert other.provenance["seed"] == 1
        assert other.checksum() != made(name).checksum()


def test_provenance_says_what_stands_in_for_real_files(name):
    provenance = made(name).provenance
    assert provenance["twin"] == (name in TWINS)
    assert provenance["twin"] == str(provenance["source"]).startswith("procedural twin of ")
    assert provenance["version"] >= 1


@pytest.mark.parametrize("name", sorted(CATALOG))
def test_describes_itself_and_every_option(name):
    text = description(name)
    assert text.startswith("Returns ")
    for option in inspect.signature(CATALOG[name]).parameters:
        assert f"    {option}: " in text


@pytest.mark.parametrize("name", sorted(CATALOG))
def test_text_of_every_default_reads_back(name):
    defaults = default_options(name)
    texts = [f"{option}={value}" for option, value in defaults.items()]
    assert parse_options(name, texts) == defaults


def test_texts_get_the_type_of_their_option():
    options = parse_options("square", ["ratio=3", "angle = -1.5e1", "samples=7"])
    assert options == {"ratio": 3.0, "angle": -15.0, "samples": 7}
    assert [type(value) for value in options.values()] == [float, float, int]
    assert parse_options("sprites", ["bits=False"]) == {"bits": False}
    assert parse_options("sprites", []) == {}


def test_the_example_of_the_documents_gives_what_it_says():
    text = Path(__file__).parents[2].joinpath("docs/datasets.md").read_text()
    *lines, last = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0].splitlines()
    names = {}
    exec("\n".join(lines), names)
    expression, result = last.split("#")
    assert eval(expression, names) == ast.literal_eval(result.strip())


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("sprits", "size=32", "unknown dataset 'sprits': did you mean 'sprites'"),
        ("sprites", "sise=32", "unknown option of sprites 'sise': did you mean 'size'"),
        ("sprites", "size", "an option of sprites as option=value, but got 'size'"),
        ("sprites", "size=3.5", "'size' of sprites must be a whole number, but got '3.5'"),
        ("sprites", "size=none", "'size' of sprites must be a whole number, but got 'none'"),
        ("sprites", "scales=few", "must be a whole number or none, but got 'few'"),
        ("sprites", "bits=2", "'bits' of sprites must be yes or no, but got '2'"),
        ("linear", "ratio=wide", "'ratio' of linear must be a number, but got 'wide'"),
    ],
)
def test_texts_that_do_not_fit_are_refused(name, text, message):
    with pytest.raises(InputError, match=message):
        parse_options(name, [text])


def test_an_option_given_twice_is_refused():
    with pytest.raises(InputError, match="'size' of sprites is given twice"):
        parse_options("sprites", ["size=32", "size=64"])


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("circle", {}, "unknown dataset 'circle': did you mean 'circles'"),
        ("circles", {"clutsers": 2}, "unknown option of circles 'clutsers': did you mean 'clus"),
        ("circles", {"clusters": 2.0}, "'clusters' of circles must be a whole number, but got 2.0"),
        ("circles", {"clusters": True}, "must be a whole number, but got True"),
        ("sprites", {"bits": 1}, "'bits' of sprites must be yes or no, but got 1"),
    ],
)
def test_load_refuses_what_it_does_not_know(name, options, message):
    with pytest.raises(InputError, match=message):
        load(name, **options)


def test_load_takes_a_whole_number_for_a_number():
    assert load("linear", ratio=3, samples=5).provenance["ratio"] == 3
