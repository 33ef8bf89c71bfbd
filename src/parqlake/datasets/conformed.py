"""Files of other columns or types, copied for a rewrite into the schema that a folder's files have in common."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from parqlake.core.merging.conforming import conform, working_schema
from parqlake.datasets.place import Place
from parqlake.datasets.schemas import comparable
from parqlake.datasets.survey import SurveyedFile
from parqlake.datasets.writing import write_file

_BATCH_ROWS = 65_536


def conformed(place: Place, file: SurveyedFile, schema: pa.Schema, copy: str) -> str:
    """The path of a file that fits the schema: the file's own, or that of a copy that is written for it.

    A column that the file lacks is NULL in the copy, and narrower types become wider.

    Args:
        place: the dataset.
        file: one of its files.
        schema: from `common_schema`, of which the file is one.
        copy: where the copy goes, if one is needed; relative to the dataset.
    """
    if comparable(file.schema) == comparable(schema):
        return file.path
    wanted = working_schema(schema)
    write_file(place.store, copy, _batches(place, file, wanted), wanted, "none")
    return copy


def _batches(place: Place, file: SurveyedFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(
        place.full_path(file.path), filesystem=place.arrow_filesystem(), page_checksum_verification=True
    ) as parquet:
        for batch in parquet.iter_batches(batch_size=_BATCH_ROWS):
            yield conform(batch, schema)
