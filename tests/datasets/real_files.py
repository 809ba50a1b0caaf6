"""Small files in the formats of the real datasets, and layouts that say how small."""

import gzip
import io
import pickle
import struct
import tarfile
import zipfile
from collections import OrderedDict
from dataclasses import replace

import h5py
import numpy as np
from PIL import Image
from scipy.io import savemat

from untwist.datasets import sprites
from untwist.datasets.cars3d import LAYOUT as CARS
from untwist.datasets.celeba import PortraitLayout
from untwist.datasets.dsprites import LAYOUT as SPRITES
from untwist.datasets.faces import LAYOUT as FACES
from untwist.datasets.idx import DigitLayout
from untwist.datasets.mpi3d import COMPLEX as ROBOT
from untwist.datasets.published_file import (
    IDX_NAMES,
    NORB_STEMS,
    PublishedFile,
)
from untwist.datasets.shapes3d import LAYOUT as SHAPES
from untwist.datasets.smallnorb import ToyLayout

SMALL_SPRITES = replace(
    SPRITES,
    grid=replace(SPRITES.grid, sizes=(3, 2, 6, 4, 4), shape=(32, 32, 1)),
    npz=PublishedFile("sprites.npz"),
    hdf5=PublishedFile("sprites.hdf5"),
)
SMALL_SHAPES = replace(
    SHAPES,
    grid=replace(SHAPES.grid, sizes=(3, 4, 2, 2, 2, 5), shape=(12, 12, 3)),
    file=PublishedFile("3dshapes.h5"),
)
SMALL_ROBOT = replace(
    ROBOT,
    grid=replace(ROBOT.grid, sizes=(2, 2, 2, 3, 3, 5, 6), shape=(12, 12, 3)),
)
SMALL_FACES = replace(FACES, grid=replace(FACES.grid, sizes=(3, 5, 4, 4), shape=(8, 8, 1)))
SMALL_CARS = replace(
    CARS,
    grid=replace(CARS.grid, sizes=(2, 6, 3), shape=(16, 16, 3)),
    file=PublishedFile("cars.tar.gz"),
)
SMALL_PORTRAITS = PortraitLayout(
    7, (36, 30), 4, PublishedFile("img_align_celeba.zip"), PublishedFile("list_attr_celeba.txt")
)
SMALL_DIGITS = DigitLayout(
    "mnist",
    "MNIST",
    {part: PublishedFile(name) for part, name in IDX_NAMES.items()},
    {"train": (5, 6, 7), "test": (2, 3, 4)},
    {"train": (2, 0, 1), "test": (1, 2, 0)},
    side=10,
)
SMALL_TOYS = ToyLayout(
    (2, 2, 3, 4, 3),
    16,
    {
        (split, part): PublishedFile(f"{stem}-{part}.mat.gz")
        for split, stem in NORB_STEMS.items()
        for part in ("dat", "cat", "info")
    },
    {"train": (4, 7), "test": (1, 5)},
)


def bump(sizes, side, channels, *, seed=0):
    """Images of a grid: the last two factors move a bright bump, the others set its gray."""
    grid = np.stack(np.meshgrid(*[np.arange(n) for n in sizes], indexing="ij"), -1)
    rows = grid.reshape(-1, len(sizes))
    y, x = np.mgrid[:side, :side]
    right = 1 + (side - 3) * rows[:, -1] / max(1, sizes[-1] - 1)
    down = 1 + (side - 3) * rows[:, -2] / max(1, sizes[-2] - 1)
    distance = (x - right[:, None, None]) ** 2 + (y - down[:, None, None]) ** 2
    images = 120 * np.exp(-distance / (side / 2) ** 2)[..., None] * np.ones(channels)
    shades = np.random.default_rng(seed).permuted(np.arange(8))
    for factor in range(len(sizes) - 2):
        corner = (slice(None), slice(factor, factor + 1), slice(0, 2))
        images[corner] += (12 + 9 * shades[rows[:, factor]])[:, None, None, None]
    return images.round().astype(np.uint8), rows


def sprite_arrays():
    """Images, classes and values of a small dSprites."""
    twin = sprites(size=32, scales=2, orientations=6, positions=4)
    images = twin.examples(slice(None))[..., 0].astype(np.uint8)
    classes = np.column_stack([np.zeros(len(images), np.int64), twin.factors]).astype(np.int64)
    values = classes * np.array([1, 1, 0.5, 1.25, 1 / 3, 1 / 3]) + [1, 1, 0.5, 0, 0, 0]
    return {"imgs": images, "latents_classes": classes, "latents_values": values}


def write_sprites_npz(path, arrays, *, compress=True):
    """A small dSprites as published: with metadata that are a pickle."""
    metadata = np.array({"title": "never loaded", "author": Explosive()}, dtype=object)
    save = np.savez_compressed if compress else np.savez
    save(path, allow_pickle=True, metadata=metadata, **arrays)
    return path


class Explosive:
    """What fails a test when it is unpickled."""

    def __reduce__(self):
        return exec, ("raise SystemError('a pickle was loaded')",)


