"""The text of the `COPY` statement. Names, paths and values are quoted here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from parqlake.core.ports import WriteSpec
from parqlake.core.schema import field_id
from parqlake.engines.duck.feed import VECTOR_ROWS

FIELD_ID_NAME = "__duckdb_field_id"
"""How DuckDB spells the id of a nested field itself; no column may have this name."""
_CODECS = {"none": "uncompressed"}
_LEVELS = {"zstd": 1}


def identifier(name: str) -> str:
    """A name that can never be read as SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A string that can never be read as SQL."""
    return "'" + text.replace("'", "''") + "'"


def copy_statement(source: str, target: str, spec: WriteSpec, *, one_file: bool) -> str:
    """Makes the statement that writes everything from `source` and returns a row for each file.

    Args:
        source: name of the registered stream.
        target: a folder, or with `one_file` a file.
        spec: how to write.
        one_file: whether all rows go to the one file named.
    """
    order = ", ".join(f"{identifier(name)} ASC NULLS LAST" for name in spec.sort_by)
    query = f"SELECT * FROM {identifier(source)}" + (f" ORDER BY {order}" if order else "")  # noqa: S608  quoted
    codec = spec.compression.lower()
    options = [
        "FORMAT parquet",
        "RETURN_STATS",
        f"COMPRESSION {literal(_CODECS.get(codec, codec))}",
        f"ROW_GROUP_SIZE {max(spec.row_group_rows // VECTOR_ROWS, 1) * VECTOR_ROWS}",
        f"ROW_GROUP_SIZE_BYTES {spec.row_group_bytes}",
        f"FIELD_IDS {_field_ids(spec.schema)}",
    ]
    if codec in _LEVELS:
        options.append(f"COMPRESSION_LEVEL {_LEVELS[codec]}")
    if spec.footer:
        options.append(f"KV_METADATA {_struct({key: literal(value) for key, value in spec.footer.items()})}")
    if one_file:
        options.append("USE_TMP_FILE false")
    else:
        # APPEND never touches files that are there already; without it a folder in use is refused.
        options += ["APPEND", "FILENAME_PATTERN 'part-{uuidv7}'", f"FILE_SIZE_BYTES {spec.target_file_bytes}"]
    if not spec.partition_by:
        options.append("WRITE_EMPTY_FILE false")
    else:
        options.append(f"PARTITION_BY ({', '.join(map(identifier, spec.partition_by))})")
        options.append("WRITE_PARTITION_COLUMNS true")
    return f"COPY ({query}) TO {literal(target)} ({', '.join(options)})"


def _field_ids(schema: pa.Schema) -> str:
    return _struct({field.name: _ids(field) for field in schema})


def _ids(field: pa.Field) -> str:
    type_ = field.type
    if pa.types.is_struct(type_):
        children = {child.name: child for child in type_}
    elif pa.types.is_map(type_):
        children = {"key": type_.key_field, "value": type_.item_field}
    elif pa.types.is_list(type_):
        children = {"element": type_.value_field}
    else:
        return str(field_id(field))
    return _struct({FIELD_ID_NAME: str(field_id(field))} | {name: _ids(child) for name, child in children.items()})


def _struct(items: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{literal(name)}: {value}" for name, value in items.items()) + "}"
