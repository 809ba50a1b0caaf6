"""SmallNORB, Cars3D and CelebA out of small files, whole and damaged."""

import gzip
import io
import struct
import tarfile

import numpy as np
import pytest
from damage import assign, cut, shuffle, swap, take
from PIL import Image
from real_files import (
    SMALL_CARS,
    SMALL_PORTRAITS,
    SMALL_TOYS,
    attribute_text,
    car_meshes,
    jpeg,
    mesh_bytes,
    norb_bytes,
    portraits,
    toy_arrays,
    write_cars,
    write_portraits,
    write_toys,
)

from untwist.datasets.cars3d import LAYOUT as CARS
from untwist.datasets.cars3d import open_cars3d
from untwist.datasets.celeba import open_celeba
from untwist.datasets.found_file import Access
from untwist.datasets.smallnorb import LAYOUT as TOYS
from untwist.datasets.smallnorb import open_smallnorb
from untwist.types import InputError

NORB = toy_arrays()
DAT, CAT, INFO = (("train", part) for part in ("dat", "cat", "info"))


def toys(folder, split="both", camera="left", size=16):
    """The small SmallNORB in a folder."""
    return open_smallnorb(SMALL_TOYS, Access(str(folder)), split=split, camera=camera, size=size)


def test_smallnorb_reads_back(tmp_path):
    folder = write_toys(tmp_path / "norb", NORB)
    train = toys(folder, "train")
    assert train.space.sizes == (2, 2, 3, 4, 3)
    assert train.has_full_grid
    info, category = NORB[INFO], NORB[CAT]
    wanted = (category == 1) & (info == [7, 2, 6, 1]).all(1)
    point = train.space.index(np.array([[1, 1, 2, 3, 1]]))[0]
    np.testing.assert_array_equal(train.data[point, ..., 0], NORB[DAT][wanted][0, 0])
    right = toys(folder, "train", "right")
    np.testing.assert_array_equal(right.data[point, ..., 0], NORB[DAT][wanted][0, 1])
    both = toys(folder)
    assert both.space.sizes == (2, 4, 3, 4, 3)
    assert both.has_full_grid
    third = both.space.index(np.array([[1, 2, 2, 3, 1]]))[0]
    assert both.factors[third].tolist() == [1, 2, 2, 3, 1]
    np.testing.assert_array_equal(
        both.data[both.space.index(np.array([[1, 3, 2, 3, 1]]))[0]], train.data[point]
    )
    merged = toys(folder, "merged")
    assert merged.space.names == ("category", "elevation", "azimuth", "lighting")
    assert len(merged) == 4 * merged.space.grid_size
    assert not merged.has_full_grid
    small = toys(folder, "test", size=8)
    assert small.shape == (8, 8, 1)
    again = open_smallnorb(SMALL_TOYS, Access(), split="both", camera="left", size=16)
    assert again.checksum() == both.checksum()


def norb_info(change):
    """The small SmallNORB with other information in one split."""
    return {**NORB, INFO: change(NORB[INFO].copy())}


