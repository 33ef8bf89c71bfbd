"""Where the lake is: the command line says so, or the environment, or a parqlake.toml in this folder or one above."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parqlake.core.errors import InvalidOptionError, LakeNotFoundError, suggestion
from parqlake.core.variables import expanded

CONFIG = "parqlake.toml"
LAKE_VARIABLE = "PARQLAKE_LAKE"
CATALOG_VARIABLE = "PARQLAKE_CATALOG"
KEYS = ("lake", "catalog", "storage_options")
_FILE_URL = re.compile(r"(sqlite|duckdb):///(?!/)(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class LakeAddress:
    """What `connect` has to be told, and who said so.

    Attributes:
        root: the lake's folder or URL.
        catalog: the catalog's address; None for the one inside the folder.
        storage_options: what the store needs to know; may hold secrets, and is never shown.
        source: where it was found, for people.
    """

    root: str
    catalog: str | None = field(repr=False)
    source: str
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)


def find_lake(lake: str | None, catalog: str | None, *, environ: Mapping[str, str], folder: Path) -> LakeAddress:
    """The lake that a command is about.

    Whoever names the lake names its catalog too: a catalog of the environment never meets a lake of the command line.

    Args:
        lake: `--lake`, which wins.
        catalog: `--catalog`, which wins over the catalog of whoever names the lake.
        environ: the environment: `PARQLAKE_LAKE`, and `PARQLAKE_CATALOG` with it.
        folder: where to look for `parqlake.toml`, from here upwards.

    Raises:
        LakeNotFoundError: nobody says where it is.
        InvalidOptionError: `parqlake.toml` cannot be read, or names something that is not there.
    """
    if lake:
        return LakeAddress(lake, catalog, "--lake")
    if environ.get(LAKE_VARIABLE):
        return LakeAddress(environ[LAKE_VARIABLE], catalog or environ.get(CATALOG_VARIABLE) or None, LAKE_VARIABLE)
    config = find_config(folder)
    if config is None:
        raise LakeNotFoundError(
            f'no lake is named: give --lake, set {LAKE_VARIABLE}, or write lake = "…" into a {CONFIG} in this folder '
            "or one above"
        )
    return read_config(config, catalog, environ=environ)


def find_config(folder: Path) -> Path | None:
    """The `parqlake.toml` of this folder, or of the nearest one above that has one."""
    return next((place / CONFIG for place in (folder, *folder.parents) if (place / CONFIG).is_file()), None)


def read_config(path: Path, catalog: str | None, *, environ: Mapping[str, str]) -> LakeAddress:
    """What a `parqlake.toml` says; paths in it count from its folder, `${NAME}` is taken from the environment."""
    import tomllib

    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidOptionError(f"{path} cannot be read: {error}; mend it, or give --lake") from None
    for key in content:
        if key not in KEYS:
            raise InvalidOptionError(
                f'{path} has an unknown key "{key}";{suggestion(key, KEYS)} keys are {", ".join(KEYS)}'
            )
    values = {key: _expanded(value, f"{path}: {key}", environ) for key, value in content.items()}
    root, named, options = values.get("lake"), values.get("catalog"), values.get("storage_options", {})
    if not isinstance(root, str) or not root:
        raise InvalidOptionError(f'{path} names no lake; write for instance lake = "warehouse"')
    if named is not None and not isinstance(named, str):
        raise InvalidOptionError(f'{path}: catalog must be a text such as "postgresql://user@host/database"')
    if not isinstance(options, dict):
        raise InvalidOptionError(f"{path}: storage_options must be a table: [storage_options]")
    chosen = catalog or (None if named is None else _below(path.parent, named))
    return LakeAddress(_root(path.parent, root), chosen, str(path), options)


def _root(folder: Path, root: str) -> str:
    return root if "://" in root else str(folder / Path(root).expanduser())


def _below(folder: Path, catalog: str) -> str:
    """The catalog's address, with a file's path made one that does not depend on where the command is called."""
    found = _FILE_URL.fullmatch(catalog)
    if found is not None:
        return f"{found.group(1)}:///{folder / Path(found.group(2)).expanduser()}"
    return catalog if "://" in catalog else str(folder / Path(catalog).expanduser())


def _expanded(value: Any, where: str, environ: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _expanded(item, f"{where}.{key}", environ) for key, item in value.items()}
    if isinstance(value, list):
        return [_expanded(item, where, environ) for item in value]
    return expanded(value, where, environ) if isinstance(value, str) else value


def here() -> Path:
    """The folder that the command is called in."""
    return Path(os.path.abspath(Path()))  # noqa: PTH100  resolve() would follow links in what the user wrote
