"""Names of tables, columns and tags: what is allowed, and how they become paths."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from parqlake.core.errors import InvalidNameError

MARKER = "_parqlake.json"
"""Lies in a lake's root and names the lake, so that a catalog is never used with another lake's files."""
MAX_NAME_LENGTH = 128
MAX_COLUMN_LENGTH = 255
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_MAX_SEGMENT_BYTES = 200
_PART = re.compile(r"[A-Za-z_][A-Za-z0-9_\-]*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A table's name, `namespace.name`."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"


def parse_table_name(text: object) -> TableName:
    """Reads `namespace.name`, and refuses anything that is not two plain identifiers.

    Plain ASCII identifiers mean the same in every store, database and engine; quotes, slashes, `..` and
    look-alike letters do not.

    Example:
        >>> parse_table_name("sales.orders")
        TableName(namespace='sales', name='orders')
    """
    if isinstance(text, TableName):
        return text
    rule = 'a table name is "namespace.name", each part a letter or _ followed by letters, digits, _ or -'
    if not isinstance(text, str):
        raise InvalidNameError(f"table name {text!r} is a {type(text).__name__}, not a string; {rule}")
    if not text:
        raise InvalidNameError(f"the table name is empty; {rule}")
    parts = text.split(".")
    if len(parts) == 1 and _PART.fullmatch(text):
        raise InvalidNameError(f'table name "{text}" has no namespace; write for instance "main.{text}"')
    if len(parts) != 2 or not all(_PART.fullmatch(part) for part in parts):
        raise InvalidNameError(f"invalid table name {_shown(text)}; {rule}")
    for part in parts:
        if len(part) > MAX_NAME_LENGTH:
            raise InvalidNameError(
                f"table name {_shown(text)} is too long: at most {MAX_NAME_LENGTH} characters a part"
            )
    return TableName(parts[0], parts[1])


def check_namespace(text: object) -> str:
    """Returns the namespace if it is a plain identifier, else raises."""
    if isinstance(text, str) and _PART.fullmatch(text) and len(text) <= MAX_NAME_LENGTH:
        return text
    raise InvalidNameError(f"invalid namespace {_shown(str(text))}; use letters, digits, _ and -")


def check_tag_name(text: object) -> str:
    """Returns the tag's name if it can be told from a version number, else raises."""
    if isinstance(text, str) and len(text) <= MAX_NAME_LENGTH and _TAG.fullmatch(text) and not text.isdigit():
        return text
    raise InvalidNameError(
        f"invalid tag {_shown(str(text))}; use letters, digits, _ . and -, at most {MAX_NAME_LENGTH}, not only digits"
    )


def check_column_names(names: Sequence[str]) -> None:
    """Refuses empty, over-long, unprintable and ambiguous column names.

    Columns that differ only in case are refused: DuckDB and Spark cannot tell them apart.
    """
    seen: dict[str, str] = {}
    for name in names:
        if not name or not name.strip():
            raise InvalidNameError(f"column name {name!r} is empty; give every column a name")
        if len(name) > MAX_COLUMN_LENGTH:
            raise InvalidNameError(f"column name {_shown(name)} is too long: at most {MAX_COLUMN_LENGTH} characters")
        if any(ord(c) < 32 or ord(c) == 127 or 0xD800 <= ord(c) <= 0xDFFF for c in name):
            raise InvalidNameError(f"column name {name!r} holds a control character; rename it")
        other = seen.get(name.casefold())
        if other == name:
            raise InvalidNameError(f'column "{name}" occurs twice; rename one of them')
        if other is not None:
            raise InvalidNameError(f'columns "{other}" and "{name}" differ only in case; rename one of them')
        seen[name.casefold()] = name


def stored_path(location: str, path: str) -> str:
    """Where a table's file lies, relative to the lake's root.

    Files that parqlake writes lie in the table's location. An imported one stays where it was found: its path
    begins with a slash, and counts from the root.

    Example:
        >>> stored_path("sales/orders-1", "part-0.parquet"), stored_path("sales/orders-1", "/landing/a.parquet")
        ('sales/orders-1/part-0.parquet', 'landing/a.parquet')
    """
    return path[1:] if path.startswith("/") else f"{location}/{path}"


def partition_segment(column: str, value: str | None) -> str:
    """Makes one Hive-style folder name, `column=value`, safe on every store.

    The value also stands inside the file and in the catalog, so a name too long for a file system may be
    cut: the folder is for people and for tools that read plain directories.
    """
    shown = NULL_PARTITION if value is None else quote(value, safe=" ")
    segment = f"{quote(column, safe=' ')}={shown}"
    return segment if len(segment) <= _MAX_SEGMENT_BYTES else segment[:_MAX_SEGMENT_BYTES].rstrip("%") + "~"


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
