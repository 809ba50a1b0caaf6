"""dSprites out of small files of both formats, whole and damaged."""

import zipfile

import numpy as np
import pytest
from real_files import (
    SMALL_SPRITES,
    sprite_arrays,
    write_sprites_hdf5,
    write_sprites_npz,
)

from untwist.datasets.dsprites import LAYOUT, open_dsprites
from untwist.datasets.found_file import Access
from untwist.types import InputError

ARRAYS = sprite_arrays()


def changed(name, change):
    """The arrays, with one of them changed."""
    return {**ARRAYS, name: change(ARRAYS[name].copy())}


def assign(index, value):
    """A change that writes a value to some places."""

    def change(array):
        array[index] = value
        return array

    return change


def rows(order):
    """A change of the order of rows."""
    return lambda array: array[order]


def turn(images):
    """Images whose last orientation draws what the second draws."""
    turned = images.reshape(3, 2, 6, 16, 32, 32).copy()
    turned[:, :, -1] = turned[:, :, 1]
    return turned.reshape(images.shape)


SHUFFLED = np.random.default_rng(0).permutation(len(ARRAYS["imgs"]))
ALL_SHUFFLED = {name: array[SHUFFLED] for name, array in ARRAYS.items()}
SWAPPED = [0, 1, 2, 3, 5, 4]
SWAPPED_IMAGES = ARRAYS["imgs"].transpose(0, 2, 1)

DAMAGED = {
    "too few rows": ({k: a[:-1] for k, a in ARRAYS.items()}, "576 rows of .imgs., but got 575"),
    "extra rows": (
        {k: np.concatenate([a, a[:1]]) for k, a in ARRAYS.items()},
        "576 rows of 'imgs', but got 577, so some are too many",
    ),
    "shuffled rows": (ALL_SHUFFLED, "in grid order, but they are shuffled: row 0 holds"),
    "shuffled images": (changed("imgs", rows(SHUFFLED)), "neighbors that differ like random"),
    "swapped positions": (
        {**ARRAYS, "latents_classes": ARRAYS["latents_classes"][:, SWAPPED]},
        "the factors posX and posY are swapped",
    ),
    "images turned over": ({**ARRAYS, "imgs": SWAPPED_IMAGES}, "posX that moves the sprite"),
    "images from below": (changed("imgs", lambda a: a[:, ::-1]), "posY that moves the sprite down"),
    "wrong dtype": (changed("imgs", lambda a: a.astype(np.float32)), "'imgs' as uint8, but got fl"),
    "wrong shape": (changed("imgs", lambda a: a[:, :, :8]), r"got \(576, 32, 8\)"),
    "bytes of 255": (changed("imgs", lambda a: a * 255), "bytes 0 and 1, but got 255 in images 0"),
    "all zeros": (changed("imgs", np.zeros_like), "no blank image, but got image 0 blank"),
    "one blank": (changed("imgs", assign(9, 0)), "no blank image, but got image 9 blank"),
    "a repeated row": (
        changed("latents_classes", assign(7, ARRAYS["latents_classes"][3])),
        "rows 3 and 7 are the same",
    ),
    "a repeated image": (
        changed("imgs", assign(19, ARRAYS["imgs"][18])),
        "distinct images, but got .* that repeat another",
    ),
    "classes from one": (changed("latents_classes", lambda a: a + 1), "classes that count from 0"),
    "classes missing": (changed("latents_classes", assign(slice(None), 0)), "3 values of shape"),
    "values that fall": (changed("latents_values", lambda a: -a), "values that rise with the clas"),
    "a value of NaN": (
        changed("latents_values", assign((5, 2), np.nan)),
        "expected finite scale, but got NaN",
    ),
    "renamed key": (
        {("pictures" if k == "imgs" else k): a for k, a in ARRAYS.items()},
        "named 'imgs', but the .* holds",
    ),
    "no classes": (
        {k: a for k, a in ARRAYS.items() if k != "latents_classes"},
        "named 'latents.classes', but the .* holds",
    ),
    "another order of scales": (
        changed("imgs", lambda a: a.reshape(3, 2, -1, 32, 32)[:, ::-1].reshape(a.shape)),
        "areas that rise with scale",
    ),
    "orientation without its end": (
        changed("imgs", turn),
        "the same images at both ends of orientation",
    ),
}


