"""OpenLineage: a run as the events that lineage servers take. Pure: whoever has a server sends them by a hook."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from parqlake._version import __version__
from parqlake.core.runs import RunInput, RunOutput, RunRecord, RunStatus

LineageHook = Callable[[dict[str, Any]], None]
"""Takes one event; for instance sends it to a server as JSON."""

_HOST = re.compile(r"(?P<host>\[[^\]]*\]|[^:;,\s]*)(?P<port>:\d+)?")
_SPEC = "https://openlineage.io/spec"
_EVENT_SCHEMA = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_PRODUCER = f"urn:parqlake:{__version__}"
_ENDS = {RunStatus.SUCCEEDED: "COMPLETE", RunStatus.FAILED: "FAIL"}


def start_event(run: RunRecord, *, namespace: str) -> dict[str, Any]:
    """The event that tells that a run has begun.

    Args:
        run: as far as it is known.
        namespace: what names the lake for those who look at lineage; `lake.url` serves well.

    Example:
        >>> hook(start_event(run, namespace=lake.url))   # doctest: +SKIP
    """
    return _event("START", run, run.started_at, namespace)


def end_event(run: RunRecord, *, namespace: str) -> dict[str, Any]:
    """The event that tells how a run ended: COMPLETE or FAIL; RUNNING, if it has not ended yet.

    Example:
        >>> hook(end_event(run, namespace=lake.url))   # doctest: +SKIP
    """
    kind = _ENDS.get(run.status, "RUNNING")
    return _event(kind, run, run.finished_at or run.started_at, namespace)


def run_uuid(namespace: str, pipeline: str, run_id: str) -> str:
    """The identity of a run, which OpenLineage wants to be a UUID: always the same for the same run."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "\n".join((namespace, pipeline, run_id))))


def _event(kind: str, run: RunRecord, at: datetime, namespace: str) -> dict[str, Any]:
    return {
        "eventType": kind,
        "eventTime": at.isoformat(),
        "producer": _PRODUCER,
        "schemaURL": _EVENT_SCHEMA,
        "run": {"runId": run_uuid(namespace, run.pipeline, run.run_id), "facets": _run_facets(run)},
        "job": {
            "namespace": namespace,
            "name": run.pipeline,
            "facets": {
                "jobType": _facet(
                    "2-0-3/JobTypeJobFacet", processingType="BATCH", integration="PARQLAKE", jobType="PIPELINE"
                )
            },
        },
        "inputs": [_input(read, namespace) for read in run.inputs],
        "outputs": [_output(made, namespace) for made in run.outputs],
    }


def _run_facets(run: RunRecord) -> dict[str, Any]:
    facets: dict[str, Any] = {
        "processing_engine": _facet("1-1-1/ProcessingEngineRunFacet", name="parqlake", version=__version__),
        "parqlake_run": _own_facet(
            run_id=run.run_id,
            rejects=dict(run.rejects),
            durations=dict(run.durations),
            spark_application_id=run.spark_application_id,
        ),
    }
    if run.error is not None:
        facets["errorMessage"] = _facet("1-0-1/ErrorMessageRunFacet", message=run.error, programmingLanguage="PYTHON")
    return facets


def _input(read: RunInput, namespace: str) -> dict[str, Any]:
    if read.is_table:
        return {"namespace": namespace, "name": read.name, "facets": _version_facet(read.version)}
    parts = urlsplit(read.name.removeprefix("jdbc:"))
    if not parts.scheme:
        return {"namespace": "file", "name": read.name, "facets": {}}
    # Only host and path: what else an address may hold, be it a password, is nobody's business. Drivers of databases
    # put options after a semicolon, where a port would end.
    found = _HOST.match(parts.netloc.rpartition("@")[2])
    host, port = (found["host"], found["port"] or "") if found else ("", "")
    place = f"{parts.scheme}://{host}{port}" if host else parts.scheme
    return {
        "namespace": place,
        "name": (parts.path.lstrip("/") or "/") if host else parts.path or read.name,
        "facets": {},
    }


def _output(made: RunOutput, namespace: str) -> dict[str, Any]:
    return {
        "namespace": namespace,
        "name": made.table,
        "facets": _version_facet(made.version),
        "outputFacets": {
            "outputStatistics": _facet("1-0-2/OutputStatisticsOutputDatasetFacet", rowCount=made.added_rows)
        },
    }


def _version_facet(version: int | None) -> dict[str, Any]:
    if version is None:
        return {}
    return {"version": _facet("1-0-1/DatasetVersionDatasetFacet", datasetVersion=str(version))}


def _facet(schema: str, **values: Any) -> dict[str, Any]:
    _, name = schema.split("/")
    where = f"{_SPEC}/facets/{schema}.json#/$defs/{name}"
    return {"_producer": _PRODUCER, "_schemaURL": where, **values}


def _own_facet(**values: Any) -> Mapping[str, Any]:
    return {"_producer": _PRODUCER, "_schemaURL": f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunFacet", **values}
