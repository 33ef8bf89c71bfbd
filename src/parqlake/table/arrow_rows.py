"""Rows that come as a stream of Arrow batches, handed out in the other forms that people ask for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from parqlake.core.errors import MissingExtraError


class ArrowRows(ABC):
    """What can be read as Arrow, and so be written to a table; each call reads again."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns and their types."""

    @abstractmethod
    def to_batches(self) -> pa.RecordBatchReader:
        """The rows as a stream of Arrow batches."""

    def to_reader(self) -> pa.RecordBatchReader:
        """The same as `to_batches`: so that the rows can be written to a table."""
        return self.to_batches()

    def to_arrow(self) -> pa.Table:
        """All rows as an Arrow table."""
        return self.to_batches().read_all()

    def to_pandas(self, **options: Any) -> Any:
        """All rows as a pandas frame; options go to `pyarrow.Table.to_pandas`."""
        return pandas_frame(self.to_arrow(), options)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The Arrow stream interface."""
        return self.to_batches().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The Arrow schema interface."""
        return self.schema.__arrow_c_schema__()


def pandas_frame(table: pa.Table, options: Mapping[str, Any]) -> Any:
    """The rows as a pandas frame; options go to `pyarrow.Table.to_pandas`."""
    try:
        return table.to_pandas(**options)
    except ImportError as error:
        raise MissingExtraError("pandas", "pandas") from error
