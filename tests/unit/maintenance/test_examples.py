"""The examples in the docstrings of planning and clustering are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import parqlake.core.clustering
import parqlake.core.maintenance

MODULES = [
    f"{package.__name__}.{module.name}"
    for package in (parqlake.core.maintenance, parqlake.core.clustering)
    for module in pkgutil.iter_modules(package.__path__)
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
