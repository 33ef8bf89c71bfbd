"""From a path or URL to a store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from parqlake.core.errors import InvalidOptionError, MissingExtraError, StoreError
from parqlake.stores.fsspec_store import FsspecStore
from parqlake.stores.local_store import LocalStore
from parqlake.stores.paths import shown_url
from parqlake.stores.spellings import fsspec_options

_LOCAL = ("file://", "local://")
_EXTRAS = {
    "s3": ("s3fs", "s3"),
    "s3a": ("s3fs", "s3"),
    "gs": ("gcsfs", "gcs"),
    "gcs": ("gcsfs", "gcs"),
    "az": ("adlfs", "azure"),
    "abfs": ("adlfs", "azure"),
    "abfss": ("adlfs", "azure"),
    "adl": ("adlfs", "azure"),
}


@runtime_checkable
class FilesystemOptions(Protocol):
    """Options that know their file system, as those of `parqlake.storage_options` do."""

    protocols: ClassVar[tuple[str, ...]]

    def to_filesystem(self) -> Any:
        """The fsspec file system."""


def open_store(
    root: str | os.PathLike[str], storage_options: FilesystemOptions | Mapping[str, Any] | None = None
) -> FsspecStore:
    """Opens the store at a local path or an fsspec URL; touches nothing yet.

    Args:
        root: a path (relative, absolute, with `~`, or `file://…`), or a URL such as `memory://lake`.
        storage_options: one of `parqlake.storage_options`, or a mapping: credentials for instance, for S3, Azure and
            Google in the usual spellings (see `stores.spellings`), else what the fsspec file system takes. Never shown.

    Raises:
        MissingExtraError: the package for the protocol is not installed.
        InvalidOptionError: the root is empty, its protocol is unknown, or the options are for another one.
    """
    text = os.fspath(root) if isinstance(root, str | os.PathLike) else root
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise InvalidOptionError(f"the root {root!r} is no path; give a folder or a URL such as s3://bucket/folder")
    is_local = "://" not in text or text.startswith(_LOCAL)
    if storage_options is not None and not isinstance(storage_options, Mapping):
        _check_options(text, "file" if is_local else text.partition("://")[0], storage_options)
        if not is_local:
            filesystem = storage_options.to_filesystem()
            return FsspecStore(filesystem, filesystem._strip_protocol(text), url=text)
        storage_options = None
    if is_local:
        if storage_options:
            raise InvalidOptionError("storage_options are for remote stores; a local folder takes none")
        return LocalStore(_local_root(text), url=text)
    return FsspecStore(*_remote(text, dict(storage_options or {})), url=text)


def _check_options(text: str, protocol: str, options: object) -> None:
    if not isinstance(options, FilesystemOptions):
        raise InvalidOptionError(
            f"storage_options are a {type(options).__name__}; give a mapping, or one of parqlake.storage_options"
        )
    if protocol not in options.protocols:
        raise InvalidOptionError(
            f'"{shown_url(text)}" is no address for {type(options).__name__}, which are for '
            f"{', '.join(options.protocols)}; give the options of its store, or leave them out"
        )


def _remote(url: str, options: dict[str, Any]) -> tuple[Any, str]:
    protocol, shown = url.partition("://")[0], shown_url(url)
    import fsspec  # 0.1 s of every start, and a local folder needs it not

    options = fsspec_options(protocol, options)
    try:
        filesystem, path = fsspec.core.url_to_fs(url, **options)
    except ImportError as error:
        package, extra = _EXTRAS.get(protocol, (f"the file system for {protocol}://", "all"))
        raise MissingExtraError(package, extra) from error
    except (TypeError, ValueError) as error:
        # The cause stays hidden where it may quote the options, and so secrets.
        if "not known" in str(error):
            raise InvalidOptionError(f'unknown protocol in "{shown}"; known are s3, gs, abfs, memory, …') from None
        given = ", ".join(sorted(options)) or "none"
        raise InvalidOptionError(f'cannot open "{shown}" with the storage_options given: {given}') from None
    except OSError as error:
        raise StoreError(f'cannot reach "{shown}": {type(error).__name__}; check address and network') from error
    return filesystem, path


def _local_root(text: str) -> str:
    for prefix in _LOCAL:
        text = text.removeprefix(prefix)
    expanded = Path(text).expanduser()
    return Path(os.path.abspath(expanded)).as_posix()  # noqa: PTH100  resolve() would follow links in what the user wrote
