"""Pictures as SVG, made on the server out of what the JSON twin says in numbers.

Colours come from classes, so that light and dark are the style sheet's business. Text stays outside where it can, so
that a picture may be as wide as its place; what is inside is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from parqlake.ui import words
from parqlake.ui.plain import plain

_WIDE = 1000
_BAR = 12
_ROW = 4
_NODE_WIDTH, _NODE_HEIGHT, _GAP_X, _GAP_Y = 210, 46, 80, 18
_SHOWN_NAME = 30


def bar(share: float, kind: str = "kept", *, second: float = 0.0, second_kind: str = "skipped") -> Markup:
    """A bar of that share, from 0 to 1, and a second part after it; decoration beside a number that says the same."""
    first, rest = _clamped(share) * _WIDE, _clamped(second) * _WIDE
    rest = min(rest, _WIDE - first)
    return _svg(
        "bar",
        (_WIDE, _BAR),
        None,
        Markup('<rect class="track" width="{}" height="{}"/>').format(_WIDE, _BAR),
        _rect(kind, 0, 0, first, _BAR),
        _rect(second_kind, first, 0, rest, _BAR),
    )


def timeline(points: Sequence[Mapping[str, Any]]) -> Markup:
    """A column for each version: how large the table was after it, in the colour of what was done."""
    height = 120
    most = max((point["size_bytes"] for point in points), default=0) or 1
    step = _WIDE / max(1, len(points))
    wide = min(40.0, step * 0.8)
    columns = []
    for place, point in enumerate(points):
        tall = max(2.0, point["size_bytes"] / most * height)
        title = (
            f"version {point['version']}, {point['operation']}: {words.size(point['size_bytes'])}, "
            f"{words.number(point['row_count'])} rows in {words.plural(point['file_count'], 'file')}"
        )
        columns.append(_rect(point["kind"], place * step + (step - wide) / 2, height - tall, wide, tall, title=title))
    label = f"Size of the table after each of {len(points)} versions, at most {words.size(most)}"
    return _svg("timeline", (_WIDE, height), label, *columns)


def ranges(column: Mapping[str, Any], *, rows: int | None = None) -> Markup:
    """A line for each file from its least to its greatest value; lit ones are thick, others thin."""
    bars = column["bars"]
    height = _ROW * max(12, rows or len(bars))
    step = height / max(1, len(bars))
    thick = max(1.6, step * 0.8)
    lines = []
    for place, item in enumerate(bars):
        left, right = _clamped(item["from"]) * _WIDE, _clamped(item["to"]) * _WIDE
        wide = max(2.5, right - left)
        left = min(left, _WIDE - wide)
        tall = thick if item["lit"] else max(0.8, thick * 0.45)
        title = f"{_text(item['low'])} to {_text(item['high'])}"
        kind = "kept" if item["lit"] else "skipped"
        lines.append(_rect(kind, left, place * step + (step - tall) / 2, wide, tall, title=title))
    lit = sum(item["lit"] for item in bars)
    label = f"Ranges of {len(bars)} files in {column['name']}, {lit} of them lit"
    return _svg("ranges", (_WIDE, height), label, *lines)


def spark(values: Sequence[int | None]) -> Markup:
    """A small column for each value; a gap where there is none."""
    most = max((value or 0 for value in values), default=0) or 1
    step = 10
    columns = [
        _rect("removed" if value else "kept", place * step, 28 - tall, step - 2, tall, title=words.number(value))
        for place, value in enumerate(values)
        if value is not None
        for tall in [max(2.0, value / most * 28)]
    ]
    label = f"{len(values)} runs, at most {words.number(most)} rows"
    return _svg("spark", (max(1, len(values)) * step, 28), label, *columns, stretched=False)


def graph(content: Mapping[str, Any]) -> Markup:
    """Boxes in columns from left to right, and curves between those that follow from one another."""
    places: dict[str, tuple[float, float]] = {}
    columns: dict[int, list[Mapping[str, Any]]] = {}
    for node in content["nodes"]:
        columns.setdefault(node["column"], []).append(node)
    tallest = max(map(len, columns.values()))
    height = tallest * (_NODE_HEIGHT + _GAP_Y) + _GAP_Y
    boxes = []
    for number, nodes in columns.items():
        offset = (height - len(nodes) * (_NODE_HEIGHT + _GAP_Y) + _GAP_Y) / 2
        for row, node in enumerate(sorted(nodes, key=lambda node: str(node["name"]))):
            left = 1 + number * (_NODE_WIDTH + _GAP_X)
            places[node["name"]] = (left, offset + row * (_NODE_HEIGHT + _GAP_Y))
            boxes.append(_box(node, *places[node["name"]], centre=node["name"] == content["centre"]))
    curves = [_curve(edge, places) for edge in content["edges"]]
    width = (max(columns) + 1) * (_NODE_WIDTH + _GAP_X) - _GAP_X + 2
    label = f"Lineage of {content['centre']}: {len(boxes)} nodes, {len(curves)} steps"
    return _svg("graph", (width, height), label, *curves, *boxes, stretched=False)


def _box(node: Mapping[str, Any], left: float, top: float, *, centre: bool) -> Markup:
    name = str(node["name"])
    shown = name if len(name) <= _SHOWN_NAME else "…" + name[-_SHOWN_NAME + 1 :]
    what = "source" if not node["is_table"] else "table" if node["version"] is None else f"version {node['version']}"
    kind = "centre" if centre else "table" if node["is_table"] else "source"
    return Markup(
        '<g class="node {}"><title>{}</title><rect x="{}" y="{}" width="{}" height="{}" rx="6"/>'
        '<text x="{}" y="{}">{}</text><text class="minor" x="{}" y="{}">{}</text></g>'
    ).format(
        kind,
        name,
        *_rounded(left, top, _NODE_WIDTH, _NODE_HEIGHT),
        *_rounded(left + 12, top + 20),
        shown,
        *_rounded(left + 12, top + 36),
        "this table" if centre else what,
    )


def _curve(edge: Mapping[str, Any], places: Mapping[str, tuple[float, float]]) -> Markup:
    (x0, y0), (x1, y1) = places[edge["from"]], places[edge["to"]]
    start, end = (x0 + _NODE_WIDTH, y0 + _NODE_HEIGHT / 2), (x1, y1 + _NODE_HEIGHT / 2)
    bend = _GAP_X / 2
    begun, turned = f"M{start[0]:g} {start[1]:g}", f"C{start[0] + bend:g} {start[1]:g}"
    path = f"{begun}{turned} {end[0] - bend:g} {end[1]:g} {end[0]:g} {end[1]:g}"
    return Markup('<path class="edge" d="{}"><title>{}, run {}</title></path>').format(
        path, edge["pipeline"], edge["run_id"]
    )


def _rect(kind: str, left: float, top: float, width: float, height: float, *, title: str = "") -> Markup:
    inside = Markup("<title>{}</title>").format(title) if title else Markup("")
    return Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}">{}</rect>').format(
        kind, *_rounded(left, top, width, height), inside
    )


def _svg(kind: str, extent: tuple[float, float], label: str | None, *parts: Markup, stretched: bool = True) -> Markup:
    """The picture; without a label it is decoration, which screen readers pass over."""
    ratio = Markup(' preserveAspectRatio="none"') if stretched else Markup(' width="{}" height="{}"').format(*extent)
    role = Markup(' role="img" aria-label="{}"').format(label) if label else Markup(' aria-hidden="true"')
    return Markup('<svg class="{}" viewBox="0 0 {} {}"{}{}>{}</svg>').format(
        kind, *_rounded(*extent), ratio, role, Markup("").join(parts)
    )


def _rounded(*numbers: float) -> list[str]:
    return [f"{number:.2f}".rstrip("0").rstrip(".") for number in numbers]


def _clamped(share: float) -> float:
    return min(1.0, max(0.0, float(share)))


def _text(value: Any) -> str:
    text = str(plain(value))
    return text if len(text) <= 60 else text[:59] + "…"
