"""Tables as Parquet files: columns of equal length; a column may hold one list a row."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from untwist.store.atomic import replacing
from untwist.types import InputError

Columns = Mapping[str, np.ndarray | list]


def write_table(path: Path, columns: Columns) -> None:
    """Writes the columns in place of whatever the file held."""
    table = pa.table({name: _column(values) for name, values in columns.items()})
    with replacing(path) as temporary:
        pq.write_table(table, temporary)


def read_table(path: Path) -> dict[str, np.ndarray]:
    """Returns the file's columns."""
    try:
        table = pq.read_table(path)
    except pa.ArrowInvalid as error:
        raise InputError(f"{path} is damaged: expected a Parquet table, but {error}") from error
    return {name: _array(table.column(name)) for name in table.column_names}


def _column(values: np.ndarray | list) -> pa.Array:
    if isinstance(values, np.ndarray) and values.ndim == 2:
        return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])
    return pa.array(values)


def _array(column: pa.ChunkedArray) -> np.ndarray:
    if pa.types.is_fixed_size_list(column.type):
        flat = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
        return flat.reshape(-1, column.type.list_size)
    return column.to_numpy()
