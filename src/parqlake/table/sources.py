"""Input: anything that speaks Arrow, as one stream of batches of exactly the table's schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, cast

import pyarrow as pa
import pyarrow.compute as pc

from parqlake.core.errors import ConstraintError, InvalidOptionError, ParqlakeError, UnsupportedInputError
from parqlake.core.fitting import fit
from parqlake.core.model import DataFile
from parqlake.core.ports import BatchCheck, Engine, FrameEngine, Store, WriteSpec
from parqlake.core.schema import reconcile

_KINDS = (
    "a pandas or Polars frame, an Arrow table, batches or reader, a DuckDB relation, "
    "anything with __arrow_c_stream__, or the path of a Parquet file or folder"
)


class Source(Protocol):
    """Rows to be written, found to fit a table."""

    def write(self, engine: Engine, spec: WriteSpec, store: Store) -> list[DataFile]:
        """Has the engine write the rows to final files."""


def open_source(
    data: Any, schema: pa.Schema, engine: Engine, *, checks: Sequence[BatchCheck] = (), strict: bool = True
) -> Source:
    """Opens the data, and raises if its columns do not fit the schema, before anything is read.

    Unless `strict`, the schema was made to hold the data, and columns that the data lacks are filled.
    """
    if is_spark_frame(data):
        return FrameSource(data, schema, engine, checks=checks, strict=strict)
    return StreamSource(data, schema, checks=checks, strict=strict)


def is_spark_frame(data: Any) -> bool:
    """Whether the data is a Spark data frame; loads nothing to find out."""
    kind = type(data)
    return kind.__module__.partition(".")[0] == "pyspark" and hasattr(data, "mapInArrow")


class FrameSource:
    """A data frame whose engine writes it where it is."""

    def __init__(
        self,
        frame: Any,
        schema: pa.Schema,
        engine: Engine,
        *,
        checks: Sequence[BatchCheck] = (),
        strict: bool = True,
    ) -> None:
        """Made by `open_source`."""
        if not hasattr(engine, "write_frame"):
            raise InvalidOptionError(f'engine="{engine.name}" cannot write a Spark data frame; leave engine out')
        self._engine = cast("FrameEngine", engine)
        if strict:
            reconcile(self._engine.frame_schema(frame), schema)
        self._frame = frame
        self._checks = checks

    def write(self, engine: Engine, spec: WriteSpec, store: Store) -> list[DataFile]:  # noqa: ARG002 (its own engine)
        """Has the frame's engine write the rows to final files."""
        return self._engine.write_frame(self._frame, spec, store, self._checks)


class StreamSource:
    """A stream of batches on this machine.

    Some engines only see that a stream broke, not why; so the first error is kept, and raised as it was.
    """

    def __init__(self, data: Any, schema: pa.Schema, *, checks: Sequence[BatchCheck] = (), strict: bool = True) -> None:
        """Opens the data, and raises if its columns do not fit, before anything is read."""
        self._raw = to_reader(data)
        if strict:
            reconcile(self._raw.schema, schema)
        self._schema = schema
        self._checks = checks
        self._error: ParqlakeError | None = None

    def write(self, engine: Engine, spec: WriteSpec, store: Store) -> list[DataFile]:
        """Has the engine write the rows to final files."""
        try:
            return engine.write(self.reader(), spec, store)
        except Exception as error:
            if self._error is not None and error is not self._error:
                raise self._error from error
            raise

    def reader(self) -> pa.RecordBatchReader:
        """The stream; it can be read once."""
        return pa.RecordBatchReader.from_batches(self._schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._raw:
                if batch.num_rows:
                    fitted = fit(batch, self._schema)
                    for check in self._checks:
                        check(fitted)
                    yield fitted
        except ParqlakeError as error:
            self._error = error
            raise


def to_reader(data: Any) -> pa.RecordBatchReader:
    """Opens any supported input as a stream of record batches."""
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.Table):
        return data.to_reader()
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    package = type(data).__module__.partition(".")[0]
    if package == "pandas":
        return _from_pandas(data)
    if package == "polars" and hasattr(data, "collect_batches"):
        return _from_polars_lazy(data)
    if hasattr(data, "to_arrow_reader"):  # a DuckDB relation; its capsule would materialise the result
        return data.to_arrow_reader()
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    if hasattr(data, "scanner"):  # a pyarrow dataset
        return data.scanner().to_reader()
    if hasattr(data, "to_reader"):  # a scanner, or a scan of another table
        return data.to_reader()
    if isinstance(data, str) or hasattr(data, "__fspath__"):
        return _from_parquet(data)
    if isinstance(data, Iterable) and not isinstance(data, bytes | dict):
        return _from_batches(data)
    raise UnsupportedInputError(f"cannot read a {type(data).__name__} as rows; give {_KINDS}")


