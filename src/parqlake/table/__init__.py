"""Use cases: lake, table, transaction, scan, write, history."""
