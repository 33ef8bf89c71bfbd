"""Where the rows of a step come from: files, new files of a folder, databases, tables, and changes of tables.

A source says which tables it reads, so that steps can be put in order, and takes its rows when the run asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from parqlake.core.errors import InvalidOptionError, TableNotFoundError
from parqlake.core.names import parse_table_name
from parqlake.core.retention import parse_age
from parqlake.core.runs import RunInput
from parqlake.pipeline.addresses import checked_address, jdbc_holds_secret
from parqlake.pipeline.landing import NewFiles
from parqlake.pipeline.reading import Reading, Taken, load_frame
from parqlake.table.lake import Lake


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

    @property
    def remembers(self) -> bool:
        """No: all files are read each time."""
        return False

    def look(self, lake: Lake, scope: str, known_version: Callable[[str], int]) -> str:  # noqa: ARG002
        """Its address."""
        return f"{self.format} {self.shown}"

    def take(self, reading: Reading) -> Taken:
        """All rows."""
        frame = load_frame(reading.spark, self.format, self.path, self.options, self.schema)
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

    @property
    def remembers(self) -> bool:
        """No: all rows are read each time."""
        return False

    def look(self, lake: Lake, scope: str, known_version: Callable[[str], int]) -> str:  # noqa: ARG002
        """The table and its version."""
        there = self.name in lake.tables()
        return f"table {self.name}" + (f" at version {lake.table(self.name).version}" if there else ", made by the run")

    def take(self, reading: Reading) -> Taken:
        """All rows, with what the run itself did to the table so far."""
        try:
            scan, version = reading.scan(self.name)
        except TableNotFoundError:
            if self.name not in reading.made:
                raise
            return Taken(None, (RunInput(self.name, version=0),))  # the step that makes it has had nothing to do yet
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

    @property
    def remembers(self) -> bool:
        """Yes, by the version of the table."""
        return True

    def look(self, lake: Lake, scope: str, known_version: Callable[[str], int]) -> str:  # noqa: ARG002
        """The versions."""
        if self.name not in lake.tables():
            return f"changes of {self.name}, which is not there yet"
        return f"changes of {self.name} from version {known_version(self.name)} to {lake.table(self.name).version}"

    def take(self, reading: Reading) -> Taken:
        """Rows with `_change` and `_version`; nothing if there is no new version, or if a step has yet to make it."""
        if self.name in reading.made and self.name not in reading.lake.tables():
            return Taken(None, (RunInput(self.name, version=0, from_version=0, detail="changes"),))
        source = reading.lake.table(self.name)
        first, last = reading.known_version(self.name), source.version
        read = RunInput(self.name, version=last, from_version=first, detail="changes")
        keys = list(self.keys) or None
        if first >= last:
            return Taken(None, (read,), empty=lambda: source.changes(last, last, keys=keys).to_spark(reading.spark))
        found = source.changes(first, last, keys=keys)
        seen = {self.name: {"version": last, "table": source.info.uuid}}
        return Taken(found.to_spark(reading.spark), (read,), versions=seen)


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
    for one in paths:
        checked_address(one, "files", "give it to the session as Spark's configuration, or as an option")
    return Files(format, paths, _texts(options), schema, ", ".join(paths))


def jdbc(url: str, table: str, **options: Any) -> Files:
    """A table or query of a database, read by Spark with the driver that the session has.

    Args:
        url: `jdbc:postgresql://host/database`; without a user, password or token: those are options.
        table: a table, or `"(select …) as t"`.
        options: of Spark's reader: `user`, `password`, `numPartitions`, … They are never stored or shown.

    Example:
        >>> jdbc("jdbc:postgresql://db/shop", "orders", user="etl", password="…").shown
        'jdbc:postgresql://db/shop orders'
    """
    if not isinstance(url, str) or not url.startswith("jdbc:"):
        raise InvalidOptionError(f"jdbc({url!r}): the address begins with jdbc:, as in jdbc:postgresql://host/database")
    if jdbc_holds_secret(url):
        raise InvalidOptionError(
            "the address of a database holds a password, user or token; give them as options instead: "
            'jdbc(url, table, user="…", password="…")'
        )
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
    checked_address(folder, "new_files", "give it as storage_options={…}, and to the session as Spark's configuration")
    if max_files is not None and (not isinstance(max_files, int) or isinstance(max_files, bool) or max_files < 1):
        raise InvalidOptionError(f"max_files={max_files!r} must be a whole number > 0")
    age = parse_age(min_age, "min_age")
    return NewFiles(folder, format, pattern, _texts(options), schema, dict(storage_options or {}), age, max_files)


def _texts(options: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in options.items()}
