"""Colours can be read by everyone: contrast as WCAG 2.2 asks for at level AA, in light and in dark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import parqlake.ui

pytestmark = pytest.mark.xdist_group("ui")
STYLE = (Path(parqlake.ui.__file__).parent / "static/explorer.css").read_text(encoding="utf-8")
PAIR = re.compile(r"--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);")
TEXT = ("ink", "muted", "link", "kept", "added", "changed", "removed", "layout", "schema", "warn")
PICTURES = ("kept", "amber", "skipped", "added", "changed", "removed", "layout", "schema", "edge", "focus")
BADGES = {
    "warn-back": ("warn", "ink"),
    "good-back": ("added", "ink"),
    "bad-back": ("removed", "ink"),
    "schema-back": ("schema",),
    "layout-back": ("layout",),
}


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_the_measure_is_that_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("side", [0, 1], ids=["light", "dark"])
def test_colours_stand_out(side: int) -> None:
    palette = {name: pair[side] for name, *pair in PAIR.findall(STYLE)}
    for ground in ("panel", "back", "sunken"):
        assert {n: c for n in TEXT if (c := contrast(palette[n], palette[ground])) < 4.5} == {}, ground
    for ground in ("panel", "sunken"):
        assert {n: c for n in PICTURES if (c := contrast(palette[n], palette[ground])) < 3} == {}, ground
    for ground, names in BADGES.items():
        assert {n: c for n in names if (c := contrast(palette[n], palette[ground])) < 4.5} == {}, ground
    assert contrast(palette["panel"], palette["kept"]) >= 4.5  # the text of a filled button


def test_every_colour_is_of_the_palette() -> None:
    rest = PAIR.sub("", STYLE)
    assert re.findall(r"#[0-9a-f]{3,8}\b(?=[;\s,)])", rest) == []
    used = set(re.findall(r"var\(--([a-z-]+)\)", rest))
    assert used - {name for name, *_ in PAIR.findall(STYLE)} == {"sans", "mono"}


def test_nothing_is_loaded_from_elsewhere() -> None:
    folder = Path(parqlake.ui.__file__).parent
    for path in [*folder.rglob("*.html"), *folder.rglob("*.css"), *folder.glob("static/[et]*.js")]:
        text = path.read_text(encoding="utf-8")
        assert re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}", text) == [], path.name
