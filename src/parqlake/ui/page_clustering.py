"""How the files of a version lie in each column, and which of them a predicate lights up."""

from __future__ import annotations

from typing import Any

from parqlake.core.errors import InputError
from parqlake.core.ports import CatalogReader
from parqlake.core.predicates import bind, parse
from parqlake.core.predicates.describe import describe
from parqlake.core.predicates.tree import TRUE, Predicate, columns_of
from parqlake.table.cluster_policy import cluster_by
from parqlake.table.explain import look_at
from parqlake.ui.explorer import Ask, Explorer, Subject
from parqlake.ui.footprint import Footprint, Lit
from parqlake.ui.page_files import partition_text
from parqlake.ui.ranges import MOST_COLUMNS, column_ranges, default_columns, range_columns
from parqlake.ui.snippets import command

_LISTED = 25
"""Files that are listed of those that a plan reads."""


def clustering_page(explorer: Explorer, ask: Ask) -> dict[str, Any]:
    """The range of each file in some columns, and what a predicate leaves of them."""
    with explorer.read() as reader:
        subject = explorer.subject(reader, ask)
        known = {".".join(leaf.path): leaf for leaf in range_columns(subject)}
        predicate, error = read_predicate(ask.text("where"), subject)
        named = [column.name for column in columns_of(predicate)] if predicate is not None else []
        asked = [name for name in ask.many("column") if name in known]
        defaults = dict.fromkeys([*(name for name in named if name in known), *default_columns(subject)])
        chosen = (asked or list(defaults))[:MOST_COLUMNS]
        found: dict[str, Any] = {
            "table": explorer.counts(subject),
            "where": ask.text("where"),
            "error": error,
            "known": list(known),
            "chosen": chosen,
            "cluster_by": list(cluster_by(subject.info)),
            "example": _example(subject, list(known)),
        }
        if subject.snapshot is None or not subject.snapshot.file_count:
            return {**found, "empty": True, "lit": None, "columns": []}
        footprint = explorer.footprint(reader, subject.snapshot)
        asks = predicate is not None and predicate != TRUE
        lit = footprint.lit(reader, predicate) if asks and predicate is not None else None
        files = None if lit is None else lit.files
        columns = [column_ranges(reader, footprint, known[name], files) for name in chosen]
    return {**found, "empty": False, "lit": figures(footprint, lit), "columns": columns}


def explain_page(explorer: Explorer, ask: Ask) -> dict[str, Any]:
    """What a scan with the predicate reads and what it skips, condition by condition, by the catalog alone."""
    with explorer.read() as reader:
        subject = explorer.subject(reader, ask)
        predicate, error = read_predicate(ask.text("where"), subject)
        known = [".".join(leaf.path) for leaf in range_columns(subject)]
        found: dict[str, Any] = {
            "table": explorer.counts(subject),
            "where": ask.text("where"),
            "error": error,
            "example": _example(subject, known),
        }
        if subject.snapshot is None or predicate is None or not subject.snapshot.file_count:
            return {**found, "plan": None, "empty": subject.snapshot is None or not subject.snapshot.file_count}
        footprint = explorer.footprint(reader, subject.snapshot)
        lit = footprint.lit(reader, predicate)
        look = look_at(reader, subject.info, subject.snapshot, predicate)
        files = _read_files(reader, footprint, lit)
    plan = {
        **(figures(footprint, lit) or {}),
        "understood": None if predicate == TRUE else describe(predicate),
        "conditions": [
            {
                "text": item.text,
                "by": item.by,
                "columns": list(item.columns),
                "files_kept": item.files_kept,
                "files_skipped": item.files_skipped,
                "row_groups_kept": item.row_groups_kept,
                "row_groups_skipped": item.row_groups_skipped,
                "bytes_skipped": item.bytes_skipped,
                "reason": item.reason,
            }
            for item in look.conditions
        ],
        "skipped": [
            {
                "by": item.by,
                "text": item.text,
                "files": item.files,
                "row_groups": item.row_groups,
                "size_bytes": item.size_bytes,
            }
            for item in look.skipped
        ],
        "suggestion": look.suggestion,
        "read_files": files,
    }
    words = ["explain", subject.name] + (["--where", ask.text("where")] if ask.text("where") else [])
    return {**found, "empty": False, "plan": plan, "command": command(explorer.lake, *words)}


def read_predicate(text: str, subject: Subject) -> tuple[Predicate | None, str | None]:
    """The predicate of a box, bound to the columns; or None, and what is wrong with it."""
    try:
        return (bind(parse(text), subject.schema) if text else TRUE), None
    except InputError as error:
        return None, str(error)


def figures(footprint: Footprint, lit: Lit | None) -> dict[str, Any] | None:
    """What is kept and what there is, in files, row groups, rows and bytes."""
    if lit is None:
        return None
    return {
        "files": {"kept": lit.file_count, "all": len(footprint)},
        "row_groups": {"kept": lit.row_groups, "all": footprint.row_group_count},
        "rows": {"kept": lit.rows, "all": footprint.row_count},
        "bytes": {"kept": lit.size_bytes, "all": footprint.size_bytes},
    }


def _read_files(reader: CatalogReader, footprint: Footprint, lit: Lit) -> list[dict[str, Any]]:
    places = lit.files.nonzero()[0][:_LISTED]
    return [
        {
            "path": entry.path,
            "size_bytes": entry.size_bytes,
            "row_count": entry.row_count,
            "partition": partition_text(entry.partition),
        }
        for entry in footprint.entries(reader, places).values()
    ]


def _example(subject: Subject, known: list[str]) -> str:
    """A predicate that could be typed, over the table's own column."""
    name = next(iter(default_columns(subject)), known[0] if known else "")
    plain = name.isidentifier()
    quoted = name if plain else '"' + name.replace('"', '""') + '"'
    return f"{quoted} is not null" if name else ""
