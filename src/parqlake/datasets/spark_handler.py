"""`SparkParquetHandler`: plain directories of Parquet that are too large for one machine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from parqlake.core.errors import InvalidOptionError
from parqlake.core.hive import partition_values
from parqlake.core.merging import TargetFile
from parqlake.datasets.backends import Backend, spark_backend
from parqlake.datasets.handler import ParquetHandler
from parqlake.datasets.naming import Naming
from parqlake.datasets.paths import AnyPath, found_at, place_of
from parqlake.datasets.place import Place
from parqlake.datasets.reading import StoredRows
from parqlake.datasets.spark_writing import frame_schema, write_frame_dataset, write_frame_file
from parqlake.datasets.survey import recover_if_needed, take_survey
from parqlake.engines.spark.merge_sources import FileRows, FrameRows
from parqlake.engines.spark.reports import check_shared
from parqlake.storage_options import StorageOptions
from parqlake.table.sources import is_spark_frame


class SparkParquetHandler(ParquetHandler):
    """Does what `DuckDBParquetHandler` does, with the same methods and statistics, on the executors of a Spark session.

    What is written, and the source of a merge, may be a Spark data frame too: then its rows never come to the driver.
    Of what `execute_sql` and `read_parquet` give, and of Arrow data, they do. A `memory_limit` is for each task.
    Files lie where the executors see them as well: in a folder that all machines share, or in an object store.

    For instance, `handler.merge_parquet_dataset(spark.table("changes"), "s3://bucket/orders", ["id"])`.
    """

    def __init__(
        self, spark: Any, storage_options: StorageOptions | Mapping[str, Any] | None = None, filesystem: Any = None
    ) -> None:
        """Uses the session as it is.

        Args:
            spark: a `SparkSession`, for instance from `parqlake.spark.session()`.
            storage_options: one of `parqlake.storage_options`, or a mapping with `protocol` and its fields.
            filesystem: an fsspec or PyArrow file system; wins over `storage_options`. With neither, paths are local,
                and addresses such as `s3://bucket/data` find their file system by themselves.

        Raises:
            InvalidOptionError: `spark` is no session.
            MissingExtraError: the package for the store is not installed.
        """
        if not hasattr(spark, "createDataFrame"):
            raise InvalidOptionError(
                f"spark is a {type(spark).__name__}; give a SparkSession, for instance parqlake.spark.session()"
            )
        super().__init__(storage_options, filesystem)
        self._connection = spark

    def close(self) -> None:
        """Lets go of the session, which goes on; closing twice is no error."""
        super().close()

    def execute_sql(self, query: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None) -> pa.Table:
        """Runs a query of Spark SQL; Spark's errors come as they are.

        Args:
            query: SQL. Files and directories that Spark itself can open are read as ``parquet.`/path` ``.
            parameters: values for `?`, or by name for `:name`.

        Returns:
            The result, on the driver.

        Raises:
            pyspark.errors.PySparkException: the query is wrong, or fails.

        Example:
            >>> handler.execute_sql("SELECT ? + 1 AS next", [41]).to_pylist()        # doctest: +SKIP
            [{'next': 42}]
        """
        spark = self._open()
        if parameters is None:
            return spark.sql(query).toArrow()
        given = dict(parameters) if isinstance(parameters, Mapping) else list(parameters)
        return spark.sql(query, args=given).toArrow()

    def _backend(self) -> Backend:
        return spark_backend(self._open())

    def _given(self, path: AnyPath) -> Any:
        """The file system for a path; refuses one that only this process sees."""
        given = super()._given(path)
        check_shared(place_of(path, given).store)
        return given

    def _source(self, source: Any) -> Any:
        """A frame stays in Spark, and files are read there; other data is on the driver already."""
        if is_spark_frame(source):
            return FrameRows(source, frame_schema(source))
        return self._stored(source) if isinstance(source, str | os.PathLike) else source

    def _stored(self, path: AnyPath) -> FileRows:
        place, name = found_at(path, self._given(path))
        if name is not None:
            return FileRows(place.store, (TargetFile(name, 0),), StoredRows(path, self._given(path)).schema)
        recover_if_needed(place)
        survey = take_survey(place)
        files = tuple(TargetFile(file.path, file.info.num_rows, partition_values(file.path)) for file in survey.files)
        return FileRows(place.store, files, survey.schema()[0])

    def _write_file(self, place: Place, name: str, rows: Any, codec: str) -> None:
        if is_spark_frame(rows):
            write_frame_file(place, name, rows, codec=codec)
        else:
            super()._write_file(place, name, rows, codec)

    def _write_dataset(
        self, place: Place, rows: Any, *, overwrite: bool, max_rows: int | None, codec: str, naming: Naming
    ) -> None:
        write = write_frame_dataset if is_spark_frame(rows) else super()._write_dataset
        write(place, rows, overwrite=overwrite, max_rows=max_rows, codec=codec, naming=naming)
