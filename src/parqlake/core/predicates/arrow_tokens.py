"""The structure of a `pyarrow.compute` expression, which pyarrow has but does not show.

An expression can be pickled. What is pickled is an Arrow file with one record batch: the metadata of its schema lists
the expression's parts in order, with repeated keys, and its columns hold constants and options. `schema.metadata` is
a dict and loses repeated keys, so they are read through the C data interface, whose layout is fixed by specification.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import pyarrow as pa
import pyarrow.ipc

Token = tuple[str, str]

_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
_METADATA_MEMBER = 2
"""`struct ArrowSchema` begins with `const char* format, *name, *metadata`."""


def read_tokens(expression: Any) -> tuple[list[Token], pa.RecordBatch]:
    """The parts of the expression in order, and the batch whose columns (by position) they refer to.

    Raises:
        pa.ArrowException: pyarrow cannot pickle the expression.
    """
    _, (buffer,) = expression.__reduce__()
    batch = pyarrow.ipc.open_file(buffer).get_batch(0)
    return _metadata(batch.schema), batch


def _metadata(schema: pa.Schema) -> list[Token]:
    capsule = schema.__arrow_c_schema__()
    members = ctypes.cast(_pointer_of(capsule, b"arrow_schema"), ctypes.POINTER(ctypes.c_void_p))
    address = members[_METADATA_MEMBER]
    if not address:
        return []
    position = 0

    def integer() -> int:
        nonlocal position
        assert address is not None
        raw = ctypes.string_at(address + position, 4)
        position += 4
        return int.from_bytes(raw, sys.byteorder, signed=True)

    def text() -> str:
        nonlocal position
        assert address is not None
        length = integer()
        raw = ctypes.string_at(address + position, length)
        position += length
        return raw.decode()

    tokens = [(text(), text()) for _ in range(integer())]
    del capsule  # it owned the memory until here
    return tokens
