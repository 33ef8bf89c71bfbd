"""The calls of a scan that hand its rows to other engines, pruned by the catalog."""

from __future__ import annotations

from typing import Any

from parqlake.table.context import LakeContext
from parqlake.table.holding import VersionGuard


class HandingOver:
    """What `Scan` offers to those who have another engine open."""

    _context: LakeContext
    _guard: VersionGuard

    def to_duckdb(self, con: Any = None, name: str | None = None) -> Any:
        """The rows as a DuckDB relation: `read_parquet` of exactly the files that the catalog could not rule out.

        DuckDB reads the files itself, as fast as it reads any, and pushes conditions of later queries into them. Files
        of remote stores come through the store's own fsspec file system. The files are kept from vacuum for 24 hours;
        `hold` keeps them longer.

        Args:
            con: the connection; one of its own if left out.
            name: also makes a temporary view of this name, which `con.sql("…")` can use.

        Raises:
            MissingExtraError: DuckDB is not installed.

        Example:
            >>> orders.scan("day >= '2026-01-01'").to_duckdb(con, "recent")             # doctest: +SKIP
            >>> con.sql("select region, sum(amount) from recent group by all").show()   # doctest: +SKIP
        """
        relation = self._context.connect_to("duckdb")(self, con, name)
        self.hand_off()
        return relation

    def to_polars(self) -> Any:
        """All rows as a Polars data frame.

        Raises:
            MissingExtraError: Polars is not installed.

        Example:
            >>> orders.scan("amount > 10").to_polars()   # doctest: +SKIP
        """
        return self._context.connect_to("polars")(self)

    def scan_polars(self) -> Any:
        """The rows as a Polars lazy frame, which reads when it is collected, and only what the query needs.

        Conditions, columns and `head` of the query go down into the catalog: files and row groups that cannot match are
        not opened. The version is held for as long as the frame is there.

        Raises:
            MissingExtraError: Polars is not installed.

        Example:
            >>> frame = orders.scan().scan_polars()                                 # doctest: +SKIP
            >>> frame.filter(pl.col("day") >= day).select("id").collect()           # doctest: +SKIP
        """
        return self._context.connect_to("polars_lazy")(self)

    def to_datafusion(self, ctx: Any = None, name: str | None = None) -> Any:
        """The rows as a DataFusion data frame, which reads when it is executed, and only what the query needs.

        Conditions and columns of the query go down into the catalog. The version is held for as long as the context
        refers to it.

        Args:
            ctx: the `datafusion.SessionContext`; one of its own if left out.
            name: also makes a table of this name, which `ctx.sql("…")` can use.

        Raises:
            MissingExtraError: DataFusion is not installed.

        Example:
            >>> orders.scan().to_datafusion(ctx, "orders")                                  # doctest: +SKIP
            >>> ctx.sql("select region, sum(amount) from orders group by region").show()    # doctest: +SKIP
        """
        return self._context.connect_to("datafusion")(self, ctx, name)

    def to_daft(self) -> Any:
        """The rows as a Daft frame, which reads when it is collected, and only what the query needs.

        Conditions and columns of the query go down into the catalog. Daft 0.7 wants a PyArrow before 26, and so
        `parqlake[all]` does not bring it.

        Raises:
            MissingExtraError: Daft is not installed.

        Example:
            >>> orders.scan().to_daft().where(daft.col("amount") > 10).collect()    # doctest: +SKIP
        """
        return self._context.connect_to("daft")(self)

    def hold_while_alive(self, reader: object) -> None:
        """Keeps the files of the version from being deleted until the object is let go of that reads them."""
        self._guard.hold_while_alive(reader)

    def hand_off(self) -> None:
        """Keeps the files of the version from being deleted for 24 hours, for readers that nobody sees the end of.

        Scans that are handed over hold it by themselves.
        """
        self._guard.hand_off()
