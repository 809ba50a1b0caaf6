"""Shapes3D, MPI3D and faces out of small files, whole and damaged."""

import h5py
import numpy as np
import pytest
from damage import assign, cut, repeat_last, shuffle, swap, take
from real_files import (
    SMALL_FACES,
    SMALL_ROBOT,
    SMALL_SHAPES,
    face_images,
    robot_images,
    shape_arrays,
    write_h5,
    write_torch_legacy,
    write_torch_zip,
)

from untwist.datasets import faces as faces_module
from untwist.datasets import mpi3d, shapes3d
from untwist.datasets.faces import open_faces
from untwist.datasets.found_file import Access
from untwist.datasets.mpi3d import open_mpi3d
from untwist.datasets.shapes3d import open_shapes3d
from untwist.types import InputError

SHAPES = shape_arrays()
ROBOT = robot_images()
FACES = face_images()
COUNT = len(SHAPES["images"])


def with_shapes(name, change):
    """The arrays of Shapes3D, one of them changed."""
    return {**SHAPES, name: change(SHAPES[name].copy())}


DAMAGED_SHAPES = {
    "too few": ({k: a[:-1] for k, a in SHAPES.items()}, f"{COUNT} rows of 'images', but got"),
    "too many": ({k: repeat_last(a) for k, a in SHAPES.items()}, "so some are too many"),
    "labels too few": (with_shapes("labels", take(slice(1, None))), "rows of 'labels', but got"),
    "shuffled": ({k: shuffle(a) for k, a in SHAPES.items()}, "but they are shuffled: row 0"),
    "shuffled labels": (with_shapes("labels", shuffle), "in grid order, but they are shuffled"),
    "shuffled images": (with_shapes("images", shuffle), "neighbors that differ like random"),
    "swapped hues": (with_shapes("labels", swap(3, 4)), "factors scale and shape are swapped"),
    "floor is wall": (
        with_shapes("images", lambda a: a[:, ::-1]),
        "floor_hue to color the lowest row of pixels",
    ),
    "wrong dtype": (with_shapes("images", lambda a: a / 255), "'images' as uint8, but got float64"),
    "whole labels": (with_shapes("labels", lambda a: a.astype(int)), "'labels' as float64 or"),
    "gray": (with_shapes("images", lambda a: a[..., :1]), r"of shape .*, 12, 12, 3\), but got"),
    "all zeros": (with_shapes("images", np.zeros_like), "image 0 is blank"),
    "one blank": (with_shapes("images", assign(100, 7)), "image 100 is blank"),
    "repeated labels": (with_shapes("labels", assign(9, SHAPES["labels"][8])), "are the same"),
    "repeated image": (
        with_shapes("images", assign(9, SHAPES["images"][8])),
        "distinct images, but got 1 that repeat another, such as images 8 and 9",
    ),
    "one hue too many": (with_shapes("labels", assign((0, 0), 0.95)), "3 values of floor_hue, but"),
    "NaN": (with_shapes("labels", assign((4, 5), np.nan)), "finite orientation, but got NaN"),
    "no labels": ({"images": SHAPES["images"]}, "named 'labels', but the file holds images"),
    "renamed": ({"imgs": SHAPES["images"], **SHAPES}, None),
    "no images": ({"labels": SHAPES["labels"]}, "named 'images', but the file holds labels"),
}


@pytest.mark.parametrize("chunks", [True, False])
def test_shapes3d_reads_back(chunks, tmp_path, cache):
    path = write_h5(tmp_path / "3dshapes.h5", SHAPES, chunks=chunks)
    dataset = open_shapes3d(SMALL_SHAPES, Access(str(path)))
    np.testing.assert_array_equal(dataset.data, SHAPES["images"])
    assert dataset.has_full_grid
    assert isinstance(dataset.data, np.memmap)
    assert str(dataset.data.filename) == str(path) or chunks
    assert bool(list(cache.rglob("*.npy"))) == chunks
    again = open_shapes3d(SMALL_SHAPES, Access(str(path)))
    assert again.checksum() == dataset.checksum()


