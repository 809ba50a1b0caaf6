"""How long the largest files take to open, and what memory: `python benchmarks/loaders.py FOLDER`.

Files of the format and the full size of Shapes3D (compressed HDF5) and MPI3D (plain and compressed
.npz) are generated in a new folder of FOLDER, which needs 45 GB free, loaded, and deleted.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import h5py
import numpy as np

CHILD = """
import resource, time
start = time.perf_counter()
from untwist.datasets.found_file import Access
from untwist.datasets import {module}
from dataclasses import replace
from untwist.datasets.published_file import PublishedFile
layout = replace({module}.{layout}, file=PublishedFile({name!r}))
ready = time.perf_counter()
base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
dataset = {module}.{function}(layout, Access({path!r}))
opened = time.perf_counter()
dataset.examples(slice(0, len(dataset), len(dataset) // 64))
read = time.perf_counter()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(f"{{opened - ready:.2f}} | {{1000 * (read - opened):.0f}} | {{(peak - base) / 1000:.0f}}")
"""


def bumps():
    """64×64 color images of a bump at 40×40 places."""
    y, x = np.mgrid[:64, :64]
    places = np.linspace(10, 54, 40)
    rows = np.exp(-((y[None] - places[:, None, None]) ** 2) / 200)
    columns = np.exp(-((x[None] - places[:, None, None]) ** 2) / 200)
    images = 120 * rows[:, None] * columns[None]
    return np.repeat(images.reshape(-1, 64, 64, 1), 3, -1).round().astype(np.uint8)


def robot_blocks(sizes):
    """The images of MPI3D's grid, 1,600 at a time."""
    images = bumps()
    for index in np.ndindex(sizes[:5]):
        block = images.copy()
        for factor, value in enumerate(index):
            block[:, factor * 4 : factor * 4 + 4, :12] += np.uint8(20 + 15 * value)
        yield block


def write_robot(path, sizes, *, compress):
    """A file like MPI3D's."""
    kind = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    header = {"descr": "|u1", "fortran_order": False, "shape": (int(np.prod(sizes)), 64, 64, 3)}
    with zipfile.ZipFile(path, "w", kind, compresslevel=1) as archive:
        with archive.open("images.npy", "w", force_zip64=True) as file:
            np.lib.format.write_array_header_1_0(file, header)
            for block in robot_blocks(sizes):
                file.write(block.data)


def write_shapes(path, sizes):
    """A file like Shapes3D's."""
    rows = np.stack(np.meshgrid(*[np.arange(n) for n in sizes], indexing="ij"), -1).reshape(-1, 6)
    options = {"chunks": (48, 64, 64, 3), "compression": "gzip", "compression_opts": 1}
    with h5py.File(path, "w") as file:
        images = file.create_dataset("images", (len(rows), 64, 64, 3), "u1", **options)
        file["labels"] = rows * [0.1, 0.1, 0.1, 0.5 / 7, 1, 60 / 14] + [0, 0, 0, 0.75, 0, -30]
        step = 4800
        for start in range(0, len(rows), step):
            part = rows[start : start + step].astype(np.uint8)[:, :, None, None, None]
            block = np.empty((step, 64, 64, 3), np.uint8)
            block[:, :32] = 40 + 20 * part[:, 1]
            block[:, 32:] = 220 - 20 * part[:, 0]
            block[:, 20:44, 20:44] = 30 + 20 * part[:, 2]
            block[:, 46:50, 20:44] = 10 + 30 * part[:, 3]
            block[:, 52:56, 20:44] = 10 + 60 * part[:, 4]
            for turn in range(sizes[5]):
                block[turn :: sizes[5], 24:40, 4 * turn : 4 * turn + 4] += 9
            images[start : start + step] = block


def measure(title, module, layout, function, path):
    """Prints what a first and a second opening take, each in a process of its own."""
    code = CHILD.format(
        module=module, layout=layout, function=function, name=path.name, path=str(path)
    )
    for turn in ("first", "second"):
        out = subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        )
        size = path.stat().st_size / 1e9
        print(f"| {title} | {size:.1f} | {turn} | {out.stdout.strip()} |", flush=True)


def timed(title, action):
    start = time.perf_counter()
    action()
    print(f"{title}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = Path(tempfile.mkdtemp(dir=parser.parse_args().folder))
    os.environ["UNTWIST_CACHE"] = str(folder / "cache")
    print("| file | GB | opening | seconds | ms for 64 images | MB of memory |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    try:
        path = folder / "3dshapes.h5"
        timed("writing", lambda: write_shapes(path, (10, 10, 10, 8, 4, 15)))
        measure("Shapes3D, compressed HDF5", "shapes3d", "LAYOUT", "open_shapes3d", path)
        shutil.rmtree(folder / "cache")
        path.unlink()
        for compress in (False, True):
            path = folder / "mpi3d_toy.npz"
            sizes = (6, 6, 2, 3, 3, 40, 40)
            timed("writing", lambda c=compress, s=sizes, p=path: write_robot(p, s, compress=c))
            title = f"MPI3D, {'compressed' if compress else 'plain'} .npz"
            measure(title, "mpi3d", "TOY", "open_mpi3d", path)
            shutil.rmtree(folder / "cache")
            path.unlink()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
