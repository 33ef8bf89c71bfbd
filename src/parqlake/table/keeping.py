"""The calls of a table and of a lake that decide how long versions and files are kept."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from parqlake.core.model import TableInfo
from parqlake.core.names import check_namespace
from parqlake.table.context import EngineChoice, LakeContext
from parqlake.table.progress import ProgressChoice

if TYPE_CHECKING:
    from parqlake.table.checking import CheckReport
    from parqlake.table.expiring import ExpireResult
    from parqlake.table.health import LakeHealth
    from parqlake.table.maintained import LakeMaintained
    from parqlake.table.recovering import RecoverReport
    from parqlake.table.vacuuming import VacuumResult

Age = str | timedelta | int
"""`"7d"`, `"12h"`, `"30m"`, a timedelta, or 0."""


class Keeping:
    """What `Table` offers to let go of old versions and of files that nobody needs."""

    _context: LakeContext
    _info: TableInfo

    def expire(
        self,
        older_than: Age | None = None,
        *,
        keep_last: int | None = None,
        keep_tags: bool = True,
        dry_run: bool = False,
    ) -> ExpireResult:
        """Gives old versions up: they cannot be read any more, and `vacuum` may delete what only they held.

        The newest version always stays, and so do versions that a reader is at work on. No file is deleted here.

        Args:
            older_than: versions that had been replaced for so long go: `"7d"`, `"12h"`, a timedelta. A question
                about any moment since then can still be answered. Seven days if neither this nor `keep_last` is given.
            keep_last: so many of the newest versions stay, however old. Alone: all others go, however young.
            keep_tags: False lets tagged versions go too, and their tags with them.
            dry_run: says what would go, and changes nothing.

        Raises:
            InvalidOptionError: an age or a number that makes no sense.

        Example:
            >>> orders.expire("30d", keep_last=10).versions   # doctest: +SKIP
            (1, 2, 3)
        """
        from parqlake.table import expiring

        rule = expiring.expiry_rule(older_than, keep_last, keep_tags=keep_tags)
        return expiring.expire(self._context, self._info, rule, dry_run=dry_run)

    def vacuum(
        self,
        older_than: Age = "7d",
        *,
        dry_run: bool = False,
        force: bool = False,
        progress: ProgressChoice = None,
    ) -> VacuumResult:
        """Deletes files that no kept version, tag, reader or open transaction needs, and says how many.

        These are files of versions that were expired at least `older_than` ago, and what failed writes left behind that
        long ago. A file whose name parqlake did not give is never deleted, but reported. Safe at any time, beside
        any work, also by several at once; if it is interrupted, the next run goes on.

        Args:
            older_than: how long a file must have been of no use: `"7d"`, `"12h"`, a timedelta; 15 minutes at least.
            dry_run: says what would be deleted, and deletes nothing.
            force: allows less than 15 minutes. Readers that began within the last minutes are not known to the catalog
                yet: their reads may fail then, with an error that says so.
            progress: is called with a `Progress` as files are deleted; see `parqlake.connect`.

        Example:
            >>> orders.expire("30d"); orders.vacuum().size_bytes   # doctest: +SKIP
            1073741824
        """
        from parqlake.table import vacuuming

        age = vacuuming.vacuum_age(older_than, force=force)
        return vacuuming.vacuum_table(self._context, self._info, age, dry_run=dry_run, progress=progress)


class LakeKeeping:
    """What `Lake` offers to keep itself in order."""

    _context: LakeContext

    def vacuum(
        self,
        older_than: Age = "7d",
        *,
        dry_run: bool = False,
        force: bool = False,
        progress: ProgressChoice = None,
    ) -> VacuumResult:
        """Deletes files that nobody needs from all tables; see `Table.vacuum`.

        Tables that were dropped at least `older_than` ago are deleted for good, with all versions and tags;
        `undrop_table` cannot bring them back afterwards.

        Example:
            >>> lake.vacuum("30d", dry_run=True).files   # doctest: +SKIP
            12
        """
        from parqlake.table import vacuuming

        age = vacuuming.vacuum_age(older_than, force=force)
        return vacuuming.vacuum_lake(self._context, age, dry_run=dry_run, progress=progress)

    def health(self, namespace: str | None = None) -> LakeHealth:
        """What could be better about the tables, and what mends it, by the catalog alone; see `Table.health`.

        Args:
            namespace: only the tables of this namespace.

        Example:
            >>> print(lake.health())   # doctest: +SKIP
        """
        from parqlake.table import health as healths

        return healths.lake_health(self._context, _tables(self._context, namespace))

    def maintain(
        self,
        namespace: str | None = None,
        *,
        dry_run: bool = False,
        engine: EngineChoice = None,
        memory_limit: int | str | None = None,
        commit: str = "per_run",
        progress: ProgressChoice = None,
    ) -> LakeMaintained:
        """Does what the policy of each table says, where it is worth it; see `Table.maintain`.

        If something goes wrong with one table the others are maintained all the same: `errors` of the result
        says what it was. Dropped tables are left to `vacuum`.

        Args:
            namespace: only the tables of this namespace.
            dry_run: says what would be done, and does nothing.
            engine: see `Table.maintain`, as for what follows.
            memory_limit: how much to hold in memory.
            commit: `"per_run"` or `"per_group"`.
            progress: is called with a `Progress` as the work goes on.

        Example:
            >>> lake.maintain().raise_errors()   # doctest: +SKIP
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
        return maintained.maintain_all(self._context, _tables(self._context, namespace), asked)

    def recover(self) -> RecoverReport:
        """Ends transactions whose writers are gone, and takes the files down that they left, for `vacuum` to delete.

        A writer at work renews its lease; one whose lease has run out was killed, or lost its connection for long, and
        can never commit afterwards. Nothing has to be recovered for the lake to be read and written: an
        unfinished transaction is not visible and in nobody's way.

        Example:
            >>> [record.who for record in lake.recover().aborted]   # doctest: +SKIP
            ['etl@host7:4211']
        """
        from parqlake.table import recovering

        return recovering.recover(self._context)

    def check(self, *, full: bool = False, progress: ProgressChoice = None) -> CheckReport:
        """Compares the catalog with the store, and says what is not as it should be and what mends it.

        Versions must be without a gap, and their totals those of their files. Each file of each kept version must be
        there, with the size and row count that the catalog knows. The rows of some files of each table are read, and
        compared with the statistics that filters go by. Nothing is changed.

        Args:
            full: reads the rows of all files of all kept versions.
            progress: is called with a `Progress` as files are looked at; see `parqlake.connect`.

        Example:
            >>> for finding in lake.check().findings: print(finding)   # doctest: +SKIP
            error: sales.orders version 7: the file is missing from the store; bring the file back from a copy
        """
        from parqlake.table import checking

        return checking.check(self._context, full=full, progress=progress)


def _tables(context: LakeContext, namespace: str | None) -> list[TableInfo]:
    if namespace is not None:
        check_namespace(namespace)
    with context.catalog.read() as reader:
        return reader.tables(namespace)
