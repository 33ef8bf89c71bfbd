"""The SQL of a merge. Names, paths and values are quoted; nothing a user gave is ever read as SQL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from parqlake.core.merging.model import MergeRule
from parqlake.engines.duck.copy_statement import identifier, literal

INCOMING, STAGED, SOURCE, HITS, FILES = (
    "parqlake_incoming",
    "parqlake_staged",
    "parqlake_source",
    "parqlake_hits",
    "parqlake_files",
)
POSITION = "parqlake_position"
"""The number of a source row; no column may have this name."""
_FILE = "parqlake_file"
_FLOATS = ("FLOAT", "DOUBLE")
_SPECIAL = re.compile(r"[\[*?]")


def scan(paths: Iterable[str]) -> str:
    """Reads exactly these files: DuckDB takes a path for a pattern, so that its special characters are escaped."""
    names = ", ".join(literal(escaped(path)) for path in paths)
    return f"read_parquet([{names}], hive_partitioning = false)"


def winners(rule: MergeRule) -> str:
    """The positions of the source rows that are taken: one for each key."""
    keys = _list(rule.keys)
    if not rule.dedup_order_by:
        return f"SELECT max({POSITION}) AS {POSITION} FROM {STAGED} GROUP BY {keys}"  # noqa: S608  quoted
    # DuckDB puts NaN above all numbers, as we do.
    order = ", ".join(f"{identifier(name)} DESC NULLS LAST" for name in rule.dedup_order_by)
    return (
        f"SELECT {POSITION} FROM {STAGED} "  # noqa: S608  quoted
        f"QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY {order}, {POSITION} DESC) = 1"
    )


def hits(paths: Sequence[str], rule: MergeRule, constants: Iterable[str], *, types: Mapping[str, str]) -> str:
    """For each target row with a match its file and the source row; files are numbered as in `paths`.

    Args:
        paths: the files.
        rule: what to match.
        constants: columns that come from the files' partitions.
        types: DuckDB's type of each column of the target.
    """
    fixed = set(constants)
    tests = " AND ".join(f"{'f' if key in fixed else 't'}.{identifier(key)} = s.{identifier(key)}" for key in rule.keys)
    files = f"JOIN {FILES} f USING ({_FILE}) " if fixed & set(rule.keys) else ""
    own = ", ".join(
        f"{_seen(identifier(key), types[key])} AS {identifier(key)}" for key in rule.keys if key not in fixed
    )
    if any(name.casefold() == "file_index" for name in types):
        # A column of that name hides the number that DuckDB gives to files.
        parts = [f"SELECT {n} AS {_FILE}, {own or '0'} FROM {scan([path])}" for n, path in enumerate(paths)]  # noqa: S608
        scanned = " UNION ALL ".join(parts)
    else:
        scanned = f"SELECT file_index AS {_FILE}, {own or '0'} FROM {scan(paths)}"  # noqa: S608  quoted
    return f"SELECT t.{_FILE}, s.{POSITION} FROM ({scanned}) t {files}JOIN {SOURCE} s ON {tests}"  # noqa: S608  quoted


def counts() -> str:
    """How many rows of each file match."""
    return f"SELECT {_FILE}, count(*) FROM {HITS} GROUP BY {_FILE}"  # noqa: S608


def inserts(columns: Sequence[str]) -> str:
    """The source rows without a match, in order."""
    return (
        f"SELECT {_list(columns)} FROM {SOURCE} s "  # noqa: S608  quoted
        f"WHERE s.{POSITION} NOT IN (SELECT {POSITION} FROM {HITS}) ORDER BY {POSITION}"
    )


def rewrite(number: int, path: str, rule: MergeRule, types: Mapping[str, str], *, inside: Iterable[str]) -> str:
    """The rows of one file after the merge.

    Args:
        number: the file's, as in the hits.
        path: where it lies.
        rule: what to do.
        types: DuckDB's type of each column of the result.
        inside: the columns that the file itself has; others come from its partition, else they are NULL.
    """
    own = set(inside)
    kind = "JOIN" if rule.strategy.deletes else "LEFT JOIN"
    tests = " AND ".join(f"{_seen(_own(key, types, own), types[key])} = s.{identifier(key)}" for key in rule.keys)
    values = []
    for name, type_ in types.items():
        value = _own(name, types, own)
        if rule.update_columns is None or name in rule.update_columns:
            value = f"CASE WHEN s.{POSITION} IS NULL THEN {value} ELSE s.{identifier(name)} END"
        values.append(f"CAST({value} AS {type_}) AS {identifier(name)}")
    return (
        f"SELECT {', '.join(values)} FROM {scan([path])} t "  # noqa: S608  quoted
        f"CROSS JOIN (SELECT * FROM {FILES} WHERE {_FILE} = {number}) f "
        f"{kind} (SELECT * FROM {SOURCE} WHERE {POSITION} IN "
        f"(SELECT {POSITION} FROM {HITS} WHERE {_FILE} = {number})) s ON {tests}"
    )


def file_column() -> str:
    """The name of the column that numbers files."""
    return _FILE


def _seen(value: str, type_: str) -> str:
    """A key of the target, such that no NaN is overlooked.

    DuckDB skips row groups by their lowest and highest value, and Parquet leaves NaN out of both. It does so for
    columns alone, not for expressions.
    """
    return f"CASE WHEN isnan({value}) THEN 'nan'::{type_} ELSE {value} END" if type_ in _FLOATS else value


def _own(name: str, types: Mapping[str, str], inside: set[str]) -> str:
    if name in inside:
        return f"CAST(t.{identifier(name)} AS {types[name]})"
    return f"CAST(f.{identifier(name)} AS {types[name]})"


def _list(names: Iterable[str]) -> str:
    return ", ".join(identifier(name) for name in names)


def escaped(path: str) -> str:
    """A path as a pattern that only this path fits."""
    return _SPECIAL.sub(r"[\g<0>]", path)
