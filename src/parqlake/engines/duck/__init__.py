"""Parts of the DuckDB engine: the statement, the stream that feeds it, the files that come out."""
