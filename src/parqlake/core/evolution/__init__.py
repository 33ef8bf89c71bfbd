"""Schemas that change: what a field carries besides its type, how old files are read, and which changes are sound."""
