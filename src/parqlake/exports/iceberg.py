"""Iceberg: metadata of format version 2 over the files of a version. Each export adds a snapshot, whole in itself.

Names of files are full addresses, so that they may lie anywhere below the lake's root. Columns are found by the field
ids that parqlake writes into its files; those of imported files, which have none, by their names.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from parqlake._version import __version__
from parqlake.core.errors import (
    AlreadyExistsError,
    ConflictError,
    FileNotInStoreError,
    InvalidOptionError,
    MissingExtraError,
)
from parqlake.core.evolution.marks import last_field_id
from parqlake.core.model import to_micros
from parqlake.core.ports import Store
from parqlake.core.schema import field_id, leaves
from parqlake.exports import iceberg_avro as avro
from parqlake.exports.iceberg_schema import (
    bounds,
    check_reads_by_id,
    iceberg_fields,
    name_mapping,
    partition_record,
    partition_schema,
)
from parqlake.table.context import now
from parqlake.table.exporting import Exportable, ExportFile, ExportResult
from parqlake.table.recovering import read_footer

_HINT = "metadata/version-hint.text"
_VERSION = "parqlake.version"
_THREADS = 8
_FIRST_PARTITION_ID = 1000


def export_iceberg(asked: Exportable) -> ExportResult:
    """Writes a manifest, a manifest list and the next `metadata.json`; raises first for what Iceberg cannot hold.

    Raises:
        MissingExtraError: fastavro is not installed.
        UnsupportedTypeError: a column's type has no place in Iceberg.
        InvalidOptionError: files have to be rewritten first.
        AlreadyExistsError: another Iceberg table is there, or others have written to this one.
        ConflictError: another export was quicker.
    """
    try:
        import fastavro
    except ImportError as error:
        raise MissingExtraError("fastavro", "iceberg") from error
    fields = iceberg_fields(asked.schema)
    check_reads_by_id(asked)
    _check_ids_of_imported(asked)
    folder = asked.info.location if asked.folder is None else asked.folder
    before, number = _read_metadata(asked, folder)
    metadata = _metadata(asked, folder, fields, before)
    if before is not None and _is_same(before, metadata, asked):
        return _result(asked, folder, number, changed=False)
    if asked.version:
        snapshot = _snapshot(asked, folder, metadata, fastavro)
        metadata["snapshots"] = [*metadata["snapshots"], snapshot]
        metadata["snapshot-log"] = [*metadata["snapshot-log"], _logged(snapshot)]
        metadata["current-snapshot-id"] = snapshot["snapshot-id"]
        metadata["last-sequence-number"] = snapshot["sequence-number"]
        metadata["refs"] = {"main": {"snapshot-id": snapshot["snapshot-id"], "type": "branch"}}
    if before is not None:
        path = _url(asked.store, f"{folder}/{_name(number)}")
        entry = {"metadata-file": path, "timestamp-ms": before["last-updated-ms"]}
        metadata["metadata-log"] = [*metadata["metadata-log"], entry]
    content = json.dumps(metadata, ensure_ascii=False, indent=1).encode()
    name = f"{folder}/{_name(number + 1)}"
    if not asked.store.write_bytes(name, content, exclusive=True):
        raise ConflictError(f'"{name}" was written by another export meanwhile; export again')
    asked.store.write_bytes(f"{folder}/{_HINT}", str(number + 1).encode())
    return _result(asked, folder, number + 1, changed=True)


def _result(asked: Exportable, folder: str, number: int, *, changed: bool) -> ExportResult:
    return ExportResult(
        format="iceberg",
        url=_url(asked.store, f"{folder}/{_name(number)}"),
        metadata=f"{folder}/{_name(number)}",
        version=asked.version,
        export_version=number,
        files=len(asked.files),
        row_count=sum(file.row_count for file in asked.files),
        changed=changed,
    )


def _metadata(
    asked: Exportable, folder: str, fields: list[dict[str, Any]], before: dict[str, Any] | None
) -> dict[str, Any]:
    """All but the new snapshot."""
    schemas = [] if before is None else list(before["schemas"])
    known = next((schema["schema-id"] for schema in schemas if schema["fields"] == fields), None)
    schema_id = len(schemas) if known is None else known
    if known is None:
        schemas.append({"type": "struct", "schema-id": schema_id, "fields": fields})
    spec = [
        {"name": name, "transform": "identity", "source-id": field_id(asked.schema.field(name)), "field-id": number}
        for number, name in enumerate(asked.info.partition_by, _FIRST_PARTITION_ID)
    ]
    properties = {"write.parquet.compression-codec": "zstd", _VERSION: str(asked.version)}
    if any(file.imported for file in asked.files):
        properties["schema.name-mapping.default"] = json.dumps(name_mapping(asked.schema))
    earlier = before or {}
    return {
        "format-version": 2,
        "table-uuid": str(uuid.UUID(asked.info.uuid)),
        "location": _url(asked.store, folder),
        "last-sequence-number": earlier.get("last-sequence-number", 0),
        "last-updated-ms": max(to_micros(now()) // 1000, earlier.get("last-updated-ms", 0) + 1),
        "last-column-id": max(last_field_id(asked.schema), earlier.get("last-column-id", 0)),
        "current-schema-id": schema_id,
        "schemas": schemas,
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": spec}],
        "last-partition-id": _FIRST_PARTITION_ID + max(len(spec), 1) - 1,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": properties,
        "current-snapshot-id": earlier.get("current-snapshot-id", -1),
        "refs": earlier.get("refs", {}),
        "snapshots": earlier.get("snapshots", []),
        "snapshot-log": earlier.get("snapshot-log", []),
        "metadata-log": earlier.get("metadata-log", []),
    }


def _snapshot(asked: Exportable, folder: str, metadata: dict[str, Any], fastavro: Any) -> dict[str, Any]:
    store = asked.store
    snapshot_id = uuid.uuid4().int >> 65  # 63 bits
    sequence = metadata["last-sequence-number"] + 1
    parent = metadata["current-snapshot-id"]
    schema = next(s for s in metadata["schemas"] if s["schema-id"] == metadata["current-schema-id"])
    spec = metadata["partition-specs"][0]["fields"]
    header = {
        "schema": json.dumps(schema),
        "schema-id": str(schema["schema-id"]),
        "partition-spec": json.dumps(spec),
        "partition-spec-id": "0",
        "format-version": "2",
        "content": "data",
    }
    rows = sum(file.row_count for file in asked.files)
    manifest = f"{folder}/metadata/{uuid.uuid4()}-m0.avro"
    types = {leaf.field_id: leaf.type for leaf in leaves(asked.schema)}
    names = [f"p{number}" for number in range(len(spec))]
    records = [_entry(file, asked, snapshot_id, types, names) for file in asked.files]
    store.make_folders([f"{folder}/metadata"])
    length = _write(store, manifest, fastavro, avro.manifest_schema(partition_schema(asked)), records, about=header)
    listed = avro.manifest_record(
        _url(store, manifest), length, sequence=sequence, snapshot_id=snapshot_id, files=len(records), rows=rows
    )
    manifests = f"{folder}/metadata/snap-{snapshot_id}-1-{uuid.uuid4()}.avro"
    about = {"snapshot-id": str(snapshot_id), "sequence-number": str(sequence), "format-version": "2"}
    _write(store, manifests, fastavro, avro.MANIFEST_LIST, [listed] if records else [], about=about)
    made: dict[str, Any] = {
        "snapshot-id": snapshot_id,
        "sequence-number": sequence,
        "timestamp-ms": metadata["last-updated-ms"],
        "manifest-list": _url(store, manifests),
        "schema-id": schema["schema-id"],
        "summary": {
            "operation": "append" if parent == -1 else "overwrite",
            "total-data-files": str(len(records)),
            "total-records": str(rows),
            "engine-name": "parqlake",
            "engine-version": __version__,
            _VERSION: str(asked.version),
        },
    }
    return made if parent == -1 else made | {"parent-snapshot-id": parent}


def _entry(
    file: ExportFile, asked: Exportable, snapshot_id: int, types: dict[int, pa.DataType], names: Sequence[str]
) -> dict[str, Any]:
    lower, upper = bounds(file, types)
    partition = partition_record(file, asked)
    return avro.entry_record(
        snapshot_id,
        path=_url(asked.store, file.path),
        partition={short: partition[name] for short, name in zip(names, asked.info.partition_by, strict=True)},
        rows=file.row_count,
        size_bytes=file.size_bytes,
        nulls={
            number: known.nulls for number, known in file.bounds.items() if known.nulls is not None and number in types
        },
        lower=lower,
        upper=upper,
    )


def _write(
    store: Store, path: str, fastavro: Any, schema: dict[str, Any], records: Iterable[Any], *, about: dict[str, str]
) -> int:
    sink = io.BytesIO()
    fastavro.writer(sink, schema, records, codec="deflate", metadata=about)
    store.write_bytes(path, sink.getvalue())
    return len(sink.getvalue())


def _logged(snapshot: dict[str, Any]) -> dict[str, Any]:
    return {"snapshot-id": snapshot["snapshot-id"], "timestamp-ms": snapshot["timestamp-ms"]}


def _is_same(before: dict[str, Any], after: dict[str, Any], asked: Exportable) -> bool:
    return bool(
        before["properties"].get(_VERSION) == str(asked.version)
        and before["current-schema-id"] == after["current-schema-id"]
    )


def _read_metadata(asked: Exportable, folder: str) -> tuple[dict[str, Any] | None, int]:
    """What the newest metadata says, and its number; raises if it is not this table's own."""
    try:
        number = int(asked.store.read_bytes(f"{folder}/{_HINT}"))
        found = json.loads(asked.store.read_bytes(f"{folder}/{_name(number)}"))
    except FileNotInStoreError:
        if any(file.path.endswith(".metadata.json") for file in asked.store.list_files(f"{folder}/metadata")):
            raise _other(folder) from None
        return None, 0
    except ValueError:
        raise _other(folder) from None
    own = found.get("table-uuid") == str(uuid.UUID(asked.info.uuid)) and _VERSION in found.get("properties", {})
    if not own or asked.store.exists(f"{folder}/{_name(number + 1)}"):
        raise _other(folder)
    return found, number


def _other(folder: str) -> AlreadyExistsError:
    return AlreadyExistsError(
        f'"{folder}/metadata" is that of another Iceberg table, or others have written to it; give another path, or '
        "take it away"
    )


def _check_ids_of_imported(asked: Exportable) -> None:
    """Files that bring field ids of another format would be read by those: wrong columns, without an error."""
    imported = [file for file in asked.files if file.imported]
    if not imported:
        return
    ids = {field.name: field_id(field) for field in asked.schema}

    def wrong(file: ExportFile) -> bool:
        schema = read_footer(asked.store, file.path).schema.to_arrow_schema()
        return any(field_id(field) not in (-1, ids.get(field.name)) for field in schema)

    with ThreadPoolExecutor(_THREADS) as pool:
        for file, is_wrong in zip(imported, pool.map(wrong, imported), strict=True):
            if is_wrong:
                raise InvalidOptionError(
                    f'the imported file "{file.path}" has field ids of another format, by which Iceberg would take its '
                    "columns for others; rewrite the rows first: table.overwrite(table.scan())"
                )


def _name(number: int) -> str:
    return f"metadata/v{number}.metadata.json"


def _url(store: Store, path: str) -> str:
    url = store.full_url(path)
    return f"file://{url}" if store.is_local else url
