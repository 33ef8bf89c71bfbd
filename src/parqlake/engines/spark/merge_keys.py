"""Keys taken apart by a hash that is the same in every process."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parqlake.engines.arrow.merge_keys import Codes, key_hashes


def part_numbers(columns: Sequence[pa.Array], count: int) -> Codes:
    """The part, of so many, of each row's key; takes columns from `key_arrays`, without NULLs."""
    hashes = key_hashes([_numbers(column) for column in columns])
    return (hashes % np.uint64(count)).astype(np.int64)


def text_number(texts: Sequence[str | None], count: int) -> int:
    """A number below the count, the same for the same texts."""
    return crc32(repr(tuple(texts)).encode()) % count


def _numbers(column: pa.Array) -> pa.Array:
    """The column, or numbers in place of values that have no bits of a fixed length."""
    t, type_ = pa.types, column.type
    if t.is_integer(type_) or t.is_floating(type_) or t.is_boolean(type_) or t.is_temporal(type_):
        return column
    encoded = pc.dictionary_encode(column)
    digests = b"".join(_digest(value) for value in encoded.dictionary.to_pylist())
    return pa.array(np.frombuffer(digests, dtype=np.int64)).take(encoded.indices)


def _digest(value: Any) -> bytes:
    data = value if isinstance(value, bytes) else repr(value).encode()
    return blake2b(data, digest_size=8).digest()
