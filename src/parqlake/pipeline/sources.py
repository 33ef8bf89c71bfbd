"""Where the rows of a step come from: files, new files of a folder, databases, tables, and changes of tables.

A source says which tables it reads, so that steps can be put in order, and takes its rows when the run asks for them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatch
from typing import Any, Protocol

from parqlake.core.errors import InvalidOptionError, StoreError
from parqlake.core.names import parse_table_name
from parqlake.core.records_port import LONGEST_KEY_BYTES
from parqlake.core.retention import parse_age
from parqlake.core.runs import RunInput
from parqlake.table.lake import Lake


@dataclass(frozen=True, slots=True)
class Reading:
    """What a source may ask of the run that takes its rows."""

    spark: Any
    lake: Lake
    scope: str
    """Where the step's records are."""
    scan: Callable[[str], tuple[Any, int]]
    """A scan of a table as the run sees it, with its own changes, and the version below."""
    known_version: Callable[[str], int]
    """Up to which version the step has taken changes of a table."""


@dataclass(frozen=True, slots=True)
class Taken:
    """Rows that were taken, and what has to be remembered once they are committed."""

    frame: Any
    """None if there is nothing new."""
    inputs: tuple[RunInput, ...]
    files: Mapping[str, Any] = field(default_factory=dict)
    """For the ledger: what was taken, by key."""
    versions: Mapping[str, int] = field(default_factory=dict)
    """How far the changes of a table were taken."""


class Source(Protocol):
    """Where rows come from."""

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that are read as this run leaves them, so that steps which write them come first."""

    def look(self, lake: Lake, scope: str, known_version: Callable[[str], int]) -> str:
        """What a run would take now, in words, without Spark."""

    def take(self, reading: Reading) -> Taken:
        """The rows."""


@dataclass(frozen=True, slots=True)
class Files:
    """Files by their address, or another system by Spark's options. Made by `files` and `jdbc`."""

    format: str
    path: str | tuple[str, ...] | None = None
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    schema: str | None = None
    shown: str = ""

    @property
    def tables(self) -> tuple[str, ...]:
        """None."""
        return ()

    def look(self, lake: Lake, scope: str, known_version: Callable[[str], int]) -> str:  # noqa: ARG002
        """Its address."""
        return f"{self.format} {self.shown}"

    def take(self, reading: Reading) -> Taken:
        """All rows."""
        frame = _load(reading.spark, self.format, self.path, self.options, self.schema)
        return Taken(frame, (RunInput(self.shown, detail=self.format),))


@dataclass(frozen=True, slots=True)
class TableSource:
    """A table of the lake. Made by `table`."""

    name: str
    where: str | None = None

    @property
    def tables(self) -> tuple[str, ...]:
        """The table."""
        return (self.name,)

    def look(self, lake: Lake, scope: str, known_version: Callable[[str], int]) -> str:  # noqa: ARG002
        """The table and its version."""
        there = self.name in lake.tables()
        return f"table {self.name}" + (f" at version {lake.table(self.name).version}" if there else ", made by the run")

    def take(self, reading: Reading) -> Taken:
        """All rows, with what the run itself did to the table so far."""
        scan, version = reading.scan(self.name)
        narrowed = scan if self.where is None else scan.narrowed(self.where)
        detail = "" if self.where is None else self.where
        return Taken(narrowed.to_spark(reading.spark), (RunInput(self.name, version=version, detail=detail),))


@dataclass(frozen=True, slots=True)
class ChangesSource:
    """What changed in a table since the step saw it last. Made by `changes`."""

    name: str
    keys: tuple[str, ...] = ()

    @property
    def tables(self) -> tuple[str, ...]:
        """None: changes are taken from what was committed before the run."""
        return ()

    def look(self, lake: Lake, scope: str, known_version: Callable[[str], int]) -> str:  # noqa: ARG002
        """The versions."""
        return f"changes of {self.name} from version {known_version(self.name)} to {lake.table(self.name).version}"

    def take(self, reading: Reading) -> Taken:
        """Rows with `_change` and `_version`; nothing if there is no new version."""
        source = reading.lake.table(self.name)
        first, last = reading.known_version(self.name), source.version
        read = RunInput(self.name, version=last, from_version=first, detail="changes")
        if first >= last:
            return Taken(None, (read,), versions={self.name: last})
        found = source.changes(first, last, keys=list(self.keys) or None)
        return Taken(found.to_spark(reading.spark), (read,), versions={self.name: last})


