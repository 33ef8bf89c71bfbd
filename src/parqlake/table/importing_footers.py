"""What the footers of files to be imported say: columns, rows and statistics. Nothing else of the files is read."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any

import pyarrow as pa

from parqlake.core.errors import DataCorruptionError, ParqlakeError, UnsupportedTypeError
from parqlake.core.evolution.by_name import plain_type
from parqlake.core.hive import partition_values
from parqlake.core.keys import NAN_KEY, has_bytes_keys
from parqlake.core.model import DataFile
from parqlake.core.names import check_column_names
from parqlake.core.ports import Store, StoredFile
from parqlake.core.schema import assign_field_ids, leaves
from parqlake.core.statistics import describe_file
from parqlake.table.recovering import read_footer

_LOCAL_THREADS, _REMOTE_THREADS = 8, 32
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Footer:
    """One file, as its footer describes it. The ids of its statistics count the leaves of its own schema."""

    file: DataFile
    schema: pa.Schema
    """In the types of tables; a column of NULLs alone keeps its own. Files alike share one object."""
    folders: dict[str, str | None]
    """What its folders, `region=eu`, say."""

    @property
    def path(self) -> str:
        """Relative to the lake's root."""
        return self.file.path[1:]


def read_footers(store: Store, files: Sequence[StoredFile]) -> list[Footer]:
    """Reads all footers, several at a time; raises, with the names of files that are damaged or no Parquet."""
    known = _Schemas()
    threads = min(_LOCAL_THREADS if store.is_local else _REMOTE_THREADS, len(files))
    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(lambda file: _read(store, file, known), files))
    wrong = [text for text in found if isinstance(text, str)]
    if wrong:
        more = f"\n  and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise DataCorruptionError(
            f"{len(wrong)} of {len(files)} file(s) cannot be imported:\n  "
            + "\n  ".join(wrong[:_SHOWN])
            + f"{more}\nnothing was imported; mend them, take them out, or import a glob that leaves them out"
        )
    return [footer for footer in found if isinstance(footer, Footer)]


class _Schemas:
    """One object for all schemas that are alike."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[pa.Schema, pa.Schema, list[pa.DataType]]] = {}
        self._lock = Lock()

    def of(self, metadata: Any) -> tuple[pa.Schema, pa.Schema, list[pa.DataType]]:
        """The schema in the types of tables, the same with its leaves numbered, and their types as stored."""
        own = metadata.schema.to_arrow_schema().remove_metadata()
        key = own.serialize().to_pybytes()
        with self._lock:
            if key not in self._known:
                check_column_names(own.names)
                plain = pa.schema([pa.field(field.name, _plain(field)) for field in own])
                types = [leaf.type for leaf in leaves(pa.schema([_decoded(field) for field in own]))]
                if len(types) != metadata.num_columns or len(leaves(plain)) != metadata.num_columns:
                    raise UnsupportedTypeError("its columns cannot be told apart; rewrite it with plain types")
                self._known[key] = plain, assign_field_ids(plain), types
            return self._known[key]


def _read(store: Store, file: StoredFile, known: _Schemas) -> Footer | str:
    if not file.size_bytes:
        return f'"{file.path}" is empty: 0 bytes'
    try:
        metadata = read_footer(store, file.path)
        schema, numbered, types = known.of(metadata)
        # Nobody looks for NaNs here: upper bounds of floats stay unknown.
        described = describe_file(
            f"/{file.path}",
            file.size_bytes,
            metadata,
            numbered,
            partition={},
            nans=None,
            types=types,
            keep_footer=not store.is_local,
        )
    except UnicodeDecodeError as error:
        return f'"{file.path}" holds text that is no UTF-8 ({error})'
    except ParqlakeError as error:
        return f'"{file.path}": {error}'
    except (OSError, pa.ArrowException, ValueError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        return f'"{file.path}" is damaged, or no Parquet file ({reason})'
    for column, type_ in zip(described.statistics, types, strict=True):
        if pa.types.is_floating(type_) and not has_bytes_keys(type_):
            _without_nan_bounds(column.mins)
    return Footer(described, schema, partition_values(file.path))


def _without_nan_bounds(mins: Any) -> None:
    """Some writers took a NaN for the least value: that says nothing of the others."""
    mins[mins >= NAN_KEY] = 0


def _plain(field: pa.Field) -> pa.DataType:
    try:
        return _nullable(plain_type(field.type))
    except UnsupportedTypeError as error:
        raise UnsupportedTypeError(str(error).replace('"plain"', f'"{field.name}"')) from None


def _nullable(type_: pa.DataType) -> pa.DataType:
    """The type with NULLs allowed inside it: what other writers declare is not relied on."""
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(child.name, _nullable(child.type)) for child in type_])
    if pa.types.is_map(type_):
        return pa.map_(
            pa.field("key", _nullable(type_.key_type), nullable=False), pa.field("value", _nullable(type_.item_type))
        )
    return pa.list_(pa.field("element", _nullable(type_.value_type))) if pa.types.is_list(type_) else type_


def _decoded(field: pa.Field) -> pa.Field:
    """The field with types that have order keys, where dictionaries and extensions hide them; units stay."""
    return field.with_type(_decoded_type(field.type))


def _decoded_type(type_: pa.DataType) -> pa.DataType:
    if isinstance(type_, pa.BaseExtensionType):
        return _decoded_type(type_.storage_type)
    if pa.types.is_dictionary(type_):
        return _decoded_type(type_.value_type)
    if pa.types.is_struct(type_):
        return pa.struct([_decoded(child) for child in type_])
    if pa.types.is_map(type_):
        return pa.map_(_decoded(type_.key_field), _decoded(type_.item_field))
    return pa.list_(_decoded(type_.value_field)) if pa.types.is_nested(type_) else type_
