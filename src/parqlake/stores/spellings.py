"""Storage options in the usual spellings, read as one: those of fsspec, object_store, PyArrow and DuckDB.

object_store's are also those of Polars, deltalake and obstore. Names are taken in any case, so that environment
variables serve as they are: `AWS_ACCESS_KEY_ID`. The fields are those of the classes in `parqlake.storage_options`.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any

from parqlake.core.errors import InvalidOptionError, suggestion

ANONYMOUS = "anon"
"""gcsfs's word for a token that is none."""
_PREFIXES = {"s3": ("aws_",), "azure": ("azure_storage_", "azure_"), "gcs": ("google_", "gcs_")}
_CLOUDS = {
    **dict.fromkeys(("s3", "s3a"), "s3"),
    **dict.fromkeys(("abfs", "abfss", "az", "adl"), "azure"),
    **dict.fromkeys(("gs", "gcs"), "gcs"),
}
_NAMES = {
    "s3": {
        "key": ("access_key_id", "access_key", "key_id"),
        "secret": ("secret_access_key", "secret_key"),
        "token": ("session_token",),
        "profile": (),
        "region": ("default_region", "region_name"),
        "endpoint_url": ("endpoint", "endpoint_override", "endpoint_url_s3"),
        "anon": ("anonymous", "skip_signature"),
        "path_style": (),
        "requester_pays": ("request_payer",),
    },
    "azure": {
        "account_name": ("account",),
        "account_key": ("access_key", "master_key"),
        "connection_string": (),
        "sas_token": ("sas_key",),
        "tenant_id": ("authority_id",),
        "client_id": (),
        "client_secret": (),
        "anon": ("anonymous", "skip_signature"),
    },
    "gcs": {
        "project": ("project_id",),
        "token": ("credentials", "service_account", "service_account_path", "application_credentials"),
        "endpoint_url": ("endpoint", "endpoint_override"),
        "anon": ("anonymous", "skip_signature"),
        "requester_pays": (),
    },
}
"""For each field, the other names that it goes by; each also with the cloud's prefix."""
_TRANSPORT = {"allow_http", "scheme", "use_ssl"}
"""What says whether an endpoint without `http://` or `https://` is the one or the other."""
_STYLES = {"url_style", "virtual_hosted_style_request", "force_virtual_addressing"}
_NESTED = {"s3": ("client_kwargs", "config_kwargs")}
_TRUE = {"true", "1", "requester"}
_FALSE = {"false", "0"}
_FLAGS = {"anon", "path_style", "requester_pays"}
_OF_TWO_MINDS = {"s3": {"path_style"}, "azure": {"anon"}}
"""Flags for which False is not what the file system does if it is told nothing."""


