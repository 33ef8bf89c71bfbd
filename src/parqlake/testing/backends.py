"""Backends: one engine, one catalog and one store, and how to make a lake of them."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from parqlake.table.lake import Lake
from parqlake.wiring import connect

ENGINES = ("pyarrow", "duckdb", "spark")
CATALOGS = ("sqlite", "duckdb", "postgres")
STORES = ("local", "memory")


@dataclass(frozen=True, slots=True)
class Backend:
    """One cell of the matrix."""

    engine: str = "pyarrow"
    catalog: str = "sqlite"
    store: str = "local"

    def __str__(self) -> str:
        return f"{self.engine}-{self.catalog}-{self.store}"


def cells(
    *,
    engines: Sequence[str] = ENGINES,
    catalogs: Sequence[str] = CATALOGS,
    stores: Sequence[str] = STORES,
    full: bool = False,
) -> list[Backend]:
    """The cells to run: every mix, or a star whose middle is the first choice of each kind."""
    if full:
        return [Backend(*cell) for cell in itertools.product(engines, catalogs, stores)]
    middle = Backend(engines[0], catalogs[0], stores[0])
    star = [middle]
    star += [Backend(engine, middle.catalog, middle.store) for engine in engines[1:]]
    star += [Backend(middle.engine, catalog, middle.store) for catalog in catalogs[1:]]
    star += [Backend(middle.engine, middle.catalog, store) for store in stores[1:]]
    return star


@dataclass(frozen=True, slots=True)
class LakePlace:
    """Where one test's lake lives; `connect` opens it as often as the test likes."""

    backend: Backend
    root: str
    catalog: str

    def connect(self, engine: str | None = None) -> Lake:
        """Opens the lake, as another process would."""
        return connect(self.root, catalog=self.catalog, engine=engine or self.backend.engine)


def new_place(backend: Backend, folder: Path, postgres_dsn: Callable[[str], str]) -> LakePlace:
    """A place where no lake is yet.

    Args:
        backend: the mix to use.
        folder: an empty folder of the test's own.
        postgres_dsn: gives the catalog address for a schema's name; only called for PostgreSQL.
    """
    unique = uuid.uuid4().hex[:12]
    root = str(folder / "lake") if backend.store == "local" else f"memory://parqlake-{unique}"
    match backend.catalog:
        case "sqlite":
            catalog = f"sqlite:///{folder / 'catalog.sqlite'}"
        case "duckdb":
            catalog = f"duckdb:///{folder / 'catalog.duckdb'}"
        case "postgres":
            catalog = postgres_dsn(f"lake_{unique}")
        case other:
            raise ValueError(f"unknown catalog {other!r}; use one of {', '.join(CATALOGS)}")
    return LakePlace(backend, root, catalog)
