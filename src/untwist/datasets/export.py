"""Writing a dataset to files that need no code of ours: an .npz archive or a folder of PNGs."""

import csv
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from untwist.datasets.dataset import Dataset
from untwist.types import InputError

BLOCK = 4096
"""How many examples are unpacked at a time."""

Report = Callable[[int], None]


def export_dataset(
    dataset: Dataset,
    path: Path,
    *,
    compress: bool = True,
    report: Report = lambda count: None,
) -> None:
    """Writes a dataset to a new path: an archive if it ends in .npz, else a folder of PNGs.

    The archive holds `images` (uint8) or `vectors` (float32), `factors`, `names`, `sizes` (0 where
    a factor is continuous), `kinds`, `peak`, `name`, `likelihood` and `provenance` (JSON). The
    folder holds one PNG an example, named by its number, with `factors.csv`, `dataset.json` and
    `provenance.json`. Both are made aside and moved into place whole; nothing that exists is
    replaced. `load` reads both back by their path.

    Args:
        dataset: What to write.
        path: A path that does not exist yet.
        compress: Whether an archive is compressed; a plain one is larger, and mapped, not read.
        report: Called with the number of examples just written.
    """
    if path.exists():
        raise InputError(f"{path} exists and is not overwritten: choose a new path or move it away")
    if path.suffix not in ("", ".npz"):
        raise InputError(
            f"expected a path that ends in .npz, or a folder without an ending, but got {path}"
        )
    if not path.suffix and not dataset.is_image:
        raise InputError(
            f"{dataset.name} holds vectors, which have no PNGs: give a path that ends in .npz"
        )
    try:
        scratch = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    except OSError as error:
        raise _cannot_write(path, error) from error
    try:
        made = scratch / path.name
        if path.suffix:
            _write_archive(dataset, made, compress, report)
        else:
            _write_folder(dataset, made, report)
        os.rename(made, path)
    except OSError as error:
        raise _cannot_write(path, error) from error
    finally:
        shutil.rmtree(scratch)


def pixel_bytes(dataset: Dataset, start: int, stop: int) -> np.ndarray:
    """Returns examples as bytes from 0 to `peak`, or vectors as they are."""
    rows = np.asarray(dataset.data[start:stop])
    if not dataset.bits:
        return rows
    count = int(np.prod(dataset.shape))
    return np.unpackbits(rows, axis=-1, count=count).reshape(-1, *dataset.shape)


def _write_archive(dataset: Dataset, path: Path, compress: bool, report: Report) -> None:
    """Streams the examples into an .npz, block by block, then the small arrays."""
    name = "images" if dataset.is_image else "vectors"
    header = {
        "shape": (len(dataset), *dataset.shape),
        "fortran_order": False,
        "descr": np.lib.format.dtype_to_descr(dataset.data.dtype),
    }
    small = {
        "factors": dataset.factors,
        **{key: np.array(value) for key, value in _description(dataset).items()},
        "provenance": np.array(json.dumps(dataset.provenance)),
    }
    kind = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", kind, compresslevel=1) as archive:
        with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
            np.lib.format.write_array_header_1_0(file, header)
            for start in range(0, len(dataset), BLOCK):
                block = pixel_bytes(dataset, start, start + BLOCK)
                file.write(block.tobytes())
                report(len(block))
        for key, array in small.items():
            with archive.open(f"{key}.npy", "w") as file:
                np.lib.format.write_array(file, array, allow_pickle=False)


def _write_folder(dataset: Dataset, path: Path, report: Report) -> None:
    """Writes one PNG an example, 255 for the peak, and the factors as a table."""
    path.mkdir()
    digits = len(str(len(dataset) - 1))
    for start in range(0, len(dataset), BLOCK):
        block = pixel_bytes(dataset, start, start + BLOCK)
        peak = 1 if dataset.bits else dataset.peak
        block = (block * (255 / peak)).round().astype(np.uint8)
        for number, image in enumerate(block, start):
            flat = image[..., 0] if image.shape[-1] == 1 else image
            Image.fromarray(flat).save(path / f"{number:0{digits}d}.png")
        report(len(block))
    with (path / "factors.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["image", *dataset.space.names])
        for number, row in enumerate(dataset.factors.tolist()):
            table.writerow([f"{number:0{digits}d}.png", *row])
    (path / "dataset.json").write_text(json.dumps(_description(dataset), indent=2) + "\n")
    (path / "provenance.json").write_text(json.dumps(dataset.provenance, indent=2) + "\n")


def _description(dataset: Dataset) -> dict[str, list | str | int]:
    """What a reader must know beside examples and factors."""
    return {
        "name": dataset.name,
        "likelihood": dataset.likelihood,
        "names": list(dataset.space.names),
        "sizes": [size or 0 for size in dataset.space.sizes],
        "kinds": list(dataset.space.kinds),
        "peak": 1 if dataset.bits else dataset.peak,
    }


def _cannot_write(path: Path, error: OSError) -> InputError:
    return InputError(f"cannot write {path}: {error.strerror}: choose a place with room to write")
