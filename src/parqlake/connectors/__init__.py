"""Connectors: what the catalog pruned, handed to DuckDB, Polars, DataFusion and Daft, and SQL over all tables.

Each is loaded when it is first used. They plan nothing themselves: a `Scan` says which files and row groups of which
version are to be read, and what has to be done to rows of older schemas.
"""
