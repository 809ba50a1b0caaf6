"""`untwist data check` and `untwist data import`: real files, and data of your own."""

from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from untwist.datasets import (
    CATALOG,
    Dataset,
    export_dataset,
    forget_seen,
    imported_path,
    load,
    name_of_file,
    own,
    parse_options,
)
from untwist.types import InputError

OWN = "your own data"

Source = tyro.conf.Positional[str]
Options = Annotated[tuple[str, ...], tyro.conf.arg(name="set", metavar="OPTION=VALUE")]


def check(
    source: Source,
    *,
    dataset: Annotated[str | None, tyro.conf.arg(name="as")] = None,
    options: Options = (),
) -> None:
    """Check a dataset or a file anew, and print what was verified; exit with 2 if it is refused.

    Args:
        source: A dataset (`untwist data list` shows all), a published file or a folder that holds
            it, or data of your own.
        dataset: The dataset that the file belongs to; by default what its name says.
        options: Options of the dataset, e.g. split=test.
    """
    name, path = _name_and_path(source, dataset)
    if name in CATALOG:
        forget_seen(name)
    elif options:
        parse_options(name, options)
    given = parse_options(name, options)
    checked = load(name, **({"path": path} if path else {}), **given)
    checked.check()
    console = Console()
    for line in _verified(checked):
        console.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)
    said, origin = checked.provenance.get("confirmed by"), checked.provenance["source"]
    if "file" in checked.provenance and origin != OWN:
        origin = f"usable, and says of itself that it is {origin}"
    console.print(
        f"{source} is {origin}" + (f", confirmed by {said}" if said else ""),
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def import_(
    source: Source,
    out: tyro.conf.Positional[str],
    *,
    factors: Path | None = None,
    kinds: str | None = None,
    likelihood: str | None = None,
) -> None:
    """Import data of your own, with or without factors: pictures in a folder, an .npz or an .h5.

    Writes one .npz that is mapped, not read, when it is loaded. Under a name it goes into the
    cache, and `untwist train --dataset NAME` finds it; with a path, say the path there.

    Args:
        source: The data: images or vectors.
        out: A name, or a new path that ends in .npz.
        factors: A CSV file of factors, a column each and a row an example.
        kinds: categorical, ordinal, periodic or continuous for each factor, with commas between.
        likelihood: bernoulli, gaussian or squared_error; bernoulli for images by default.
    """
    target = _import_target(out)
    table = None if factors is None else str(factors)
    dataset = own(source, factors=table, kinds=kinds, likelihood=likelihood)
    dataset.check()
    target.parent.mkdir(parents=True, exist_ok=True)
    columns = ("[progress.description]{task.description}", BarColumn(), MofNCompleteColumn())
    console = Console()
    with Progress(
        *columns, TimeRemainingColumn(), transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task(f"importing {source}", total=len(dataset))
        report = lambda count: progress.advance(task, count)  # noqa: E731
        export_dataset(dataset, target, compress=False, report=report)
    grid = "a full grid" if dataset.has_full_grid else "not a full grid"
    sizes = zip(dataset.space.names, dataset.space.sizes, dataset.space.kinds, strict=True)
    for name, size, kind in sizes:
        values = "" if size is None else f", {size} values"
        console.print(f"  {name}: {kind}{values}", markup=False, highlight=False)
    console.print(
        f"{len(dataset):,} examples of {'×'.join(map(str, dataset.shape))}, {grid}, in {target}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def _name_and_path(source: str, dataset: str | None) -> tuple[str, str | None]:
    """The dataset that a source belongs to, and the path to give it."""
    if source in CATALOG and dataset is None:
        return source, None
    path = Path(source).expanduser()
    if dataset is not None:
        return dataset, source
    found = name_of_file(path) if path.is_file() else []
    if len(found) > 1:
        raise InputError(f"{source} may belong to {' or '.join(found)}: say which with --as NAME")
    return (
        (found[0], str(path.parent) if _one_of_several(found[0]) else source)
        if found
        else (
            source,
            None,
        )
    )


def _one_of_several(name: str) -> bool:
    """Whether the files of a dataset are given by their directory."""
    return name in ("mnist", "fashion_mnist", "kmnist", "smallnorb")


def _verified(dataset: Dataset) -> list[str]:
    """What was verified of a dataset, a line each."""
    checks = str(dataset.provenance.get("checks", ""))
    lines = [line for line in checks.split("; ") if line]
    kind = "images" if dataset.is_image else "vectors"
    lines.append(f"{len(dataset):,} {kind} of {'×'.join(map(str, dataset.shape))}, all usable")
    names = zip(dataset.space.names, dataset.space.sizes, strict=True)
    lines.append("factors " + ", ".join(f"{n} {'any' if s is None else s}" for n, s in names))
    return lines


def _import_target(out: str) -> Path:
    """Where an import goes: a new path, or a new name in the cache."""
    path = Path(out).expanduser()
    if path.suffix == ".npz":
        target = path
    elif path.suffix or len(path.parts) != 1:
        raise InputError(f"expected a name, or a path that ends in .npz, but got {out}")
    elif out in CATALOG:
        raise InputError(f"{out} is the name of a dataset of the catalog: choose another name")
    else:
        target = imported_path(out)
    if target.exists():
        raise InputError(f"{target} exists and is not overwritten: choose a new name or path")
    return target
