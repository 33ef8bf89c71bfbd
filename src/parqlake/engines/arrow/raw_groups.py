"""Row groups as bytes: taken out of one Parquet file, verified, and put into another without being decoded."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

from parqlake.core.errors import DataCorruptionError
from parqlake.engines.arrow.parquet_thrift import BINARY, I64, LIST, STRUCT, Reader, Struct, serialized

MAGIC = b"PAR1"
TAIL_BYTES = 8
_SCHEMA, _ROWS, _GROUPS, _CREATED_BY, _ENCRYPTION = 2, 3, 4, 6, 8
_COLUMNS, _GROUP_BYTES, _GROUP_ROWS, _GROUP_OFFSET, _ORDINAL = 1, 2, 3, 5, 7
_FILE_PATH, _CHUNK_OFFSET, _META = 1, 2, 3
_INDEXES = (4, 5, 6, 7)
"""Where pages' own indexes lie: outside of the row group."""
_CODEC, _SIZE, _DATA_OFFSET, _INDEX_OFFSET, _DICTIONARY_OFFSET = 4, 7, 9, 10, 11
_BLOOM = (14, 15)
_PAGE_SIZE, _PAGE_CRC = 3, 4
_OWN_WRITER = b"parquet-cpp-arrow"
"""Whose statistics are those that a rewrite would make."""
_CODECS = {"none": 0, "snappy": 1, "gzip": 2, "brotli": 4, "zstd": 6, "lz4": 7}


@dataclass(frozen=True, slots=True)
class RawGroup:
    """One row group: what a footer says of it, and where its bytes lie."""

    fields: Struct
    start: int
    stop: int

    @property
    def rows(self) -> int:
        """Its rows."""
        return int(self.fields[_GROUP_ROWS][1])

    @property
    def decoded_bytes(self) -> int:
        """Its pages' bytes before they were compressed."""
        return int(self.fields[_GROUP_BYTES][1])

    @property
    def is_dense(self) -> bool:
        """Whether nothing else lies between its columns."""
        return sum(size for _, size in _places(self.fields)) == self.stop - self.start

    def verify(self, data: memoryview) -> bool:
        """Whether each page has a checksum; `data` are the bytes from `start` to `stop`.

        Raises:
            DataCorruptionError: a checksum is wrong, or there are no pages where they should be.
        """
        for start, size in _places(self.fields):
            position, end = start - self.start, start - self.start + size
            while position < end:
                reader = Reader(data, position)
                header = reader.struct()
                if _PAGE_CRC not in header:
                    return False
                stop = reader.position + int(header[_PAGE_SIZE][1])
                if stop > end:
                    raise DataCorruptionError("a page ends behind its column")
                if zlib.crc32(data[reader.position : stop]) != header[_PAGE_CRC][1] & 0xFFFFFFFF:
                    raise DataCorruptionError("the checksum of a page is wrong")
                position = stop
        return True

    def moved(self, offset: int, ordinal: int) -> Struct:
        """What the footer says of it in a file where its bytes begin at the offset."""
        step = offset - self.start
        columns = []
        for chunk in self.fields[_COLUMNS][1][1]:
            meta = {key: value for key, value in chunk[_META][1].items() if key not in _BLOOM}
            for key in (_DATA_OFFSET, _INDEX_OFFSET, _DICTIONARY_OFFSET):
                if key in meta:
                    meta[key] = (I64, meta[key][1] + step)
            kept = {key: value for key, value in chunk.items() if key not in _INDEXES}
            columns.append(kept | {_META: (STRUCT, meta), _CHUNK_OFFSET: (I64, 0)})
        fields = {key: value for key, value in self.fields.items() if key != _ORDINAL}
        return fields | {_COLUMNS: (LIST, (STRUCT, columns)), _GROUP_OFFSET: (I64, offset), _ORDINAL: (4, ordinal)}


@dataclass(frozen=True, slots=True)
class RawFooter:
    """A file's footer."""

    fields: Struct

    @classmethod
    def parse(cls, data: bytes | memoryview) -> RawFooter:
        """Takes the footer's bytes, without length and magic behind it."""
        return cls(Reader(data).struct())

    @property
    def schema(self) -> Any:
        """The columns, to be compared with those of another file."""
        return self.fields[_SCHEMA][1]

    @property
    def groups(self) -> list[RawGroup]:
        """The row groups, in order."""
        found = []
        for fields in self.fields[_GROUPS][1][1]:
            places = list(_places(fields))
            start = min((start for start, _ in places), default=0)
            found.append(RawGroup(fields, start, max((start + size for start, size in places), default=0)))
        return found

    def can_be_copied(self, schema: Any, codec: str) -> bool:
        """Whether row groups may go as they are into a file of the schema and codec."""
        created_by = self.fields.get(_CREATED_BY, (BINARY, b""))[1]
        if _ENCRYPTION in self.fields or not created_by.startswith(_OWN_WRITER) or self.schema != schema:
            return False
        number = _CODECS[codec.lower()]
        chunks = [chunk for fields in self.fields[_GROUPS][1][1] for chunk in fields[_COLUMNS][1][1]]
        return all(_FILE_PATH not in chunk and chunk[_META][1][_CODEC][1] == number for chunk in chunks)

    def with_groups(self, groups: list[Struct]) -> bytes:
        """The end of a file with these row groups instead: footer, length and magic."""
        rows = sum(int(group[_GROUP_ROWS][1]) for group in groups)
        footer = serialized(self.fields | {_ROWS: (I64, rows), _GROUPS: (LIST, (STRUCT, groups))})
        return footer + len(footer).to_bytes(4, "little") + MAGIC


def footer_bytes(tail: bytes) -> int:
    """The length of the footer, by the last 8 bytes of the file.

    Raises:
        DataCorruptionError: the file does not end as Parquet files do.
    """
    if len(tail) != TAIL_BYTES or tail[4:] != MAGIC:
        raise DataCorruptionError("it does not end as a Parquet file does")
    return int.from_bytes(tail[:4], "little")


def _places(fields: Struct) -> list[tuple[int, int]]:
    """Where each column's pages lie: offset and length."""
    found = []
    for chunk in fields[_COLUMNS][1][1]:
        meta = chunk[_META][1]
        start = int(meta[_DATA_OFFSET][1])
        if _DICTIONARY_OFFSET in meta and 0 < meta[_DICTIONARY_OFFSET][1] < start:
            start = int(meta[_DICTIONARY_OFFSET][1])
        found.append((start, int(meta[_SIZE][1])))
    return found
