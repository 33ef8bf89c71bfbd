"""Rewriting files for callers that work with DuckDB.

DuckDB has nothing to compute here, and could only do harm: it verifies no page checksums, so that a damaged page would
come out as a sound one, and its `COPY` forgets zones, wide types, field metadata and what may be NULL. So rows go from
reader to writer of PyArrow, and both engines make the same files.
"""

from __future__ import annotations

from parqlake.engines.arrow.rewriting import rewrite_files

__all__ = ["rewrite_files"]
