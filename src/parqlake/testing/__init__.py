"""Fixtures for testing parqlake and its backends: real lakes over any mix of engine, catalog and store.

Load the plugin in your `conftest.py`, then ask for the fixture `lake`, and each test runs once for each backend:

    pytest_plugins = ["parqlake.testing.plugin"]

    def test_append(lake):
        ...

`--engines`, `--catalogs`, `--stores` choose what takes part; `--matrix full` runs every mix instead of a star around
PyArrow, SQLite and a local folder.
"""
