"""Paths below a root never leave it; URLs are shown without secrets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parqlake.core.errors import UnsafePathError
from parqlake.stores import open_store
from parqlake.stores.paths import safe_path, shown_url


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a/b/c.parquet", "a/b/c.parquet"),
        ("a//b/./c/", "a/b/c"),
        ("./a", "a"),
        ("p=..x/y", "p=..x/y"),
        ("a/...", "a/..."),
        ("p=a%2Fb/ä 1.parquet", "p=a%2Fb/ä 1.parquet"),
        ("~/x", "~/x"),
    ],
)
def test_one_spelling_for_each_path(path: str, expected: str) -> None:
    assert safe_path(path) == expected


@pytest.mark.parametrize(
    "path",
    [
        *("", ".", "/", "/etc/passwd", "..", "../x", "a/../../x", "a/../b", "a\\b", "..\\x", "a\0b", "C:/x", "c:x"),
        *("file:///etc/passwd", "s3://bucket/x", "a/memory://x", "//host/share"),
    ],
)
@pytest.mark.parametrize("root", ["memory://lake", "folder"])
def test_ways_out_are_refused(path: str, root: str) -> None:
    store = open_store(root)
    for call in (store.full_path, store.full_url, store.read_bytes, store.exists, lambda p: store.delete([p])):
        with pytest.raises(UnsafePathError, match="relative to the root"):
            call(path)
    with pytest.raises(UnsafePathError):
        store.write_bytes(path, b"x")
    with pytest.raises(UnsafePathError):
        store.sync([path])


def test_a_path_that_is_no_string_is_refused() -> None:
    with pytest.raises(UnsafePathError, match="int"):
        safe_path(7)  # type: ignore[arg-type]


@given(st.text(alphabet="ab./\\:\0~% é", max_size=12))
def test_whatever_is_accepted_stays_inside(path: str) -> None:
    try:
        safe = safe_path(path)
    except UnsafePathError:
        return
    assert safe
    assert not safe.startswith("/")
    assert ".." not in safe.split("/")
    assert safe_path(safe) == safe


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("s3://key:s3cret@bucket/a", "s3://***@bucket/a"),
        ("ftp://user:p%40ss@host:21/a", "ftp://***@host:21/a"),
        ("https://host/a?sig=s3cret#s3cret", "https://host/a"),
        ("memory://", "memory://"),
        ("memory://lake", "memory://lake"),
        ("/data/a@b?c", "/data/a@b?c"),
    ],
)
def test_urls_are_shown_without_secrets(url: str, expected: str) -> None:
    assert shown_url(url) == expected
