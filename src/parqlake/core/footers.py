"""Footers of Parquet files as the catalog keeps them, so that who reads from far away need not ask for them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

LARGEST_FOOTER = 128 * 1024
"""Packed. A larger one is left in its file: to read it there is little beside the rows that it describes."""
_LEVEL = 1
_LENGTH_BYTES = 4


def pack_footer(metadata: Any) -> bytes | None:
    """The `pyarrow.parquet.FileMetaData` as few bytes; None if they are not few.

    Example:
        >>> import pyarrow.parquet as pq                                     # doctest: +SKIP
        >>> unpack_footer(pack_footer(pq.read_metadata("part.parquet")))     # doctest: +SKIP
    """
    sink = pa.BufferOutputStream()
    metadata.write_metadata_file(sink)
    plain = sink.getvalue()
    packed: bytes = pa.Codec("zstd", compression_level=_LEVEL).compress(plain, asbytes=True)
    if len(packed) > LARGEST_FOOTER:
        return None
    return int(plain.size).to_bytes(_LENGTH_BYTES, "little") + packed


def unpack_footer(data: bytes) -> Any:
    """The `pyarrow.parquet.FileMetaData` that `pack_footer` made bytes of."""
    import pyarrow.parquet as pq  # who only writes the catalog need not load it

    size = int.from_bytes(data[:_LENGTH_BYTES], "little")
    plain = pa.Codec("zstd").decompress(memoryview(data)[_LENGTH_BYTES:], size)
    return pq.read_metadata(pa.BufferReader(plain))
