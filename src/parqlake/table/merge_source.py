"""The source of a merge: read once, found to fit, and kept so that it can be read again when the merge is re-run."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from parqlake.core.errors import ConcurrentSchemaChangeError, InvalidOptionError, StoreError
from parqlake.core.evolution.projection import Projection
from parqlake.core.fitting import fit
from parqlake.core.merging import MergeRule, check_merge_schemas
from parqlake.core.merging.bounds import SoughtKeys
from parqlake.core.merging.clause_binding import AskedMerge, source_schema
from parqlake.core.merging.validation import check_not_null, spelled_alike
from parqlake.core.ports import Engine, FrameEngine
from parqlake.table.sources import is_spark_frame, to_reader

_MEMORY_SHARE = 8
"""How much of a merge's memory rows may take that are kept for another run."""


class StreamRows:
    """Rows on this machine. A stream that can be read once is put aside while it is first read, on disk if large."""

    def __init__(self, data: Any, rule: MergeRule, schema: pa.Schema, *, memory_bytes: int) -> None:
        """Opens the data, and raises if its columns do not fit, before anything is read."""
        self._raw = to_reader(data)
        self._rule = rule
        self._schema = schema
        check_merge_schemas(rule, source=spelled_alike(self._raw.schema, schema), target=schema)
        limit = None if _is_in_memory(data) else max(1, memory_bytes // _MEMORY_SHARE)
        self._kept = KeptRows(schema, limit)
        self._sought: SoughtKeys | None = None

    def read(self) -> SoughtKeys:
        """Reads all rows, the first time; raises for NULL keys and values that do not fit. Returns what to look for."""
        if self._sought is None:
            sought = SoughtKeys(self._rule)
            for batch in self._raw:
                if batch.num_rows:
                    for name in self._rule.keys:
                        column = batch.column(batch.schema.get_field_index(name))
                        check_not_null("source", name, column.null_count)
                    fitted = fit(batch, self._schema)
                    sought.note(fitted)
                    self._kept.push(fitted)
            self._kept.finish()
            self._sought = sought
        return self._sought

    def reader(self, schema: pa.Schema) -> pa.RecordBatchReader:
        """All rows, as often as it is asked for.

        If the table's schema has changed since they were first read, they are what they would be had they been written
        before: columns are found by their ids, and new ones hold their default.
        """
        if schema.equals(self._schema, check_metadata=True):
            return pa.RecordBatchReader.from_batches(schema, self._kept.batches())
        projection = Projection(self._schema, schema)
        for name in self._rule.keys:
            found = projection.source(name) if name in schema.names else None
            if found is None or found.name != name:
                raise ConcurrentSchemaChangeError(f'key column "{name}" was renamed or dropped meanwhile; merge again')
        batches = (fit(projection.apply(batch), schema) for batch in self._kept.batches())
        return pa.RecordBatchReader.from_batches(schema, batches)

    def close(self) -> None:
        """Lets go of the rows."""
        self._kept.close()


class FrameRows:
    """A data frame that its engine reads where the rows are, again for each run."""

    def __init__(self, frame: Any, rule: MergeRule, schema: pa.Schema, engine: FrameEngine) -> None:
        """Raises if the frame's columns do not fit; nothing is computed."""
        self._frame = frame
        self._rule = rule
        self._own = engine.frame_schema(frame)
        self.reader(schema)

    def read(self) -> None:
        """Reads nothing: what to look for is known to the engine alone, and only when it has merged."""

    def reader(self, schema: pa.Schema) -> Any:
        """The frame itself; raises if it does not fit what the table's columns have become."""
        check_merge_schemas(self._rule, source=spelled_alike(self._own, schema), target=schema)
        return self._frame

    def close(self) -> None:
        """Nothing is held."""


class ClauseRows:
    """Rows on this machine for a merge by clauses, in columns of their own; kept as those of `StreamRows` are."""

    def __init__(self, data: Any, asked: AskedMerge, schema: pa.Schema, *, memory_bytes: int) -> None:
        """Opens the data, and raises if the merge cannot be for its columns, before anything is read."""
        self._raw = to_reader(data)
        self._asked = asked
        self._schema = source_schema(self._raw.schema, schema)
        self._rule = asked.rule(self._schema, schema)
        limit = None if _is_in_memory(data) else max(1, memory_bytes // _MEMORY_SHARE)
        self._kept = KeptRows(self._schema, limit)
        self._sought: SoughtKeys | None = None

    def rule(self, schema: pa.Schema) -> MergeRule:
        """The merge for a table of this schema."""
        return self._asked.rule(self._schema, schema)

    def read(self) -> SoughtKeys:
        """Reads all rows, the first time; raises for values that do not fit. Returns what to look for."""
        if self._sought is None:
            clauses = self._rule.clauses
            assert clauses is not None
            sought = SoughtKeys(self._rule)
            for batch in self._raw:
                if batch.num_rows:
                    fitted = fit(batch, self._schema)
                    keys = pa.Table.from_batches([clauses.key_rows(fitted)]).drop_null()  # NULL matches nothing
                    for found in keys.combine_chunks().to_batches():
                        sought.note(found)
                    self._kept.push(fitted)
            self._kept.finish()
            self._sought = sought
        return self._sought

    def reader(self, _schema: pa.Schema) -> pa.RecordBatchReader:
        """All rows, as often as it is asked for."""
        return pa.RecordBatchReader.from_batches(self._schema, self._kept.batches())

    def close(self) -> None:
        """Lets go of the rows."""
        self._kept.close()


class ClauseFrame:
    """A data frame for a merge by clauses, that its engine reads where the rows are, again for each run."""

    def __init__(self, frame: Any, asked: AskedMerge, schema: pa.Schema, engine: FrameEngine) -> None:
        """Raises if the merge cannot be for the frame's columns; nothing is computed."""
        self._frame = frame
        self._asked = asked
        self._own = engine.frame_schema(frame)
        self.rule(schema)

    def rule(self, schema: pa.Schema) -> MergeRule:
        """The merge for a table of this schema."""
        return self._asked.rule(source_schema(self._own, schema), schema)

    def read(self) -> None:
        """Reads nothing: what to look for is known to the engine alone, and only when it has merged."""

    def reader(self, _schema: pa.Schema) -> Any:
        """The frame itself."""
        return self._frame

    def close(self) -> None:
        """Nothing is held."""


MergeRows = StreamRows | FrameRows | ClauseRows | ClauseFrame


def open_rows(data: Any, rule: MergeRule, schema: pa.Schema, engine: Engine, *, memory_bytes: int) -> MergeRows:
    """Opens the source of a merge, and raises if its columns do not fit, before anything is read."""
    if not is_spark_frame(data):
        return StreamRows(data, rule, schema, memory_bytes=memory_bytes)
    return FrameRows(data, rule, schema, _of_frames(engine))


def open_clause_rows(
    data: Any, asked: AskedMerge, schema: pa.Schema, engine: Engine, *, memory_bytes: int
) -> ClauseRows | ClauseFrame:
    """Opens the source of a merge by clauses, and raises if the merge cannot be for its columns."""
    if not is_spark_frame(data):
        return ClauseRows(data, asked, schema, memory_bytes=memory_bytes)
    return ClauseFrame(data, asked, schema, _of_frames(engine))


def _of_frames(engine: Engine) -> FrameEngine:
    if not hasattr(engine, "frame_schema"):
        raise InvalidOptionError(f'engine="{engine.name}" cannot read a Spark data frame; leave engine out')
    return cast("FrameEngine", engine)


class KeptRows:
    """Batches in memory, or beyond a limit in a temporary file; read as often as one likes."""

    def __init__(self, schema: pa.Schema, limit_bytes: int | None) -> None:
        """Holds nothing yet; without a limit all stays in memory."""
        self._schema = schema
        self._limit = limit_bytes
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._writer: Any = None
        self._source: Any = None
        self._path: Path | None = None

    def push(self, batch: pa.RecordBatch) -> None:
        """Takes rows."""
        self._held.append(batch)
        self._held_bytes += batch.nbytes
        if self._limit is not None and self._held_bytes > self._limit:
            with _explained():
                self._flush()

    def finish(self) -> None:
        """All rows have come."""
        if self._writer is not None:
            with _explained():
                self._flush()
                self._writer.close()
                self._sink.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, from the first."""
        if self._source is None:
            yield from self._held
            return
        with _explained():
            self._source.seek(0)
            yield from pa.ipc.open_stream(self._source)

    def close(self) -> None:
        """Deletes what was put aside; closing twice is no error."""
        self._held = []
        for handle in (self._writer, getattr(self, "_sink", None), self._source):
            if handle is not None:
                with suppress(OSError, pa.ArrowException):
                    handle.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _flush(self) -> None:
        if self._writer is None:
            self._open()
        for batch in self._held:
            self._writer.write_batch(batch)
        self._held, self._held_bytes = [], 0

    def _open(self) -> None:
        descriptor, name = tempfile.mkstemp(prefix="parqlake-merge-", suffix=".arrow")
        os.close(descriptor)
        self._path = Path(name)
        self._sink = pa.OSFile(name, "wb")
        self._source = pa.OSFile(name, "rb")
        codec = next((codec for codec in ("lz4", "zstd") if pa.Codec.is_available(codec)), None)
        self._writer = pa.ipc.new_stream(self._sink, self._schema, options=pa.ipc.IpcWriteOptions(compression=codec))
        if os.name != "nt":
            self._path.unlink()  # the handles keep it alive; a killed process leaves nothing behind


@contextmanager
def _explained() -> Iterator[None]:
    """Says what to do about a temporary folder that fails."""
    try:
        yield
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(
            f'cannot keep the source\'s rows in "{tempfile.gettempdir()}", or read them back: {error}; '
            "make room there, or choose another place for temporary files by TMPDIR"
        ) from error


def _is_in_memory(data: Any) -> bool:
    """Whether the rows are in memory anyway, whoever reads them."""
    if isinstance(data, pa.Table | pa.RecordBatch | list | tuple):
        return True
    package = type(data).__module__.partition(".")[0]
    return package == "pandas" or (package == "polars" and not hasattr(data, "collect_batches"))