def schema_of(data: Any) -> pa.Schema:
    """The Arrow schema of a schema, or of anything that has rows."""
    if isinstance(data, pa.Schema):
        return data
    if type(data).__module__.partition(".")[0] == "pandas":
        return pa.Schema.from_pandas(data, preserve_index=False)
    if hasattr(data, "__arrow_c_schema__"):
        return pa.schema(data)
    try:
        return to_reader(data).schema
    except UnsupportedInputError as error:
        raise UnsupportedInputError(f"no schema can be had here: give a pyarrow.Schema, or data; {error}") from error


def matching_only(expression: pc.Expression, text: str) -> BatchCheck:
    """A check that refuses rows for which the predicate is not TRUE."""

    def check(batch: pa.RecordBatch) -> None:
        kept = pa.Table.from_batches([batch]).filter(expression).num_rows
        if kept != batch.num_rows:
            raise ConstraintError(
                f"{batch.num_rows - kept} of the rows do not match where={text}; overwrite replaces only what it "
                "selects, so new rows must match it too: filter the data, or widen the predicate"
            )

    return check


def _from_pandas(frame: Any) -> pa.RecordBatchReader:
    if not hasattr(frame, "columns"):
        raise UnsupportedInputError(f"cannot read a pandas {type(frame).__name__} as rows; call .to_frame() first")
    named = [name for name in frame.index.names if name is not None]
    return pa.Table.from_pandas(frame, preserve_index=bool(named)).replace_schema_metadata(None).to_reader()


def _from_polars_lazy(frame: Any) -> pa.RecordBatchReader:
    empty = frame.limit(0).collect().to_arrow()

    def batches() -> Iterator[pa.RecordBatch]:
        for piece in frame.collect_batches():
            yield from piece.to_arrow().to_batches()

    return pa.RecordBatchReader.from_batches(empty.schema, batches())


def _from_parquet(path: Any) -> pa.RecordBatchReader:
    import pyarrow.dataset as ds

    try:
        return ds.dataset(path, format="parquet", partitioning="hive").scanner().to_reader()
    except (OSError, pa.ArrowInvalid) as error:
        raise UnsupportedInputError(f"cannot read {str(path)!r} as Parquet: {error}; give {_KINDS}") from error


def _from_batches(data: Iterable[Any]) -> pa.RecordBatchReader:
    batches = iter(data)
    first = next(batches, None)
    if isinstance(first, dict):
        raise UnsupportedInputError("cannot read a list of dicts as rows; use pyarrow.Table.from_pylist(rows, schema)")
    if not isinstance(first, pa.RecordBatch | pa.Table):
        raise UnsupportedInputError(f"cannot read an iterable of {type(first).__name__} as rows; give {_KINDS}")

    def stream() -> Iterator[pa.RecordBatch]:
        for piece in (first, *batches) if isinstance(data, Sequence) else _chain(first, batches):
            if isinstance(piece, pa.Table):
                yield from piece.to_batches()
            else:
                yield piece

    return pa.RecordBatchReader.from_batches(first.schema, stream())


def _chain(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest
