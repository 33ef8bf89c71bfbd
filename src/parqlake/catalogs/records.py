"""Records of pipelines: the side of the reader and the writer that keeps small JSON values by scope and key."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from parqlake.catalogs.dialect import Row, Session
from parqlake.catalogs.tables import RECORD, RECORD_SCOPE
from parqlake.core.errors import NotFoundError
from parqlake.core.model import from_micros, to_micros
from parqlake.core.records_port import NewRecord, Record, expected, record_conflict

_NO_LIMIT = 2**53
_ONE = RECORD.select("WHERE scope = ? AND record_key = ?")
_BY_KEY = RECORD.select("WHERE scope = ? AND record_key > ? ORDER BY record_key LIMIT ?")
_NEWEST = RECORD.select("WHERE scope = ? AND revision < ? ORDER BY revision DESC LIMIT ?")
_KNOWN = RECORD.select("WHERE scope = ? AND record_key = ANY_TEXT(?)", "record_key", "revision")
_SCOPES = RECORD_SCOPE.select(
    "WHERE substr(scope, 1, CAST(? AS INTEGER)) = ?"
    " AND EXISTS (SELECT 1 FROM lake_record r WHERE r.scope = record_scope.scope)",
    "scope",
)
_KNOW_SCOPE = RECORD_SCOPE.insert("ON CONFLICT DO NOTHING")
_DRAW = "UPDATE record_scope SET last_revision = last_revision + ? WHERE scope = ? RETURNING last_revision"
_CHANGE = (
    "UPDATE lake_record SET revision = ?, txn_id = ?, recorded_at = ?, record_value = ?"
    " WHERE scope = ? AND record_key = ?"
)
_FORGET = "DELETE FROM lake_record WHERE scope = ? AND record_key = ANY_TEXT(?)"


class RecordReads:
    """The port `RecordReader` over a session."""

    _session: Session

    def record(self, scope: str, key: str) -> Record | None:
        """One record."""
        row = self._session.row(_ONE, (scope, key))
        return None if row is None else _record_of(row)

    def records(
        self, scope: str, *, after: str | None = None, limit: int | None = None, newest_first: bool = False
    ) -> list[Record]:
        """The records of a scope, by key, or newest first; `after` is the key of the last one that is known."""
        most = _NO_LIMIT if limit is None else limit
        if not newest_first:
            return [_record_of(row) for row in self._session.rows(_BY_KEY, (scope, after or "", most))]
        below = _NO_LIMIT
        if after is not None:
            last = self.record(scope, after)
            if last is None:
                raise NotFoundError(f'scope "{scope}" has no record "{after}" any more; begin again without after')
            below = last.revision
        return [_record_of(row) for row in self._session.rows(_NEWEST, (scope, below, most))]

    def recorded(self, scope: str, keys: Sequence[str]) -> set[str]:
        """Those of the keys that are on record."""
        return set(self._revisions(scope, keys))

    def record_scopes(self, prefix: str = "") -> list[str]:
        """The scopes that begin with the prefix and hold records, sorted."""
        return sorted(scope for (scope,) in self._session.rows(_SCOPES, (len(prefix), prefix)))

    def _revisions(self, scope: str, keys: Sequence[str]) -> dict[str, int]:
        if not keys:
            return {}
        rows = self._session.rows(_KNOWN, (scope, self._session.ids(list(keys))))
        return {key: int(revision) for key, revision in rows}


class RecordWrites(RecordReads):
    """The port `RecordWriter` over a session in a write transaction."""

    _broken: BaseException | None

    def put_records(self, records: Sequence[NewRecord], *, txn_id: str, at: datetime) -> None:
        """Writes the records; each scope is locked until the end. `RecordConflictError` if one is not as expected."""
        scopes: dict[str, list[NewRecord]] = {}
        for new in records:
            scopes.setdefault(new.scope, []).append(new)
        try:
            for scope in sorted(scopes):  # in one order, so that two writers never wait for each other
                self._put(scope, scopes[scope], txn_id, to_micros(at))
        except BaseException as error:
            self._broken = error
            raise

    def forget_records(self, scope: str, keys: Sequence[str]) -> int:
        """Takes records away, and returns how many there were."""
        self._draw(scope, 0)
        return self._session.change(_FORGET, (scope, self._session.ids(list(keys)))) if keys else 0

    def _put(self, scope: str, records: Sequence[NewRecord], txn_id: str, micros: int) -> None:
        last = self._draw(scope, len(records))
        there = self._revisions(scope, [new.key for new in records])
        wrong = [new for new in records if not expected(new, there.get(new.key))]
        if wrong:
            raise record_conflict(wrong[0], self.record(scope, wrong[0].key), len(wrong) - 1)
        rows: list[Row] = []
        for revision, new in enumerate(records, last - len(records) + 1):
            if new.key in there:
                self._session.change(_CHANGE, (revision, txn_id, micros, new.text, scope, new.key))
            else:
                rows.append((scope, new.key, revision, txn_id, micros, new.text))
        self._session.insert(RECORD, rows)

    def _draw(self, scope: str, count: int) -> int:
        """Locks the scope until the end, and returns the last of so many new revisions."""
        self._session.change(_KNOW_SCOPE, (scope, 0))
        row = self._session.row(_DRAW, (count, scope))
        assert row is not None
        return int(row[0])


def _record_of(row: Row) -> Record:
    scope, key, revision, txn_id, recorded_at, text = row
    return Record(scope, key, json.loads(text), int(revision), from_micros(recorded_at), txn_id)
