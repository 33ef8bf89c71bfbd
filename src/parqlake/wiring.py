"""Wiring: the one place that knows both the ports and their adapters."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from os import PathLike, fspath
from typing import Any

from parqlake.catalogs.open import open_catalog
from parqlake.core.errors import (
    AlreadyExistsError,
    CatalogMismatchError,
    FileNotInStoreError,
    InvalidOptionError,
    LakeNotFoundError,
)
from parqlake.core.model import TransactionRecord, TransactionStatus
from parqlake.core.names import MARKER
from parqlake.core.ports import Catalog, Engine, FrameEngine, Store
from parqlake.engines.arrow import PyArrowEngine
from parqlake.storage_options import StorageOptions
from parqlake.stores.opening import open_store
from parqlake.table.context import LakeContext, now
from parqlake.table.lake import Lake
from parqlake.table.progress import ProgressChoice, check_progress
from parqlake.table.sources import is_spark_frame
from parqlake.table.unit import who

CATALOG_FILE = "catalog.sqlite"
_CREATION = "lake-creation"
"""The registry's entry for the making of the lake itself."""

ENGINES = ("pyarrow", "duckdb", "spark")


def connect(
    root: str | PathLike[str],
    *,
    catalog: str | None = None,
    storage_options: StorageOptions | Mapping[str, Any] | None = None,
    engine: str | Engine = "pyarrow",
    create: bool = True,
    progress: ProgressChoice = None,
) -> Lake:
    """Opens a lake, and creates it on first use.

    Args:
        root: a folder, or an address that fsspec knows, such as `memory://lake`.
        catalog: the catalog's address: `sqlite:///path`, `duckdb:///path` or `postgresql://…`. A lake in a local
            folder has a SQLite catalog inside it if none is given.
        storage_options: what the store needs to know, such as credentials; never stored or shown. One of
            `parqlake.storage_options`, such as `AwsStorageOptions`, or a mapping in the spelling of fsspec,
            object_store (Polars, deltalake), PyArrow or DuckDB.
        engine: who carries writes out unless a call says otherwise: `"pyarrow"`, `"duckdb"`, or an engine object.
        create: False refuses to create a lake where there is none.
        progress: who is told of long work: a function that takes a `parqlake.Progress`, or False for nobody. If left
            out, a bar is shown where stderr is a terminal, but not in CI jobs and not with `PARQLAKE_PROGRESS=0` in the
            environment.

    Raises:
        LakeNotFoundError: there is no lake, and `create` is False.
        PathIsFileError: the root is a file.
        StoreReadOnlyError: the root cannot be written to.
        CatalogMismatchError: the catalog belongs to another lake.
        CatalogVersionError: the catalog was written by a newer parqlake.

    Example:
        >>> lake = parqlake.connect("warehouse")                                             # doctest: +SKIP
        >>> lake = parqlake.connect("warehouse", catalog="postgresql://user@host/database")  # doctest: +SKIP
    """
    check_progress(progress)
    store = open_store(fspath(root), storage_options)
    chosen = make_engine(engine) if isinstance(engine, str) else engine
    marker = _marker(store)
    if marker is None and not create:
        raise LakeNotFoundError(f"there is no lake at {store.url}; check the path, or leave create=False out")
    if marker is None:
        store.prepare_root()
    opened = _open_catalog(store, catalog, marker)
    try:
        _check_identity(store, opened, marker)
    except BaseException:
        opened.close()
        raise
    context = LakeContext(
        catalog=opened,
        store=store,
        reader=chosen if isinstance(chosen, PyArrowEngine) else PyArrowEngine(),
        default_engine=chosen,
        make_engine=cache(make_engine),
        frame_engine=frame_engine,
        connect_to=connector,
        progress=progress,
    )
    return Lake(context)


def make_engine(name: str) -> Engine:
    """The engine of that name."""
    if name == "pyarrow":
        return PyArrowEngine()
    if name == "duckdb":
        from parqlake.engines.duck import DuckDBEngine

        return DuckDBEngine()
    if name == "spark":
        from parqlake.engines.spark import SparkEngine
        from parqlake.spark.session import session

        return SparkEngine(session())
    raise InvalidOptionError(f"engine={name!r} is unknown; use one of {', '.join(ENGINES)}")


