"""Code to copy: how to read a table with each engine, and which command does what."""

from __future__ import annotations

import shlex

from parqlake.table.lake import Lake
from parqlake.ui.explorer import Subject


def connect_call(lake: Lake) -> str:
    """The call that opens the lake; a catalog inside a local root needs no mention.

    Secrets are never part of it: a URL that had one is shown without, and needs it again.
    """
    inside = lake.catalog_url.startswith("sqlite:") and lake.context.store.is_local and lake.url in lake.catalog_url
    catalog = "" if inside else f', catalog="{lake.catalog_url}"'
    return f'parqlake.connect("{lake.url}"{catalog})'


def snippets(lake: Lake, subject: Subject) -> list[dict[str, str]]:
    """How the version is read, by engine."""
    name = subject.name
    version = "" if subject.version == subject.head.version else f"version={subject.version}"
    table = f'lake.table("{name}")'
    opened = f"import parqlake\n\nlake = {connect_call(lake)}\n"
    pinned = f"{name}@{subject.version}" if version else name
    return [
        {
            "engine": "Spark",
            "code": f"{opened}frame = {table}.scan({version}).to_spark()\nframe.show()",
        },
        {
            "engine": "DuckDB",
            "code": f'{opened}lake.sql("select * from {pinned} limit 10").to_arrow()',  # noqa: S608 (to copy, not run)
        },
        {
            "engine": "Polars",
            "code": f"{opened}frame = {table}.scan({version}).to_polars()",
        },
        {
            "engine": "pandas",
            "code": f"{opened}frame = {table}.scan({version}).to_pandas()",
        },
        {
            "engine": "Command line",
            "code": command(lake, "head", name, *(["--at", str(subject.version)] if version else [])),
        },
    ]


def command(lake: Lake, *words: str) -> str:
    """A command line of `parqlake` for this lake, quoted for a shell.

    Example:
        >>> command(lake, "vacuum", "sales.orders", "--dry-run")   # doctest: +SKIP
        'parqlake vacuum sales.orders --dry-run --lake warehouse'
    """
    return shlex.join(["parqlake", *words, "--lake", lake.url])