@pytest.mark.parametrize("chunks", [True, False])
@pytest.mark.parametrize("name", [name for name, (_, message) in DAMAGED_SHAPES.items() if message])
def test_a_damaged_shapes3d_is_refused(chunks, name, tmp_path, nothing_kept):
    arrays, message = DAMAGED_SHAPES[name]
    path = write_h5(tmp_path / "3dshapes.h5", arrays, chunks=chunks)
    with pytest.raises(InputError, match=message):
        open_shapes3d(SMALL_SHAPES, Access(str(path)))


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_a_cut_off_shapes3d_is_refused(share, tmp_path, nothing_kept):
    path = cut(write_h5(tmp_path / "3dshapes.h5", SHAPES), share)
    with pytest.raises(InputError, match="not a whole HDF5 file|the file is empty"):
        open_shapes3d(SMALL_SHAPES, Access(str(path)))


def test_a_damaged_chunk_is_refused(tmp_path, nothing_kept):
    path = write_h5(tmp_path / "3dshapes.h5", SHAPES)
    with h5py.File(path) as file:
        chunk = file["images"].id.get_chunk_info(20)
    content = bytearray(path.read_bytes())
    content[chunk.byte_offset : chunk.byte_offset + chunk.size] = bytes(chunk.size)
    path.write_bytes(bytes(content))
    with pytest.raises(InputError, match="'images' cannot be read from row 0 on"):
        open_shapes3d(SMALL_SHAPES, Access(str(path)))


STILL = np.repeat(ROBOT.reshape(-1, 3, 90, 12, 12, 3)[:, :1], 3, 1).reshape(ROBOT.shape)
JUMPS = np.random.default_rng(1).permutation(30)
JUMPING = ROBOT.reshape(72, 30, 12, 12, 3)[:, JUMPS].reshape(ROBOT.shape)

DAMAGED_ROBOT = {
    "too few": ({"images": ROBOT[:-1]}, "2,160 rows of 'images', but got 2,159, so some are miss"),
    "too many": ({"images": repeat_last(ROBOT)}, "but got 2,161, so some are too many"),
    "shuffled": ({"images": shuffle(ROBOT)}, "neighbors that differ like random images"),
    "another order": (
        {"images": ROBOT.reshape(2, -1, 12, 12, 3).swapaxes(0, 1).reshape(ROBOT.shape)},
        "images that change",
    ),
    "wrong dtype": ({"images": ROBOT.astype(np.float32)}, "'images' as uint8, but got float32"),
    "channels first": ({"images": np.moveaxis(ROBOT, -1, 1)}, r"but got \(2160, 3, 12, 12\)"),
    "grid of images": ({"images": ROBOT.reshape(2, -1, 12, 12, 3)}, r"but got \(2, 1080, 12, "),
    "all zeros": ({"images": np.zeros_like(ROBOT)}, "image 0 is blank"),
    "one blank": ({"images": assign(5, 9)(ROBOT.copy())}, "image 5 is blank"),
    "one image": ({"images": np.broadcast_to(ROBOT[:1], ROBOT.shape)}, "the same image for 100%"),
    "camera that is still": (
        {"images": STILL},
        "image for 100% of the steps of camera_height",
    ),
    "arms that jump": ({"images": JUMPING}, "change gradually with"),
    "renamed": ({"imgs": ROBOT}, "named 'images', but the archive holds imgs"),
    "pickled": ({"images": np.array([{}], dtype=object)}, "pickled Python objects, which are nev"),
    "the other variant": (
        {"images": np.zeros((1_036_800, 1, 1, 1), np.uint8)},
        "the 1,036,800 of the other variant of MPI3D, with the grid 6×6×2×3×3×40×40",
    ),
}


