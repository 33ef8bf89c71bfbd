r"""Files that rows come from: Parquet, CSV, TSV, JSON lines or Arrow, on disk or from stdin, as one stream.

TSV is what this command line writes: no quotes, and tabs and line ends inside of texts as `\t` and `\n`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parqlake.cli.exits import UsageError
from parqlake.cli.values import for_pipes, from_pipes
from parqlake.core.errors import FileNotInStoreError, UnsupportedInputError

if TYPE_CHECKING:
    import pyarrow as pa

STDIN = "-"
FORMATS = ("parquet", "csv", "json", "arrow")
_ENDINGS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
_PACKED = (".gz", ".bz2", ".zst", ".lz4")


def open_rows(path: str, format_: str | None, *, schema: pa.Schema | None) -> Any:
    """The rows of a file, in a form that `Table.append` takes.

    Args:
        path: a file, a folder of Parquet, or `-`.
        format_: what it is, if its name does not tell.
        schema: the columns of the table, if there is one: CSV and JSON have no types of their own.

    Raises:
        FileNotInStoreError: there is no such file.
        UsageError: nobody says what it is.
        UnsupportedInputError: it is not what it is said to be.
    """
    import pyarrow as pa

    kind = _format_of(path, format_)
    if path != STDIN and not Path(path).exists():
        raise FileNotInStoreError(f"there is no file {path}; check the path")
    with _explained(path, kind):
        if kind == "parquet":
            return _parquet(path)
        if kind == "arrow":
            return _arrow(path)
        rows = _csv(path, schema) if kind == "csv" else _json(path, schema)
    return pa.RecordBatchReader.from_batches(rows.schema, _read(rows, path, kind))


@contextmanager
def _explained(path: str, kind: str) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        shown = "stdin" if path == STDIN else path
        raise UnsupportedInputError(
            f"cannot read {shown} as {kind}: {error}; --format says what it is: {', '.join(FORMATS)}"
        ) from error


def _read(rows: Any, path: str, kind: str) -> Iterator[pa.RecordBatch]:
    """The batches; what is wrong far down in the text is seen only when it is read."""
    batches = iter(rows)
    while True:
        with _explained(path, kind):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def _format_of(path: str, given: str | None) -> str:
    if given is not None:
        if given not in FORMATS:
            raise UsageError(f"--format {given} is unknown; use one of {', '.join(FORMATS)}")
        return given
    kind = "parquet" if Path(path).is_dir() else _ENDINGS.get(_ending(path))
    if kind is None:
        what = "stdin has no name" if path == STDIN else f"the name of {path} does not tell what it is"
        raise UsageError(f"{what}; give --format: {', '.join(FORMATS)}")
    return kind


def _ending(path: str) -> str:
    """The ending of the name, without those that say how it is packed."""
    name = Path(path)
    while name.suffix.lower() in _PACKED:
        name = name.with_suffix("")
    return name.suffix.lower()


def _parquet(path: str) -> Any:
    """A path, which is read by those who write it; what comes from stdin has to be held to be read."""
    import pyarrow as pa

    if path != STDIN:
        return path
    import pyarrow.parquet as pq

    return pq.ParquetFile(pa.BufferReader(sys.stdin.buffer.read())).iter_batches()


def _csv(path: str, schema: pa.Schema | None) -> Any:
    """Rows of values with commas or tabs between them; only what is empty, and has no quotes, is NULL."""
    import pyarrow as pa
    from pyarrow import csv

    tabs = _ending(path) == ".tsv"
    spelt = for_pipes if tabs else str
    types = {} if schema is None else {spelt(field.name): field.type for field in schema}
    rows = csv.open_csv(
        _source(path),
        parse_options=csv.ParseOptions(
            delimiter="\t" if tabs else ",",
            quote_char=False if tabs else '"',
            newlines_in_values=not tabs,
            ignore_empty_lines=not tabs,  # in a file of one column, NULL is such a line
        ),
        convert_options=csv.ConvertOptions(
            column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )
    if not tabs:
        return rows
    named = pa.schema([field.with_name(from_pipes(field.name)) for field in rows.schema])
    return pa.RecordBatchReader.from_batches(named, (_read_back(batch, named) for batch in rows))


def _read_back(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The texts as they were before they were spelt for a line; see `for_pipes`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = []
    for column in batch.columns:
        if pa.types.is_string(column.type) and pc.any(pc.match_substring(column, "\\")).as_py():
            texts = [None if text is None else from_pipes(text) for text in column.to_pylist()]
            columns.append(pa.array(texts, column.type))
        else:
            columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _json(path: str, schema: pa.Schema | None) -> Any:
    from pyarrow import json

    options = json.ParseOptions(explicit_schema=schema, newlines_in_values=False)
    return json.open_json(_source(path), parse_options=options)


def _arrow(path: str) -> Any:
    import pyarrow as pa

    source = sys.stdin.buffer if path == STDIN else pa.OSFile(path)
    if path == STDIN:
        return pa.ipc.open_stream(source)
    try:
        file = pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        return pa.ipc.open_stream(pa.OSFile(path))
    return [file.get_batch(number) for number in range(file.num_record_batches)] or file.read_all()


def _source(path: str) -> Any:
    """An Arrow input, unpacked by what the name says."""
    import pyarrow as pa

    return pa.PythonFile(sys.stdin.buffer, mode="r") if path == STDIN else pa.input_stream(path)
