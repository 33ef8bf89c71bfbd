"""Parquet's own structures, read and written as they are: Thrift's compact protocol, without knowing any field's name.

PyArrow shows footers and takes none. To put row groups of several files into one, offsets in footers have to be changed
and all else has to be kept, also what this code has never heard of.
"""

from __future__ import annotations

from typing import Any

from parqlake.core.errors import DataCorruptionError

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
_MOST_DEPTH = 32

Struct = dict[int, tuple[int, Any]]
"""By the number of the field: its type, and its value. A list is a pair of its items' type and the items."""


class Reader:
    """Reads structures out of bytes."""

    def __init__(self, data: bytes | memoryview, position: int = 0) -> None:
        """Begins at the position."""
        self._data = data
        self.position = position

    def struct(self, depth: int = 0) -> Struct:
        """The structure that begins here.

        Raises:
            DataCorruptionError: these bytes are none.
        """
        if depth > _MOST_DEPTH:
            raise DataCorruptionError("a footer is nested too deep to be one of Parquet's")
        found: Struct = {}
        number = 0
        while head := self._byte():
            type_ = head & 15
            number = number + (head >> 4) if head >> 4 else self._signed()
            found[number] = (type_, self._value(type_, depth))
        return found

    def _value(self, type_: int, depth: int) -> Any:
        if type_ in (TRUE, FALSE):
            return type_ == TRUE
        if type_ in (I16, I32, I64):
            return self._signed()
        if type_ == BINARY:
            return self._bytes(self._varint())
        if type_ == STRUCT:
            return self.struct(depth + 1)
        if type_ in (LIST, SET):
            return self._list(depth)
        if type_ == BYTE:
            return self._byte()
        if type_ == DOUBLE:
            return self._bytes(8)
        raise DataCorruptionError(f"a footer holds a field of type {type_}, which Parquet does not use")

    def _list(self, depth: int) -> tuple[int, list[Any]]:
        head = self._byte()
        size, type_ = head >> 4, head & 15
        if size == 15:
            size = self._varint()
        if size > len(self._data):
            raise DataCorruptionError(f"a footer says that a list in it holds {size} items, which it cannot")
        if type_ in (TRUE, FALSE):
            return type_, [self._byte() == TRUE for _ in range(size)]
        return type_, [self._value(type_, depth) for _ in range(size)]

    def _byte(self) -> int:
        try:
            value = self._data[self.position]
        except IndexError:
            raise DataCorruptionError("a footer or page header ends too early") from None
        self.position += 1
        return value

    def _bytes(self, size: int) -> bytes:
        value = bytes(self._data[self.position : self.position + size])
        if len(value) != size:
            raise DataCorruptionError("a footer or page header ends too early")
        self.position += size
        return value

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise DataCorruptionError("a footer or page header holds a number without an end")

    def _signed(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)


def serialized(struct: Struct) -> bytes:
    """The structure as Parquet stores it."""
    out = bytearray()
    _write_struct(out, struct)
    return bytes(out)


def _write_struct(out: bytearray, struct: Struct) -> None:
    last = 0
    for number, (type_, value) in sorted(struct.items()):
        is_flag = type_ in (TRUE, FALSE)
        kind = (TRUE if value else FALSE) if is_flag else type_
        step = number - last
        if 0 < step < 16:
            out.append(step << 4 | kind)
        else:
            out.append(kind)
            _write_signed(out, number)
        last = number
        if not is_flag:
            _write_value(out, type_, value)
    out.append(0)


def _write_value(out: bytearray, type_: int, value: Any) -> None:
    if type_ in (I16, I32, I64):
        _write_signed(out, value)
    elif type_ == BINARY:
        _write_varint(out, len(value))
        out += value
    elif type_ == STRUCT:
        _write_struct(out, value)
    elif type_ in (LIST, SET):
        item_type, items = value
        out.append(min(len(items), 15) << 4 | item_type)
        if len(items) >= 15:
            _write_varint(out, len(items))
        for item in items:
            _write_value(out, item_type, item)
    elif type_ in (TRUE, FALSE):
        out.append(TRUE if value else FALSE)
    elif type_ == BYTE:
        out.append(value)
    else:
        out += value


def _write_varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def _write_signed(out: bytearray, value: int) -> None:
    _write_varint(out, value << 1 if value >= 0 else (-value << 1) - 1)
