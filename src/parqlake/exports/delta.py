"""Delta: the log of a Delta table over the files of a version. A repeat adds what changed as the next entry.

Paths in the log are relative to the folder above it, since not all readers of Delta follow others: so all files have to
lie below that folder.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from parqlake._version import __version__
from parqlake.core.errors import AlreadyExistsError, ConflictError, InvalidOptionError
from parqlake.core.model import to_micros
from parqlake.core.schema import without_ids
from parqlake.exports.delta_schema import (
    check_reads_by_name,
    delta_schema,
    has_plain_times,
    partition_values,
    statistics,
)
from parqlake.table.context import now
from parqlake.table.exporting import Exportable, ExportResult

LOG = "_delta_log"
_ENGINE = "parqlake"


@dataclass(slots=True)
class _Log:
    """What the log says so far."""

    version: int = -1
    metadata: dict[str, Any] | None = None
    protocol: dict[str, Any] | None = None
    files: dict[str, dict[str, Any]] = field(default_factory=dict)


def export_delta(asked: Exportable) -> ExportResult:
    """Writes the next entry of the log; raises, before anything is written, for what Delta cannot hold.

    Raises:
        UnsupportedTypeError: a column's type has no place in Delta.
        InvalidOptionError: files lie outside of the folder, or have to be rewritten first.
        AlreadyExistsError: another Delta table is there, or others have written to this one.
        ConflictError: another export was quicker.
    """
    folder = asked.info.location if asked.folder is None else asked.folder
    _check_below(asked, folder)
    check_reads_by_name(asked)
    schema = delta_schema(without_ids(asked.schema))
    files = {}
    for file in asked.files:
        path = quote(file.path[len(folder) + 1 :], safe="/=")
        files[path] = {
            "path": path,
            "partitionValues": partition_values(file, asked.schema),
            "size": file.size_bytes,
            "modificationTime": to_micros(asked.committed_at) // 1000,
            "dataChange": True,
            "stats": json.dumps(statistics(file, asked.schema), ensure_ascii=False, separators=(",", ":")),
        }
    protocol, metadata = _protocol(asked), _metadata(asked, schema)
    log = _read_log(asked, folder, metadata["id"])
    actions: list[dict[str, Any]] = []
    if log.protocol != protocol:
        actions.append({"protocol": protocol})
    if log.metadata is None or not _same(log.metadata, metadata):
        actions.append({"metaData": metadata})
    moment = to_micros(now()) // 1000
    actions += [
        {"remove": {"path": path, "deletionTimestamp": moment, "dataChange": True}}
        for path in sorted(log.files.keys() - files.keys())
    ]
    actions += [{"add": files[path]} for path in sorted(files.keys() - log.files.keys())]
    number = log.version + 1 if actions else log.version
    name = f"{folder}/{LOG}/{number:020}.json"
    if actions:
        info = {"timestamp": moment, "operation": "WRITE", "engineInfo": f"{_ENGINE}/{__version__}"}
        told = {"commitInfo": info | {"parqlakeVersion": asked.version}}
        text = "\n".join(json.dumps(action, ensure_ascii=False, separators=(",", ":")) for action in (told, *actions))
        asked.store.make_folders([f"{folder}/{LOG}"])
        if not asked.store.write_bytes(name, (text + "\n").encode(), exclusive=True):
            raise ConflictError(f'"{name}" was written by another export meanwhile; export again')
    return ExportResult(
        format="delta",
        url=asked.store.full_url(folder),
        metadata=name,
        version=asked.version,
        export_version=number,
        files=len(files),
        row_count=sum(file.row_count for file in asked.files),
        changed=bool(actions),
    )


def _check_below(asked: Exportable, folder: str) -> None:
    outside = [file.path for file in asked.files if not file.path.startswith(f"{folder}/")]
    if outside:
        paths = [file.path.split("/")[:-1] for file in asked.files]
        shared = [parts[0] for parts in zip(*paths, strict=False) if len(set(parts)) == 1]
        way = f'give path="{"/".join(shared)}", which holds them all' if shared else "rewrite the rows by optimize()"
        raise InvalidOptionError(
            f'a Delta log in "{folder}" can only name files below it, and "{outside[0]}" is not; {way}, or export '
            '"iceberg", which names files anywhere'
        )


def _protocol(asked: Exportable) -> dict[str, Any]:
    if not has_plain_times(asked.schema):
        return {"minReaderVersion": 1, "minWriterVersion": 2}
    features = ["timestampNtz"]
    return {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}


def _metadata(asked: Exportable, schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": str(uuid.UUID(asked.info.uuid)),
        "name": str(asked.info.name),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema, ensure_ascii=False, separators=(",", ":")),
        "partitionColumns": list(asked.info.partition_by),
        "configuration": {},
        "createdTime": to_micros(asked.info.created_at) // 1000,
    }


def _same(before: dict[str, Any], after: dict[str, Any]) -> bool:
    return all(before.get(key) == after[key] for key in ("schemaString", "partitionColumns", "name"))


def _read_log(asked: Exportable, folder: str, own_id: str) -> _Log:
    """The state that the log describes, if it is all of this table's own exports; raises otherwise."""
    log = _Log()
    names = sorted(file.path for file in asked.store.list_files(f"{folder}/{LOG}") if file.path.endswith(".json"))
    numbered = [name for name in names if name.rpartition("/")[2].removesuffix(".json").isdigit()]
    other = AlreadyExistsError(
        f'"{folder}/{LOG}" is the log of another Delta table, or others have written to it; give another path, or take '
        "it away"
    )
    for number, name in enumerate(numbered):
        if int(name.rpartition("/")[2].removesuffix(".json")) != number:
            raise other
        actions = [json.loads(line) for line in asked.store.read_bytes(name).splitlines() if line.strip()]
        if not any(str(a.get("commitInfo", {}).get("engineInfo", "")).startswith(_ENGINE) for a in actions):
            raise other
        log.version = number
        for action in actions:
            if "protocol" in action:
                log.protocol = action["protocol"]
            elif "metaData" in action:
                log.metadata = action["metaData"]
            elif "add" in action:
                log.files[action["add"]["path"]] = action["add"]
            elif "remove" in action:
                log.files.pop(action["remove"]["path"], None)
    if log.metadata is not None and log.metadata["id"] != own_id:
        raise other
    return log