DAMAGED_TOYS = {
    "images too few": ({**NORB, DAT: NORB[DAT][:-1]}, "144 rows of 'dat', but got 143, so some"),
    "images too many": ({**NORB, DAT: np.concatenate([NORB[DAT]] * 2)}, "but got 288, so some"),
    "categories too few": ({**NORB, CAT: NORB[CAT][1:]}, "144 rows of 'cat', but got 143"),
    "infos too few": (norb_info(take(slice(9))), "144 rows of 'info', but got 9"),
    "one camera": ({**NORB, DAT: NORB[DAT][:, :1]}, r"but got \(144, 1, 16, 16\)"),
    "another size": ({**NORB, DAT: NORB[DAT][:, :, :8]}, r"but got \(144, 2, 8, 16\)"),
    "whole numbers as images": ({**NORB, DAT: NORB[DAT].astype(np.int32)}, "'dat' as uint8, but"),
    "bytes as infos": (norb_info(lambda a: a.astype(np.uint8)), "'info' as int32, but got uint8"),
    "the other split": (
        {**NORB, INFO: NORB["test", "info"]},
        r"the instances \(4, 7\) of the train split, but got \(1, 5\)",
    ),
    "shuffled images": ({**NORB, DAT: shuffle(NORB[DAT])}, "images that change|neighbors that"),
    "shuffled categories": ({**NORB, CAT: np.sort(NORB[CAT])[::-1]}, "each combination of factors"),
    "swapped columns": (norb_info(swap(1, 2)), "3 values of elevation, but got 4"),
    "azimuth by one": (
        norb_info(lambda a: a // np.array([1, 1, 2, 1], np.int32)),
        "azimuth that counts from 0 in st",
    ),
    "categories from one": ({**NORB, CAT: NORB[CAT] + 1}, "category that counts from 0 in steps"),
    "a repeated row": (norb_info(assign(0, NORB[INFO][1])), "each combination of factors once"),
    "an unknown elevation": (norb_info(assign((3, 1), 9)), "3 values of elevation, but got 4 from"),
    "all zeros": ({**NORB, DAT: np.zeros_like(NORB[DAT])}, "image 0 is blank"),
    "one blank": ({**NORB, DAT: assign(7, 0)(NORB[DAT].copy())}, "image 7 is blank"),
}


@pytest.mark.parametrize("name", DAMAGED_TOYS)
def test_damaged_smallnorb_is_refused(name, tmp_path, nothing_kept):
    arrays, message = DAMAGED_TOYS[name]
    with pytest.raises(InputError, match=message):
        toys(write_toys(tmp_path / "norb", arrays), "train")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (norb_bytes(NORB[CAT], magic=0x1E3D4C53), "begins with 0x1e3d4c55 or 0x1e3d4c54, but got"),
        (norb_bytes(NORB[CAT])[:3], "begins with .*, but got"),
        (norb_bytes(NORB[CAT])[:13], "ends within its header, after 13 bytes"),
        (norb_bytes(NORB[CAT])[:-2], "bytes behind the header for shape"),
        (norb_bytes(NORB[CAT]) + b"\0\0\0\0", "bytes behind the header for shape"),
        (struct.pack("<2i", 0x1E3D4C54, 9) + bytes(80), "1 to 4 dimensions, but got 9"),
        (struct.pack("<5i", 0x1E3D4C54, 1, -4, 1, 1), "bytes behind the header for shape"),
        (b"", "begins with .*, but got"),
    ],
)
def test_damaged_norb_files_are_refused(content, message, tmp_path, nothing_kept):
    folder = write_toys(tmp_path / "norb", NORB)
    (folder / SMALL_TOYS.files[CAT].name).write_bytes(gzip.compress(content))
    with pytest.raises(InputError, match=message):
        toys(folder, "train")
    (folder / SMALL_TOYS.files[CAT].name).write_bytes(content)
    with pytest.raises(InputError, match=f"not a whole gzip file|{message}"):
        toys(folder, "train")


def test_wrong_requests_of_smallnorb_are_refused(tmp_path):
    folder = write_toys(tmp_path / "norb", NORB)
    with pytest.raises(InputError, match="unknown split of smallnorb 'all'"):
        toys(folder, "all")
    with pytest.raises(
        InputError, match="unknown camera of smallnorb 'leftt': did you mean 'left'"
    ):
        toys(folder, camera="leftt")
    with pytest.raises(InputError, match="a size from 8 to 16 pixels, but got size=17"):
        toys(folder, size=17)


MESHES, NAMES = car_meshes()


def cars(path, size=16):
    """The small Cars3D at a path."""
    return open_cars3d(SMALL_CARS, Access(str(path)), size=size)


@pytest.mark.parametrize("ending", [False, True])
def test_cars3d_reads_back_in_the_order_of_its_list(ending, tmp_path, cache):
    names = [f"{name}.mat" for name in NAMES] if ending else NAMES
    dataset = cars(write_cars(tmp_path / "cars.tar.gz", MESHES, names))
    assert dataset.has_full_grid
    for elevation, azimuth, car in ((0, 0, 0), (1, 4, 2), (1, 0, 1)):
        point = dataset.space.index(np.array([[elevation, azimuth, car]]))[0]
        expected = MESHES[NAMES[car]][..., azimuth, elevation]
        np.testing.assert_array_equal(dataset.data[point], expected)
    again = open_cars3d(SMALL_CARS, Access(), size=16)
    assert again.checksum() == dataset.checksum()
    assert isinstance(again.data, np.memmap)
    assert cars(tmp_path / "cars.tar.gz", size=8).shape == (8, 8, 3)


def test_an_unpacked_archive_of_cars3d_serves_as_well(tmp_path):
    archive = write_cars(tmp_path / "cars.tar.gz", MESHES, NAMES)
    with tarfile.open(archive) as file:
        file.extractall(tmp_path / "out", filter="data")
    packed = cars(archive)
    for inside in ("", "data", "data/cars"):
        if (tmp_path / "out" / inside / "cars").exists() or inside != "":
            dataset = cars(tmp_path / "out" / inside)
            assert dataset.checksum() == packed.checksum()
    assert dataset.provenance["confirmed by"] == "its content"
    (tmp_path / "out/data/cars/car_001_mesh.mat").unlink()
    with pytest.raises(InputError, match="a .mat file of each car in the list, but got 2 f"):
        cars(tmp_path / "out/data/cars")


