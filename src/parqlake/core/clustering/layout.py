"""The layout of a dataset as statistics show it: for each file, or row group, the bounds of the clustering columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parqlake.core.errors import column_not_found


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """Bounds of one column, one entry for each file."""

    name: str
    mins: pa.Array
    """NULL where the bound is unknown, or where the file holds only NULLs."""
    maxs: pa.Array
    has_nulls: npt.NDArray[np.bool_]
    """Where the column holds NULLs, or may hold them."""
    only_nulls: npt.NDArray[np.bool_]

    def take(self, places: npt.NDArray[np.int64]) -> ColumnBounds:
        """The bounds of some of the files."""
        chosen = pa.array(places)
        lows, highs = self.mins.take(chosen), self.maxs.take(chosen)
        return ColumnBounds(self.name, lows, highs, self.has_nulls[places], self.only_nulls[places])


@dataclass(frozen=True, slots=True)
class Layout:
    """Rows and bounds of the pieces of a dataset: its files, or the row groups of a single file.

    Example:
        >>> import io, pyarrow.parquet as pq
        >>> file = io.BytesIO()
        >>> pq.write_table(pa.table({"id": [1, 2, 3, 4]}), file, row_group_size=2)
        >>> Layout.from_footers([pq.read_metadata(file)], ["id"]).columns[0].maxs.to_pylist()
        [2, 4]
    """

    rows: npt.NDArray[np.int64]
    columns: tuple[ColumnBounds, ...]

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def from_footers(cls, footers: Sequence[Any], columns: Sequence[str]) -> Layout:
        """The layout out of `pyarrow.parquet.FileMetaData`: files, or if there is one file, its row groups.

        Empty files and row groups are left out. A file without statistics of a column has unknown bounds.
        """
        pieces = [[footer.row_group(i) for i in range(footer.num_row_groups)] for footer in footers if footer.num_rows]
        if len(pieces) == 1:
            pieces = [[group] for group in pieces[0] if group.num_rows]
        rows = np.array([sum(group.num_rows for group in piece) for piece in pieces], dtype=np.int64)
        schemas = [footer.schema.to_arrow_schema() for footer in footers]
        bounds = [_column(pieces, name, _type(schemas, name)) for name in columns] if pieces else []
        return cls(rows, tuple(bounds))

    @classmethod
    def from_tables(cls, tables: Iterable[pa.Table], columns: Sequence[str]) -> Layout:
        """The layout of rows in memory, one piece for each table; empty tables are left out.

        Example:
            >>> len(Layout.from_tables([pa.table({"a": [1, 2]}), pa.table({"a": [3]})], ["a"]))
            2
        """
        pieces = [table for table in tables if table.num_rows]
        bounds = []
        for name in columns:
            ends = [pc.min_max(table.column(name)) for table in pieces]
            nulls = np.array([table.column(name).null_count for table in pieces])
            type_ = pieces[0].schema.field(name).type if pieces else pa.null()
            bounds.append(
                ColumnBounds(
                    name,
                    pa.array([end["min"].as_py() for end in ends], type_),
                    pa.array([end["max"].as_py() for end in ends], type_),
                    nulls > 0,
                    nulls == np.array([table.num_rows for table in pieces]),
                )
            )
        return cls(np.array([table.num_rows for table in pieces], dtype=np.int64), tuple(bounds))


def _type(schemas: Sequence[pa.Schema], name: str) -> pa.DataType:
    """The column's type in the first file that has it; files may lack a column that came later."""
    for schema in schemas:
        if name in schema.names:
            return schema.field(name).type
    raise column_not_found(name, schemas[0].names)


def _column(pieces: Sequence[Sequence[Any]], name: str, type_: pa.DataType) -> ColumnBounds:
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    if isinstance(type_, pa.BaseExtensionType):
        type_ = type_.storage_type
    lows: list[pa.Scalar] = []
    highs: list[pa.Scalar] = []
    nulls: list[bool] = []
    only: list[bool] = []
    for piece in pieces:
        low, high, some, all_ = _piece(piece, name, type_)
        lows.append(low)
        highs.append(high)
        nulls.append(some)
        only.append(all_)
    return ColumnBounds(name, pa.array(lows, type_), pa.array(highs, type_), np.array(nulls), np.array(only))


def _piece(groups: Sequence[Any], name: str, type_: pa.DataType) -> tuple[Any, Any, bool, bool]:
    lows, highs = [], []
    nulls = values = 0
    unknown = False
    for group in groups:
        chunk = next((c for c in map(group.column, range(group.num_columns)) if c.path_in_schema == name), None)
        statistics = chunk.statistics if chunk is not None else None
        values += group.num_rows
        if statistics is None:
            unknown = True
            continue
        nulls += statistics.null_count if statistics.has_null_count else 1
        if statistics.has_min_max:
            lows.append(_value(statistics, "min", type_))
            highs.append(_value(statistics, "max", type_))
        elif not (statistics.has_null_count and statistics.null_count == group.num_rows):
            unknown = True
    only_nulls = not unknown and nulls == values
    if unknown or not lows or None in lows or None in highs:
        return None, None, unknown or nulls > 0, only_nulls
    return min(lows), max(highs), nulls > 0, only_nulls


def _value(statistics: Any, end: str, type_: pa.DataType) -> Any:
    """A bound as a Python value that compares like the column; None if it cannot be read."""
    if pa.types.is_timestamp(type_) and type_.unit == "ns":
        return int(getattr(statistics, f"{end}_raw"))
    value = getattr(statistics, end)
    try:
        pa.scalar(value, type_)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return None
    return value
