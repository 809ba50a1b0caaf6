"""MNIST and its kin out of small files, whole and damaged, and out of the real files if here."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from damage import assign, cut, repeat_last, shuffle, take
from real_files import SMALL_DIGITS, digit_arrays, idx_bytes, write_digits

from untwist.datasets import load
from untwist.datasets.found_file import Access
from untwist.datasets.idx import open_digits
from untwist.datasets.published_file import IDX_NAMES
from untwist.types import InputError

ARRAYS = digit_arrays()
IMAGES, LABELS = ("train", "images"), ("train", "labels")
REAL = Path(os.environ.get("UNTWIST_TEST_DATA", Path(__file__).parents[3] / "shared" / "data"))


def opened(folder, split="train", **options):
    """The small dataset in a folder."""
    return open_digits(SMALL_DIGITS, Access(str(folder)), split=split, **{"size": 10, **options})


@pytest.mark.parametrize("plain", [False, True])
def test_whole_files_read_back(plain, tmp_path):
    folder = write_digits(tmp_path / "digits", ARRAYS, plain=plain)
    for split in ("train", "test"):
        dataset = opened(folder, split)
        np.testing.assert_array_equal(dataset.data[..., 0], ARRAYS[split, "images"])
        np.testing.assert_array_equal(dataset.factors[:, 0], ARRAYS[split, "labels"])
        assert dataset.provenance["split"] == split
        assert dataset.space.sizes == (3,)
    both = opened(folder, "both")
    assert len(both) == 27
    np.testing.assert_array_equal(both.data[18:, ..., 0], ARRAYS["test", "images"])
    assert both.provenance["twin"] is False


def test_other_sizes_are_resized(tmp_path):
    dataset = opened(write_digits(tmp_path / "digits", ARRAYS), size=16)
    assert dataset.shape == (16, 16, 1)
    assert abs(dataset.data.mean() - ARRAYS[IMAGES].mean()) < 5


def test_files_loaded_once_by_path_are_found_by_name(tmp_path):
    folder = write_digits(tmp_path / "digits", ARRAYS, plain=True)
    first = opened(folder)
    again = open_digits(SMALL_DIGITS, Access(), split="train", size=10)
    assert again.checksum() == first.checksum()
    for path in folder.iterdir():
        path.unlink()
    with pytest.raises(InputError, match="train-images-idx3-ubyte.gz is missing: put it at"):
        open_digits(SMALL_DIGITS, Access(), split="train", size=10)


DAMAGED = {
    "images too few": (IMAGES, take(slice(17)), "18 rows of 'images', but got 17, so some are mis"),
    "images too many": (IMAGES, repeat_last, "18 rows of 'images', but got 19, so some are too"),
    "labels too few": (LABELS, take(slice(3)), "18 rows of 'labels', but got 3"),
    "labels too many": (LABELS, repeat_last, "18 rows of 'labels', but got 19"),
    "labels off by one": (LABELS, lambda a: a + 1, "label from 0 to 2, but got values from 1 to 3"),
    "labels turned round": (LABELS, lambda a: (a + 1) % 3, "6 of label 1 instead of 6|number of"),
    "one label wrong": (LABELS, assign(5, 2), "the known number of examples of each label"),
    "shuffled labels": (LABELS, lambda a: a[::-1].copy(), r"labels that begin with \(2, 0, 1\)"),
    "a label of 200": (LABELS, assign(4, 200), "label from 0 to 2, but got values from 0 to 200"),
    "all labels zero": (LABELS, np.zeros_like, "values from 0 to 0"),
    "all images zero": (IMAGES, np.zeros_like, "no blank image, but got image 0 without a stroke"),
    "one image zero": (IMAGES, assign(11, 0), "image 11 without a stroke"),
    "inverted": (IMAGES, lambda a: 255 - a, "bright strokes on a dark ground, but got corners"),
    "another size": (IMAGES, lambda a: a[:, :8, :8].copy(), r"got \(18, 8, 8\)"),
    "labels as images": (
        LABELS,
        lambda a: a[:, None, None],
        "begins with 00000801, but got",
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_arrays_are_refused(name, tmp_path, nothing_kept):
    part, change, message = DAMAGED[name]
    arrays = {**ARRAYS, part: change(ARRAYS[part].copy())}
    with pytest.raises(InputError, match=message):
        opened(write_digits(tmp_path / "digits", arrays))


def bad_bytes(part):
    """Contents of a file that are no idx file of that part, with what is said of each."""
    good = idx_bytes(ARRAYS[part])
    begins = good[:4].hex()
    return {
        "wrong magic": (
            gzip.compress(b"\x00\x00\x08\x09" + good[4:]),
            f"begins with {begins}",
        ),
        "whole numbers": (gzip.compress(b"\x00\x00\x0c" + good[3:]), f"begins with {begins}"),
        "swapped ends": (gzip.compress(good[3::-1] + good[4:]), f"begins with {begins}, but got"),
        "nothing inside": (gzip.compress(b""), f"begins with {begins}, but got"),
        "half a header": (gzip.compress(good[:6]), "ends within its header, after 6 bytes"),
        "cut inside": (gzip.compress(good[:-1]), "bytes behind the header, but got"),
        "more inside": (gzip.compress(good + b"x"), "bytes behind the header, but got"),
        "not gzip": (good, "not a whole gzip file"),
        "a page of text": (b"<html>404</html>", "not a whole gzip file"),
        "empty": (b"", "expected an idx file|not a whole gzip file|empty"),
        "changed inside": (gzip.compress(good)[:-6] + b"123456", "not a whole gzip file"),
    }


@pytest.mark.parametrize("part", [IMAGES, LABELS])
@pytest.mark.parametrize("name", bad_bytes(IMAGES))
def test_damaged_files_are_refused(part, name, tmp_path, nothing_kept):
    folder = write_digits(tmp_path / "digits", ARRAYS)
    content, message = bad_bytes(part)[name]
    (folder / IDX_NAMES[part]).write_bytes(content)
    with pytest.raises(InputError, match=message):
        opened(folder)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
def test_cut_off_files_are_refused(share, tmp_path, nothing_kept):
    folder = write_digits(tmp_path / "digits", ARRAYS)
    cut(folder / IDX_NAMES[IMAGES], share)
    with pytest.raises(InputError, match="not a whole gzip file"):
        opened(folder)


def test_wrong_requests_are_refused(tmp_path):
    folder = write_digits(tmp_path / "digits", ARRAYS)
    with pytest.raises(InputError, match="unknown split of mnist 'tets': did you mean 'test'"):
        opened(folder, "tets")
    with pytest.raises(InputError, match="a size from 8 to 256 pixels, but got size=4"):
        opened(folder, size=4)


def test_one_file_of_several_is_not_enough(tmp_path):
    folder = write_digits(tmp_path / "digits", ARRAYS)
    with pytest.raises(InputError, match=f"expected the directory .*: say path={folder}"):
        opened(folder / IDX_NAMES[IMAGES])


def test_shuffled_images_of_a_recorded_file_are_refused(tmp_path):
    opened(write_digits(tmp_path / "digits", ARRAYS))
    other = write_digits(tmp_path / "other", {**ARRAYS, IMAGES: shuffle(ARRAYS[IMAGES])})
    with pytest.raises(InputError, match="it is not the file that was loaded first: expected sha"):
        opened(other)


@pytest.mark.skipif(not REAL.is_dir(), reason=f"no real files at {REAL} (UNTWIST_TEST_DATA)")
@pytest.mark.parametrize(
    ("name", "folder", "mean"),
    [("mnist", "mnist", 33.79), ("fashion_mnist", "fashion-mnist", 73.15)],
)
def test_the_real_files_load(name, folder, mean):
    dataset = load(name, path=str(REAL / folder), split="test")
    assert dataset.data.shape == (10_000, 28, 28, 1)
    assert dataset.provenance["confirmed by"] == "the published sha256 of its content"
    assert dataset.data.mean() == pytest.approx(mean, abs=0.5)
    with pytest.raises(InputError, match="the published checksum|18 rows|expected"):
        load("kmnist", path=str(REAL / folder), split="test")


@pytest.mark.skipif(not REAL.is_dir(), reason=f"no real files at {REAL} (UNTWIST_TEST_DATA)")
def test_real_files_under_another_name_are_refused():
    with pytest.raises(InputError, match="the known number of examples of each label"):
        load("mnist", path=str(REAL / "fashion-mnist"), split="test", unverified=True)
    with pytest.raises(InputError, match="labels that begin with|number of examples"):
        load("fashion_mnist", path=str(REAL / "mnist"), split="test", unverified=True)
