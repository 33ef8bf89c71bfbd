"""Output for pipes: tab-separated lines or one JSON document. Nothing is cut, nothing is coloured."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from parqlake.cli.report import Listing, Record, Report
from parqlake.cli.values import for_json, for_pipes

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
"""Made once: `json.dumps` makes one for each call, and rows are many."""


def tsv(report: Report) -> Iterator[str]:
    """The lines of a report: `name<TAB>value` for each field, a header and a line for each row of a listing."""
    for place, part in enumerate(report):
        if place:
            yield ""
        if isinstance(part, Record):
            for column, value in part.fields:
                yield f"{column.name}\t{for_pipes(value)}"
        else:
            yield from tsv_rows([column.name for column in part.columns], part.rows)


def tsv_rows(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """A header, and a line for each row."""
    yield "\t".join(map(for_pipes, names))
    for row in rows:
        yield "\t".join(map(for_pipes, row))


def document(report: Report) -> dict[str, Any]:
    """The report as one JSON object: fields of records at the top, listings as lists of objects under their names."""
    found: dict[str, Any] = {}
    for part in report:
        if isinstance(part, Listing):
            names = [column.name for column in part.columns]
            found[part.name] = [dict(zip(names, map(for_json, row), strict=True)) for row in part.rows]
        else:
            values = {column.name: for_json(value) for column, value in part.fields}
            found |= values if part.name is None else {part.name: values}
    return found


def json_rows(columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """One JSON object over rows of any number, piece by piece: `{"columns": […], "rows": [{…}, …]}`.

    Columns of the same name are told apart: `n`, `n_2`.
    """
    names = unique([name for name, _ in columns])
    described = [{"name": name, "type": type_} for name, (_, type_) in zip(names, columns, strict=True)]
    yield f'{{"columns": {dumps(described)}, "rows": ['
    between = ""
    for row in rows:
        yield between + dumps(dict(zip(names, map(for_json, row), strict=True)))
        between = ",\n"
    yield "]}"


def unique(names: Sequence[str]) -> list[str]:
    """The names, with a number where one has come before.

    Example:
        >>> unique(["n", "m", "n"])
        ['n', 'm', 'n_2']
    """
    seen: set[str] = set()
    found = []
    for name in names:
        chosen, number = name, 2
        while chosen in seen:
            chosen, number = f"{name}_{number}", number + 1
        seen.add(chosen)
        found.append(chosen)
    return found


def dumps(value: Any, *, indent: int | None = None) -> str:
    """The value as JSON text that any reader takes."""
    return _ENCODER.encode(value) if indent is None else json.dumps(value, ensure_ascii=False, indent=indent)
