"""What a schema says besides names and types, in Arrow's own metadata: ids, earlier ids, defaults.

A field has two defaults, and they differ once `set_default` was called: rows of files that were written before the
column was there have its *initial* one for ever, and new rows that lack the column get the *write* one.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

import pyarrow as pa

from parqlake.core.schema import FIELD_ID, children, field_id, max_field_id

_EARLIER = b"parqlake:earlier_ids"
_INITIAL = b"parqlake:initial_default"
_WRITE = b"parqlake:write_default"
_LAST_ID = b"parqlake:last_field_id"
_IN_PATH = b"parqlake:in_path"


def last_field_id(schema: pa.Schema) -> int:
    """The greatest id that the schema or one before it has used, as far as this schema knows."""
    known = int((schema.metadata or {}).get(_LAST_ID, b"0"))
    return max(known, max_field_id(schema))


def is_evolved(schema: pa.Schema) -> bool:
    """Whether another schema came before this one."""
    return _LAST_ID in (schema.metadata or {})


def evolved(fields: list[pa.Field], before: pa.Schema, last_id: int) -> pa.Schema:
    """The schema that comes after `before`: these fields, and the greatest id ever used."""
    return pa.schema(fields, {**(before.metadata or {}), _LAST_ID: str(last_id).encode()})


def earlier_ids(field: pa.Field) -> tuple[int, ...]:
    """Ids under which older files hold the column, newest first.

    A column gets a new id when its type changes in a way that makes old statistics say something else.
    """
    text = (field.metadata or {}).get(_EARLIER, b"")
    return tuple(int(part) for part in text.split(b",") if part)


def all_ids(field: pa.Field) -> tuple[int, ...]:
    """The field's id, and those it had before."""
    return (field_id(field), *earlier_ids(field))


def with_new_id(field: pa.Field, new_id: int) -> pa.Field:
    """The field under another id; files that hold it under the old one are still its own."""
    ids = ",".join(str(number) for number in all_ids(field)).encode()
    return _marked(field, {FIELD_ID: str(new_id).encode(), _EARLIER: ids})


def initial_default(field: pa.Field) -> pa.Scalar | None:
    """What rows of files without the column hold; None stands for NULL."""
    return _read(field, _INITIAL)


def write_default(field: pa.Field) -> pa.Scalar | None:
    """What new rows without the column get; None stands for NULL."""
    return _read(field, _WRITE)


def with_initial_default(field: pa.Field, value: pa.Scalar | None) -> pa.Field:
    """The field with this initial default."""
    return _marked(field, {_INITIAL: _text(value)})


def with_write_default(field: pa.Field, value: pa.Scalar | None) -> pa.Field:
    """The field with this write default."""
    return _marked(field, {_WRITE: _text(value)})


def with_value_in_path(field: pa.Field) -> pa.Field:
    """The field of a stored schema whose value no file holds: it is that of the file's partition."""
    return _marked(field, {_IN_PATH: b"1"})


def values_in_paths(schema: pa.Schema) -> list[str]:
    """Columns that files of this stored schema do not hold; their values stand in `PlannedFile.partition`."""
    return [field.name for field in schema if _IN_PATH in (field.metadata or {})]


def retyped(field: pa.Field, type_: pa.DataType) -> pa.Field:
    """The field with another type and all else kept."""
    return pa.field(field.name, type_, field.nullable, field.metadata)


def with_children(field: pa.Field, found: list[pa.Field]) -> pa.Field:
    """The nested field with these fields inside it."""
    type_ = field.type
    if pa.types.is_struct(type_):
        return retyped(field, pa.struct(found))
    if pa.types.is_map(type_):
        return retyped(field, pa.map_(found[0], found[1]))
    assert len(found) == 1 == len(children(type_))
    return retyped(field, pa.list_(found[0]))


def _marked(field: pa.Field, marks: Mapping[bytes, bytes | None]) -> pa.Field:
    metadata = {**(field.metadata or {}), **marks}
    return field.with_metadata({key: value for key, value in metadata.items() if value is not None})


def _text(value: pa.Scalar | None) -> bytes | None:
    """A value with its type as text, whatever the type."""
    if value is None or not value.is_valid:
        return None
    batch = pa.RecordBatch.from_arrays([pa.repeat(value, 1)], ["value"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return base64.b64encode(sink.getvalue().to_pybytes())


def _read(field: pa.Field, key: bytes) -> pa.Scalar | None:
    text = (field.metadata or {}).get(key)
    if text is None:
        return None
    with pa.ipc.open_stream(base64.b64decode(text)) as reader:
        scalar = reader.read_all().column(0).chunk(0)[0]
    return scalar if scalar.type == field.type else scalar.cast(field.type)