@dataclass(frozen=True, slots=True)
class NewFiles:
    """Files of a folder that no run has taken yet. Made by `new_files`."""

    folder: str
    format: str
    pattern: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    schema: str | None = None
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    min_age: timedelta = timedelta(0)
    max_files: int | None = None

    @property
    def tables(self) -> tuple[str, ...]:
        """None."""
        return ()

    def look(self, lake: Lake, scope: str, known_version: Callable[[str], int]) -> str:  # noqa: ARG002
        """How many files are new."""
        found = self._new(lake, scope)
        size = sum(entry["size"] for entry in found.values())
        return f"{len(found):,} new files, {size:,} bytes, in {self.folder}"

    def take(self, reading: Reading) -> Taken:
        """The rows of the new files."""
        found = self._new(reading.lake, reading.scope)
        read = RunInput(self.folder, detail=f"{len(found)} new files")
        if not found:
            return Taken(None, (read,))
        paths = tuple(entry["path"] for entry in found.values())
        frame = _load(reading.spark, self.format, paths, {"__globPaths__": "false", **self.options}, self.schema)
        return Taken(frame, (read,), files=found)

    def _new(self, lake: Lake, scope: str) -> dict[str, dict[str, Any]]:
        listed = self._listed()
        known = lake.recorded(scope, listed) if listed else set()
        new = [(key, entry) for key, entry in listed.items() if key not in known]
        return dict(new[: self.max_files])

    def _listed(self) -> dict[str, dict[str, Any]]:
        """All files of the folder, oldest name first, by what tells one state of a file from another."""
        import fsspec

        from parqlake.stores.spellings import fsspec_options

        options = fsspec_options(self.folder.partition("://")[0], self.storage_options)
        try:
            filesystem, root = fsspec.core.url_to_fs(self.folder, **options)
            details = filesystem.find(root, detail=True)
        except (OSError, ValueError) as error:
            raise StoreError(f"{self.folder} cannot be listed: {error}; check the address") from error
        found: dict[str, dict[str, Any]] = {}
        limit = datetime.now(UTC) - self.min_age
        for path, detail in sorted(details.items()):
            below = path[len(root) :].lstrip("/")
            hidden = any(part.startswith(("_", ".")) for part in below.split("/"))
            if detail.get("type") == "directory" or hidden or not fnmatch(below, self.pattern):
                continue
            changed = _changed_at(detail)
            if self.min_age and changed is not None and changed > limit:
                continue  # somebody may still be writing it
            state = detail.get("ETag") or detail.get("etag") or (changed.isoformat() if changed else "")
            size = int(detail.get("size") or 0)
            address = path if "file" in _protocols(filesystem) else filesystem.unstrip_protocol(path)
            found[_key(address, size, str(state).strip('"'))] = {"path": address, "size": size}
        return found


def files(
    path: str | Sequence[str],
    *,
    format: str = "parquet",
    schema: str | None = None,
    **options: Any,
) -> Files:
    """All files at an address, read anew by each run.

    Args:
        path: one address or several, as Spark takes them.
        format: `"parquet"`, `"json"`, `"csv"`, `"orc"`, or any other that the session knows.
        schema: the columns in Spark's words, `"id bigint, at timestamp"`; found out from the files if left out.
        options: of Spark's reader, for instance `header=True`.

    Example:
        >>> files("landing/orders", format="json", schema="id bigint").format
        'json'
    """
    paths = (path,) if isinstance(path, str) else tuple(path)
    if not paths or not all(isinstance(one, str) and one for one in paths):
        raise InvalidOptionError(f"files({path!r}) names no files; give an address, or a list of them")
    return Files(format, paths, _texts(options), schema, ", ".join(paths))


