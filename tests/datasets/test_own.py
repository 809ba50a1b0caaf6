"""Your own data: files and folders, with and without factors, and what cannot be used."""

import json

import h5py
import numpy as np
import pytest
from PIL import Image

from untwist.datasets import circles, export_dataset, load, sprites
from untwist.datasets import own_source as source_module
from untwist.types import InputError

RANDOM = np.random.default_rng(0)
COLOR = RANDOM.integers(0, 256, (12, 9, 7, 3)).astype(np.uint8)
GRAY = COLOR[..., 0]
GRID = np.stack(np.meshgrid(np.arange(3), np.arange(4), indexing="ij"), -1).reshape(-1, 2)
SMALL = {"size": 16, "scales": 2, "orientations": 3, "positions": 2}


def npz(folder, **arrays):
    """An archive of arrays."""
    np.savez(folder / "mine.npz", **arrays)
    return str(folder / "mine.npz")


def pictures(folder, arrays, names=None):
    """A folder of pictures."""
    path = folder / "pictures"
    path.mkdir(exist_ok=True)
    for number, array in enumerate(arrays):
        name = f"{number:02d}.png" if names is None else names[number]
        Image.fromarray(array).save(path / name)
    return path


def write(path, text):
    """A text file."""
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("bits", [True, False])
def test_an_exported_archive_loads_as_it_was(bits, compress, tmp_path):
    dataset = sprites(**SMALL, bits=bits)
    export_dataset(dataset, tmp_path / "a.npz", compress=compress)
    again = load(str(tmp_path / "a.npz"))
    assert again.name == "sprites"
    assert again.space == dataset.space
    assert again.provenance == dataset.provenance | {"file": "a.npz"}
    assert again.provenance["twin"] is True
    assert again.likelihood == "bernoulli"
    assert again.peak == 1
    assert again.has_full_grid
    assert isinstance(again.data, np.memmap) == (not compress)
    np.testing.assert_array_equal(again.examples(slice(None)), dataset.examples(slice(None)))
    np.testing.assert_array_equal(again.factors, dataset.factors)


def test_what_a_file_says_of_itself_confirms_nothing(tmp_path):
    said = {"source": "MNIST", "twin": False, "confirmed by": "the published sha256", "checks": "a"}
    dataset = load(npz(tmp_path, images=COLOR, provenance=json.dumps(said)))
    assert dataset.provenance == {"source": "MNIST", "twin": False, "file": "mine.npz"}


def test_an_exported_folder_loads_as_it_was(tmp_path):
    dataset = sprites(**SMALL)
    export_dataset(dataset, tmp_path / "pictures")
    again = load(str(tmp_path / "pictures"))
    assert again.space == dataset.space
    assert again.provenance == dataset.provenance | {"file": "pictures"}
    np.testing.assert_array_equal(again.examples(slice(None)), dataset.examples(slice(None)))
    np.testing.assert_array_equal(again.factors, dataset.factors)


def test_exported_vectors_load_as_they_were(tmp_path):
    dataset = circles(samples=20)
    export_dataset(dataset, tmp_path / "a.npz")
    again = load(str(tmp_path / "a.npz"))
    assert again.checksum() == dataset.checksum()
    assert (again.space, again.likelihood) == (dataset.space, "gaussian")


@pytest.mark.parametrize(
    ("images", "peak", "shape"),
    [
        (COLOR, 255, (9, 7, 3)),
        (np.moveaxis(COLOR, -1, 1), 255, (9, 7, 3)),
        (GRAY, 255, (9, 7, 1)),
        (GRAY[:, None], 255, (9, 7, 1)),
        (GRAY[..., None], 255, (9, 7, 1)),
        (GRAY > 99, 1, (9, 7, 1)),
        ((GRAY > 99).astype(np.uint8), 1, (9, 7, 1)),
        (GRAY / 255, 255, (9, 7, 1)),
        (np.asfortranarray(COLOR), 255, (9, 7, 3)),
    ],
)
def test_images_of_every_layout_load(images, peak, shape, tmp_path):
    dataset = load(npz(tmp_path, images=images))
    assert (dataset.peak, dataset.shape) == (peak, shape)
    assert dataset.space.names == ("unlabeled",)
    assert dataset.provenance["source"] == "your own data"
    assert dataset.provenance["file"] == "mine.npz"
    expected = images if images.max() <= 1 else images / 255
    if images.ndim == 3:
        expected = expected[..., None]
    elif images.shape[1] in (1, 3):
        expected = np.moveaxis(expected, 1, -1)
    np.testing.assert_allclose(dataset.examples(slice(None)), expected, atol=1e-6)


