"""What executors tell the driver: records of what they did, and errors that another attempt would meet again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Protocol, cast

import pyarrow as pa
import uuid_utils

from parqlake.core import errors
from parqlake.core.ports import Store
from parqlake.engines.spark.engine import is_shared
from parqlake.engines.spark.packing import SMALL_BATCHES
from parqlake.engines.spark.settings import SAME_ROWS, settings
from parqlake.engines.spark.tasks import FINAL

REPORT_SCHEMA = "record string, error string, message string"
_MOVE_THREADS = 16

Record = dict[str, Any]


def check_shared(store: Store) -> None:
    """Raises `InvalidOptionError` for a store whose files executors would not see."""
    if not is_shared(store):
        raise errors.InvalidOptionError(
            f"Spark cannot work on {store.url}, which only this process sees: its workers are others; use a folder or "
            'an object store, or engine="pyarrow"'
        )


def reported(work: Callable[[], Iterable[Mapping[str, Any]]]) -> Iterator[pa.RecordBatch]:
    """One report for each record that the work gives, or one for the error of this library that ended it."""
    try:
        found = [(json.dumps(record), None, None) for record in work()]
    except FINAL as error:
        found = [(None, type(error).__name__, str(error))]  # type: ignore[list-item]
    for row in found:
        columns = [pa.array([value], pa.string()) for value in row]
        yield pa.RecordBatch.from_arrays(columns, names=["record", "error", "message"])


def collect(frame: Any, batches: Mapping[str, str] = SMALL_BATCHES) -> tuple[list[Record], errors.ParqlakeError | None]:
    """Runs the tasks; returns their records, and the first error among them if there is one.

    What reaches the tasks is packs, unless settings for batches of rows are given.
    """
    with settings(frame.sparkSession, SAME_ROWS | dict(batches)):
        rows = frame.collect()
    found = [json.loads(row["record"]) for row in rows if row["record"] is not None]
    return found, next((error_of(row) for row in rows if row["error"] is not None), None)


def error_of(row: Any) -> errors.ParqlakeError:
    """The error that a report or a pack tells of."""
    error: errors.ParqlakeError = getattr(errors, row["error"])(row["message"])
    return error


def unnamed(path: str) -> str:
    """A name beside the path, unlike any other: each attempt of a task writes to one of its own."""
    return f"{path}.{uuid_utils.uuid7().hex}.unnamed"


def move_all(store: Store, moves: Sequence[tuple[str, str]]) -> None:
    """Gives finished files their names, and makes that durable; if it fails, none of the files is left."""
    moving = cast("_MovingStore", store)
    try:
        with ThreadPoolExecutor(_MOVE_THREADS) as pool:
            list(pool.map(lambda pair: moving.move(*pair, replace=True), moves))
        store.sync([path for _, path in moves])
    except BaseException:
        take_back(store, [path for pair in moves for path in pair])
        raise


def take_back(store: Store, paths: Sequence[str]) -> None:
    """Deletes files of this call; the error that is under way matters more than one met here."""
    with suppress(Exception):
        store.delete(paths)


class _MovingStore(Store, Protocol):
    """A store that can give files other names; those of this library all can."""

    def move(self, source: str, target: str, *, replace: bool = False) -> bool:
        """Gives a file another name."""
