"""Catalogs by URL: which database, where, and with what options."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from parqlake.catalogs.catalog import MERGE_SEGMENTS_AT, SqlCatalog
from parqlake.catalogs.dialect import Dialect
from parqlake.core.errors import InvalidOptionError

DEFAULT_SCHEMA = "parqlake"
BUSY_TIMEOUT = 60.0
CACHE_BYTES = 256 * 1024 * 1024
_SCHEMA_OPTION = "parqlake_schema"
_SQLITE_ENDINGS = (".sqlite", ".sqlite3", ".db")
_DUCKDB_ENDINGS = (".duckdb",)
_EXAMPLES = (
    'use for instance "sqlite:///warehouse/catalog.sqlite", "duckdb:///warehouse/catalog.duckdb" or'
    ' "postgresql://user@host:5432/database"'
)
_PASSWORD = re.compile(r"(password\s*=).*", re.DOTALL | re.IGNORECASE)
"""As in `host=h password=p`, which is no URL but is given for one; where the password ends is anybody's guess."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*)://(.*)", re.DOTALL)


def open_catalog(
    url: str | os.PathLike[str],
    *,
    create: bool = True,
    default_schema: str = DEFAULT_SCHEMA,
    busy_timeout: float = BUSY_TIMEOUT,
    cache_bytes: int = CACHE_BYTES,
    merge_segments_at: int = MERGE_SEGMENTS_AT,
) -> SqlCatalog:
    """Opens the catalog at the URL, and creates it if it is not there.

    Args:
        url: `sqlite:///relative/path.sqlite` (four slashes for an absolute path), `duckdb:///…` likewise,
            `postgresql://user:password@host:port/database?parqlake_schema=name`, or the path of a file that
            ends in .sqlite, .db or .duckdb.
        create: False raises `LakeNotFoundError` if there is no catalog.
        default_schema: the PostgreSQL schema, if the URL names none.
        busy_timeout: seconds to wait for other writers.
        cache_bytes: memory for segments and statistics that were read.
        merge_segments_at: how many small segments a table may have before a commit merges them.

    Example:
        >>> open_catalog("sqlite:///warehouse/catalog.sqlite").lake_id    # doctest: +SKIP
        '5f1c7a0e-…'
    """
    dialect = _dialect(os.fspath(url), default_schema=default_schema, busy_timeout=busy_timeout)
    return SqlCatalog(dialect, create=create, cache_bytes=cache_bytes, merge_segments_at=merge_segments_at)


def safe_url(url: str) -> str:
    """The URL without its password, however badly it is written."""
    match = _SCHEME.fullmatch(url)
    if match is None:
        return _PASSWORD.sub(r"\1***", url)
    scheme, rest = match.groups()
    # A password may hold any character if its writer forgot to escape it, so all up to the last @ is suspect.
    user, at, place = rest.rpartition("@")
    shown = f"{user.split(':', 1)[0]}@" if at else ""
    place, question, query = place.partition("?")
    kept = [(key, value) for key, value in parse_qsl(query, keep_blank_values=True) if "password" not in key.lower()]
    return f"{scheme}://{shown}{place}{question if kept else ''}{urlencode(kept)}"


def _dialect(url: str, *, default_schema: str, busy_timeout: float) -> Dialect:
    match = _SCHEME.fullmatch(url)
    if match is None:
        return _file_dialect(_scheme_of_path(url), url, busy_timeout=busy_timeout)
    scheme, rest = match.group(1).lower(), match.group(2)
    if scheme in ("sqlite", "duckdb"):
        return _file_dialect(scheme, _path_of_url(url, scheme, rest), busy_timeout=busy_timeout)
    if scheme in ("postgresql", "postgres"):
        return _postgres(url, default_schema=default_schema, busy_timeout=busy_timeout)
    raise InvalidOptionError(f"catalog {safe_url(url)!r}: no catalog is called {scheme!r}; {_EXAMPLES}")


def _scheme_of_path(path: str) -> str:
    if path.endswith(_SQLITE_ENDINGS):
        return "sqlite"
    if path.endswith(_DUCKDB_ENDINGS):
        return "duckdb"
    raise InvalidOptionError(
        f"catalog {safe_url(path)!r} is neither a URL nor a file that ends in .sqlite, .db or .duckdb; {_EXAMPLES}"
    )


def _path_of_url(url: str, scheme: str, rest: str) -> str:
    if not rest.startswith("/") or rest in ("/", "/:memory:"):
        raise InvalidOptionError(
            f"catalog {safe_url(url)!r} names no file; write {scheme}:///path for a relative path, {scheme}:////path"
            " for an absolute one (a catalog in memory could not be shared by connections)"
        )
    if "?" in rest:
        raise InvalidOptionError(
            f"catalog {safe_url(url)!r}: a {scheme} URL takes no options; leave out what follows the ?"
        )
    return rest[1:]


def _file_dialect(scheme: str, path: str, *, busy_timeout: float) -> Dialect:
    if "\0" in path:
        raise InvalidOptionError(f"catalog path {path!r} holds a NUL character; leave it out")
    # Absolute from the start: a later change of the working folder must not lead to another catalog.
    where = Path(path).expanduser().absolute()
    if scheme == "sqlite":
        from parqlake.catalogs.sqlite import SqliteDialect

        return SqliteDialect(where, busy_timeout=busy_timeout)
    from parqlake.catalogs.duckdb import DuckdbDialect

    return DuckdbDialect(where, busy_timeout=busy_timeout)


def _postgres(url: str, *, default_schema: str, busy_timeout: float) -> Dialect:
    from parqlake.catalogs.postgres import PostgresDialect

    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        # Python's own words would quote what stands where the port should be, which may be half a password.
        raise InvalidOptionError(
            f"catalog {safe_url(url)!r} cannot be read; escape special characters in the password with"
            " urllib.parse.quote; " + _EXAMPLES
        ) from None
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    schema = options.pop(_SCHEMA_OPTION, default_schema)
    named = {
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "host": unquote(parts.hostname or ""),
        "port": str(port or ""),
        "dbname": unquote(parts.path.lstrip("/")),
    }
    options |= {key: value for key, value in named.items() if value}
    shown = {key: value for key, value in options.items() if key not in named and "password" not in key.lower()}
    user = f"{quote(options['user'])}@" if "user" in options else ""
    place = f"{parts.hostname or ''}{f':{port}' if port else ''}/{quote(options.get('dbname', ''))}"
    safe = f"postgresql://{user}{place}?{urlencode({**shown, _SCHEMA_OPTION: schema})}"
    return PostgresDialect(options, url=safe, schema=schema, busy_timeout=busy_timeout)
