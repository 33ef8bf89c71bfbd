"""Partition values too long for a folder name: DuckDB refuses them, so they go through the PyArrow writer."""

from __future__ import annotations

from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from parqlake.core.ports import WriteSpec
from parqlake.engines.arrow.partition_writer import PartitionedWriter

_MAX_SEGMENT_BYTES = 240
_ESCAPED_BYTES = 3
"""What one byte of a value may take in a folder name, as %XX."""


class LongValues:
    """Takes rows with long partition values out of batches and writes them to cut folder names."""

    def __init__(self, spec: WriteSpec, writer: PartitionedWriter) -> None:
        """Looks at string columns only; no other value is long."""
        self._writer = writer
        self._limits = {
            name: max(0, _MAX_SEGMENT_BYTES - len(quote(name))) // _ESCAPED_BYTES
            for name in spec.partition_by
            if pa.types.is_string(spec.schema.field(name).type)
        }

    def divert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Writes the rows with a long value and returns the others."""
        long = None
        for name, limit in self._limits.items():
            lengths = pc.binary_length(batch.column(name))
            longest = pc.max(lengths).as_py()
            if longest is not None and longest > limit:
                found = pc.fill_null(pc.greater(lengths, limit), False)
                long = found if long is None else pc.or_(long, found)
        if long is None:
            return batch
        self._writer.push(batch.filter(long))
        return batch.filter(pc.invert(long))
