"""Which merges are refused: strategies, keys and schemas, all before a row is read."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from parqlake.core.errors import (
    ColumnNotFoundError,
    ConstraintError,
    InvalidOptionError,
    SchemaMismatchError,
    TypeMismatchError,
    suggestion,
)
from parqlake.core.merging.model import MergeRule, MergeStrategy
from parqlake.core.schema import reconcile

_CODECS = ("snappy", "gzip", "zstd", "lz4", "brotli", "none")


def merge_rule(
    key_columns: Sequence[str] | str,
    strategy: str = MergeStrategy.UPSERT,
    *,
    dedup_order_by: Sequence[str] | str | None = None,
    update_columns: Sequence[str] | None = None,
) -> MergeRule:
    """Makes the rule of a merge, or raises `InvalidOptionError` for one that makes no sense."""
    keys = _names(key_columns, "key_columns")
    if not keys:
        raise InvalidOptionError("key_columns is empty; name at least one column that tells rows apart")
    order = () if dedup_order_by is None else _names(dedup_order_by, "dedup_order_by")
    changed = None if update_columns is None else _names(update_columns, "update_columns")
    return MergeRule(keys, _strategy(strategy), order, changed)


def check_merge_schemas(rule: MergeRule, *, source: pa.Schema, target: pa.Schema) -> None:
    """Raises unless rows of the source can be merged into the target; names every difference.

    Raises:
        ColumnNotFoundError: a key or other named column is missing.
        InvalidOptionError: a column cannot be compared or put in order.
        SchemaMismatchError: columns are missing on either side.
        TypeMismatchError: columns have different types.
    """
    for name, schema in (("source", source), ("target", target)):
        for key in rule.keys:
            if key not in schema.names:
                hint = suggestion(key, schema.names)
                raise ColumnNotFoundError(
                    f"Key column '{key}' not found in {name};{hint} its columns are: {', '.join(schema.names)}"
                )
        twice = sorted({column for column in schema.names if schema.names.count(column) > 1})
        if twice:
            raise SchemaMismatchError(f"Schema mismatch: {name} has column {_quoted(twice)} twice; rename one of them")
    _check_named(rule, source, target)
    _check_same(source, target)


def spelled_alike(source: pa.Schema, target: pa.Schema) -> pa.Schema:
    """The source's schema, with columns that differ from the target's in layout only spelled as the target has them.

    Values of such columns are cast, as `append` does, and checked while casting.
    """
    return pa.schema([_spelled_alike(field, target) for field in source])


def check_merge_options(*, compression: str, memory_bytes: int, batch_rows: int) -> None:
    """Raises `InvalidOptionError` for options that would fail only after rows were written."""
    if compression.lower() not in _CODECS:
        raise InvalidOptionError(f"compression {compression!r} is not known; use one of: {', '.join(_CODECS)}")
    for name, value in (("memory_bytes", memory_bytes), ("batch_rows", batch_rows)):
        if value <= 0:
            raise InvalidOptionError(f"{name} is {value}; it must be > 0")


def check_not_null(name: str, column: str, nulls: int) -> None:
    """Raises `ConstraintError` if a key column holds NULLs; `name` is "source" or "target"."""
    if nulls:
        raise ConstraintError(
            f"Key column '{column}' of the {name} contains {nulls} NULL values, and NULL matches nothing; "
            "filter those rows out, or fill the column, then merge again"
        )


def plain_type(type_: pa.DataType) -> pa.DataType:
    """The type of the values, however they are encoded at the top."""
    while pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
        type_ = type_.value_type
    return type_.storage_type if isinstance(type_, pa.BaseExtensionType) else type_


def _strategy(strategy: str) -> MergeStrategy:
    try:
        return MergeStrategy(strategy)
    except ValueError:
        known = ", ".join(MergeStrategy)
        raise InvalidOptionError(f"Invalid strategy {strategy!r}; use one of: {known}") from None


def _names(given: Sequence[str] | str, option: str) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given)
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong:
        raise InvalidOptionError(f"{option} holds {wrong[0]!r}, which is no column name; give strings")
    if len(set(names)) != len(names):
        raise InvalidOptionError(f"{option} names a column twice: {', '.join(names)}")
    return names


def _spelled_alike(field: pa.Field, target: pa.Schema) -> pa.Field:
    index = target.get_field_index(field.name)
    if index < 0:
        return field
    try:
        reconcile(pa.schema([field]), pa.schema([target.field(index)]))
    except SchemaMismatchError:
        return field
    return field.with_type(target.field(index).type)


def _check_named(rule: MergeRule, source: pa.Schema, target: pa.Schema) -> None:
    for key in rule.keys:
        if pa.types.is_nested(plain_type(target.field(key).type)):
            raise InvalidOptionError(
                f'key column "{key}" is of type {target.field(key).type}, which cannot be compared; use a plain column'
            )
    for column in rule.dedup_order_by:
        if column not in source.names:
            raise _unknown("dedup_order_by", column, source)
        if pa.types.is_nested(plain_type(source.field(column).type)):
            raise InvalidOptionError(
                f'dedup_order_by column "{column}" is of type {source.field(column).type}, which has no order; '
                "use a plain column"
            )
    for column in rule.update_columns or ():
        if column not in target.names:
            raise _unknown("update_columns", column, target)


def _unknown(option: str, column: str, schema: pa.Schema) -> ColumnNotFoundError:
    hint = suggestion(column, schema.names)
    return ColumnNotFoundError(f'{option}: no column "{column}";{hint} columns: {", ".join(schema.names)}')


def _check_same(source: pa.Schema, target: pa.Schema) -> None:
    missing = [name for name in target.names if name not in source.names]
    extra = [name for name in source.names if name not in target.names]
    wrong = [
        (name, source.field(name).type, target.field(name).type)
        for name in target.names
        if name not in missing
        and _comparable(source.field(name).type) != _comparable(target.field(name).type)
        # A column without a single value has no type of its own and fits any.
        and not pa.types.is_null(source.field(name).type)
    ]
    lines = [f'  "{name}": {have} in the source, {want} in the target (type mismatch)' for name, have, want in wrong]
    lines += [f'  "{name}": missing in the source ({target.field(name).type} in the target)' for name in missing]
    lines += [f'  "{name}": missing in the target ({source.field(name).type} in the source)' for name in extra]
    if not lines:
        return
    text = "Schema mismatch between source and target:\n" + "\n".join(lines)
    if missing or extra:
        raise SchemaMismatchError(text + "\nselect, add or cast columns so that they match, then merge again")
    raise TypeMismatchError(text + "\ncast these columns of the source to the target's types, then merge again")


def _comparable(type_: pa.DataType) -> pa.DataType:
    """One spelling for types that differ in layout only."""
    t, type_ = pa.types, plain_type(type_)
    if t.is_large_string(type_) or t.is_string_view(type_):
        return pa.string()
    if t.is_large_binary(type_) or t.is_binary_view(type_):
        return pa.binary()
    if t.is_map(type_):
        return pa.map_(_comparable(type_.key_type), _comparable(type_.item_type))
    if t.is_struct(type_):
        return pa.struct([(child.name, _comparable(child.type)) for child in type_])
    if t.is_fixed_size_list(type_):
        return pa.list_(pa.field("item", _comparable(type_.value_type)), type_.list_size)
    if t.is_list(type_) or t.is_large_list(type_) or t.is_list_view(type_) or t.is_large_list_view(type_):
        return pa.list_(pa.field("item", _comparable(type_.value_type)))
    return type_


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
