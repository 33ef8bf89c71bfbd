"""How a command ends: its exit code, and what an error looks like to somebody at a prompt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

OK = 0
ERROR = 1
USAGE = 2
CONFLICT = 3
NOT_FOUND = 4
UNHEALTHY = 5
"""Rows, files or tables are not as they should be."""
INTERRUPTED = 130
"""As shells say it of SIGINT."""
BROKEN_PIPE = 141
"""As shells say it of SIGPIPE: whoever read the output has gone."""

_CODES = {
    "ConflictError": CONFLICT,
    "NotFoundError": NOT_FOUND,
    "ConstraintError": UNHEALTHY,
    "DataCorruptionError": UNHEALTHY,
    "QualityError": UNHEALTHY,
    "SchemaMismatchError": ERROR,
    "InputError": USAGE,
}
"""By the names of errors, so that nothing is loaded as long as nothing went wrong; the nearest ancestor counts."""

_HINTS = {
    "LakeNotFoundError": "parqlake init FOLDER makes a lake there; parqlake doctor says where the lake is looked for",
    "TableNotFoundError": "parqlake ls lists the tables",
    "VersionNotFoundError": "parqlake log TABLE lists the versions and tags that are kept",
    "ConflictError": "nothing was changed; run the command again",
    "UnknownOutcomeError": "parqlake log TABLE shows whether the change is there; a repeat with the same --key is safe",
    "CatalogUnavailableError": "parqlake doctor looks at what can be reached",
    "DataCorruptionError": "parqlake check names what is damaged, and what mends it",
    "ColumnNotFoundError": "parqlake schema TABLE lists the columns",
}


class UsageError(Exception):
    """The command line is wrong, in a way that its parser cannot see."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as it is shown.

    Attributes:
        kind: the name of the error.
        message: what is wrong.
        hint: what to do next; None if the message says it all.
        code: the exit code.
    """

    kind: str
    message: str
    hint: str | None
    code: int

    def __str__(self) -> str:
        hint = f"\nhint: {self.hint}" if self.hint else ""
        return f"error: {self.message}{hint}"

    def to_dict(self) -> dict[str, Any]:
        """The same for machines."""
        return {"error": {"kind": self.kind, "message": self.message, "hint": self.hint, "exit_code": self.code}}


def failure_of(error: BaseException, *, hint: str | None = None) -> Failure:
    """What went wrong, in one paragraph, with this hint or the one that such errors have.

    Example:
        >>> failure_of(UsageError("give --yes")).code
        2
    """
    names = [kind.__name__ for kind in type(error).__mro__]
    hint = hint or next((_HINTS[name] for name in names if name in _HINTS), None)
    text = " ".join(str(error).split())
    if isinstance(error, UsageError):
        return Failure(names[0], text, hint, USAGE)
    if "ParqlakeError" in names:
        code = next((_CODES[name] for name in names if name in _CODES), ERROR)
        return Failure(names[0], text, hint, code)
    if isinstance(error, OSError):
        place = f": {error.filename}" if error.filename and error.filename not in text else ""
        return Failure(names[0], f"{text}{place}", hint, ERROR)
    return Failure(names[0], f"unexpected {names[0]}: {text}", "--debug shows where it comes from", ERROR)
