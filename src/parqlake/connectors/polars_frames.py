"""Scans as Polars frames: eager ones, and lazy ones that push conditions and columns down into the catalog."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pyarrow as pa

from parqlake.connectors.polars_predicates import pushed_predicate
from parqlake.core.errors import MissingExtraError
from parqlake.table.scan import Scan


def to_polars(scan: Scan) -> Any:
    """All rows as a `polars.DataFrame`."""
    return frame_of(scan.to_arrow())


def scan_polars(scan: Scan) -> Any:
    """The scan as a `polars.LazyFrame`."""
    _polars()
    from polars.io.plugins import register_io_source

    source = PolarsSource(scan)
    schema = frame_of(scan.schema.empty_table()).schema
    return register_io_source(source, schema=schema, is_pure=True, explain_name="parqlake", explain_detail=repr(scan))


class PolarsSource:
    """What Polars calls to read: each call plans anew, with what Polars has pushed down.

    Polars may write a plan down to carry it out elsewhere; a scan belongs to an open lake and stays here.
    """

    def __init__(self, scan: Scan) -> None:
        """Holds the version for as long as a frame refers to it."""
        self._scan = scan
        scan.hold_while_alive(self)

    def __call__(
        self, with_columns: list[str] | None, predicate: Any, n_rows: int | None, batch_size: int | None = None
    ) -> Iterator[Any]:
        """The rows, filtered and projected as Polars wants them."""
        names = self._scan.schema.names if with_columns is None else with_columns
        narrowed = self._narrowed(names, predicate, n_rows)
        left = n_rows
        for batch in narrowed.to_batches():
            frame = frame_of(pa.Table.from_batches([batch]))
            if predicate is not None:
                frame = frame.filter(predicate)
            frame = frame.select(names)
            if left is not None:
                frame = frame.head(left)
                left -= frame.height
            yield from [frame] if batch_size is None else frame.iter_slices(batch_size)
            if left == 0:
                return
        if left == n_rows:
            yield frame_of(narrowed.schema.empty_table()).select(names)  # so that even no rows have columns

    def _narrowed(self, names: list[str], predicate: Any, n_rows: int | None) -> Scan:
        scan = self._scan
        if predicate is None:
            return scan.narrowed(columns=names or scan.schema.names[:1], limit=n_rows)
        needed = dict.fromkeys([*names, *predicate.meta.root_names()])
        columns = [name for name in scan.schema.names if name in needed]
        if scan.limit is not None:
            return scan.narrowed(columns=columns)
        return scan.narrowed(pushed_predicate(predicate, scan.schema), columns=columns)


def frame_of(table: pa.Table) -> Any:
    """The rows as a Polars data frame."""
    return _polars().from_arrow(table)


def _polars() -> Any:
    if find_spec("polars") is None:
        raise MissingExtraError("polars", "polars")
    import polars

    return polars