def jdbc(url: str, table: str, **options: Any) -> Files:
    """A table or query of a database, read by Spark with the driver that the session has.

    Args:
        url: `jdbc:postgresql://host/database`; without a password: that is an option.
        table: a table, or `"(select …) as t"`.
        options: of Spark's reader: `user`, `password`, `numPartitions`, … They are never stored or shown.

    Example:
        >>> jdbc("jdbc:postgresql://db/shop", "orders", user="etl", password="…").shown
        'jdbc:postgresql://db/shop orders'
    """
    if not isinstance(url, str) or not url.startswith("jdbc:"):
        raise InvalidOptionError(f"jdbc({url!r}): the address begins with jdbc:, as in jdbc:postgresql://host/database")
    if "password=" in url.lower() or "@" in url.partition("//")[2].partition("/")[0]:
        raise InvalidOptionError("the address of a database holds a password or user; give them as options instead")
    return Files("jdbc", None, {**_texts(options), "url": url, "dbtable": table}, None, f"{url} {table}")


def table(name: str, *, where: str | None = None) -> TableSource:
    """A table of the lake: what an earlier step of the same run wrote to it is seen.

    Example:
        >>> table("silver.orders", where="region = 'eu'").tables
        ('silver.orders',)
    """
    return TableSource(str(parse_table_name(name)), where)


def changes(name: str, *, keys: Sequence[str] | str = ()) -> ChangesSource:
    """The rows that were inserted, updated or deleted in a table since the step took them last.

    The rows have two more columns, `_change` and `_version`; see `Table.changes`. What this very run does to the table
    is taken by the next one.

    Example:
        >>> changes("silver.orders", keys=["order_id"]).keys
        ('order_id',)
    """
    return ChangesSource(str(parse_table_name(name)), (keys,) if isinstance(keys, str) else tuple(keys))


def new_files(
    folder: str,
    *,
    format: str = "parquet",
    pattern: str = "*",
    schema: str | None = None,
    min_age: str | timedelta = 0,  # type: ignore[assignment]
    max_files: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> NewFiles:
    """The files of a folder that no run of the step has taken, each exactly once, remembered in the catalog.

    A file is told by its path, its size, and its ETag or time of change: one that was replaced is taken again. Names
    that begin with `_` or `.` are left out. If there is nothing new, the step is left out of the run.

    Args:
        folder: the address, with all folders below it.
        format: see `files`, as for `schema` and `options`.
        pattern: what paths below the folder look like, `"*.json"` for instance.
        schema: the columns in Spark's words; best given, so that one odd file does not change them.
        min_age: leaves files alone that were changed less than so long ago: who writes them may not be done.
        max_files: at most so many for one run; the next ones take the others.
        storage_options: what the store needs to know to list the folder; never stored or shown.
        options: of Spark's reader.

    Example:
        >>> new_files("landing/orders", format="json", pattern="*.json").pattern
        '*.json'
    """
    if not isinstance(folder, str) or not folder:
        raise InvalidOptionError(f"new_files({folder!r}) names no folder")
    if max_files is not None and (not isinstance(max_files, int) or isinstance(max_files, bool) or max_files < 1):
        raise InvalidOptionError(f"max_files={max_files!r} must be a whole number > 0")
    age = parse_age(min_age, "min_age")
    return NewFiles(folder, format, pattern, _texts(options), schema, dict(storage_options or {}), age, max_files)


def _load(spark: Any, format: str, path: Any, options: Mapping[str, Any], schema: str | None) -> Any:
    reader = spark.read.format(format).options(**options)
    if schema is not None:
        reader = reader.schema(schema)
    return reader.load() if path is None else reader.load(list(path))


def _texts(options: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in options.items()}


def _changed_at(detail: Mapping[str, Any]) -> datetime | None:
    """When a file was changed, by whichever name its file system has for that."""
    for name in ("mtime", "LastModified", "last_modified", "updated"):
        value = detail.get(name)
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value, UTC)
        if isinstance(value, datetime):
            return value.replace(tzinfo=UTC) if value.tzinfo is None else value
    return None


def _protocols(filesystem: Any) -> tuple[str, ...]:
    return (filesystem.protocol,) if isinstance(filesystem.protocol, str) else tuple(filesystem.protocol)


def _key(path: str, size: int, state: str) -> str:
    """What tells the file, in this state, from all others; long paths by their hash."""
    key = f"{path}|{size}|{state}"
    if len(key.encode()) <= LONGEST_KEY_BYTES:
        return key
    return f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"
