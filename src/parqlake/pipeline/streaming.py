"""A pipeline on a stream: each batch is a run, named by the query and the batch, so that none is done twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parqlake.core.errors import InvalidOptionError, TableNotFoundError
from parqlake.table.sources import is_spark_frame

if TYPE_CHECKING:
    from parqlake.pipeline.pipeline import Pipeline

_QUERY_ID = "sql.streaming.queryId"


def stream(
    pipeline: Pipeline, checkpoint: str, *, available_now: bool, every: str | None, only: str | None = None
) -> Any:
    """Starts the stream of the one step that returns a streaming frame; see `Pipeline.stream`."""
    spark = pipeline.spark()
    found = {}
    for step in pipeline.steps:
        if step.sources or step.incremental is not None or only not in (None, step.name):
            continue
        given = {"spark": spark, "lake": pipeline.lake, "since": None, "until": None, "run_id": None}
        try:
            frame = step.function(**{name: given[name] for name in step.parameters})
        except TableNotFoundError:  # it reads what the first batch has yet to make, and so is no stream by itself
            continue
        if is_spark_frame(frame) and frame.isStreaming:
            found[step.name] = frame
    if len(found) != 1:
        told = ", ".join(found) or "none"
        raise InvalidOptionError(
            f'exactly one step of pipeline "{pipeline.name}" must return a streaming frame (spark.readStream…), '
            f"without a source or cursor of its own; there are: {told}"
        )
    ((name, frame),) = found.items()

    def run_batch(batch: Any, number: int) -> None:
        query = batch.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
        pipeline._once(f"stream {query} {number}", None, frames={name: batch})

    writer = frame.writeStream.foreachBatch(run_batch).option("checkpointLocation", checkpoint)
    if available_now:
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return query
    return (writer if every is None else writer.trigger(processingTime=every)).start()
