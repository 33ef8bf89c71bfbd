"""A table of made-up files with what it must hold, and a knife between the steps of a vacuum."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import uuid_utils
from writer import SCHEMA

from parqlake import Lake, Table
from parqlake.core.model import DataFile, Operation
from parqlake.core.ports import StoredFile
from parqlake.core.retention import ReaderLease
from parqlake.table.commit import TableChange
from parqlake.table.context import LakeContext
from parqlake.table.unit import Unit


@dataclass
class Knife:
    """Calls `act` around the calls of store and catalog that change something or that decisions rest on."""

    act: Callable[[str], None]

    def context(self, context: LakeContext) -> LakeContext:
        return replace(context, store=WatchedStore(context.store, self), catalog=WatchedCatalog(context.catalog, self))


class WatchedStore:
    """The store, with a knife around each call."""

    def __init__(self, store: Any, knife: Knife) -> None:
        self._store, self._knife = store, knife

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def list_files(self, prefix: str) -> Iterable[StoredFile]:
        self._knife.act("before list")
        found = list(self._store.list_files(prefix))
        self._knife.act("after list")
        return found

    def delete(self, paths: Sequence[str]) -> None:
        self._knife.act("before delete")
        for path in paths:
            self._store.delete([path])
            self._knife.act("amid delete")


class WatchedCatalog:
    """The catalog, with a knife around each call."""

    def __init__(self, catalog: Any, knife: Knife) -> None:
        self._catalog, self._knife = catalog, knife

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    @contextmanager
    def read(self, *, settled: bool = False) -> Iterator[Any]:
        self._knife.act("before read")
        with self._catalog.read(settled=settled) as reader:
            yield reader
        self._knife.act("after read")

    @contextmanager
    def write(self) -> Iterator[Any]:
        self._knife.act("before write")
        with self._catalog.write() as writer:
            yield writer
        self._knife.act("after write")

    def abort_transaction(self, txn_id: str) -> bool:
        self._knife.act("before abort")
        aborted: bool = self._catalog.abort_transaction(txn_id)
        self._knife.act("after abort")
        return aborted


@dataclass
class Pending:
    """A transaction under way: its unit, and the files that it has written."""

    unit: Unit
    files: list[DataFile]


@dataclass
class Model:
    """A table of made-up files, and what each version must hold. Nobody opens the files: that they are there is all."""

    lake: Lake
    random: random.Random
    name: str = "a.rows"
    versions: dict[int, frozenset[str]] = field(default_factory=dict)
    pending: list[Pending] = field(default_factory=list)
    leases: dict[str, int] = field(default_factory=dict)
    table: Table = field(init=False)

    def __post_init__(self) -> None:
        self.table = self.lake.create_table(self.name, SCHEMA)

    # ---- what others do

    def append(self) -> None:
        with self._begin() as unit:
            self._commit(unit, self._write(unit))

    def overwrite(self) -> None:
        with self._begin() as unit:
            self._commit(unit, self._write(unit), replace_all=True)

    def remove(self) -> None:
        with self.lake.context.catalog.read() as reader:
            head = reader.head(self.table.info.table_id)
            live = reader.files(head.table_id, head.version) if head.version else []
        if live:
            gone = self.random.sample(live, self.random.randint(1, len(live)))
            with self._begin() as unit:
                self._commit(unit, self._write(unit), remove=tuple(gone))

    def restore(self) -> None:
        kept = self._kept()
        if kept:
            with self._begin() as unit:
                self._commit(unit, [], restore_version=self.random.choice(kept))

    def start(self) -> None:
        unit = self._begin().__enter__()
        self.pending.append(Pending(unit, self._write(unit)))

    def finish(self) -> None:
        if self.pending:
            pending = self.pending.pop(self.random.randrange(len(self.pending)))
            self._commit(pending.unit, pending.files)
            pending.unit.__exit__(None, None, None)

    def leave_behind(self) -> None:
        """A writer dies with its files written; its lease runs out."""
        unit = self._begin().__enter__()
        self._write(unit)
        self.lake.context.catalog.renew_lease(unit.txn_id, timedelta(hours=-1))

    def tag(self) -> None:
        kept = self._kept()
        if kept:
            self.table.tag(self.random.choice(["x", "y"]), version=self.random.choice(kept))

    def hold(self) -> None:
        kept = self._kept()
        if kept:
            self._hold(self.random.choice(kept))

    def hold_late(self) -> None:
        """A reader that began before its version expired takes its lease only now, and well before the files may go."""
        stored, kept = self.stored(), self._kept()
        late = [v for v, files in sorted(self.versions.items()) if v not in kept and files and files <= stored]
        if late:
            self._hold(self.random.choice(late))

    def release(self) -> None:
        if self.leases:
            name = self.random.choice(sorted(self.leases))
            with self.lake.context.catalog.write() as writer:
                writer.release_versions(name)
            del self.leases[name]

    def expire(self) -> None:
        self.table.expire(keep_last=self.random.randint(1, 3), keep_tags=self.random.random() < 0.8)

    def recover(self) -> None:
        self.lake.recover()

    def vacuum(self) -> None:
        self.table.vacuum(0, force=True)

    # ---- what must hold

    def check(self) -> None:
        stored = self.stored()
        held = set(self.leases.values())
        with self.lake.context.catalog.read() as reader:
            for version in reader.kept_versions(self.table.info.table_id):
                found = {entry.path for entry in reader.files(self.table.info.table_id, version)}
                assert found == self.versions[version], f"version {version} has other files than it had"
                held.add(version)
        for version in held:
            assert self.versions[version] <= stored, f"version {version} lost {self.versions[version] - stored}"
        for pending in self.pending:
            assert {file.path for file in pending.files} <= stored, "an open transaction lost a file"

    def stored(self) -> set[str]:
        location = self.table.location
        return {file.path[len(location) + 1 :] for file in self.lake.context.store.list_files(location)}

    def needed(self) -> set[str]:
        return {path for version in self._kept() for path in self.versions[version]}

    # ---- inside

    def _kept(self) -> list[int]:
        with self.lake.context.catalog.read() as reader:
            return reader.kept_versions(self.table.info.table_id)

    def _hold(self, version: int) -> None:
        name, until = str(uuid_utils.uuid7()), datetime.now(UTC) + timedelta(hours=1)
        with self.lake.context.catalog.write() as writer:
            writer.hold_versions(ReaderLease(name, self.table.info.table_id, version, version, "me", until))
        self.leases[name] = version

    def _begin(self) -> Unit:
        ids = [self.table.info.table_id]
        return Unit(self.lake.context, operation="append", engine="none", table_ids=ids)

    def _write(self, unit: Unit) -> list[DataFile]:
        files = []
        for _ in range(self.random.randint(1, 2)):
            name, one = f"part-{uuid_utils.uuid7()}.parquet", np.ones(1, dtype=np.int64)
            path = f"{self.table.location}/{name}"
            unit.track([path])
            self.lake.context.store.write_bytes(path, b"x")
            files.append(DataFile(name, 1, 1, one, one, one))
        return files

    def _commit(self, unit: Unit, files: Sequence[DataFile], **how: Any) -> None:
        with self.lake.context.catalog.read() as reader:
            head = reader.head(self.table.info.table_id)
        change = TableChange(self.table.info, head, Operation.OVERWRITE, add=tuple(files), **how)
        (snapshot,) = unit.commit([change]).values()
        with self.lake.context.catalog.read() as reader:
            entries = reader.files(self.table.info.table_id, snapshot.version)
        self.versions[snapshot.version] = frozenset(entry.path for entry in entries)
