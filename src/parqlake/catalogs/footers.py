"""Footers of files on far stores: kept beside the files' entries, written, carried over and forgotten with them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from parqlake.catalogs.cache import Cache
from parqlake.catalogs.dialect import Row, Session
from parqlake.catalogs.tables import FOOTER

_SOME = FOOTER.select("WHERE table_id = ? AND file_id = ANY_OF(?)", "file_id", "data")
_DROP = (
    "DELETE FROM footer WHERE table_id = ? AND file_id = ANY_OF(?) AND NOT EXISTS"
    " (SELECT 1 FROM file f WHERE f.table_id = footer.table_id AND f.file_id = footer.file_id)"
)


class FooterReads:
    """The port `CatalogReader`, as far as footers go."""

    _session: Session
    _cache: Cache

    def _remember(self, key: Hashable, value: object, size_bytes: int) -> None:
        raise NotImplementedError

    def footers(self, table_id: int, file_ids: Sequence[int]) -> dict[int, bytes]:
        """The packed footers of those files that have one here, by file id; see `core.footers`."""
        ids = [int(file_id) for file_id in file_ids]
        known = self._cache.get_many(("footer", table_id, i) for i in ids)
        found: dict[int, bytes | None] = {key[2]: data for key, data in known.items()}  # type: ignore[index]
        missing = [i for i in ids if i not in found]
        if missing:
            rows = self._session.rows(_SOME, (table_id, self._session.ids(missing)))
            found.update((file_id, bytes(data)) for file_id, data in rows)
            for i in missing:  # that there is none is remembered too: files never change
                data = found.get(i)
                self._remember(("footer", table_id, i), data, 0 if data is None else len(data))
        return {i: data for i in ids if (data := found.get(i)) is not None}


def store_footers(session: Session, table_id: int, footers: Mapping[int, bytes | None]) -> None:
    """Keeps the footers of new files, by file id, in the transaction that adds them."""
    rows: list[Row] = [(table_id, file_id, data) for file_id, data in footers.items() if data is not None]
    if rows:
        session.insert(FOOTER, rows)


def copy_footers(session: Session, table_id: int, new_ids: Mapping[int, int]) -> None:
    """Gives files that become live again under a new id the footers that they had under the old one."""
    if new_ids:
        rows = session.rows(_SOME, (table_id, session.ids(list(new_ids))))
        store_footers(session, table_id, {new_ids[old]: data for old, data in rows})


def drop_footers(session: Session, table_id: int, file_ids: Sequence[int]) -> None:
    """Forgets the footers of those of the files whose entries are gone."""
    session.change(_DROP, (table_id, session.ids(list(file_ids))))
