"""A scan that looks like a pyarrow dataset, for engines that push conditions into one: DataFusion does.

Whoever scans it is given what our own reader gives: conditions prune through the catalog, rows of older schemas are
projected, NaNs are not missed. Nothing is planned before a scan begins.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from parqlake.core.errors import InvalidPredicateError
from parqlake.core.ports import PlannedFile
from parqlake.core.predicates import parse
from parqlake.table.scan import Scan


class ScanDataset(ds.InMemoryDataset):  # type: ignore[misc]
    """A scan behind those methods of a dataset by which DataFusion reads one."""

    def __init__(self, scan: Scan) -> None:
        """Holds the version for as long as an engine refers to it."""
        super().__init__(pa.table([], pa.schema([])), pa.schema([]))
        self._scan = scan
        scan.hold_while_alive(self)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the result."""
        return self._scan.schema

    def scanner(self, columns: Sequence[str] | None = None, **_: Any) -> _Projected:
        """Says what the columns of a scan will be."""
        return _Projected(_selected(self.schema, columns), iter(()))

    def get_fragments(self, filter: Any = None) -> list[Part]:
        """Parts that can be read beside one another; those that the condition rules out are left out."""
        scan, rest = self._narrowed(filter)
        files = scan.plan.files
        count = 1 if scan.limit is not None else min(len(files), 2 * (os.cpu_count() or 1))
        return [Part(scan, group, rest) for group in _groups(files, count)]

    def _narrowed(self, condition: Any) -> tuple[Scan, Any]:
        """The scan with the condition pushed down; else the scan as it is, and the condition."""
        if condition is None:
            return self._scan, None
        if self._scan.limit is not None:
            return self._scan, condition
        try:
            return self._scan.narrowed(parse(condition)), None
        except InvalidPredicateError:
            return self._scan, condition


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Some of the planned files."""

    scan: Scan
    files: tuple[PlannedFile, ...]
    rest: Any
    """What is left of the condition, for pyarrow to filter by."""

    def scanner(self, *_: Any, columns: Sequence[str] | None = None, **__: Any) -> _Projected:
        """Begins to read when the first batch is asked for."""
        return _Projected(_selected(self.scan.schema, columns), self._batches(columns))

    def _batches(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        names = self.scan.schema.names if columns is None else list(columns)
        read = names if self.rest is None else self.scan.schema.names
        for batch in self.scan.read_files(self.files, columns=read or self.scan.schema.names[:1]):
            kept = batch if self.rest is None else batch.filter(self.rest)
            yield kept.select(names)


@dataclass(frozen=True, slots=True, eq=False)
class _Projected:
    """The columns that come, and the rows."""

    projected_schema: pa.Schema
    batches: Iterator[pa.RecordBatch]

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows; they can be read once."""
        return self.batches


def _selected(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    return schema if columns is None else pa.schema([schema.field(name) for name in columns])


def _groups(files: tuple[PlannedFile, ...], count: int) -> list[tuple[PlannedFile, ...]]:
    """The files in that many runs, in their order, each of about as many bytes."""
    groups: list[list[PlannedFile]] = [[] for _ in range(max(count, 1))]
    share = max(1, sum(file.read_bytes for file in files) / len(groups))
    done = 0.0
    for file in files:
        groups[min(int(done / share), len(groups) - 1)].append(file)
        done += file.read_bytes
    return [tuple(group) for group in groups if group] or [()]