def frame_engine(data: Any) -> FrameEngine | None:
    """The engine that belongs to a data frame: a Spark frame brings its session."""
    if not is_spark_frame(data):
        return None
    from parqlake.engines.spark import SparkEngine

    return SparkEngine(data.sparkSession)


def connector(name: str) -> Callable[..., Any]:
    """What hands a plan to the reader of that name."""
    if name == "spark":
        from parqlake.spark.reading import to_spark
        from parqlake.spark.session import session

        return lambda plan, store, spark: to_spark(plan, store, session() if spark is None else spark)
    if name == "spark_changes":
        from parqlake.spark.changes import to_spark_changes
        from parqlake.spark.session import session

        return lambda plan, store, spark: to_spark_changes(plan, store, session() if spark is None else spark)
    if name == "duckdb":
        from parqlake.connectors.duckdb_views import to_duckdb

        return to_duckdb
    if name in ("polars", "polars_lazy"):
        from parqlake.connectors.polars_frames import scan_polars, to_polars

        return to_polars if name == "polars" else scan_polars
    if name == "datafusion":
        from parqlake.connectors.datafusion_tables import to_datafusion

        return to_datafusion
    if name == "daft":
        from parqlake.connectors.daft_source import to_daft

        return to_daft
    if name == "sql":
        from parqlake.connectors.sql import run_sql

        return run_sql
    if name == "attach":
        from parqlake.connectors.attaching import attach

        return attach
    if name == "delta_export":
        from parqlake.exports.delta import export_delta

        return export_delta
    if name == "iceberg_export":
        from parqlake.exports.iceberg import export_iceberg

        return export_iceberg
    raise InvalidOptionError(f"no connector is called {name!r}")


def _open_catalog(store: Store, catalog: str | None, marker: str | None) -> Catalog:
    url = _catalog_url(store, catalog)
    try:
        return open_catalog(url, create=marker is None)
    except LakeNotFoundError as error:
        raise CatalogMismatchError(
            f"{store.url} is the root of lake {marker}, but its catalog is not there: {error}; "
            "connect with the catalog that belongs to it"
        ) from error


def _catalog_url(store: Store, catalog: str | None) -> str:
    if catalog is not None:
        return catalog
    if not store.is_local:
        raise InvalidOptionError(
            f"a lake at {store.url} needs a catalog of its own: catalog='postgresql://…' or catalog='sqlite:///path'"
        )
    return store.full_path(CATALOG_FILE)


def _marker(store: Store) -> str | None:
    try:
        content = json.loads(store.read_bytes(MARKER))
        return str(content["lake_id"])
    except FileNotInStoreError:
        return None
    except (ValueError, KeyError, TypeError):
        raise CatalogMismatchError(
            f'{MARKER} in {store.url} is damaged; restore it from a copy, or write {{"lake_id": …}} into it '
            "with the catalog's lake id"
        ) from None


def _check_identity(store: Store, catalog: Catalog, marker: str | None) -> None:
    """Makes sure that root and catalog belong together; ties a new pair to one another, also after a crash midway."""
    with catalog.read() as reader:
        tied = reader.transaction(_CREATION) is not None
    if marker is None:
        if tied:
            raise CatalogMismatchError(
                f"the catalog {catalog.url} belongs to another lake ({catalog.lake_id}), not to {store.url}; "
                "connect with that lake's root, or with a catalog of its own"
            )
        content = json.dumps({"lake_id": catalog.lake_id, "format": "parqlake"}, indent=2).encode()
        store.write_bytes(MARKER, content, exclusive=True)
        marker = _marker(store)
    if marker != catalog.lake_id:
        raise CatalogMismatchError(
            f"{store.url} is the root of lake {marker}, but the catalog {catalog.url} belongs to lake "
            f"{catalog.lake_id}; connect with the catalog that belongs to it"
        )
    if not tied:
        _record_creation(catalog)


def _record_creation(catalog: Catalog) -> None:
    """Notes in the registry that the catalog has a root, so that it is never tied to a second one."""
    at = now()
    record = TransactionRecord(_CREATION, TransactionStatus.OPEN, who(), at, at, "create lake", "")
    try:
        catalog.begin_transaction(record)
    except AlreadyExistsError:
        return  # another process opened the new lake at the same time
    with catalog.write() as writer:
        writer.finish_transaction(_CREATION, versions={}, at=at)
