"""`${NAME}` in what people configure: taken from the environment, so that no secret stands in a file."""

from __future__ import annotations

import re
from collections.abc import Mapping

from parqlake.core.errors import InvalidOptionError

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def expanded(text: str, where: str, environ: Mapping[str, str]) -> str:
    """The text with every `${NAME}` replaced; one that is not there is told by its name, never by a value.

    Args:
        text: what was configured.
        where: what it is called, for the error.
        environ: the environment.

    Example:
        >>> expanded("s3://${BUCKET}/lake", "lake", {"BUCKET": "sales"})
        's3://sales/lake'
    """

    def value(found: re.Match[str]) -> str:
        name = found.group(1)
        if name not in environ:
            raise InvalidOptionError(f"{where} wants ${{{name}}}, which the environment does not have; set {name}")
        return environ[name]

    return VARIABLE.sub(value, text)
