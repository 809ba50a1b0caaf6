"""`untwist data`: list, describe, sheet, traverse, check, import, export."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
from rich.table import Table

from untwist.cli.data_files import check, import_
from untwist.datasets import (
    CATALOG,
    Dataset,
    availability,
    cache_directory,
    default_options,
    description,
    export_dataset,
    imported_names,
)
from untwist.perturbation import is_perturbed, load_dataset, parse_dataset_options
from untwist.report import contact_sheet, scatter_sheet, traversal_sheet
from untwist.types import InputError

Name = tyro.conf.Positional[str]
Out = tyro.conf.Positional[Path]
Options = Annotated[tuple[str, ...], tyro.conf.arg(name="set", metavar="OPTION=VALUE")]

FILE_OPTIONS = ("path", "download", "unverified")
"""Options of every dataset that is read from files."""


def list_() -> None:
    """List all datasets: how they can be had on this machine, and their options with defaults.

    A twin, and what is drawn, needs no file. A real dataset is here or missing; `untwist data
    describe NAME` says which file to put where.
    """
    table = Table("name", "had", "what it is", "options", title="datasets", title_justify="left")
    for name in CATALOG:
        first = description(name).splitlines()[0].removeprefix("Returns ")
        defaults = default_options(name)
        shown = {key: value for key, value in defaults.items() if key not in FILE_OPTIONS}
        options = [f"{key}={value}" for key, value in shown.items()]
        if len(shown) < len(defaults):
            options.append("path= download=")
        table.add_row(name, availability(name), first, " ".join(options))
    for name in imported_names():
        table.add_row(name, "imported", "your own data", "")
    Console().print(table)
    Console().print(f"files: {cache_directory()}", markup=False, highlight=False, soft_wrap=True)


def describe(name: Name, *, options: Options = ()) -> None:
    """Describe a dataset: its factors, its format, where it comes from.

    Args:
        name: The dataset; `untwist data list` shows all. Or the path of a perturbed one.
        options: Options of the dataset, e.g. size=32 positions=8.
    """
    given = parse_dataset_options(name, options)
    console = Console()
    if not is_perturbed(name):
        console.print(description(name), markup=False, highlight=False)
    dataset = load_dataset(name, **given)
    factors = Table("factor", "values", "kind", title="factors", title_justify="left")
    space = dataset.space
    for row in zip(space.names, space.sizes, space.kinds, strict=True):
        factors.add_row(*("any" if part is None else str(part) for part in row))
    console.print(factors)
    facts = Table(title="data", title_justify="left", show_header=False)
    facts.add_column()
    facts.add_column(overflow="fold")
    for key, value in _facts(dataset).items():
        facts.add_row(key, value)
    console.print(facts)


def sheet(
    name: Name, out: Out, *, count: int | None = None, seed: int = 0, options: Options = ()
) -> None:
    """Draw a sheet of random samples to a PNG: images, or a cloud colored by each factor.

    Args:
        name: The dataset; `untwist data list` shows all. Or the path of a perturbed one.
        out: The PNG to write; it must not exist.
        count: How many samples; 64 images or 5000 points by default.
        seed: Seed of the choice.
        options: Options of the dataset, e.g. size=32 positions=8.
    """
    _check_new(out)
    dataset = load_dataset(name, **parse_dataset_options(name, options))
    count = (64 if dataset.is_image else 5000) if count is None else count
    if count < 1:
        raise InputError(f"expected at least one sample on a sheet, but got count={count}")
    if seed < 0:
        raise InputError(f"expected a seed of 0 or more, but got seed={seed}")
    random = np.random.default_rng(seed)
    index = np.sort(random.choice(len(dataset), min(count, len(dataset)), replace=False))
    examples = dataset.examples(index)
    title = f"{name}: {dataset.provenance['source']}"
    if dataset.is_image:
        contact_sheet(examples, out, title=title)
    else:
        factors = dataset.factors[index].astype(np.float32)
        scatter_sheet(examples, factors, out, names=dataset.space.names, title=title)
    Console().print(f"{len(index)} samples in {out}", markup=False, highlight=False)


def traverse(
    name: Name,
    out: Out,
    *,
    at: tuple[int, ...] | None = None,
    steps: int = 10,
    options: Options = (),
) -> None:
    """Draw images along every factor of a full grid to a PNG, one row a factor.

    Args:
        name: The dataset; `untwist data list` shows all. Or the path of a perturbed one.
        out: The PNG to write; it must not exist.
        at: The value of every factor that does not move; the middle ones by default.
        steps: At most how many values of a factor.
        options: Options of the dataset, e.g. size=32 positions=8.
    """
    _check_new(out)
    dataset = load_dataset(name, **parse_dataset_options(name, options))
    if not (dataset.has_full_grid and dataset.is_image):
        raise InputError(
            f"{name} is not a grid of images, so no factor can move alone: draw it with "
            "`untwist data sheet`"
        )
    if steps < 2:
        raise InputError(f"expected at least 2 steps along a factor, but got {steps}")
    rows = _factor_rows(dataset, at, steps)
    images = [dataset.examples(np.asarray(dataset.space.index(row))) for row in rows]
    title = f"{name}: {dataset.provenance['source']}"
    traversal_sheet(images, out, names=dataset.space.names, title=title)
    Console().print(f"{len(images)} factors in {out}", markup=False, highlight=False)


def export(name: Name, out: Out, *, limit: int | None = None, options: Options = ()) -> None:
    """Write a dataset to an .npz archive or, without an ending, to a folder of PNGs.

    Args:
        name: The dataset; `untwist data list` shows all. Or the path of a perturbed one.
        out: The archive or folder to write; it must not exist.
        limit: At most how many examples, evenly spread over the dataset; all by default.
        options: Options of the dataset, e.g. size=32 positions=8.
    """
    _check_new(out)
    dataset = load_dataset(name, **parse_dataset_options(name, options))
    if limit is not None:
        if limit < 1:
            raise InputError(f"expected at least one example to export, but got limit={limit}")
        keep = np.linspace(0, len(dataset) - 1, min(limit, len(dataset))).round().astype(int)
        dataset = dataset.subset(keep)
    columns = ("[progress.description]{task.description}", BarColumn(), MofNCompleteColumn())
    hidden = not Console().is_terminal
    with Progress(*columns, TimeRemainingColumn(), transient=True, disable=hidden) as progress:
        task = progress.add_task(f"exporting {name}", total=len(dataset))
        export_dataset(dataset, out, report=lambda count: progress.advance(task, count))
    Console().print(f"{len(dataset)} examples in {out}", markup=False, highlight=False)


COMMANDS: dict[str, Callable[..., int | None]] = {
    "list": list_,
    "describe": describe,
    "sheet": sheet,
    "traverse": traverse,
    "check": check,
    "import": import_,
    "export": export,
}


def _facts(dataset: Dataset) -> dict[str, str]:
    """What `describe` says about the data."""
    kind = "bits" if dataset.bits else str(dataset.data.dtype)
    return {
        "examples": f"{len(dataset):,}, {'×'.join(map(str, dataset.shape))} each",
        "kept as": f"{kind}, {dataset.data.nbytes / 1e6:,.1f} MB",
        "full grid": "yes" if dataset.has_full_grid else "no",
        "likelihood": dataset.likelihood,
        **{key: str(value) for key, value in dataset.provenance.items()},
        "sha256": dataset.checksum(),
    }


def _factor_rows(dataset: Dataset, at: tuple[int, ...] | None, steps: int) -> list[np.ndarray]:
    """For each factor, rows of factor values in which it alone moves."""
    sizes = dataset.space.grid_sizes
    base = np.array([size // 2 for size in sizes] if at is None else at)
    if len(base) == len(sizes):
        dataset.space.check(base[None], "--at")
    else:
        raise InputError(
            f"--at needs a value for each of {', '.join(dataset.space.names)}, "
            f"but got {len(base)} values"
        )
    rows = []
    for factor, size in enumerate(sizes):
        values = np.linspace(0, size - 1, min(steps, size)).round().astype(int)
        moved = np.repeat(base[None], len(values), 0)
        moved[:, factor] = values
        rows.append(moved)
    return rows


def _check_new(path: Path) -> None:
    """Raises where a path exists: no command of this room replaces a file."""
    if path.exists():
        raise InputError(f"{path} exists and is not overwritten: choose a new path or move it away")
