"""Exports read back, with numpy and as pictures, to what was exported."""

import csv
import json

import numpy as np
import pytest
from PIL import Image

from untwist.datasets import export, export_dataset, linear, sprites
from untwist.types import InputError

SMALL = {"size": 16, "scales": 2, "orientations": 3, "positions": 2}


@pytest.mark.parametrize("bits", [True, False])
def test_archive_of_images_reads_back(bits, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "BLOCK", 7)
    dataset = sprites(**SMALL, bits=bits)
    written = []
    export_dataset(dataset, tmp_path / "a.npz", report=written.append)
    assert sum(written) == len(dataset) == 72
    assert max(written) == 7
    with np.load(tmp_path / "a.npz", allow_pickle=False) as archive:
        assert archive["images"].dtype == np.uint8
        np.testing.assert_array_equal(archive["images"], dataset.examples(slice(None)))
        np.testing.assert_array_equal(archive["factors"], dataset.factors)
        assert archive["names"].tolist() == ["shape", "scale", "orientation", "posX", "posY"]
        assert archive["sizes"].tolist() == [3, 2, 3, 2, 2]
        assert archive["peak"] == 1
        assert json.loads(str(archive["provenance"]))["twin"] is True


def test_archive_of_vectors_reads_back(tmp_path):
    dataset = linear(samples=30)
    export_dataset(dataset, tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz", allow_pickle=False) as archive:
        np.testing.assert_array_equal(archive["vectors"], dataset.data)
        assert archive["sizes"].tolist() == [0, 0]
        assert archive["kinds"].tolist() == ["continuous", "continuous"]


def test_folder_of_pictures_reads_back(tmp_path):
    dataset = sprites(**SMALL)
    export_dataset(dataset, tmp_path / "pictures")
    images = np.stack(
        [np.asarray(Image.open(p)) for p in sorted((tmp_path / "pictures").glob("*.png"))]
    )
    np.testing.assert_array_equal(images, 255 * dataset.examples(slice(None))[..., 0])
    with (tmp_path / "pictures" / "factors.csv").open() as file:
        header, *rows = csv.reader(file)
    assert header == ["image", *dataset.space.names]
    assert rows[70] == ["70.png", "2", "1", "2", "1", "0"]
    provenance = json.loads((tmp_path / "pictures" / "provenance.json").read_text())
    assert provenance == dataset.provenance


@pytest.mark.parametrize("name", ["a.npz", "folder"])
def test_what_exists_stays(name, tmp_path):
    (tmp_path / name).write_text("precious")
    with pytest.raises(InputError, match="exists and is not overwritten: choose a new path"):
        export_dataset(sprites(**SMALL), tmp_path / name)
    assert (tmp_path / name).read_text() == "precious"


def test_a_failed_export_leaves_nothing(tmp_path):
    def fail(count):
        raise OSError(28, "No space left on device")

    with pytest.raises(InputError, match="No space left on device: choose a place with room"):
        export_dataset(sprites(**SMALL), tmp_path / "a.npz", report=fail)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("a.hdf5", r"ends in .npz, or a folder without an ending, but got .*a\.hdf5"),
        ("none/a.npz", "cannot write .* No such file or directory"),
        ("pictures", "linear holds vectors, which have no PNGs"),
    ],
)
def test_paths_that_cannot_be_are_refused(path, message, tmp_path):
    with pytest.raises(InputError, match=message):
        export_dataset(linear(samples=3), tmp_path / path)
