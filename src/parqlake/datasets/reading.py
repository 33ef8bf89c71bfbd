"""Reading: a file or a directory as one Arrow dataset, partition columns included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from parqlake.core.errors import (
    DataCorruptionError,
    FileNotInStoreError,
    InvalidOptionError,
    ParqlakeError,
    column_not_found,
)
from parqlake.core.hive import partition_values
from parqlake.core.os_errors import store_error
from parqlake.core.partitioning import parse_partition_text
from parqlake.datasets.paths import AnyPath, found_at
from parqlake.datasets.place import Place
from parqlake.datasets.schemas import common_schema
from parqlake.datasets.survey import recover_if_needed, take_survey

_BATCH_ROWS = 65_536
_TRIES = 8


class StoredRows:
    """The rows at a path. A directory is read with all its folders, and Hive partitions become columns."""

    def __init__(self, path: AnyPath, filesystem: Any = None) -> None:
        """Looks what is there and reads the footers.

        Raises:
            FileNotInStoreError: nothing is there, or no Parquet file; it is a `FileNotFoundError`.
            DataCorruptionError: a file is no Parquet file, or is damaged.
            TypeMismatchError: the files have types that do not go together.
        """
        self._place, self._name = found_at(path, filesystem)
        self._url = self._place.url
        self._dataset = self._opened()

    @property
    def schema(self) -> pa.Schema:
        """The columns of all files, then the partition columns that only folders name."""
        return self._dataset.schema

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows, of the columns asked for; only these are read."""
        names = self._names(columns)
        for _ in range(_TRIES):
            try:
                with self._mapped():
                    return self._dataset.to_table(columns=names)
            except FileNotInStoreError:  # replaced since the directory was listed: what replaced it is there now
                self._dataset = self._opened()
        with self._mapped():
            return self._dataset.to_table(columns=names)

    def _opened(self) -> Any:
        return _folder_dataset(self._place) if self._name is None else _file_dataset(self._place, self._name)

    def reader(self) -> pa.RecordBatchReader:
        """All rows as a stream; a few batches are in memory at a time."""
        scanner = self._dataset.scanner(batch_size=_BATCH_ROWS, batch_readahead=4, fragment_readahead=1)
        return pa.RecordBatchReader.from_batches(self.schema, self._batches(scanner))

    def _batches(self, scanner: Any) -> Iterator[pa.RecordBatch]:
        with self._mapped():
            yield from scanner.to_reader()

    def _names(self, columns: Sequence[str] | None) -> list[str] | None:
        if columns is None:
            return None
        if isinstance(columns, str) or not all(isinstance(name, str) for name in columns):
            raise InvalidOptionError(f'columns is {columns!r}; give a list of column names, for instance ["id"]')
        for name in columns:
            if name not in self.schema.names:
                raise column_not_found(name, self.schema.names)
        return list(columns)

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        try:
            yield
        except ParqlakeError:
            raise
        except OSError as error:
            if error.errno is None:
                raise DataCorruptionError(f'a file of "{self._url}" is damaged ({error}); restore it') from error
            raise store_error(error, "read", self._url, writing=False) from error
        except pa.ArrowInvalid as error:
            raise DataCorruptionError(f'a file of "{self._url}" is damaged ({error}); restore it') from error


def _folder_dataset(place: Place) -> Any:
    recover_if_needed(place)
    survey = take_survey(place)
    schema, _ = survey.schema()
    fragments = []
    for file in survey.files:
        inside = set(file.schema.names)
        known = None
        for name, text in partition_values(file.path).items():
            if name in inside or text is None:  # what a file holds itself is right; what nobody says is NULL
                continue
            value = pc.field(name) == parse_partition_text(text, schema.field(name).type)
            known = value if known is None else known & value
        fragments.append(_fragment(place, file.path, known))
    return _dataset(place, fragments, schema)


def _file_dataset(place: Place, name: str) -> Any:
    filesystem, path = place.arrow_filesystem(), place.full_path(name)
    try:
        with filesystem.open_input_file(path) as file:
            own = pq.read_schema(file)
    except pa.ArrowInvalid as error:
        raise DataCorruptionError(f'"{name}" is no Parquet file or is damaged: {error}') from error
    except OSError as error:
        raise store_error(error, "read", name, writing=False) from error
    return _dataset(place, [_fragment(place, name, None)], common_schema({name: own}))


def _dataset(place: Place, fragments: Sequence[Any], schema: pa.Schema) -> Any:
    import pyarrow.dataset as ds  # not above: it loads pandas

    return ds.FileSystemDataset(fragments, schema, ds.ParquetFileFormat(), place.arrow_filesystem())


def _fragment(place: Place, path: str, known: Any) -> Any:
    import pyarrow.dataset as ds

    return ds.ParquetFileFormat().make_fragment(
        place.full_path(path), filesystem=place.arrow_filesystem(), partition_expression=known
    )
