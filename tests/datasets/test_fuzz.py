"""Files changed at random: each is refused in one sentence, or gives what the whole one gives."""

import gzip

import numpy as np
import pytest
from real_files import (
    SMALL_CARS,
    SMALL_DIGITS,
    SMALL_FACES,
    SMALL_PORTRAITS,
    SMALL_ROBOT,
    SMALL_SHAPES,
    SMALL_SPRITES,
    car_meshes,
    digit_arrays,
    face_images,
    portraits,
    robot_images,
    shape_arrays,
    sprite_arrays,
    write_cars,
    write_digits,
    write_h5,
    write_portraits,
    write_sprites_npz,
    write_torch_legacy,
    write_torch_zip,
)

from untwist.datasets import load
from untwist.datasets.cars3d import open_cars3d
from untwist.datasets.celeba import open_celeba
from untwist.datasets.dsprites import open_dsprites
from untwist.datasets.faces import open_faces
from untwist.datasets.found_file import Access
from untwist.datasets.idx import open_digits
from untwist.datasets.mpi3d import open_mpi3d
from untwist.datasets.shapes3d import open_shapes3d
from untwist.types import InputError

TRIES = 25


def digits(path):
    """The small MNIST whose training images are at this path."""
    return open_digits(SMALL_DIGITS, Access(str(path.parent)), split="train", size=10)


def write_digit_folder(path):
    """The four files of a small MNIST; the one at this path among them."""
    write_digits(path.parent, digit_arrays())
    return path


def write_npz(path, *, compress):
    """A small MPI3D."""
    (np.savez_compressed if compress else np.savez)(path, images=robot_images())
    return path


def write_own(path):
    """An archive of somebody's own."""
    np.savez(path, images=robot_images()[:20], names=["a"], factors=np.arange(20)[:, None])
    return path


ROBOT = SMALL_ROBOT.file.name
FORMATS = {
    "sprites": (
        "sprites.npz",
        lambda path: write_sprites_npz(path, sprite_arrays()),
        lambda path: open_dsprites(SMALL_SPRITES, Access(str(path))),
    ),
    "h5 in chunks": (
        "3dshapes.h5",
        lambda path: write_h5(path, shape_arrays()),
        lambda path: open_shapes3d(SMALL_SHAPES, Access(str(path))),
    ),
    "npz": (
        ROBOT,
        lambda path: write_npz(path, compress=True),
        lambda path: open_mpi3d(SMALL_ROBOT, Access(str(path))),
    ),
    "plain npz": (
        ROBOT,
        lambda path: write_npz(path, compress=False),
        lambda path: open_mpi3d(SMALL_ROBOT, Access(str(path))),
    ),
    "tar.gz": (
        "cars.tar.gz",
        lambda path: write_cars(path, *car_meshes()),
        lambda path: open_cars3d(SMALL_CARS, Access(str(path)), size=16),
    ),
    "idx.gz": ("digits/train-images-idx3-ubyte.gz", write_digit_folder, digits),
    "zip of pictures": (
        "img_align_celeba.zip",
        lambda path: write_portraits(path, portraits()),
        lambda path: open_celeba(SMALL_PORTRAITS, Access(str(path)), size=10, crop=20),
    ),
    "own npz": ("mine.npz", write_own, lambda path: load(str(path))),
}
HEADS = {
    "torch zip": (
        "basel_face_renders.pth",
        lambda path: write_torch_zip(path, face_images()),
        lambda path: open_faces(SMALL_FACES, Access(str(path))),
    ),
    "torch legacy": (
        "basel_face_renders.pth",
        lambda path: write_torch_legacy(path, face_images()),
        lambda path: open_faces(SMALL_FACES, Access(str(path))),
    ),
    "h5 head": FORMATS["h5 in chunks"],
    "npz head": FORMATS["npz"],
}


def fresh(path, content, cache):
    """Puts a changed file in place of the one before, with nothing known of either."""
    path.write_bytes(content)
    for record in sorted(cache.rglob("*")):
        if record.is_file():
            record.unlink()


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_with_changed_bytes_is_refused_or_the_same(name, tmp_path, cache):
    file, write, read = FORMATS[name]
    path = write(tmp_path / file)
    good, random = path.read_bytes(), np.random.default_rng(0)
    expected = read(path).checksum()
    refused, kept = 0, []
    for _ in range(TRIES):
        content = bytearray(good)
        for place in random.integers(len(content), size=random.integers(1, 9)):
            content[place] = random.integers(256)
        fresh(path, bytes(content), cache)
        try:
            assert read(path).checksum() == expected
        except InputError:
            refused += 1
            kept += list(cache.rglob("*.npy"))
    assert refused > TRIES / 4
    assert kept == []


@pytest.mark.parametrize("name", HEADS)
def test_a_changed_head_raises_nothing_but_a_refusal(name, tmp_path, cache):
    file, write, read = HEADS[name]
    path = write(tmp_path / file)
    good, random = path.read_bytes(), np.random.default_rng(1)
    refused = 0
    for _ in range(TRIES):
        content = bytearray(good)
        for place in random.integers(500, size=3):
            content[place] = random.integers(256)
        fresh(path, bytes(content), cache)
        try:
            assert read(path).data.shape
        except InputError:
            refused += 1
    assert refused > TRIES / 4


def test_a_gzip_of_anything_is_no_idx_file(tmp_path, cache):
    path = write_digit_folder(tmp_path / "digits/train-images-idx3-ubyte.gz")
    random = np.random.default_rng(2)
    for size in range(40):
        fresh(path, gzip.compress(random.bytes(size)), cache)
        with pytest.raises(InputError, match="train-images-idx3-ubyte.gz"):
            digits(path)