@pytest.mark.parametrize("more", [{}, {"chunks": (5, 9, 7, 3), "compression": "gzip"}])
def test_an_h5_file_loads(more, tmp_path, monkeypatch):
    monkeypatch.setattr(source_module, "IN_MEMORY", 100)
    with h5py.File(tmp_path / "mine.h5", "w") as file:
        file.create_dataset("images", data=COLOR, **more)
        file["factors"] = GRID
        file["names"] = np.array([b"row", b"column"]) if more else ["row", "column"]
        file["peak"] = 255
    for _ in range(2):
        dataset = load(str(tmp_path / "mine.h5"))
        np.testing.assert_array_equal(dataset.data, COLOR)
        assert isinstance(dataset.data, np.memmap)
        assert dataset.space.names == ("row", "column")
        assert dataset.has_full_grid


def test_vectors_load(tmp_path):
    dataset = load(npz(tmp_path, vectors=RANDOM.normal(size=(6, 4))))
    assert dataset.data.dtype == np.float32
    assert dataset.likelihood == "squared_error"
    assert load(npz(tmp_path, vectors=np.eye(3)), likelihood="gaussian").likelihood == "gaussian"


def test_rows_of_a_grid_are_put_in_order(tmp_path):
    order = RANDOM.permutation(12)
    dataset = load(npz(tmp_path, images=COLOR[order], factors=GRID[order] * 10.0))
    assert dataset.has_full_grid
    np.testing.assert_array_equal(dataset.data, COLOR)
    np.testing.assert_array_equal(dataset.factors, GRID)
    assert dataset.space.names == ("factor1", "factor2")
    part = load(npz(tmp_path, images=COLOR[:11], factors=GRID[:11]))
    assert not part.has_full_grid
    assert part.space.sizes == (3, 4)


def test_a_table_of_factors_is_read(tmp_path):
    lines = ["shape,size,depth"]
    lines += [f"{'abc'[i % 3]},{(i // 3) / 4},{i * 0.731 + 0.01}" for i in range(12)]
    table = write(tmp_path / "factors.csv", "\n".join(lines) + "\n")
    path = npz(tmp_path, images=COLOR)
    dataset = load(path, factors=table)
    assert dataset.space.names == ("shape", "size", "depth")
    assert dataset.space.sizes == (3, 4, None)
    assert dataset.space.kinds == ("categorical", "ordinal", "continuous")
    assert dataset.factors[5].tolist() == pytest.approx([2, 1, 3.665])
    chosen = load(path, factors=table, kinds="ordinal,periodic,ordinal")
    assert chosen.space.kinds == ("ordinal", "periodic", "ordinal")
    assert chosen.space.sizes == (3, 4, 12)