@pytest.mark.parametrize("compress", [True, False])
def test_mpi3d_reads_back(compress, tmp_path, cache):
    path = tmp_path / SMALL_ROBOT.file.name
    (np.savez_compressed if compress else np.savez)(path, images=ROBOT)
    dataset = open_mpi3d(SMALL_ROBOT, Access(str(path)))
    np.testing.assert_array_equal(dataset.data, ROBOT)
    assert isinstance(dataset.data, np.memmap)
    assert dataset.provenance["confirmed by"] == "the checksum recorded at its first load"
    assert bool(list(cache.rglob("*.npy"))) == compress
    again = open_mpi3d(SMALL_ROBOT, Access(str(path)))
    assert again.checksum() == dataset.checksum()


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("name", DAMAGED_ROBOT)
def test_a_damaged_mpi3d_is_refused(compress, name, tmp_path, nothing_kept):
    arrays, message = DAMAGED_ROBOT[name]
    path = tmp_path / SMALL_ROBOT.file.name
    (np.savez_compressed if compress else np.savez)(path, **arrays)
    with pytest.raises(InputError, match=message):
        open_mpi3d(SMALL_ROBOT, Access(str(path)))


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_cut_off_mpi3d_is_refused(compress, share, tmp_path, nothing_kept):
    path = tmp_path / SMALL_ROBOT.file.name
    (np.savez_compressed if compress else np.savez)(path, images=ROBOT)
    with pytest.raises(InputError, match="not a whole .npz archive|the file is empty"):
        open_mpi3d(SMALL_ROBOT, Access(str(cut(path, share))))


def test_a_changed_byte_of_a_plain_mpi3d_is_refused(tmp_path, nothing_kept):
    path = tmp_path / SMALL_ROBOT.file.name
    np.savez(path, images=ROBOT)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(InputError, match="'images' cannot be read .Bad CRC-32"):
        open_mpi3d(SMALL_ROBOT, Access(str(path)))


TORCH = {"zip": write_torch_zip, "legacy": write_torch_legacy}

DAMAGED_FACES = {
    "too few": (FACES[:-1], "240 images of 8×8, but got a tensor of shape"),
    "too many": (repeat_last(FACES), "240 images of 8×8, but got a tensor of shape"),
    "shuffled": (shuffle(FACES), "neighbors that differ like random images"),
    "another size": (FACES.reshape(-1, 1, 4, 16), "of 8×8, but got a tensor of shape"),
    "flat": (FACES.reshape(-1), "240 images of 8×8, but got a tensor of shape"),
    "all zeros": (np.zeros_like(FACES), "image 0 is blank"),
    "one blank": (assign(3, 0)(FACES.copy()), "image 3 is blank"),
    "lighting that is still": (
        np.repeat(FACES.reshape(60, 4, 1, 8, 8)[:, :1], 4, 1).reshape(FACES.shape),
        "the same image for 100% of the steps of lighting",
    ),
    "one identity": (
        np.tile(FACES[:80], (3, 1, 1, 1)),
        "the same image for 100% of the steps of identity",
    ),
    "dealt like cards": (FACES[np.arange(240) * 37 % 240], "neighbors that differ like random"),
}


@pytest.mark.parametrize("layout", TORCH)
def test_faces_read_back_where_they_lie(layout, tmp_path, cache):
    path = TORCH[layout](tmp_path / "basel_face_renders.pth", FACES)
    dataset = open_faces(SMALL_FACES, Access(str(path)))
    np.testing.assert_array_equal(dataset.data, FACES.reshape(-1, 8, 8, 1))
    assert not list(cache.rglob("*.npy"))
    again = open_faces(SMALL_FACES, Access())
    assert again.checksum() == dataset.checksum()
    assert again.provenance == dataset.provenance


@pytest.mark.parametrize("layout", TORCH)
@pytest.mark.parametrize("name", DAMAGED_FACES)
def test_damaged_faces_are_refused(layout, name, tmp_path, nothing_kept):
    array, message = DAMAGED_FACES[name]
    path = TORCH[layout](tmp_path / "basel_face_renders.pth", array)
    with pytest.raises(InputError, match=message):
        open_faces(SMALL_FACES, Access(str(path)))


@pytest.mark.parametrize("layout", TORCH)
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_cut_off_faces_are_refused(layout, share, tmp_path, nothing_kept):
    path = cut(TORCH[layout](tmp_path / "basel_face_renders.pth", FACES), share)
    with pytest.raises(InputError, match="pickle|cut off|expected|the file is empty"):
        open_faces(SMALL_FACES, Access(str(path)))


def test_the_layouts_are_those_of_the_published_files():
    assert shapes3d.LAYOUT.grid.array == (480_000, 64, 64, 3)
    assert mpi3d.REAL.grid.array == (1_036_800, 64, 64, 3)
    assert mpi3d.COMPLEX.grid.array == (460_800, 64, 64, 3)
    assert faces_module.LAYOUT.grid.array == (127_050, 64, 64, 1)