def with_car(change):
    """The meshes, the second one changed."""
    return {**MESHES, NAMES[1]: change(MESHES[NAMES[1]].copy())}


FEWER = {name: MESHES[name] for name in NAMES[:2]}
SAME = {name: MESHES[NAMES[0]] for name in NAMES}
DAMAGED_CARS = {
    "no list": (MESHES, None, "im", "expected the list of cars, cars/list.txt, but there is none"),
    "a short list": (MESHES, NAMES[:2], "im", "a list of 3 cars, but got 2"),
    "a name twice": (MESHES, [NAMES[0], *NAMES[:2]], "im", "got 3, 2 of them different"),
    "a car missing": (FEWER, NAMES, "im", "but got 2 files, without car_001_mesh.mat"),
    "a car too many": ({**MESHES, "car_009_mesh": MESHES[NAMES[0]]}, NAMES, "im", "got 4 files"),
    "an unknown name": (MESHES, [*NAMES[:2], "car_007_mesh"], "im", "without car_007_mesh"),
    "renamed": (MESHES, NAMES, "pictures", "an array named 'im' in car_002_mesh.mat, but there is"),
    "too few views": (with_car(lambda a: a[..., :5, :]), NAMES, "im", "'im' of shape .*, but got"),
    "swapped angles": (with_car(lambda a: a.swapaxes(3, 4)), NAMES, "im", "'im' of shape"),
    "gray": (with_car(lambda a: a[:, :, :1]), NAMES, "im", "'im' of shape .*, but got"),
    "numbers": (with_car(lambda a: a / 255), NAMES, "im", "'im' as uint8, but got float64"),
    "all zeros": (with_car(np.zeros_like), NAMES, "im", "image 1 is blank"),
    "the same car": (SAME, NAMES, "im", "the same image for 100% of the steps of object_type"),
    "shuffled": (
        {name: mesh[..., [0, 3, 1, 4, 2, 5], :] for name, mesh in MESHES.items()},
        NAMES,
        "im",
        "change gradually with azimuth",
    ),
    "still": (
        {name: np.repeat(mesh[..., :1], 2, -1) for name, mesh in MESHES.items()},
        NAMES,
        "im",
        "same image for 100% of the steps of elevation",
    ),
}


@pytest.mark.parametrize("name", DAMAGED_CARS)
def test_damaged_cars_are_refused(name, tmp_path, nothing_kept):
    meshes, names, key, message = DAMAGED_CARS[name]
    with pytest.raises(InputError, match=message):
        cars(write_cars(tmp_path / "cars.tar.gz", meshes, names, key=key))


@pytest.mark.parametrize("share", [0.001, 0.5, 0.9])
def test_a_cut_off_archive_of_cars_is_refused(share, tmp_path, nothing_kept):
    path = cut(write_cars(tmp_path / "cars.tar.gz", MESHES, NAMES), share)
    with pytest.raises(InputError, match="not a whole .tar.gz archive"):
        cars(path)