def test_a_folder_with_a_table_by_name_is_read(tmp_path):
    folder = pictures(tmp_path, COLOR[:3], ["b.png", "c.png", "a.png"])
    write(folder / "factors.csv", "image,kind\na.png,x\nb.png,y\nc.png,x\n")
    dataset = load(str(folder))
    np.testing.assert_array_equal(dataset.data, COLOR[[2, 0, 1]])
    assert dataset.factors.tolist() == [[0], [1], [0]]
    write(folder / "factors.csv", "kind,x\nq,1\nq,2\nq,4\n")
    assert load(str(folder)).factors.tolist() == [[0, 0], [0, 1], [0, 2]]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"pictures": COLOR}, "one array named 'images' or 'vectors', but it holds pictures"),
        ({"images": COLOR, "vectors": np.eye(3)}, "one array named 'images' or 'vectors'"),
        ({"images": COLOR[:0]}, "at least one example, but got none"),
        ({"images": COLOR[0]}, None),
        ({"images": np.zeros((4, 5, 6, 2), np.uint8)}, "with 1 or 3 channels last or first, but"),
        ({"images": np.zeros((4, 5), np.uint8)}, "with 1 or 3 channels last or first, but"),
        ({"images": COLOR.astype(np.int32)}, "as bytes, as true and false, or as numbers from 0"),
        ({"images": COLOR / 100.0}, "numbers from 0 to 1, but got float64 from 0"),
        ({"images": np.full((2, 3, 3), np.nan)}, "numbers from 0 to 1, but got float64 from nan"),
        ({"images": np.array([{}] * 3)}, "pickled Python objects, which are never loaded"),
        ({"images": COLOR, "factors": np.array([{}] * 3)}, "'factors' holds pickled Python obj"),
        ({"images": COLOR, "factors": GRID[:5]}, "row of factors for each of the 12 examples, but"),
        ({"images": COLOR, "factors": GRID[:, 0]}, "factors of shape examples × factors, but got"),
        ({"images": COLOR, "factors": GRID, "names": ["a"]}, "name for each of 2 factors, but got"),
        ({"images": COLOR, "factors": GRID, "names": ["a", "a"]}, "factor names must differ"),
        ({"images": COLOR, "factors": np.full((12, 1), np.inf)}, "not a finite number in row 0"),
        ({"images": COLOR, "provenance": "{"}, "its provenance is not JSON"),
        ({"images": COLOR, "provenance": "[1]"}, "expected a table as provenance, but got"),
        ({"images": COLOR, "provenance": "{}"}, "provenance must hold a 'source'"),
        ({"images": COLOR, "peak": 0}, "peak is the byte that stands for 1.0, expected 1 to 255"),
        ({"images": COLOR, "likelihood": "normal"}, "unknown likelihood 'normal'"),
        (
            {
                "images": COLOR,
                "factors": GRID,
                "names": ["a", "b"],
                "sizes": [2, 4],
                "kinds": ["ordinal"] * 2,
            },
            "values of 'a' from 0 to 2: expected 0 to 1",
        ),
        ({"vectors": np.zeros((2, 2, 2))}, "vectors of numbers, examples × length, but got"),
        ({"vectors": np.array(["a", "b"])}, "vectors of numbers, examples × length, but got"),
    ],
)
def test_archives_that_cannot_be_used_are_refused(arrays, message, tmp_path):
    if message is None:
        assert load(npz(tmp_path, **arrays)).shape == (7, 3, 1)
        return
    with pytest.raises(InputError, match=message):
        load(npz(tmp_path, **arrays))


