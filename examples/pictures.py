"""A picture of a table's files: what each covers in two columns, as SVG, made of the catalog's statistics alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from html import escape
from typing import Any

WIDTH, HEIGHT, GAP, TOP = 420, 300, 40, 56


@dataclass(frozen=True, slots=True)
class Box:
    """What one file covers."""

    left: float
    right: float
    bottom: float
    top: float


def boxes(table: Any, across: str, upward: str, version: int) -> list[Box]:
    """The bounds of each file of a version in two columns."""
    bounds: dict[str, dict[str, list[float]]] = {}
    for group in table.row_groups(version).to_pylist():
        if group["column"] in (across, upward):
            ends = [_number(group["lower_bound"]), _number(group["upper_bound"])]
            bounds.setdefault(group["path"], {}).setdefault(group["column"], []).extend(ends)
    return [
        Box(min(found[across]), max(found[across]), min(found[upward]), max(found[upward])) for found in bounds.values()
    ]


def picture(before: list[Box], after: list[Box], *, across: str, upward: str, asked: Box) -> str:
    """Two panels side by side; files that a question has to read are dark, and the question is a frame."""
    every = [*before, *after, asked]
    frame = Box(
        min(b.left for b in every), max(b.right for b in every), min(b.bottom for b in every), max(b.top for b in every)
    )
    width = 2 * WIDTH + 3 * GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT + TOP + 2 * GAP}" role="img"'
        ' font-family="system-ui, sans-serif" font-size="13">',
        "<title>What each file covers, before and after clustering</title>",
        '<rect width="100%" height="100%" fill="#fbfaf7"/>',
    ]
    for number, (title, files) in enumerate((("before clustering", before), ("after clustering", after))):
        left = GAP + number * (WIDTH + GAP)
        read = [file for file in files if _meet(file, asked)]
        parts.append(
            f'<text x="{left}" y="{TOP - 14}" font-weight="600" fill="#22303a">{title}: {len(files)} files, '
            f"{len(read)} to be read</text>"
        )
        parts.append(f'<rect x="{left}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="#fff" stroke="#c9c4b8"/>')
        for file in sorted(files, key=lambda file: _meet(file, asked)):
            colour = "#c2542d" if _meet(file, asked) else "#5b7f95"
            parts.append(_rectangle(file, frame, left, f'fill="{colour}" fill-opacity="0.28" stroke="{colour}"'))
        parts.append(_rectangle(asked, frame, left, 'fill="none" stroke="#22303a" stroke-width="2"'))
        parts.append(
            f'<text x="{left + WIDTH}" y="{TOP + HEIGHT + 20}" text-anchor="end" fill="#5d6b74">{escape(across)} →'
            f'</text><text x="{left}" y="{TOP + HEIGHT + 20}" fill="#5d6b74">{escape(upward)} ↑</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _rectangle(box: Box, frame: Box, left: float, style: str) -> str:
    across = WIDTH / ((frame.right - frame.left) or 1)
    upward = HEIGHT / ((frame.top - frame.bottom) or 1)
    x = left + (box.left - frame.left) * across
    y = TOP + HEIGHT - (box.top - frame.bottom) * upward
    width, height = max((box.right - box.left) * across, 1.5), max((box.top - box.bottom) * upward, 1.5)
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" {style}/>'


def _meet(one: Box, other: Box) -> bool:
    apart = one.left > other.right or other.left > one.right or one.bottom > other.top or other.bottom > one.top
    return not apart


def _number(bound: str) -> float:
    """A bound as it is shown, of a date or a number."""
    return float(date.fromisoformat(bound).toordinal()) if bound.count("-") == 2 else float(bound)
