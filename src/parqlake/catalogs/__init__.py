"""Catalogs: which files make up which version of which table, kept in SQLite, DuckDB or PostgreSQL."""
