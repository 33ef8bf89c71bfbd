"""The calls of a table that lay its files out anew: compact, optimize, clustering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from parqlake.core.model import Operation, TableInfo
from parqlake.table.context import EngineChoice, LakeContext
from parqlake.table.progress import ProgressChoice
from parqlake.table.writes import Call

if TYPE_CHECKING:
    from parqlake.table.clustering import Clustering
    from parqlake.table.health import Health
    from parqlake.table.maintained import Maintained
    from parqlake.table.maintenance_stats import TableMaintenance


class Maintaining:
    """What `Table` offers to keep its files in good shape. No row changes, so readers and appends are not disturbed."""

    _context: LakeContext
    _info: TableInfo

    def compact(
        self,
        target_mb_per_file: float | None = 128,
        target_rows_per_file: int | None = None,
        where: Any = None,
        *,
        sort: bool = False,
        dry_run: bool = False,
        memory_limit: int | str | None = None,
        commit: str = "per_run",
        engine: EngineChoice = None,
        message: str | None = None,
        idempotency_key: str | None = None,
        compression: str | None = None,
        old_schemas: bool = False,
        progress: ProgressChoice = None,
    ) -> TableMaintenance:
        """Puts small files together and splits over-large ones, partition by partition, as one new version.

        Files that are large enough stay as they are, and where nothing is worth it there is no new version. Files that
        were written under an older schema get the newest one. Rows keep their order, oldest file first, but for what
        `sort_by` of the table says about row groups. Appends are never in the way. If a delete, a merge or another
        compaction removes a file meanwhile, what is left of its group is planned again; no row ever comes back.

        Args:
            target_mb_per_file: about how large files shall be, in MiB; None for no such target.
            target_rows_per_file: the most rows that a file may have; longer ones are split.
            where: only files that may hold a row for which this is TRUE; `"day = '2026-11-16'"` for a partition.
            sort: sorts the rows of files that are put together by the table's `sort_by`, across the new files.
            dry_run: plans only; `planned_groups` holds the files to be put together.
            memory_limit: how much to hold in memory, in bytes or as text such as `"512MB"`; 256 MiB if left out.
            commit: `"per_run"` publishes everything at once; `"per_group"` each group by itself, so that a run that is
                interrupted has done some of the work, and a repeat does the rest.
            engine: who rewrites: `"pyarrow"`, `"duckdb"`, `"spark"`; the lake's engine if left out.
            message: shown in `history`.
            idempotency_key: a repeat of a call with the same key does nothing and returns the first result.
            compression: of the new files; the table's if left out.
            old_schemas: also rewrites files that were written under an older schema, however large they are, so that
                reads need not translate them any more.
            progress: is called with a `Progress` as the work goes on; see `parqlake.connect`.

        Returns:
            Files and bytes before and after, what was rewritten, and the version.

        Raises:
            InvalidOptionError: an option that makes no sense.
            InvalidPredicateError: the predicate cannot be read or does not fit the columns.
            ConflictError: others changed the same files again and again.

        Example:
            >>> orders.compact(dry_run=True).planned_groups             # doctest: +SKIP
            [['part-1.parquet', 'part-2.parquet']]
            >>> orders.compact(where="day >= '2026-11-01'").to_dict()   # doctest: +SKIP
        """
        from parqlake.table.compacting import Compaction, compact
        from parqlake.table.maintenance_call import mode_of

        mode = mode_of(dry_run=dry_run, commit=commit, idempotency_key=idempotency_key)
        asked = Compaction(
            target_mb_per_file, target_rows_per_file, where, sort, memory_limit, compression, old_schemas
        )
        call = Call(Operation.COMPACT, engine, message, idempotency_key, progress)
        return compact(self._context, self._info, asked, call=call, mode=mode)

    def optimize(
        self,
        zorder_columns: Sequence[str] | None = None,
        *,
        curve: str = "hilbert",
        target_mb_per_file: float | None = None,
        target_rows_per_file: int | None = None,
        where: Any = None,
        dry_run: bool = False,
        memory_limit: int | str | None = None,
        commit: str = "per_run",
        engine: EngineChoice = None,
        message: str | None = None,
        idempotency_key: str | None = None,
        compression: str | None = None,
        progress: ProgressChoice = None,
    ) -> TableMaintenance:
        """Lays rows out along a curve over some columns, so that reads by any of them skip most files.

        Rows of a partition are ordered together, NULLs last, and cut into files that do not overlap; one column is a
        plain sort. A repeat rewrites only what came since the last run, with what that overlaps, or what lies badly by
        the catalog's statistics: a table that is laid out already is left alone. Columns may be of any mix of types,
        and as skewed as they like. As for `compact`, no row changes, and appends are never in the way.

        Args:
            zorder_columns: 1 to 8 columns, those that reads filter by; the table's `cluster_by` if left out.
            curve: `"hilbert"`, which skips most, or `"zorder"`.
            target_mb_per_file: about how large files shall be, in MiB; 128 if no target is given.
            target_rows_per_file: the most rows that a file may have.
            where: only files that may hold a row for which this is TRUE; best by partition columns.
            dry_run: plans only; `planned_groups` holds the files to be laid out together.
            memory_limit: how much to hold in memory; see `compact`. What does not fit goes to local disk.
            commit: `"per_run"` or, partition by partition, `"per_group"`.
            engine: who rewrites; see `compact`.
            message: shown in `history`.
            idempotency_key: a repeat of a call with the same key does nothing and returns the first result.
            compression: of the new files; the table's if left out.
            progress: is called with a `Progress` as the work goes on; see `parqlake.connect`.

        Raises:
            InvalidOptionError: an option that makes no sense, or no columns.
            ColumnNotFoundError: there is no such column.
            UnsupportedTypeError: a column has no order.
            ConflictError: others changed the same files again and again.

        Example:
            >>> orders.optimize(["customer", "day"]).after_file_count   # doctest: +SKIP
            12
            >>> print(orders.clustering(["customer", "day"]))           # doctest: +SKIP
        """
        from parqlake.table.maintenance_call import mode_of
        from parqlake.table.optimizing import Optimization, optimize

        mode = mode_of(dry_run=dry_run, commit=commit, idempotency_key=idempotency_key)
        asked = Optimization(
            zorder_columns, curve, target_mb_per_file, target_rows_per_file, where, memory_limit, compression
        )
        call = Call(Operation.OPTIMIZE, engine, message, idempotency_key, progress)
        return optimize(self._context, self._info, asked, call=call, mode=mode)

    def clustering(self, columns: Sequence[str] | None = None) -> Clustering:
        """How much the files of the newest version overlap in some columns, by the catalog's statistics alone.

        Args:
            columns: which columns; the table's `cluster_by` if left out.

        Example:
            >>> print(orders.clustering(["id", "day"]))     # doctest: +SKIP
            version 9, 64 files, clustered by id, day:
              all columns  depth     1.00  overlap   0.0%
              id           depth     1.00  overlap   0.0%
              day          depth    12.50  overlap 100.0%
        """
        from parqlake.table.clustering import clustering

        return clustering(self._context, self._info, columns)

    def health(self) -> Health:
        """What could be better about the table, what mends it, and what that costs, by the catalog alone.

        No file is opened or listed. A finding of the severity `"warning"` is worth mending now; one of `"info"` is good
        to know. `call` of a finding is code that mends it, over `t`, this table, and `lake`.

        Example:
            >>> print(orders.health())                                             # doctest: +SKIP
            >>> for finding in orders.health().findings: print(finding.call)       # doctest: +SKIP
            t.compact(where="day = '2026-11-16'")
        """
        from parqlake.table.health import health

        return health(self._context, self._info)

    def maintain(
        self,
        *,
        dry_run: bool = False,
        engine: EngineChoice = None,
        memory_limit: int | str | None = None,
        commit: str = "per_run",
        progress: ProgressChoice = None,
    ) -> Maintained:
        """Does what the table's policy says where it is worth it, and nothing where nothing is.

        Files are laid out by the table's `cluster_by`, or else compacted; statistics in the catalog are put together;
        versions are given up if the policy says which; and files that have been of no use for long are deleted. The
        policy is in the properties `maintain.*`; without any, no version is ever given up, and files are deleted
        after seven days. A second call right after does nothing, and makes no version.

        Args:
            dry_run: says what would be done, and does nothing.
            engine: who rewrites: `"pyarrow"`, `"duckdb"`, `"spark"`; the lake's engine if left out.
            memory_limit: how much to hold in memory, as for `compact`.
            commit: `"per_run"` or `"per_group"`, as for `compact`.
            progress: is called with a `Progress` as the work goes on; see `parqlake.connect`.

        Returns:
            What was done and why, and what was left alone and why.

        Raises:
            InvalidOptionError: an option or a property that makes no sense; nothing was done.
            ConflictError: others changed the same files again and again.

        Example:
            >>> policy = {"maintain.expire_older_than": "30d", "maintain.keep_last": 10}   # doctest: +SKIP
            >>> orders.set_properties({**orders.properties, **policy})                     # doctest: +SKIP
            >>> print(orders.maintain())                                                   # doctest: +SKIP
        """
        from parqlake.table import maintained

        asked = maintained.upkeep(
            self._context,
            dry_run=dry_run,
            engine=engine,
            memory_limit=memory_limit,
            commit=commit,
            progress=progress,
        )
        return maintained.maintain(self._context, self._info, asked)
