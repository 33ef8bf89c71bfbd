"""Stores: immutable files under one root, on any file system that fsspec reaches."""

from parqlake.stores.fsspec_store import FsspecStore
from parqlake.stores.local_store import LocalStore
from parqlake.stores.opening import open_store

__all__ = ["FsspecStore", "LocalStore", "open_store"]
