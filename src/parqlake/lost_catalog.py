"""A lake whose catalog is lost gets a new one, made from its files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any

from parqlake.catalogs.open import open_catalog
from parqlake.core.errors import AlreadyExistsError, InvalidOptionError, LakeNotFoundError
from parqlake.core.names import MARKER
from parqlake.engines.arrow import PyArrowEngine
from parqlake.stores.opening import open_store
from parqlake.table.context import LakeContext
from parqlake.table.progress import ProgressChoice, reporting
from parqlake.table.rebuilding import RebuildReport, choose, refill, survey
from parqlake.wiring import CATALOG_FILE, connect, connector, frame_engine, make_engine


def rebuild(
    root: str | PathLike[str],
    *,
    catalog: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    ambiguous: str = "error",
    dry_run: bool = False,
    progress: ProgressChoice = None,
) -> RebuildReport:
    """Makes a new catalog for a lake that has lost its own, from what the footers of its files say.

    Tables, columns, partitions and rows come back. Each transaction that wrote files becomes a version. What stood in
    the catalog alone is gone: tags, properties, renames, who committed what and when, and which files were removed.
    Rows that a delete took away with whole files come back; so do dropped tables that were not vacuumed yet, and
    files of writes that were never committed. A copy of the catalog is better than this: keep one.

    Args:
        root: the lake's root.
        catalog: where the new catalog goes; nothing may be there. In a local root, `catalog.sqlite` if left out.
        storage_options: what the store needs to know.
        ambiguous: what to do with tables whose files may have replaced one another (by overwrite, merge, update,
            delete, compaction or a transaction): `"error"` refuses, `"skip"` leaves them out, `"union"` takes all
            their files, with removed rows and rewritten ones twice.
        dry_run: says what would be made, and writes nothing.
        progress: is called with a `Progress` as files are looked at; see `parqlake.connect`.

    Raises:
        AlreadyExistsError: there is a catalog; move it away first.
        AmbiguousFilesError: see `ambiguous`; nothing was written.
        LakeNotFoundError: no file in the root names a table.

    Example:
        >>> parqlake.rebuild("warehouse").tables   # doctest: +SKIP
        {'sales.orders': (12, 48000)}
    """
    store = open_store(fspath(root), storage_options)
    url = catalog
    if url is None:
        if not store.is_local:
            raise InvalidOptionError(f"the new catalog of {store.url} needs a place: catalog='postgresql://…'")
        url = store.full_path(CATALOG_FILE)
    with reporting(progress, None, operation="rebuild", table=store.url) as told:
        tables, unreadable = survey(store, told)
    if not tables:
        raise LakeNotFoundError(f"no file in {store.url} names a table, so there is nothing to rebuild; check the path")
    chosen, skipped = choose(tables, ambiguous)
    report = RebuildReport(
        {str(table.name): (len(table.transactions), table.row_count) for table in chosen},
        tuple(str(table.name) for table in skipped),
        tuple(unreadable),
        dry_run,
    )
    if dry_run:
        return report
    opened = open_catalog(url)
    try:
        if not opened.is_new:
            raise AlreadyExistsError(f"there is a catalog at {opened.url}; move it away first, or give another place")
        engine = PyArrowEngine()
        context = LakeContext(
            catalog=opened,
            store=store,
            reader=engine,
            default_engine=engine,
            make_engine=make_engine,
            frame_engine=frame_engine,
            connect_to=connector,
        )
        for table in chosen:
            refill(context, table)
        # Last: until the root names the new catalog, nobody can take a half-made one for the lake.
        content = json.dumps({"lake_id": opened.lake_id, "format": "parqlake"}, indent=2).encode()
        store.write_bytes(MARKER, content)
    except AlreadyExistsError:
        raise
    except BaseException as error:
        error.add_note(f"the half-made catalog {opened.url} is of no use; delete it before the next try")
        raise
    finally:
        opened.close()
    connect(root, catalog=url, storage_options=storage_options).close()
    return report
