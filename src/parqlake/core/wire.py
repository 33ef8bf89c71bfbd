"""Descriptions of files as text, for the way from an executor to the driver."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Any

import numpy as np

from parqlake.core.model import ColumnStatistics, DataFile


def encode(file: DataFile) -> str:
    """The file's record as JSON."""
    return json.dumps(
        {
            "path": file.path,
            "size_bytes": file.size_bytes,
            "row_count": file.row_count,
            "rows": file.row_group_rows.tolist(),
            "bytes": file.row_group_bytes.tolist(),
            "offsets": file.row_group_offsets.tolist(),
            "partition": dict(file.partition),
            "statistics": [
                [column.column_id, _keys(column.mins), _keys(column.maxs), column.nulls.tolist()]
                for column in file.statistics
            ],
            "footer": None if file.footer is None else b64encode(file.footer).decode(),
        }
    )


def decode(text: str) -> DataFile:
    """The record that `encode` made text of."""
    found = json.loads(text)
    return DataFile(
        path=found["path"],
        size_bytes=found["size_bytes"],
        row_count=found["row_count"],
        row_group_rows=np.array(found["rows"], dtype=np.int64),
        row_group_bytes=np.array(found["bytes"], dtype=np.int64),
        row_group_offsets=np.array(found["offsets"], dtype=np.int64),
        partition=found["partition"],
        statistics=tuple(
            ColumnStatistics(column_id, _parsed(mins), _parsed(maxs), np.array(nulls, dtype=np.int64))
            for column_id, mins, maxs, nulls in found["statistics"]
        ),
        footer=None if found["footer"] is None else b64decode(found["footer"]),
    )


def _keys(keys: Any) -> dict[str, Any]:
    return {"bytes": [key.hex() for key in keys]} if isinstance(keys, list) else {"numbers": keys.tolist()}


def _parsed(keys: dict[str, Any]) -> Any:
    if "bytes" in keys:
        return [bytes.fromhex(key) for key in keys["bytes"]]
    return np.array(keys["numbers"], dtype=np.uint64)
