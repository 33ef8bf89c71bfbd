"""The Avro records of Iceberg's manifests and manifest lists, with the field ids that the specification gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ADDED = 1


def _field(name: str, type_: Any, number: int, *, optional: bool = False) -> dict[str, Any]:
    if optional:
        return {"name": name, "type": ["null", type_], "default": None, "field-id": number}
    return {"name": name, "type": type_, "field-id": number}


def _map(key_id: int, value_id: int, value: str) -> dict[str, Any]:
    """A map with whole numbers for keys, which Avro's own maps do not have."""
    record = {
        "type": "record",
        "name": f"k{key_id}_v{value_id}",
        "fields": [_field("key", "int", key_id), _field("value", value, value_id)],
    }
    return {"type": "array", "items": record, "logicalType": "map"}


def manifest_schema(partition: list[dict[str, Any]]) -> dict[str, Any]:
    """The schema of a manifest whose files have such partitions."""
    data_file = [
        _field("content", "int", 134),
        _field("file_path", "string", 100),
        _field("file_format", "string", 101),
        _field("partition", {"type": "record", "name": "r102", "fields": partition}, 102),
        _field("record_count", "long", 103),
        _field("file_size_in_bytes", "long", 104),
        _field("null_value_counts", _map(121, 122, "long"), 110, optional=True),
        _field("lower_bounds", _map(126, 127, "bytes"), 125, optional=True),
        _field("upper_bounds", _map(129, 130, "bytes"), 128, optional=True),
    ]
    return {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            _field("status", "int", 0),
            _field("snapshot_id", "long", 1, optional=True),
            _field("sequence_number", "long", 3, optional=True),
            _field("file_sequence_number", "long", 4, optional=True),
            _field("data_file", {"type": "record", "name": "r2", "fields": data_file}, 2),
        ],
    }


MANIFEST_LIST: dict[str, Any] = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
        _field("manifest_path", "string", 500),
        _field("manifest_length", "long", 501),
        _field("partition_spec_id", "int", 502),
        _field("content", "int", 517),
        _field("sequence_number", "long", 515),
        _field("min_sequence_number", "long", 516),
        _field("added_snapshot_id", "long", 503),
        _field("added_files_count", "int", 504),
        _field("existing_files_count", "int", 505),
        _field("deleted_files_count", "int", 506),
        _field("added_rows_count", "long", 512),
        _field("existing_rows_count", "long", 513),
        _field("deleted_rows_count", "long", 514),
    ],
}


def entry_record(
    snapshot_id: int,
    *,
    path: str,
    partition: Mapping[str, Any],
    rows: int,
    size_bytes: int,
    nulls: Mapping[int, int],
    lower: Mapping[int, bytes],
    upper: Mapping[int, bytes],
) -> dict[str, Any]:
    """One data file of a manifest."""
    return {
        "status": _ADDED,
        "snapshot_id": snapshot_id,
        "sequence_number": None,  # that of the manifest
        "file_sequence_number": None,
        "data_file": {
            "content": 0,
            "file_path": path,
            "file_format": "PARQUET",
            "partition": dict(partition),
            "record_count": rows,
            "file_size_in_bytes": size_bytes,
            "null_value_counts": _pairs(nulls),
            "lower_bounds": _pairs(lower),
            "upper_bounds": _pairs(upper),
        },
    }


def manifest_record(
    path: str, length: int, *, sequence: int, snapshot_id: int, files: int, rows: int
) -> dict[str, Any]:
    """One manifest of a manifest list, all of whose files are new."""
    return {
        "manifest_path": path,
        "manifest_length": length,
        "partition_spec_id": 0,
        "content": 0,
        "sequence_number": sequence,
        "min_sequence_number": sequence,
        "added_snapshot_id": snapshot_id,
        "added_files_count": files,
        "existing_files_count": 0,
        "deleted_files_count": 0,
        "added_rows_count": rows,
        "existing_rows_count": 0,
        "deleted_rows_count": 0,
    }


def _pairs(values: Mapping[int, Any]) -> list[dict[str, Any]]:
    return [{"key": number, "value": value} for number, value in sorted(values.items())]
