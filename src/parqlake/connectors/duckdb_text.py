"""A scan as SQL text for DuckDB: `read_parquet` of exactly the planned files, brought to the table's schema.

Names, paths and values are quoted; nothing in them can become SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from parqlake.core.evolution.marks import initial_default, values_in_paths
from parqlake.core.evolution.projection import same_column, source_of
from parqlake.core.partitioning import parse_partition_text
from parqlake.core.ports import PlannedFile, ReadPlan
from parqlake.core.predicates.sql_text import constant, identifier, string, type_name
from parqlake.core.predicates.to_sql import to_sql
from parqlake.core.schema import children, field_id
from parqlake.engines.duck.merge_sql import scan as read_parquet

_FILE_NUMBER = "file_index"
"""DuckDB's own column that numbers the files of a list."""


class NotByDuckDB(Exception):  # noqa: N818 (not an error: another way is taken)
    """DuckDB's own expressions would give other values than the table's projection."""


def scan_text(plan: ReadPlan, address: Callable[[str], str], *, nan_ids: Iterable[int]) -> str:
    """The SELECT that gives the rows of the plan.

    Args:
        plan: what to read.
        address: says how DuckDB opens a file, by its path in the store.
        nan_ids: the float columns, by field id, in which there may be NaNs. DuckDB skips row groups by their lowest and
            highest value, and Parquet leaves NaN out of both: so it must not see these columns as they are.

    Raises:
        NotByDuckDB: files of an older schema hold what DuckDB would convert to something else.
    """
    names = plan.schema.names if plan.columns is None else list(plan.columns)
    where = "" if plan.predicate is None else f" WHERE {to_sql(plan.predicate)}"
    limit = "" if plan.limit is None else f" LIMIT {plan.limit}"
    chosen = ", ".join(identifier(name) for name in names)
    return f"SELECT {chosen} FROM ({_rows(plan, address, frozenset(nan_ids))}){where}{limit}"  # noqa: S608  quoted


def type_text(type_: pa.DataType) -> str:
    """What DuckDB calls the type, nested ones included."""
    if pa.types.is_struct(type_):
        return f"STRUCT({', '.join(f'{identifier(child.name)} {type_text(child.type)}' for child in type_)})"
    if pa.types.is_map(type_):
        return f"MAP({type_text(type_.key_type)}, {type_text(type_.item_type)})"
    if pa.types.is_list(type_):
        return f"{type_text(type_.value_type)}[]"
    return type_name(type_)


def _rows(plan: ReadPlan, address: Callable[[str], str], nan_ids: frozenset[int]) -> str:
    """All columns of the planned files: one SELECT for each schema that files are stored by."""
    groups: dict[int | None, list[PlannedFile]] = {}
    for file in plan.files:
        groups.setdefault(file.schema_id if file.schema_id in plan.file_schemas else None, []).append(file)
    if not groups:
        nothing = ", ".join(f"{_null(field.type)} AS {identifier(field.name)}" for field in plan.schema)
        return f"SELECT {nothing} WHERE FALSE"
    parts = []
    for schema_id, files in groups.items():
        stored = plan.schema if schema_id is None else plan.file_schemas[schema_id]
        by_path = _values_by_file(stored, files)
        columns = ", ".join(_column(field, stored, by_path, nan_ids) for field in plan.schema)
        parts.append(f"SELECT {columns} FROM {read_parquet(address(file.path) for file in files)}")  # noqa: S608  quoted
    return " UNION ALL ".join(parts)


def _column(field: pa.Field, stored: pa.Schema, by_path: Mapping[str, str], nan_ids: frozenset[int]) -> str:
    source = source_of(field, stored)
    value = "NULL" if source is None else by_path.get(source.name) or identifier(source.name)
    text = _Converter(nan_ids).converted(value, source, field)
    return f"CAST({text} AS {type_text(field.type)}) AS {identifier(field.name)}"


def _values_by_file(stored: pa.Schema, files: Sequence[PlannedFile]) -> dict[str, str]:
    """For columns that only the folders of imported files tell: the values of all files, and the file's number."""
    names = values_in_paths(stored)
    if names and any(name.casefold() == _FILE_NUMBER for name in stored.names):
        raise NotByDuckDB(f"a column {_FILE_NUMBER}, which hides the number that DuckDB gives to files")
    found = {}
    for name in names:
        type_ = stored.field(name).type
        values = ", ".join(constant(parse_partition_text(file.partition[name], type_)) for file in files)
        found[name] = f"list_extract(CAST([{values}] AS {type_text(type_)}[]), CAST({_FILE_NUMBER} AS BIGINT) + 1)"
    return found


@dataclass(slots=True)
class _Converter:
    """How values of stored fields become those of the table's; variables of lambdas are numbered."""

    nan_ids: frozenset[int]
    variables: int = 0

    def converted(self, value: str, stored: pa.Field | None, wanted: pa.Field) -> str:
        """The expression `value`, of the field `stored`, as the field `wanted`."""
        if stored is None:
            default = initial_default(wanted)
            return _null(wanted.type) if default is None else constant(default)
        have, want = stored.type, wanted.type
        if same_column(stored, wanted) and not self._hides_nan(wanted):
            return value
        if pa.types.is_null(have):
            return _null(want)
        if pa.types.is_struct(want):
            return self._struct(value, stored, wanted)
        if pa.types.is_map(want):
            keys = self._each(f"map_keys({value})", have.key_field, want.key_field)
            items = self._each(f"map_values({value})", have.item_field, want.item_field)
            return _unless_null(value, f"map({keys}, {items})")
        if pa.types.is_list(want):
            return self._each(value, have.value_field, want.value_field)
        if have != want and pa.types.is_string(want):
            raise NotByDuckDB(f"{have} as text")
        text = value if have == want else f"CAST({value} AS {type_text(want)})"
        return _seen(text, want) if pa.types.is_floating(want) and field_id(wanted) in self.nan_ids else text

    def _struct(self, value: str, stored: pa.Field, wanted: pa.Field) -> str:
        parts = []
        for child in wanted.type:
            source = source_of(child, list(stored.type))
            inner = "NULL" if source is None else f"struct_extract({value}, {string(source.name)})"
            text = self.converted(inner, source, child)
            parts.append(f"{identifier(child.name)} := CAST({text} AS {type_text(child.type)})")
        return _unless_null(value, f"struct_pack({', '.join(parts)})")

    def _each(self, values: str, stored: pa.Field, wanted: pa.Field) -> str:
        self.variables += 1
        name = f"parqlake_{self.variables}"
        return f"list_transform({values}, lambda {name}: {self.converted(name, stored, wanted)})"

    def _hides_nan(self, field: pa.Field) -> bool:
        """Whether DuckDB might go by bounds of floats here; it does for fields of structs, not inside lists."""
        if pa.types.is_struct(field.type):
            return any(self._hides_nan(child) for child in children(field.type))
        return pa.types.is_floating(field.type) and field_id(field) in self.nan_ids


def _seen(value: str, type_: pa.DataType) -> str:
    """The same value, computed, so that DuckDB does not take the column's bounds for those of the values."""
    return f"CASE WHEN isnan({value}) THEN CAST('NaN' AS {type_text(type_)}) ELSE {value} END"


def _unless_null(value: str, text: str) -> str:
    return f"CASE WHEN {value} IS NULL THEN NULL ELSE {text} END"


def _null(type_: pa.DataType) -> str:
    return f"CAST(NULL AS {type_text(type_)})"
