"""How bad a finding is, be it one of a check or one of a table's health."""

from __future__ import annotations

from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    """Rows are lost or wrong, or would be; or a table cannot be maintained."""
    WARNING = "warning"
    """Nothing is wrong yet, and something ought to be done."""
    INFO = "info"
    """Good to know; nothing has to be done."""
