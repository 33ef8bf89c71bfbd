"""What is asked of output files and of z-order columns, checked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from parqlake.core.errors import ColumnNotFoundError, InvalidOptionError, suggestion
from parqlake.core.maintenance.packing import Targets

DEFAULT_TARGET_MB = 128
"""Size of optimized files if no target is given."""

_MB = 1024 * 1024


def make_targets(
    target_mb_per_file: float | None = None,
    target_rows_per_file: int | None = None,
    *,
    default_mb: float | None = None,
    oversize_factor: float | None = None,
) -> Targets:
    """Checks the two targets and puts them together.

    Args:
        target_mb_per_file: about how large a file shall be, in MiB.
        target_rows_per_file: the most rows a file may have.
        default_mb: used if neither is given; without it, giving neither is an error.
        oversize_factor: files larger than this many targets are split; None leaves large files alone.

    Example:
        >>> make_targets(128, 1_000_000)
        Targets(size_bytes=134217728, max_rows=1000000, oversize_factor=None)
    """
    for name, value in (("target_mb_per_file", target_mb_per_file), ("target_rows_per_file", target_rows_per_file)):
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidOptionError(f"{name} is {value!r}, a {type(value).__name__}; give a number, it must be > 0")
        if not (value > 0 and math.isfinite(value)):
            raise InvalidOptionError(f"{name} must be > 0, not {value!r}; leave it out for no such target")
    if target_rows_per_file is not None and target_rows_per_file != int(target_rows_per_file):
        raise InvalidOptionError(f"target_rows_per_file is {target_rows_per_file!r}; give a whole number of rows")
    if target_mb_per_file is None and target_rows_per_file is None:
        if default_mb is None:
            raise InvalidOptionError("Must provide at least one of target_mb_per_file or target_rows_per_file")
        target_mb_per_file = default_mb
    return Targets(
        size_bytes=None if target_mb_per_file is None else max(1, int(target_mb_per_file * _MB)),
        max_rows=None if target_rows_per_file is None else int(target_rows_per_file),
        oversize_factor=oversize_factor,
    )


def check_columns(zorder_columns: Any, sample_schema: Any = None) -> list[str]:
    """Returns the z-order columns if they are a non-empty list of different columns of the schema.

    Args:
        zorder_columns: names, most important first.
        sample_schema: a `pyarrow.Schema` or `Table`, anything with `column_names` or `names`, or the names
            themselves; None does not check that the columns exist.

    Example:
        >>> check_columns(["a"], ["a", "b"])
        ['a']
    """
    if isinstance(zorder_columns, str) or not isinstance(zorder_columns, Sequence) or not zorder_columns:
        raise InvalidOptionError(
            f'zorder_columns must be a non-empty list of column names, not {zorder_columns!r}; for instance ["id"]'
        )
    columns = list(zorder_columns)
    for column in columns:
        if not isinstance(column, str):
            raise InvalidOptionError(f"zorder_columns holds {column!r}, a {type(column).__name__}; give column names")
    twice = sorted({column for column in columns if columns.count(column) > 1})
    if twice:
        raise InvalidOptionError(f"zorder_columns names {', '.join(twice)} more than once; name each column once")
    if sample_schema is not None:
        known = _names(sample_schema)
        missing = [column for column in columns if column not in set(known)]
        if missing:
            hint = suggestion(missing[0], known)
            raise ColumnNotFoundError(
                f"Missing z-order columns: {', '.join(missing)};{hint} Available columns: {', '.join(known)}"
            )
    return columns


def _names(schema: Any) -> list[str]:
    names = getattr(schema, "column_names", None)
    if names is None:
        names = getattr(schema, "names", schema)
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidOptionError(f"sample_schema is {schema!r}; give a schema or a list of column names")
    return [str(name) for name in names]
