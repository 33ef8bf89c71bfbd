"""New files of a folder: each is taken once, told by its path, its size, and its ETag or time of change."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatch
from typing import Any

from parqlake.core.errors import StoreError
from parqlake.core.records_port import LONGEST_KEY_BYTES
from parqlake.core.runs import RunInput
from parqlake.pipeline.reading import Reading, Taken, load_frame
from parqlake.table.lake import Lake


@dataclass(frozen=True, slots=True)
class NewFiles:
    """Files of a folder that no run has taken yet. Made by `new_files`."""

    folder: str
    format: str
    pattern: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    schema: str | None = None
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    min_age: timedelta = timedelta(0)
    max_files: int | None = None

    @property
    def tables(self) -> tuple[str, ...]:
        """None."""
        return ()

    @property
    def remembers(self) -> bool:
        """Yes, each file."""
        return True

    def look(self, lake: Lake, scope: str, known_version: Callable[[str], int]) -> str:  # noqa: ARG002
        """How many files are new."""
        found = self._new(lake, scope)
        size = sum(entry["size"] for entry in found.values())
        return f"{len(found):,} new files, {size:,} bytes, in {self.folder}"

    def take(self, reading: Reading) -> Taken:
        """The rows of the new files."""
        found = self._new(reading.lake, reading.scope)
        read = RunInput(self.folder, detail=f"{len(found)} new files")
        schema = self.schema
        if not found:
            empty = None if schema is None else lambda: reading.spark.createDataFrame([], schema)
            return Taken(None, (read,), empty=empty)
        paths = tuple(entry["path"] for entry in found.values())
        filesystem, root = self._opened()
        options = {"__globPaths__": "false", **_base_path(_address(filesystem, root), paths), **self.options}
        return Taken(load_frame(reading.spark, self.format, paths, options, schema), (read,), files=found)

    def _new(self, lake: Lake, scope: str) -> dict[str, dict[str, Any]]:
        listed = self._listed()
        known = lake.recorded(scope, listed) if listed else set()
        new = [(key, entry) for key, entry in listed.items() if key not in known]
        return dict(new[: self.max_files])

    def _opened(self) -> tuple[Any, str]:
        import fsspec

        from parqlake.stores.spellings import fsspec_options

        options = fsspec_options(self.folder.partition("://")[0], self.storage_options)
        filesystem, root = fsspec.core.url_to_fs(self.folder, **options)
        return filesystem, root

    def _listed(self) -> dict[str, dict[str, Any]]:
        """All files of the folder, oldest name first, by what tells one state of a file from another."""
        try:
            filesystem, root = self._opened()
            filesystem.invalidate_cache()  # what was listed for a run before says nothing about new files
            details = filesystem.find(root, detail=True)
        except (OSError, ValueError) as error:
            raise StoreError(f"{self.folder} cannot be listed: {error}; check the address") from error
        found: dict[str, dict[str, Any]] = {}
        limit = datetime.now(UTC) - self.min_age
        for path, detail in sorted(details.items()):
            below = path[len(root) :].lstrip("/")
            hidden = any(part.startswith(("_", ".")) for part in below.split("/"))
            if detail.get("type") == "directory" or hidden or not fnmatch(below, self.pattern):
                continue
            changed = _changed_at(detail)
            if self.min_age and changed is not None and changed > limit:
                continue  # somebody may still be writing it
            state = detail.get("ETag") or detail.get("etag") or (changed.isoformat() if changed else "")
            size = int(detail.get("size") or 0)
            address = _address(filesystem, path)
            found[_key(address, size, str(state).strip('"'))] = {"path": address, "size": size}
        return found


def _base_path(root: str, paths: Sequence[str]) -> dict[str, str]:
    """Has Spark make columns of folders like `day=2026-11-16`, as it does for a whole folder, if all are like that."""
    below = [path.removeprefix(root).strip("/").split("/")[:-1] for path in paths]
    if not all("=" in folder for folders in below for folder in folders):
        return {}
    names = {tuple(folder.partition("=")[0] for folder in folders) for folders in below}
    return {"basePath": root} if len(names) == 1 and names != {()} else {}


def _changed_at(detail: Mapping[str, Any]) -> datetime | None:
    """When a file was changed, by whichever name its file system has for that."""
    for name in ("mtime", "LastModified", "last_modified", "updated"):
        value = detail.get(name)
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value, UTC)
        if isinstance(value, datetime):
            return value.replace(tzinfo=UTC) if value.tzinfo is None else value
    return None


def _address(filesystem: Any, path: str) -> str:
    protocols = (filesystem.protocol,) if isinstance(filesystem.protocol, str) else tuple(filesystem.protocol)
    return path if "file" in protocols else str(filesystem.unstrip_protocol(path))


def _key(path: str, size: int, state: str) -> str:
    """What tells the file, in this state, from all others; long paths by their hash."""
    key = f"{path}|{size}|{state}"
    if len(key.encode()) <= LONGEST_KEY_BYTES:
        return key
    return f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"
