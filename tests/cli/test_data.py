"""`untwist data` as a user types it, through tyro."""

import numpy as np
import pytest
import tyro
from PIL import Image

from untwist.cli.data import COMMANDS
from untwist.datasets import CATALOG, sprites
from untwist.datasets.availability import REAL_FILES
from untwist.datasets.derived_sets import DERIVED
from untwist.types import InputError

TINY = ["--set", "size=16", "positions=3"]


def run(*words):
    """Runs one command line."""
    return tyro.extras.subcommand_cli_from_dict(COMMANDS, args=[str(word) for word in words])


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    """Tables wide enough not to wrap."""
    monkeypatch.setenv("COLUMNS", "200")


def test_list_names_every_dataset_with_its_options(capsys):
    run("list")
    shown = capsys.readouterr().out
    assert all(name in shown for name in CATALOG)
    assert "clusters=3 members=3 radius=0.25 samples=50000 seed=0" in shown


def test_describe_says_what_it_is_and_that_it_is_a_twin(capsys):
    run("describe", "sprites", *TINY)
    shown = capsys.readouterr().out
    dataset = sprites(size=16, positions=3)
    for text in (
        "the procedural twin of dSprites",
        "orientation │ 9",
        "486, 16×16×1 each",
        "bits, 0.0 MB",
        "procedural twin of dSprites",
        "twin       │ True",
        dataset.checksum(),
    ):
        assert text in shown


LONG = ("faces_twin", "mpi3d_complex_twin", "mpi3d_twin")
"""Datasets that take long to compile; each is drawn by the tests of the catalog too."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in LONG else [])
        for name in sorted(CATALOG.keys() - REAL_FILES.keys() - DERIVED.keys())
    ],
)
def test_sheet_draws_every_dataset(name, tmp_path, capsys):
    images = {
        "sprites": TINY,
        "faces_twin": ["--set", "size=16", "identities=3", "azimuths=3", "elevations=2"],
        "mpi3d_complex_twin": ["--set", "size=16", "axes=2"],
        "mpi3d_twin": ["--set", "size=16", "axes=2"],
        "shapes3d_twin": ["--set", "size=16", "hues=2", "scales=2", "orientations=3"],
    }
    options = images.get(name, ["--set", "samples=50"])
    run("sheet", name, tmp_path / "a.png", "--count", 9, *options)
    assert "9 samples in" in capsys.readouterr().out
    assert np.ptp(np.asarray(Image.open(tmp_path / "a.png").convert("L"))) == 255


def test_traverse_draws_the_factors(tmp_path, capsys):
    run("traverse", "sprites", tmp_path / "a.png", *TINY)
    run("traverse", "sprites", tmp_path / "b.png", "--at", *"20111", "--steps", 4, *TINY)
    assert "5 factors in" in capsys.readouterr().out
    nine, four = (np.asarray(Image.open(tmp_path / name)) for name in ("a.png", "b.png"))
    assert nine.shape[1] > four.shape[1]
    assert nine.shape[0] == four.shape[0]


def test_export_writes_an_evenly_spread_part(tmp_path):
    run("export", "sprites", tmp_path / "a.npz", "--limit", 3, *TINY)
    with np.load(tmp_path / "a.npz") as archive:
        assert archive["factors"].tolist() == [[0] * 5, [1, 0, 8, 2, 2], [2, 1, 8, 2, 2]]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["describe", "sprits"], "did you mean 'sprites'"),
        (["describe", "sprites", "--set", "sise=3"], "did you mean 'size'"),
        (["sheet", "circles", "a.png", "--count", "0"], "but got count=0"),
        (["sheet", "circles", "a.png", "--seed", "-1"], "but got seed=-1"),
        (["traverse", "circles", "a.png"], "not a grid of images, .* `untwist data sheet`"),
        (["traverse", "sprites", "a.png", *TINY, "--steps", "1"], "at least 2 steps"),
        (["traverse", "sprites", "a.png", *TINY, "--at", "1", "1"], "but got 2 values"),
        (["traverse", "sprites", "a.png", *TINY, "--at", *"30000"], "expected 0 to 2"),
        (["export", "sprites", "a.npz", *TINY, "--limit", "0"], "but got limit=0"),
    ],
)
def test_wrong_requests_are_one_sentence(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        run(*words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["sheet", "traverse", "export"])
def test_no_command_replaces_a_file(command, tmp_path):
    (tmp_path / "a.npz").write_text("precious")
    with pytest.raises(InputError, match="exists and is not overwritten"):
        run(command, "sprites", tmp_path / "a.npz", *TINY)
    assert (tmp_path / "a.npz").read_text() == "precious"


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_option_has_its_help(command, capsys):
    with pytest.raises(SystemExit) as stop:
        run(command, "--help")
    assert stop.value.code == 0
    shown = capsys.readouterr().out
    if command not in ("list", "import"):
        assert "`untwist data list` shows all" in shown
        assert "--set OPTION=VALUE" in shown
