"""Files that rows come from: Parquet, CSV, JSON lines or Arrow, on disk or from stdin, as one stream."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parqlake.cli.exits import UsageError
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
    try:
        if kind == "parquet":
            return _parquet(path)
        if kind == "csv":
            return _csv(path, schema)
        if kind == "json":
            return _json(path, schema)
        return _arrow(path)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        shown = "stdin" if path == STDIN else path
        raise UnsupportedInputError(
            f"cannot read {shown} as {kind}: {error}; --format says what it is: {', '.join(FORMATS)}"
        ) from error


def _format_of(path: str, given: str | None) -> str:
    if given is not None:
        if given not in FORMATS:
            raise UsageError(f"--format {given} is unknown; use one of {', '.join(FORMATS)}")
        return given
    name = Path(path)
    while name.suffix.lower() in _PACKED:
        name = name.with_suffix("")
    kind = "parquet" if Path(path).is_dir() else _ENDINGS.get(name.suffix.lower())
    if kind is None:
        what = "stdin has no name" if path == STDIN else f"the name of {path} does not tell what it is"
        raise UsageError(f"{what}; give --format: {', '.join(FORMATS)}")
    return kind


def _parquet(path: str) -> Any:
    """A path, which is read by those who write it; what comes from stdin has to be held to be read."""
    import pyarrow as pa

    if path != STDIN:
        return path
    import pyarrow.parquet as pq

    return pq.ParquetFile(pa.BufferReader(sys.stdin.buffer.read())).iter_batches()


def _csv(path: str, schema: pa.Schema | None) -> Any:
    from pyarrow import csv

    types = {} if schema is None else {field.name: field.type for field in schema}
    tabs = Path(path.removesuffix(".gz")).suffix.lower() == ".tsv"
    return csv.open_csv(
        _source(path),
        parse_options=csv.ParseOptions(delimiter="\t" if tabs else ",", newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            column_types=types, strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )


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
