"""`untwist data check`, `import`, `list`, and training on your own data, as a user types it."""

import numpy as np
import pytest
from PIL import Image

from untwist.cli import main
from untwist.datasets import load

GRID = np.stack(np.meshgrid(np.arange(4), np.arange(5), indexing="ij"), -1).reshape(-1, 2)
IMAGES = np.zeros((20, 16, 16), np.uint8)
for _image, (_row, _column) in zip(IMAGES, GRID, strict=True):
    _image[3 * _row : 3 * _row + 5, 2 * _column : 2 * _column + 5] = 255


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A working directory and a cache of its own, and tables wide enough not to wrap."""
    monkeypatch.setenv("UNTWIST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def folder(place):
    """A folder of pictures with a table of factors, in no order."""
    path = place / "shots"
    path.mkdir()
    order = np.random.default_rng(0).permutation(20)
    rows = ["row,column,color"]
    for number, item in enumerate(order):
        Image.fromarray(IMAGES[item]).save(path / f"{number:02d}.png")
        rows.append(f"{GRID[item][0]},{GRID[item][1]},red")
    (place / "table.csv").write_text("\n".join(rows) + "\n")
    return path


def run(*words):
    """The exit code of one command line."""
    return main([str(word) for word in words])


def test_import_under_a_name_and_train_on_it(folder, capsys):
    assert run("data", "import", folder, "shots", "--factors", "table.csv") == 0
    shown = capsys.readouterr().out
    assert "row: ordinal, 4 values" in shown
    assert "color: categorical, 1 values" in shown
    assert "20 examples of 16×16×1, a full grid, in" in shown
    dataset = load("shots")
    assert isinstance(dataset.data, np.memmap)
    np.testing.assert_array_equal(dataset.data[..., 0], IMAGES)
    assert run("data", "list") == 0
    assert "shots              │ imported" in capsys.readouterr().out
    words = ["--architecture", "mlp", "--steps", 2, "--batch", 4, "--latents", 2, "--quiet"]
    assert run("train", "--dataset", "shots", *words) == 0
    assert (folder.parent / "runs" / "shots-beta-vae-1" / "run.toml").exists()


def test_import_to_a_path_and_train_on_it(folder, place):
    assert run("data", "import", "shots", "mine.npz", "--kinds", "ordinal") == 2
    assert run("data", "import", "shots", "mine.npz") == 0
    assert load("mine.npz").space.names == ("unlabeled",)
    words = ["--architecture", "mlp", "--steps", 2, "--batch", 4, "--latents", 2, "--quiet"]
    assert run("train", "--dataset", "mine.npz", *words) == 0
    config = (place / "runs" / "mine-beta-vae-1" / "run.toml").read_text()
    assert f'dataset = "{place / "mine.npz"}"' in config


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("mnist", "mnist is the name of a dataset of the catalog: choose another name"),
        ("a.h5", "expected a name, or a path that ends in .npz, but got a.h5"),
        ("a/b", "expected a name, or a path that ends in .npz, but got a/b"),
        ("taken.npz", "taken.npz exists and is not overwritten: choose a new name or path"),
    ],
)
def test_imports_that_cannot_be_are_refused(out, message, folder, place, capsys):
    (place / "taken.npz").write_text("precious")
    assert run("data", "import", folder, out) == 2
    assert message in capsys.readouterr().err
    assert (place / "taken.npz").read_text() == "precious"


def test_a_name_is_imported_once(folder, capsys):
    assert run("data", "import", folder, "shots2") == 0
    assert run("data", "import", folder, "shots2") == 2
    assert "exists and is not overwritten" in capsys.readouterr().err


def test_check_of_own_data_and_of_drawn_sets(folder, place, capsys):
    assert run("data", "check", folder) == 0
    assert "shots is your own data\n" in capsys.readouterr().out
    assert run("data", "check", "circles", "--set", "samples=30") == 0
    assert "30 vectors of 2, all usable" in capsys.readouterr().out
    np.savez(place / "bad.npz", vectors=np.array([[1.0], [np.inf]]))
    assert run("data", "check", "bad.npz") == 2
    assert "row 1 holds a NaN or an infinity" in capsys.readouterr().err


def test_check_knows_published_files_by_their_names(place, capsys):
    (place / "3dshapes.h5").write_text("text")
    assert run("data", "check", "3dshapes.h5") == 2
    assert "shapes3d: " in (said := capsys.readouterr().err)
    assert "it is not a whole HDF5 file" in said
    (place / "train-images-idx3-ubyte.gz").write_text("text")
    assert run("data", "check", "train-images-idx3-ubyte.gz") == 2
    said = capsys.readouterr().err
    assert "may belong to fashion_mnist or kmnist or mnist: say which with --as NAME" in said
    assert run("data", "check", place, "--as", "mnist") == 2
    assert "train-images-idx3-ubyte.gz: it is not a whole gzip file" in capsys.readouterr().err


def test_describe_of_a_missing_dataset_says_what_it_is_and_what_to_do(capsys):
    assert run("data", "describe", "shapes3d") == 2
    told = capsys.readouterr()
    assert "480,000 color images of a solid" in told.out
    assert "3dshapes.h5 is missing: put it at" in told.err
    assert "its twin 'shapes3d_twin' needs no file" in told.err


def test_list_says_how_each_dataset_can_be_had(capsys):
    assert run("data", "list") == 0
    shown = capsys.readouterr().out
    assert "dsprites           │ real, missing │ dSprites, real file" in shown
    assert "sprites            │ twin, drawn" in shown
    assert "path= download=" in shown


@pytest.mark.parametrize("command", ["check", "import"])
def test_every_option_has_its_help(command, capsys):
    with pytest.raises(SystemExit) as stop:
        run("data", command, "--help")
    assert stop.value.code == 0
    assert "Args:" not in capsys.readouterr().out
