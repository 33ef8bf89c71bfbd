"""Rows on their way through Spark: packed by Arrow into bytes that Spark moves, sorts and keeps, and never looks into.

So rows keep types that Spark does not have, and the JVM takes no row apart. A shuffle of packs costs next to nothing
beside one of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

PACKED = "dest int, kind int, place long, count long, rows binary"
"""Columns of packs: where they go, what they are, their order there, how much they stand for, and their content."""

PACK_BYTES = 2 * 1024 * 1024
"""About how large a pack should be."""

SMALL_BATCHES = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 * PACK_BYTES),
}
"""Settings for moving packs: Spark would hand over thousands at a time, which are gigabytes."""

_SCHEMA = pa.schema(
    [
        ("dest", pa.int32()),
        ("kind", pa.int32()),
        ("place", pa.int64()),
        ("count", pa.int64()),
        ("rows", pa.binary()),
    ]
)


@dataclass(frozen=True, slots=True)
class Pack:
    """Some rows, or whatever else a stage tells the next."""

    dest: int
    kind: int
    place: int
    count: int
    rows: bytes


class Packer:
    """Makes bytes of rows of one schema, and rows of those bytes."""

    def __init__(self, schema: pa.Schema) -> None:
        """Takes the schema of all rows."""
        self._schema = schema
        self._whole = any(_holds_dictionary(field.type) for field in schema)

    def pack(self, rows: pa.RecordBatch | pa.Table) -> bytes:
        """The rows as bytes."""
        batches = rows.combine_chunks().to_batches() if isinstance(rows, pa.Table) else [rows]
        batch = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=self._schema)
        if len(batches) < 2 and not self._whole:
            return b"\0" + bytes(batch.serialize().to_pybytes())
        sink = pa.BufferOutputStream()  # dictionaries, and what is too long for one batch, need a whole stream
        with pa.ipc.new_stream(sink, self._schema) as writer:
            for piece in batches or [batch]:
                writer.write_batch(piece)
        return b"\1" + bytes(sink.getvalue().to_pybytes())

    def unpack(self, data: bytes) -> pa.Table:
        """The rows again."""
        content = pa.py_buffer(data[1:])
        if data[:1] == b"\0":
            return pa.Table.from_batches([pa.ipc.read_record_batch(content, self._schema)])
        with pa.ipc.open_stream(content) as reader:
            return reader.read_all()

    def pieces(self, rows: pa.RecordBatch | pa.Table) -> Iterator[tuple[int, bytes]]:
        """The rows in packs of about the right size, each with its number of rows."""
        if not rows.num_rows:
            return
        step = max(1, PACK_BYTES * rows.num_rows // max(rows.nbytes, 1))
        for start in range(0, rows.num_rows, step):
            piece = rows.slice(start, step)
            yield piece.num_rows, self.pack(piece)


def packed(packs: Iterable[Pack]) -> Iterator[pa.RecordBatch]:
    """Packs as Spark takes them, some at a time."""
    waiting: list[Pack] = []
    size = 0
    for pack in packs:
        waiting.append(pack)
        size += len(pack.rows)
        if size >= PACK_BYTES:
            yield _batch(waiting)
            waiting, size = [], 0
    if waiting:
        yield _batch(waiting)


def unpacked(batches: Iterable[pa.RecordBatch]) -> Iterator[Pack]:
    """Packs as Spark gives them."""
    for batch in batches:
        columns = [batch.column(name) for name in _SCHEMA.names]
        for number in range(batch.num_rows):
            yield Pack(*(column[number].as_py() for column in columns))


def _batch(packs: list[Pack]) -> pa.RecordBatch:
    columns = [pa.array([getattr(pack, field.name) for pack in packs], field.type) for field in _SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def _holds_dictionary(type_: pa.DataType) -> bool:
    if pa.types.is_dictionary(type_):
        return True
    return any(_holds_dictionary(type_.field(number).type) for number in range(type_.num_fields))
