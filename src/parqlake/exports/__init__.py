"""Exports: a version of a table described in the metadata of another format, over the same data files."""
