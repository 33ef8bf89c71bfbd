"""The order of steps: a step that reads what another writes comes after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from parqlake.core.errors import InputError


@dataclass(frozen=True, slots=True)
class Node:
    """A step as far as its place matters."""

    writes: frozenset[str]
    """Tables, by name."""
    reads: frozenset[str]


def ordered(nodes: Mapping[str, Node]) -> list[str]:
    """The names in an order in which each comes after those whose tables it reads; else as they were defined.

    A step that reads a table which it writes itself reads it as it was before.

    Raises:
        InputError: steps wait for one another in a circle; it is named.

    Example:
        >>> ordered({"b": Node(frozenset({"t.b"}), frozenset({"t.a"})), "a": Node(frozenset({"t.a"}), frozenset())})
        ['a', 'b']
    """
    waits = {
        name: {other for other, made in nodes.items() if other != name and made.writes & (node.reads - node.writes)}
        for name, node in nodes.items()
    }
    done: list[str] = []
    while len(done) < len(nodes):
        ready = [name for name in nodes if name not in done and waits[name] <= set(done)]
        if not ready:
            circle = " → ".join(_circle(waits, [name for name in nodes if name not in done]))
            raise InputError(
                f"steps read one another's tables in a circle: {circle}; split a step, or read the table as it was "
                "with lake.table(…) inside the function"
            )
        done.append(ready[0])
    return done


def _circle(waits: Mapping[str, set[str]], left: Sequence[str]) -> list[str]:
    """One circle among steps of which each waits for another; each name reads what the one before it writes."""
    path = [left[0]]
    while True:
        before = next(name for name in left if name in waits[path[-1]])
        if before in path:
            return [before, *reversed(path[path.index(before) :])]
        path.append(before)
