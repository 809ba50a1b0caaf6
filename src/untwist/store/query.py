"""SQL over all runs, through DuckDB."""

from pathlib import Path

import duckdb
import pyarrow as pa

from untwist.store.run import Run
from untwist.types import InputError

VIEWS = ("members", "history", "scores", "explanation", "sentences")
"""The tables of a run, each with the name of its run."""


def query(runs: list[Run], sql: str) -> tuple[list[str], list[tuple]]:
    """Returns the column names and rows of a query over six tables.

    - `runs`: `run` (the directory's name), `path`, `state`, and the configuration's settings;
    - `members`: `run` and the columns of every members.parquet;
    - `history`: `run` and the columns of every history.parquet;
    - `scores`: `run` and the columns of every scores.parquet;
    - `explanation`: `run` and the columns of every explanation.parquet;
    - `sentences`: `run` and the columns of every sentences.parquet.
    """
    connection = duckdb.connect()
    connection.register("runs", _settings(runs))
    for view in VIEWS:
        files = [path for run in runs if (path := getattr(run, view)).exists()]
        connection.execute(_view(view, files))
    try:
        result = connection.execute(sql)
        return [column[0] for column in result.description or []], result.fetchall()
    except duckdb.Error as error:
        raise InputError(
            f"the query failed: {str(error).splitlines()[0]} "
            f"(the tables are runs, {', '.join(VIEWS[:-1])} and {VIEWS[-1]})"
        ) from error


def _settings(runs: list[Run]) -> pa.Table:
    """One row a run: where it is, how far it got, and its scalar settings."""
    rows = [
        {"run": run.name, "path": str(run.path), "state": run.state}
        | {key: str(value) for key, value in run.config["spec"].items()}
        for run in runs
    ]
    columns = dict.fromkeys(key for row in rows for key in row) or {"run": None}
    return pa.table({key: pa.array([row.get(key) for row in rows], pa.string()) for key in columns})


def _view(name: str, files: list[Path]) -> str:
    """A view of all runs' files of one kind, each row with the name of its run."""
    if not files:
        return f"CREATE VIEW {name} AS SELECT NULL::VARCHAR AS run WHERE false"
    listed = ", ".join("'" + str(file.resolve()).replace("'", "''") + "'" for file in files)
    return (
        f"CREATE VIEW {name} AS SELECT string_split(filename, '/')[-2] AS run, "
        f"* EXCLUDE (filename) FROM read_parquet([{listed}], union_by_name=true, filename=true)"
    )
