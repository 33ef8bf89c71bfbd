"""Which columns of a wide table fit on a terminal, and how wide each may be. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

GAP = 2
"""Cells between two columns."""
LEAST = 12
"""The cells that are enough to make something of a text."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a column would like.

    Attributes:
        width: the cells that its longest value or its title takes.
        whole: True if it must not be cut, as a number must not.
        rank: columns of higher ranks are left out first, and of the same rank those to the right.
        floor: a text is never given less than this.
    """

    width: int
    whole: bool = False
    rank: int = 0
    floor: int = LEAST

    @property
    def least(self) -> int:
        """The cells that it cannot do without."""
        return self.width if self.whole else min(self.width, self.floor)


@dataclass(frozen=True, slots=True)
class Fitted:
    """The columns that are shown, by their place, and the cells that each gets."""

    kept: tuple[int, ...]
    widths: tuple[int, ...]


def fit(wanted: Sequence[Wanted], width: int) -> Fitted:
    """Keeps as many columns as fit, and shares the room out among them; the first one always stays.

    Example:
        >>> fit([Wanted(4, whole=True), Wanted(50), Wanted(50)], 40)
        Fitted(kept=(0, 1, 2), widths=(4, 16, 16))
        >>> fit([Wanted(4, whole=True), Wanted(50), Wanted(50)], 30).kept
        (0, 1)
    """
    order = sorted(range(len(wanted)), key=lambda index: (wanted[index].rank, index))
    kept: list[int] = []
    used = -GAP
    for index in order:
        needed = wanted[index].least + GAP
        if kept and used + needed > width:
            break
        kept.append(index)
        used += needed
    kept.sort()
    chosen = [wanted[index] for index in kept]
    room = width - GAP * (len(kept) - 1)
    return Fitted(tuple(kept), tuple(_shares(chosen, room)))


def _shares(wanted: Sequence[Wanted], room: int) -> list[int]:
    """Each gets what it wants, up to the highest cap at which all together fit."""
    widest = max((column.width for column in wanted), default=0)

    def capped(cap: int) -> list[int]:
        return [max(column.least, min(column.width, cap)) for column in wanted]

    low, high = 0, widest
    while low < high:
        cap = (low + high + 1) // 2
        low, high = (cap, high) if sum(capped(cap)) <= room else (low, cap - 1)
    return capped(low)