def test_a_damaged_mesh_is_refused(tmp_path, nothing_kept):
    path = tmp_path / "cars.tar.gz"
    good = mesh_bytes(MESHES[NAMES[0]])
    for content in (b"", b"<html>", good[: len(good) // 2], good[:130]):
        with tarfile.open(path, "w:gz") as archive:
            info = tarfile.TarInfo("data/cars/car_001_mesh.mat")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        with pytest.raises(
            InputError, match="car_001_mesh.mat is not a whole .mat|named 'im' in car"
        ):
            cars(path)


PICTURES = portraits()


def people(path, size=10, crop=20):
    """The small CelebA at a path."""
    return open_celeba(SMALL_PORTRAITS, Access(str(path)), size=size, crop=crop)


def test_celeba_reads_back_from_zip_and_folder(tmp_path):
    archive = write_portraits(tmp_path / "img_align_celeba.zip", PICTURES)
    dataset = people(archive)
    assert dataset.space.names == ("unlabeled",)
    picture = Image.open(io.BytesIO(jpeg(PICTURES["000003.jpg"])))
    cropped = picture.resize((10, 10), Image.Resampling.BILINEAR, box=(5, 8, 25, 28))
    np.testing.assert_array_equal(dataset.data[2], np.asarray(cropped))
    whole = people(archive, crop=0)
    squeezed = np.asarray(picture.resize((10, 10), Image.Resampling.BILINEAR))
    np.testing.assert_array_equal(whole.data[2], squeezed)
    (tmp_path / "list_attr_celeba.txt").write_text(attribute_text())
    labeled = people(tmp_path)
    assert labeled.space.names == ("Bald", "Bangs", "Chubby", "Smiling")
    text = attribute_text().splitlines()[2].split()[1:]
    assert labeled.factors[0].tolist() == [int(sign == "1") for sign in text]
    folder = tmp_path / "folder" / "img_align_celeba"
    folder.mkdir(parents=True)
    for name, array in PICTURES.items():
        (folder / name).write_bytes(jpeg(array))
    assert people(folder.parent).data.tobytes() == dataset.data.tobytes()
    assert people(folder).data.tobytes() == dataset.data.tobytes()
    (folder / "000004.jpg").write_bytes(b"changed")
    with pytest.raises(InputError, match="000004.jpg is not a whole picture"):
        people(folder)


LAST = "000007.jpg"
DAMAGED_PORTRAITS = {
    "a picture missing": (
        {k: a for k, a in PICTURES.items() if k != LAST},
        "7 pictures, 000001.jpg to 000007.jpg, but got 6, without 000007.jpg",
    ),
    "a picture too many": ({**PICTURES, "000008.jpg": PICTURES[LAST]}, "got 8, some unknown"),
    "another name": ({**PICTURES, "me.jpg": PICTURES[LAST]}, "but got 8, some unknown"),
    "another size": (
        {**PICTURES, LAST: PICTURES[LAST][:30]},
        "30×36 pixels, but got RGB with 30",
    ),
    "turned": ({**PICTURES, LAST: PICTURES[LAST].swapaxes(0, 1)}, "but got RGB with 36×30"),
    "gray": ({**PICTURES, LAST: PICTURES[LAST][..., 0]}, "in color with 30×36 pixels, but got L"),
    "blank": ({**PICTURES, LAST: np.zeros_like(PICTURES[LAST])}, "000007.jpg is blank"),
    "none": ({}, "but got 0, without 000001.jpg"),
}


@pytest.mark.parametrize("name", DAMAGED_PORTRAITS)
def test_damaged_portraits_are_refused(name, tmp_path, nothing_kept):
    pictures, message = DAMAGED_PORTRAITS[name]
    with pytest.raises(InputError, match=message):
        people(write_portraits(tmp_path / "img_align_celeba.zip", pictures))


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_cut_off_zip_of_portraits_is_refused(share, tmp_path, nothing_kept):
    path = cut(write_portraits(tmp_path / "img_align_celeba.zip", PICTURES), share)
    with pytest.raises(InputError, match="not a whole zip archive|the file is empty"):
        people(path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("7\nBald", "8\nBald", "7 in the first line, but got '8'"),
        ("Bald Bangs", "Bald", "4 names of labels, but got 3"),
        ("000004.jpg", "000009.jpg", "expected 000004.jpg and 4 times 1 or -1 in row 4, but got"),
        ("000002.jpg  ", "000002.jpg  1  ", "expected 000002.jpg and 4 times 1 or -1 in row 2"),
        ("000002.jpg  ", "000002.jpg  0", "expected 000002.jpg and 4 times 1 or -1 in row 2"),
        ("000001.jpg", "000002.jpg", "expected 000001.jpg and 4 times 1 or -1 in row 1"),
    ],
)
def test_damaged_labels_are_refused(old, new, message, tmp_path):
    write_portraits(tmp_path / "img_align_celeba.zip", PICTURES)
    text = attribute_text()
    assert old in text
    (tmp_path / "list_attr_celeba.txt").write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        people(tmp_path)
    (tmp_path / "list_attr_celeba.txt").write_text(attribute_text(6).replace("6\n", "7\n", 1))
    with pytest.raises(InputError, match="7 rows, but got 6"):
        people(tmp_path)
    (tmp_path / "list_attr_celeba.txt").write_text("")
    with pytest.raises(InputError, match="empty|7 in the first line"):
        people(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 4}, "a size from 8 to 30 pixels, but got size=4"),
        ({"crop": 31}, "a square from 10 to 30 pixels, but got crop=31"),
        ({"crop": 9}, "crop=0 for the whole picture, or a square from 10 to 30"),
    ],
)
def test_wrong_requests_of_celeba_are_refused(options, message, tmp_path):
    with pytest.raises(InputError, match=message):
        people(tmp_path, **options)


def test_the_layouts_are_those_of_the_published_files():
    assert CARS.grid.space.grid_size == 17_568
    assert TOYS.space.grid_size == 24_300