def write_sprites_hdf5(path, arrays):
    """A small dSprites as the published HDF5 file."""
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            key = name.replace("latents_", "latents/")
            file.create_dataset(key, data=array, chunks=(16, *array.shape[1:]), compression="gzip")
    return path


def shape_arrays():
    """Images and labels of a small Shapes3D: floor below, wall above, a solid that turns."""
    sizes = SMALL_SHAPES.grid.sizes
    rows = np.stack(np.meshgrid(*[np.arange(n) for n in sizes], indexing="ij"), -1).reshape(-1, 6)
    images = np.zeros((len(rows), 12, 12, 3))
    images[:, :6] = (60 + 30 * rows[:, 1])[:, None, None, None]
    images[:, 6:] = (200 - 40 * rows[:, 0])[:, None, None, None]
    images[:, 4:8, 4:8, 0] = (30 + 100 * rows[:, 2])[:, None, None]
    images[:, 3, 4:8, 1] = (20 + 50 * rows[:, 3])[:, None]
    images[:, 8, 4:8, 2] = (10 + 60 * rows[:, 4])[:, None]
    images[np.arange(len(rows)), 5, 3 + rows[:, 5], 1] += 20
    values = rows * [0.1, 0.1, 0.1, 0.5, 1, 15] + [0, 0, 0, 0.75, 0, -30]
    return {"images": images.round().astype(np.uint8), "labels": values}


def write_h5(path, arrays, *, chunks=True):
    """An HDF5 file of arrays, compressed in chunks as published, or in one piece."""
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            more = {"chunks": (7, *array.shape[1:]), "compression": "gzip"} if chunks else {}
            file.create_dataset(name, data=array, **more)
    return path


def robot_images():
    """Images of a small MPI3D: each factor changes them, the two axes gradually."""
    return bump(SMALL_ROBOT.grid.sizes, 12, 3)[0]


def face_images():
    """Images of small faces, in the shape that the published tensor has."""
    images, _ = bump(SMALL_FACES.grid.sizes, 8, 1)
    images[..., 7, 7, 0] += (images.reshape(len(images), -1).sum(1) % 7).astype(np.uint8)
    lighting = np.arange(len(images)) % 4
    images[:, 4:6, 4:6, 0] += (5 * lighting).astype(np.uint8)[:, None, None]
    return images.reshape(-1, 1, 8, 8)


def car_meshes():
    """Meshes of small cars by file name, and their list, which is not in alphabetic order."""
    images, _ = bump((2, 3, 6, 1), 16, 3)
    images = images.reshape(2, 3, 6, 16, 16, 3)
    images += (15 * np.arange(3)).astype(np.uint8)[:, None, None, None, None]
    images[..., 10:14, 10:14, 0] += (20 * np.arange(2)).astype(np.uint8)[:, None, None, None, None]
    names = ["car_002_mesh", "car_003_mesh", "car_001_mesh"]
    return {name: images[:, i].transpose(2, 3, 4, 1, 0) for i, name in enumerate(names)}, names


def mesh_bytes(array, key="im"):
    """A .mat file of one array."""
    file = io.BytesIO()
    savemat(file, {key: array}, do_compression=True)
    return file.getvalue()


def write_cars(path, meshes, names, *, key="im"):
    """A small archive of Cars3D, with other files beside the cars as published."""
    with tarfile.open(path, "w:gz") as archive:
        members = {f"data/cars/{name}.mat": mesh_bytes(im, key) for name, im in meshes.items()}
        members["data/sprites/list.txt"] = b"not the cars"
        if names is not None:
            members["data/cars/list.txt"] = ("\n".join(names) + "\n").encode()
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def digit_arrays(layout=SMALL_DIGITS, *, seed=0):
    """Images and labels of a small MNIST, by split and part."""
    random = np.random.default_rng(seed)
    arrays = {}
    for split, counts in layout.counts.items():
        labels = np.repeat(np.arange(len(counts)), counts)
        first = list(layout.first[split])
        rest = list(labels)
        for label in first:
            rest.remove(label)
        labels = np.array(first + rest, np.uint8)
        images = np.zeros((len(labels), layout.side, layout.side), np.uint8)
        images[:, 2:-2, 2:-2] = random.integers(1, 255, (len(labels), 6, 6))
        arrays[split, "images"], arrays[split, "labels"] = images, labels
    return arrays


def idx_bytes(array, *, magic=None):
    """An idx file of bytes."""
    head = bytes([0, 0, 8, array.ndim]) if magic is None else magic
    return head + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write_digits(folder, arrays, *, plain=False):
    """The four files of a small MNIST."""
    folder.mkdir(exist_ok=True)
    for part, array in arrays.items():
        data = idx_bytes(array)
        name = IDX_NAMES[part]
        content = data if plain else gzip.compress(data)
        (folder / (name.removesuffix(".gz") if plain else name)).write_bytes(content)
    return folder


