"""Rows of a table or a query: streamed whole to pipes and programs, as many as can be read to a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from parqlake.cli import plain
from parqlake.cli.output import Output
from parqlake.cli.report import Column, Kind
from parqlake.cli.values import for_pipes

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS_AT_ONCE = 2_048
_SPECIAL = r"[\x00-\x1f\x7f\x{80}-\x{9f}\x{2028}\x{2029}\\]"
"""What `for_pipes` spells differently."""
SHOWN_ROWS = 10_000
"""The most rows that a terminal is given unless somebody asks for more."""


def show_rows(
    output: Output, reader: pa.RecordBatchReader, *, limit: int | None, wide: bool = False, transposed: bool = False
) -> None:
    """Says rows: all of them, or `limit`; a terminal gets 10,000 at most if nothing is said, and says so.

    Args:
        output: where to.
        reader: the rows, as a stream.
        limit: the most rows; 0 for all, and None for as many as whoever listens can take.
        wide: on a terminal, all columns in full width.
        transposed: on a terminal, one row below the other.
    """
    schema = reader.schema
    limit = sys.maxsize if limit == 0 else limit
    if not output.is_terminal and not output.as_json:
        output.lines(_lines(reader, limit))
        return
    rows = islice(_rows(reader), limit)
    if output.as_json:
        output.lines(plain.json_rows([(field.name, str(field.type)) for field in schema], rows))
        return
    shown = list(rows if limit is not None else islice(rows, SHOWN_ROWS + 1))
    more = limit is None and len(shown) > SHOWN_ROWS
    columns = [Column(field.name, _kind(field.type), is_data=True) for field in schema]
    left_out = output.terminal.rows(columns, shown[:SHOWN_ROWS] if more else shown, wide=wide, transposed=transposed)
    if left_out:
        output.note(f"{len(left_out)} of {len(columns)} columns found no room: {', '.join(left_out)}")
        output.note("(--wide shows all, --transpose one row below the other; a pipe gets everything)")
    if more:
        output.note(f"(the first {SHOWN_ROWS:,} rows; --limit 0 shows all, and a pipe gets all)")
    elif len(shown) != 1:
        output.note(f"({len(shown):,} rows)")


def _lines(reader: pa.RecordBatchReader, limit: int | None) -> Iterator[str]:
    """Tab-separated lines, many at once: most values need no look at each of them."""
    yield "\t".join(map(for_pipes, reader.schema.names))
    left = sys.maxsize if limit is None else limit
    for batch in reader:
        for start in range(0, min(batch.num_rows, left), _ROWS_AT_ONCE):
            some = batch.slice(start, min(_ROWS_AT_ONCE, left - start))
            yield "\n".join(map("\t".join, zip(*map(_texts, some.columns), strict=True)))
        left -= min(batch.num_rows, left)
        if not left:
            return


def _texts(column: pa.Array) -> list[str]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(column.type):
        return list(pc.fill_null(pc.cast(column, pa.string()), "").to_pylist())
    if pa.types.is_string(column.type) and not pc.any(pc.match_substring_regex(column, _SPECIAL)).as_py():
        return list(pc.fill_null(column, "").to_pylist())
    return list(map(for_pipes, _values(column)))


def _rows(reader: pa.RecordBatchReader) -> Iterator[Sequence[Any]]:
    for batch in reader:
        yield from zip(*map(_values, batch.columns), strict=True)


def _values(column: pa.Array) -> list[Any]:
    """The values as Python has them; moments as ISO text, which knows nanoseconds and any year."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_timestamp(column.type):
        text = pc.replace_substring(pc.cast(column, pa.string()), " ", "T", max_replacements=1)
        text = pc.replace_substring_regex(text, r"([+-]\d\d)(\d\d)$", r"\1:\2")
        return list(pc.replace_substring_regex(text, r"\+00:00$", "Z").to_pylist())
    if pa.types.is_date(column.type):
        return list(pc.cast(column, pa.string()).to_pylist())
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError):  # a moment inside a struct or a list that Python cannot hold
        return [str(value) if value.is_valid else None for value in column]


def _kind(type_: pa.DataType) -> Kind:
    import pyarrow as pa

    if pa.types.is_temporal(type_):
        return Kind.TIME
    is_number = pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)
    return Kind.NUMBER if is_number else Kind.TEXT