def spelled(protocol: str, options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Storage options by field, and those that are no field's, under the names that they came with.

    Raises:
        InvalidOptionError: a field is given twice by different values, or a flag is neither true nor false. No value
            is shown.

    Example:
        >>> spelled("s3", {"AWS_ACCESS_KEY_ID": "k", "endpoint_override": "localhost:9000", "scheme": "http"})
        ({'key': 'k', 'endpoint_url': 'http://localhost:9000'}, {})
    """
    cloud = _CLOUDS[protocol]
    known = {name: field for field, others in _NAMES[cloud].items() for name in (field, *others)}
    fields: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    transport: dict[str, Any] = {}
    for given, value in _flattened(cloud, options).items():
        name = _plain_name(cloud, given)
        if value is None:
            continue
        if name in _TRANSPORT and cloud != "azure":
            transport[name] = value
        elif name in _STYLES and cloud == "s3":
            _put(fields, "path_style", _is_path_style(name, given, value), given)
        elif name == "service_account_key" and cloud == "gcs":
            _put(fields, "token", _json(given, value), given)
        elif name in known:
            field = known[name]
            _put(fields, field, _flag(given, value) if field in _FLAGS else value, given)
        else:
            rest[given] = value
    if isinstance(fields.get("endpoint_url"), str):
        fields["endpoint_url"] = _with_scheme(fields["endpoint_url"], transport)
    if cloud == "gcs" and fields.get("token") == ANONYMOUS:
        del fields["token"]
        _put(fields, "anon", True, "token")
    for flag in _FLAGS & set(fields) - _OF_TWO_MINDS.get(cloud, set()):
        if fields[flag] is False:
            del fields[flag]  # which it is anyway
    return fields, rest


def fsspec_options(protocol: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """What the fsspec file system takes, from options in any spelling; what nobody knows is passed on as it is.

    Raises:
        InvalidOptionError: see `spelled`; also for a name that is nobody's, but close to one that is.
    """
    if protocol not in _CLOUDS:
        return dict(options)
    fields, rest = spelled(protocol, options)
    names = spellings(protocol)
    own = _own_options(protocol)
    for name in rest:
        hint = suggestion(name, names) if name not in own else ""
        if hint:
            raise InvalidOptionError(f'storage_options: "{name}" is unknown;{hint} mend it, or leave it out')
    return merged(fsspec_arguments(protocol, fields), rest)


def fsspec_arguments(protocol: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """What the fsspec file system takes, from options by field."""
    cloud, arguments = _CLOUDS[protocol], dict(fields)
    if cloud == "s3":
        region, path_style = arguments.pop("region", None), arguments.pop("path_style", None)
        if region:
            arguments["client_kwargs"] = {"region_name": region}
        if path_style is not None:
            arguments["config_kwargs"] = {"s3": {"addressing_style": "path" if path_style else "virtual"}}
    elif cloud == "gcs" and arguments.pop("anon", False):
        arguments["token"] = ANONYMOUS
    return arguments


def spellings(protocol: str) -> list[str]:
    """All names, without prefixes, that options of the protocol's cloud go by."""
    cloud = _CLOUDS[protocol]
    names = [name for field, others in _NAMES[cloud].items() for name in (field, *others)]
    return [*names, *sorted(_TRANSPORT | _STYLES if cloud == "s3" else _TRANSPORT), *_NESTED.get(cloud, ())]


def merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Both, mappings inside of them joined, too; the first wins."""
    joined = {**other, **one}
    for name in one.keys() & other.keys():
        if isinstance(one[name], Mapping) and isinstance(other[name], Mapping):
            joined[name] = merged(one[name], other[name])
    return joined


def _flattened(cloud: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """s3fs has some options inside of others; those that are fields come out, the rest stays where it was."""
    found = {str(name): value for name, value in options.items() if name not in _NESTED.get(cloud, ())}
    if cloud != "s3":
        return found
    client = dict(options.get("client_kwargs") or {})
    for name in ("region_name", "endpoint_url", "aws_access_key_id", "aws_secret_access_key", "aws_session_token"):
        if name in client:
            found.setdefault(name, client.pop(name))
    config = dict(options.get("config_kwargs") or {})
    s3 = dict(config.get("s3") or {})
    if "addressing_style" in s3 and s3["addressing_style"] in ("path", "virtual"):
        found["url_style"] = "path" if s3.pop("addressing_style") == "path" else "vhost"
        config["s3"] = s3
        if not s3:
            del config["s3"]
    return {**found, **{name: left for name, left in (("client_kwargs", client), ("config_kwargs", config)) if left}}


def _plain_name(cloud: str, given: str) -> str:
    name = given.lower()
    for prefix in _PREFIXES[cloud]:
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


def _put(fields: dict[str, Any], field: str, value: Any, given: str) -> None:
    if field in fields and fields[field] != value:
        raise InvalidOptionError(f'storage_options: {field} is given twice, once as "{given}"; give it once')
    fields[field] = value


def _flag(given: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).lower()
    if text in _TRUE | _FALSE:
        return text in _TRUE
    raise InvalidOptionError(f"storage_options: {given} is {value!r}; give True or False")


def _is_path_style(name: str, given: str, value: Any) -> bool:
    if name == "url_style":
        if value not in ("path", "vhost"):
            raise InvalidOptionError(f'storage_options: "{given}" is {value!r}; give "path" or "vhost"')
        return bool(value == "path")
    return not _flag(given, value)


def _json(given: str, value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        raise InvalidOptionError(f'storage_options: "{given}" is no JSON; give a service account\'s') from None


def _with_scheme(endpoint: str, transport: Mapping[str, Any]) -> str:
    if "://" in endpoint:
        return endpoint
    if "scheme" in transport:
        return f"{transport['scheme']}://{endpoint}"
    plain = not _flag("use_ssl", transport["use_ssl"]) if "use_ssl" in transport else False
    plain = plain or ("allow_http" in transport and _flag("allow_http", transport["allow_http"]))
    return f"{'http' if plain else 'https'}://{endpoint}"


def _own_options(protocol: str) -> set[str]:
    """What the file system itself names as its arguments; nothing, if it is not installed."""
    import fsspec  # 0.1 s of every start, and a local folder needs it not

    try:
        kind = fsspec.get_filesystem_class(protocol)
    except (ImportError, ValueError):
        return set()
    return set(inspect.signature(kind.__init__).parameters) | {
        "use_listings_cache",
        "listings_expiry_time",
        "max_paths",
        "skip_instance_cache",
        "asynchronous",
        "loop",
        "batch_size",
    }
