"""The options of the format, as Spark hands them over: text, in any case."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from parqlake.core.errors import InvalidOptionError, suggestion
from parqlake.table.lake import Lake
from parqlake.table.options import WriteOptions
from parqlake.wiring import connect

_NUMBERS = {"target_mb_per_file": float, "max_rows_per_file": int, "row_group_size": int}
_KNOWN = (
    "lake",
    "catalog",
    "storage_options",
    "table",
    "version",
    "as_of",
    "where",
    "create",
    "partition_by",
    "message",
    "idempotency_key",
    "compression",
    "schema_mode",
    *_NUMBERS,
    "from_version",
    "allow_removals",
)
_SPARKS_OWN = ("path", "paths", "checkpointlocation", "queryname", "basepath", "mergeschema")


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a reader or writer was asked for."""

    table: str
    lake: str
    catalog: str | None = None
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    version: int | str | None = None
    as_of: str | None = None
    where: str | None = None
    create: bool = False
    partition_by: tuple[str, ...] = ()
    message: str | None = None
    idempotency_key: str | None = None
    write: WriteOptions = field(default_factory=WriteOptions)
    from_version: str | None = None
    allow_removals: bool = False

    def connect(self) -> Lake:
        """Opens the lake in this process."""
        return connect(self.lake, catalog=self.catalog, storage_options=self.storage_options, create=False)


def read_options(given: Mapping[str, str]) -> SourceOptions:
    """Checks the options; a name that is not known is an error, since a misspelt one would be ignored in silence."""
    options = {key.lower(): value for key, value in given.items()}
    for key in options:
        if key not in _KNOWN and key not in _SPARKS_OWN and not key.startswith("spark."):
            raise InvalidOptionError(
                f'format "parqlake" has no option "{key}";{suggestion(key, _KNOWN)} options: {", ".join(_KNOWN)}'
            )
    table = options.get("table") or options.get("path")
    if not table:
        raise InvalidOptionError('name the table: .load("sales.orders") or .save("sales.orders")')
    if "lake" not in options:
        raise InvalidOptionError('say where the lake is: .option("lake", "warehouse")')
    version = options.get("version")
    return SourceOptions(
        table=table,
        lake=options["lake"],
        catalog=options.get("catalog"),
        storage_options=_json(options.get("storage_options")),
        version=int(version) if version is not None and version.strip().isdigit() else version,
        as_of=options.get("as_of"),
        where=options.get("where"),
        create=_flag("create", options.get("create")),
        partition_by=tuple(part.strip() for part in options.get("partition_by", "").split(",") if part.strip()),
        message=options.get("message"),
        idempotency_key=options.get("idempotency_key"),
        write=_write_options(options),
        from_version=options.get("from_version"),
        allow_removals=_flag("allow_removals", options.get("allow_removals")),
    )


def _write_options(options: Mapping[str, str]) -> WriteOptions:
    found: WriteOptions = {}
    for name, kind in _NUMBERS.items():
        if name in options:
            try:
                found[name] = kind(options[name])  # type: ignore[literal-required]
            except ValueError:
                raise InvalidOptionError(f"{name}={options[name]!r} is no number") from None
    if "compression" in options:
        found["compression"] = options["compression"]
    if "schema_mode" in options:
        found["schema_mode"] = options["schema_mode"]
    return found


def _flag(name: str, text: str | None) -> bool:
    if text is None:
        return False
    if text.strip().lower() in ("true", "false"):
        return text.strip().lower() == "true"
    raise InvalidOptionError(f'{name}={text!r} is neither "true" nor "false"')


def _json(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InvalidOptionError('storage_options must be a JSON object, for instance {"key": "…"}')
    return value