def test_vectors_that_are_not_finite_are_found(tmp_path):
    dataset = load(npz(tmp_path, vectors=np.array([[1.0, 2.0], [np.nan, 0.0]])))
    with pytest.raises(InputError, match="row 1 holds a NaN or an infinity"):
        dataset.check()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n", "a first line of factor names and a line for each example, but got 1 lines"),
        ("a,b\n1,2\n3\n", "expected 2 values, one a column, in line 3, but got 1"),
        ("a,b\n1,\n", "line 2 has no value of 'b'"),
        ("a,a\n1,2\n", "different names of factors"),
        ("a,\n1,2\n", "different names of factors"),
        ("a,b\n1,2\n", "row of factors for each of the 12 examples, but got 1"),
        ("a\n" + "1\n" * 13, "12 examples, but got 13"),
        ("a\n" + "1\n" * 11 + "nan\n", "'a' is not a finite number in row 11"),
        ("a\n" + "1\n" * 11 + "inf\n", "'a' is not a finite number in row 11"),
        ("\xff\xfe", "is not a table of factors as CSV|a first line of factor names"),
    ],
)
def test_tables_that_cannot_be_used_are_refused(text, message, tmp_path):
    (tmp_path / "f.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=message):
        load(npz(tmp_path, images=COLOR), factors=str(tmp_path / "f.csv"))


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ("ordinal", "expected a kind for each of a, b, but got 1"),
        ("ordinal,sorted", "unknown kind of factor 'sorted'"),
        ("continuous,ordinal", "'a' holds texts, so it cannot be continuous"),
    ],
)
def test_kinds_that_do_not_fit_are_refused(kinds, message, tmp_path):
    table = write(tmp_path / "f.csv", "a,b\n" + "x,1\n" * 12)
    with pytest.raises(InputError, match=message):
        load(npz(tmp_path, images=COLOR), factors=table, kinds=kinds)
    with pytest.raises(InputError, match="has no factors, so kinds"):
        load(npz(tmp_path, images=COLOR), kinds=kinds)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("image,k\n00.png,1\n", "for each picture, but 01.png is not in the table"),
        ("image,k\n00.png,1\n01.png,1\n02.png,2\n", "but 02.png is not in the folder"),
        ("image,k\n00.png,1\n00.png,2\n", "but some are named twice"),
        ("image\n00.png\n01.png\n", "a factor beside the names of pictures"),
        ("k\n1\n", "row of factors for each of the 2 examples, but got 1"),
    ],
)
def test_tables_that_do_not_fit_the_pictures_are_refused(text, message, tmp_path):
    folder = pictures(tmp_path, COLOR[:2])
    write(folder / "factors.csv", text)
    with pytest.raises(InputError, match=message):
        load(str(folder))


def test_folders_that_cannot_be_used_are_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="expected pictures .*, but the folder holds none"):
        load(str(tmp_path / "empty"))
    folder = pictures(tmp_path, [COLOR[0], COLOR[1][:5]])
    with pytest.raises(InputError, match=r"00.png is \(9, 7, 3\) and 01.png is \(5, 7, 3\)"):
        load(str(folder))
    Image.fromarray(GRAY[1]).save(folder / "01.png")
    with pytest.raises(InputError, match=r"01.png is \(9, 7, 1\): resize or convert them"):
        load(str(folder))
    Image.fromarray(GRAY[1].astype(np.uint16)).save(folder / "01.png")
    with pytest.raises(InputError, match="its mode is I;16: convert it"):
        load(str(folder))
    (folder / "01.png").write_bytes((folder / "00.png").read_bytes()[:-40])
    with pytest.raises(InputError, match="01.png is not a whole picture"):
        load(str(folder))
    (folder / "01.png").write_text("text")
    with pytest.raises(InputError, match="01.png is not a whole picture"):
        load(str(folder))


def test_a_folder_whose_description_is_wrong_is_refused(tmp_path):
    export_dataset(sprites(**SMALL), tmp_path / "pictures")
    described = tmp_path / "pictures" / "dataset.json"
    table = json.loads(described.read_text())
    described.write_text(json.dumps(table | {"sizes": [1, 1, 1, 1, 1]}))
    with pytest.raises(InputError, match="values of 'shape' from 0 to 2: expected 0 to 0"):
        load(str(tmp_path / "pictures"))
    described.write_text("{")
    with pytest.raises(InputError, match="dataset.json is not JSON"):
        load(str(tmp_path / "pictures"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere.npz", "there is no file or folder nowhere.npz"),
        ("a/b.txt", "there is no file or folder a/b.txt"),
        ("sprits", "did you mean 'sprites'.*; or a path that ends in .npz or .h5"),
    ],
)
def test_names_of_nothing_are_refused(name, message):
    with pytest.raises(InputError, match=message):
        load(name)


def test_files_of_other_formats_are_refused(tmp_path):
    with pytest.raises(InputError, match="but it ends in .txt"):
        load(write(tmp_path / "a.txt", "text"))
    for ending, said in ((".npz", "not a whole .npz"), (".h5", "not a whole HDF5 file")):
        with pytest.raises(InputError, match=said):
            load(write(tmp_path / f"a{ending}", "text"))
