"""Sheets: the tiles are where they belong, the file is whole or as it was."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from untwist.report import contact_sheet, scatter_sheet, traversal_sheet
from untwist.types import InputError


def colors(path, wanted):
    """The pixels of a PNG that show one color, as rows and columns."""
    pixels = np.asarray(Image.open(path).convert("RGB")).astype(int)
    return np.argwhere((np.abs(pixels - wanted) <= 2).all(-1))


def test_contact_sheet_shows_images_in_reading_order(tmp_path):
    images = np.zeros((4, 8, 8, 3), np.float32)
    images[[0, 1, 2], :, :, [0, 1, 2]] = 1.0
    images[3] = 1.0
    contact_sheet(images, tmp_path / "a.png", columns=2)
    red, green, blue = (
        colors(tmp_path / "a.png", 255 * np.eye(3, dtype=int)[i]).mean(0) for i in range(3)
    )
    assert green[1] > red[1] + 20
    assert abs(green[0] - red[0]) < 1
    assert blue[0] > red[0] + 20
    assert abs(blue[1] - red[1]) < 1


def test_contact_sheet_takes_a_number_that_fills_no_rectangle(tmp_path):
    contact_sheet(np.zeros((3, 8, 8, 1), np.float32), tmp_path / "a.png")
    assert len(colors(tmp_path / "a.png", [128, 128, 128])) > 1000


def test_traversal_sheet_has_a_row_for_each_factor(tmp_path):
    rows = [np.zeros((2, 8, 8, 3), np.float32), np.zeros((4, 8, 8, 3), np.float32)]
    rows[0][..., 0] = 1.0
    rows[1][..., 2] = 1.0
    traversal_sheet(rows, tmp_path / "a.png", names=["first", "second"])
    red, blue = (colors(tmp_path / "a.png", 255 * np.eye(3, dtype=int)[i]) for i in (0, 2))
    assert len(blue) == pytest.approx(2 * len(red), rel=0.1)
    assert red[:, 0].max() < blue[:, 0].min()


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_scatter_sheet_draws_points_of_any_dimension(axes, tmp_path):
    random = np.random.default_rng(0).random((500, 3), dtype=np.float32)
    scatter_sheet(random[:, :axes], random[:, 2:], tmp_path / "a.png", names=["w"], title="t")
    # Both ends of viridis.
    assert len(colors(tmp_path / "a.png", [68, 1, 84]))
    assert len(colors(tmp_path / "a.png", [253, 231, 37]))


def test_the_same_sheet_is_the_same_file(tmp_path):
    images = np.random.default_rng(0).random((4, 8, 8, 1), dtype=np.float32)
    for name in ("a.png", "b.png"):
        contact_sheet(images, tmp_path / name, title="title")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    def fail(self, path, **options):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    (tmp_path / "a.png").write_bytes(b"old")
    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(InputError, match=r"cannot write .*a\.png: No space left on device"):
        contact_sheet(np.zeros((1, 8, 8, 1), np.float32), tmp_path / "a.png")
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]
    assert (tmp_path / "a.png").read_bytes() == b"old"


def test_a_folder_that_does_not_exist_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match="cannot write .* No such file or directory; choose"):
        contact_sheet(np.zeros((1, 8, 8, 1), np.float32), tmp_path / "none" / "a.png")


def test_images_of_two_channels_are_refused(tmp_path):
    with pytest.raises(InputError, match="gray or color images, but got 2 channels"):
        contact_sheet(np.zeros((1, 8, 8, 2), np.float32), tmp_path / "a.png")