def toy_arrays(layout=SMALL_TOYS):
    """Images, categories and infos of a small SmallNORB, shuffled as published."""
    arrays = {}
    for number, split in enumerate(("train", "test")):
        images, rows = bump((2, 2, 3, 3, 4), 16, 1, seed=number)
        rows = rows[:, [0, 1, 3, 4, 2]]
        pairs = np.stack([images[..., 0], 255 - images[..., 0]], 1)
        order = np.random.default_rng(number).permutation(len(rows))
        category, instance, elevation, azimuth, lighting = rows[order].T
        number_of = np.array(layout.instances[split])
        info = np.column_stack([number_of[instance], elevation, 2 * azimuth, lighting])
        arrays[split, "dat"] = pairs[order]
        arrays[split, "cat"] = category.astype(np.int32)
        arrays[split, "info"] = info.astype(np.int32)
    return arrays


def norb_bytes(array, *, magic=None):
    """A file in the format of NORB."""
    code = 0x1E3D4C55 if array.dtype == np.uint8 else 0x1E3D4C54
    shape = [*array.shape, *[1] * (3 - array.ndim)]
    head = struct.pack("<2i", code if magic is None else magic, array.ndim)
    return head + struct.pack(f"<{len(shape)}i", *shape) + array.tobytes()


def write_toys(folder, arrays, layout=SMALL_TOYS):
    """The six files of a small SmallNORB."""
    folder.mkdir(exist_ok=True)
    for part, array in arrays.items():
        (folder / layout.files[part].name).write_bytes(gzip.compress(norb_bytes(array)))
    return folder


def portraits():
    """Small pictures of CelebA by name."""
    random = np.random.default_rng(0)
    return {
        f"{i + 1:06d}.jpg": random.integers(0, 255, (36, 30, 3)).astype(np.uint8) for i in range(7)
    }


def attribute_text(rows=7):
    """The labels of small portraits."""
    signs = np.where(np.random.default_rng(1).random((rows, 4)) < 0.5, -1, 1)
    lines = [f"{i + 1:06d}.jpg  {'  '.join(map(str, row))}" for i, row in enumerate(signs)]
    return "\n".join([str(rows), "Bald Bangs Chubby Smiling", *lines]) + "\n"


def jpeg(array):
    """A picture as JPEG."""
    file = io.BytesIO()
    Image.fromarray(array).save(file, "JPEG")
    return file.getvalue()


def write_portraits(path, pictures):
    """A small zip archive of CelebA."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in pictures.items():
            archive.writestr(f"img_align_celeba/{name}", jpeg(array))
    return path


class _Function:
    """Stands in a pickle for a function of PyTorch."""

    def __init__(self, name):
        self.name = name

    def __call__(self, *arguments):
        raise AssertionError


class TorchPickler(pickle._Pickler):
    """Writes what PyTorch's pickler writes, without PyTorch."""

    dispatch = dict(pickle._Pickler.dispatch)

    def persistent_id(self, thing):
        return thing.identity if isinstance(thing, Storage) else None

    def save_function(self, thing):
        module, name = thing.name.rsplit(".", 1)
        self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
        self.memoize(thing)

    dispatch[_Function] = save_function

    def save(self, thing, save_persistent_id=True):
        if isinstance(thing, Reduced):
            self.save_reduce(*thing.reduced, obj=thing)
        else:
            super().save(thing, save_persistent_id)


class Storage:
    """Stands in a pickle for the numbers of a tensor."""

    def __init__(self, identity):
        self.identity = identity


class Reduced:
    """Stands in a pickle for what a function would make."""

    def __init__(self, name, arguments):
        self.reduced = (_Function(name), arguments)


def tensor(array, *, kind="torch.ByteStorage", rebuild="torch._utils._rebuild_tensor_v2", view=()):
    """What a pickle says of a tensor."""
    identity = ("storage", _Function(kind), "0", "cpu", array.size, *view)
    strides = tuple(int(s) // array.itemsize for s in array.strides)
    arguments = (Storage(identity), 0, array.shape, strides, False, OrderedDict())
    return Reduced(rebuild, arguments)


def torch_pickle(thing, protocol=2):
    """A pickle as PyTorch writes it."""
    file = io.BytesIO()
    TorchPickler(file, protocol).dump(thing)
    return file.getvalue()


def write_torch_zip(path, array, described=None):
    """A file of torch.save in the layout since PyTorch 1.6."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("faces/data.pkl", torch_pickle(described or tensor(array)))
        archive.writestr("faces/byteorder", "little")
        archive.writestr("faces/data/0", array.tobytes())
        archive.writestr("faces/version", "3\n")
    return path


def write_torch_legacy(path, array, described=None, *, little=True):
    """A file of torch.save in the layout before PyTorch 1.6."""
    system = {"protocol_version": 1001, "little_endian": little, "type_sizes": {"int": 4}}
    parts = [0x1950A86A20F9469CFC6C, 1001, system, described or tensor(array, view=(None,)), ["0"]]
    content = b"".join(torch_pickle(part) for part in parts)
    path.write_bytes(content + struct.pack("<q", array.size) + array.tobytes())
    return path