WRITERS = {".npz": write_sprites_npz, ".hdf5": write_sprites_hdf5}


@pytest.mark.parametrize("ending", WRITERS)
def test_a_whole_file_reads_back(ending, tmp_path, cache):
    path = WRITERS[ending](tmp_path / f"sprites{ending}", ARRAYS)
    dataset = open_dsprites(SMALL_SPRITES, Access(str(path)))
    assert dataset.bits
    assert dataset.has_full_grid
    assert dataset.provenance["twin"] is False
    assert "the same images at both ends of orientation" in dataset.provenance["checks"]
    np.testing.assert_array_equal(dataset.examples(slice(None))[..., 0], ARRAYS["imgs"])
    np.testing.assert_array_equal(dataset.factors, ARRAYS["latents_classes"][:, 1:])
    assert isinstance(dataset.data, np.memmap)
    again = open_dsprites(SMALL_SPRITES, Access())
    assert again.checksum() == dataset.checksum()
    assert again.provenance == dataset.provenance


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_refused(ending, name, tmp_path, nothing_kept):
    arrays, message = DAMAGED[name]
    path = WRITERS[ending](tmp_path / f"sprites{ending}", arrays)
    with pytest.raises(InputError, match=message) as refusal:
        open_dsprites(SMALL_SPRITES, Access(str(path)))
    assert str(path) in str(refusal.value)


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_cut_off_file_is_refused(ending, share, tmp_path, nothing_kept):
    path = WRITERS[ending](tmp_path / f"sprites{ending}", ARRAYS)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(InputError, match="not a whole|cannot be read|damaged|cut off"):
        open_dsprites(SMALL_SPRITES, Access(str(path)))


def test_flipped_bytes_inside_an_archive_are_refused(tmp_path, nothing_kept):
    path = write_sprites_npz(tmp_path / "sprites.npz", ARRAYS, compress=False)
    with zipfile.ZipFile(path) as archive:
        start = archive.getinfo("imgs.npy").header_offset
    content = bytearray(path.read_bytes())
    content[start + 3000] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(InputError, match="'imgs' cannot be read .Bad CRC-32"):
        open_dsprites(SMALL_SPRITES, Access(str(path)))


def test_a_file_of_another_format_is_refused(tmp_path, nothing_kept):
    path = write_sprites_hdf5(tmp_path / "sprites.npz", ARRAYS)
    with pytest.raises(InputError, match="not a whole .npz archive"):
        open_dsprites(SMALL_SPRITES, Access(str(path)))
    path = write_sprites_npz(tmp_path / "sprites.hdf5.npz", ARRAYS)
    path = path.rename(tmp_path / "sprites.hdf5")
    with pytest.raises(InputError, match="not a whole HDF5 file"):
        open_dsprites(SMALL_SPRITES, Access(str(path)))


def test_the_cache_is_searched_for_either_format(cache):
    with pytest.raises(InputError, match=r"sprites.hdf5 is missing: put it at .*dsprites.sprites"):
        open_dsprites(SMALL_SPRITES, Access())
    (cache / "dsprites").mkdir(parents=True)
    write_sprites_npz(cache / "dsprites" / "sprites.npz", ARRAYS)
    assert open_dsprites(SMALL_SPRITES, Access()).provenance["files"] == "sprites.npz"
    write_sprites_hdf5(cache / "dsprites" / "sprites.hdf5", ARRAYS)
    assert open_dsprites(SMALL_SPRITES, Access()).provenance["files"] == "sprites.hdf5"


def test_the_layout_is_that_of_the_published_files():
    assert LAYOUT.grid.space.grid_size == 737_280
    assert LAYOUT.grid.names == ("shape", "scale", "orientation", "posX", "posY")
    assert LAYOUT.hdf5.size == 28_024_106
