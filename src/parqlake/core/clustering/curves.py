"""Space-filling curves: the ranks of 1 to 8 columns as one code, near in code meaning near in every column.

Morton (Z-order) interleaves the bits; engines can do it with shifts. Hilbert never jumps, so that a range of codes
covers about a fifth fewer ranks for each column than with Morton; it takes a few times as long.
One column is its own curve: the order of the code is the order of the column.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from parqlake.core.errors import InvalidOptionError

Codes = npt.NDArray[np.uint64]


class Curve(StrEnum):
    """Which curve rows are laid out along."""

    MORTON = "morton"
    HILBERT = "hilbert"


def curve_codes(ranks: Sequence[npt.NDArray[Any]], bits: int, curve: Curve = Curve.HILBERT) -> Codes:
    """The codes of rows along a curve.

    Args:
        ranks: one array for each column, as `RankModel.ranks` gives them.
        bits: bits of a rank.
        curve: Morton or Hilbert.

    Example:
        >>> curve_codes([np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])], 1, Curve.MORTON).tolist()
        [0, 2, 1, 3]
    """
    return morton_codes(ranks, bits) if curve is Curve.MORTON else hilbert_codes(ranks, bits)


def morton_codes(ranks: Sequence[npt.NDArray[Any]], bits: int) -> Codes:
    """Z-order codes: the columns' bits in turn, the highest first, the first column before the others.

    Example:
        >>> morton_codes([np.array([0b11]), np.array([0b00])], 2).tolist() == [0b1010]
        True
    """
    _check(ranks, bits)
    count = len(ranks)
    if count == 1:
        return ranks[0].astype(np.uint64)
    spread = _spread_table(count)
    codes = np.zeros(len(ranks[0]), dtype=np.uint64)
    for place, column in enumerate(ranks):
        shift = count - 1 - place
        for start in range(0, bits, 8):
            part = spread[(column >> start) & 0xFF] if start or bits > 8 else spread[column]
            codes |= part << np.uint64(shift + start * count)
    return codes


def hilbert_codes(ranks: Sequence[npt.NDArray[Any]], bits: int) -> Codes:
    """Places on the Hilbert curve: points that follow one another differ by 1 in one column.

    Skilling's transform (AIP Conf. Proc. 707, 2004), over all rows at once.

    Example:
        >>> hilbert_codes([np.array([0, 0, 1, 1]), np.array([0, 1, 1, 0])], 1).tolist()
        [0, 1, 2, 3]
    """
    _check(ranks, bits)
    if len(ranks) == 1:
        return ranks[0].astype(np.uint64)
    type_: Any = np.uint8 if bits <= 8 else np.uint16 if bits <= 16 else np.uint32
    axes: list[npt.NDArray[Any]] = [column.astype(type_, copy=True) for column in ranks]
    one = type_(1)
    first = axes[0]
    for bit in range(bits - 1, 0, -1):
        low = type_((1 << bit) - 1)
        for axis in axes:
            # All ones where the bit is set: there the low bits of the first axis are inverted, elsewhere exchanged.
            mask: Any = -((axis >> type_(bit)) & one)
            swap = (first ^ axis) & low & ~mask
            np.bitwise_xor(first, swap | (mask & low), out=first)
            if axis is not first:
                np.bitwise_xor(axis, swap, out=axis)
    for before, axis in itertools.pairwise(axes):
        np.bitwise_xor(axis, before, out=axis)
    flip: Any = np.zeros_like(first)
    for bit in range(bits - 1, 0, -1):
        flip ^= -((axes[-1] >> type_(bit)) & one) & type_((1 << bit) - 1)
    for axis in axes:
        np.bitwise_xor(axis, flip, out=axis)
    return morton_codes(axes, bits)


@cache
def _spread_table(count: int) -> Codes:
    """For each byte, its bits `count` places apart."""
    table = np.zeros(256, dtype=np.uint64)
    for bit in range(8):
        if bit * count < 64:
            table |= ((np.arange(256, dtype=np.uint64) >> np.uint64(bit)) & np.uint64(1)) << np.uint64(bit * count)
    return table


def _check(ranks: Sequence[npt.NDArray[Any]], bits: int) -> None:
    if not 1 <= len(ranks) <= 8:
        raise InvalidOptionError(f"{len(ranks)} columns on a curve; give 1 to 8")
    if bits < 1 or bits * len(ranks) > 64:
        raise InvalidOptionError(f"{bits} bits for each of {len(ranks)} columns do not fit into 64; give fewer bits")
