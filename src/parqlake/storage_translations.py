"""Storage options in the words of those who reach the store by themselves: object_store, PyArrow and DuckDB.

What comes out holds secrets in the clear: hand it on, and never show it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from parqlake.core.errors import InvalidOptionError

_OBJECT_STORE = {
    "s3": {
        "key": "aws_access_key_id",
        "secret": "aws_secret_access_key",
        "token": "aws_session_token",
        "region": "aws_region",
        "endpoint_url": "aws_endpoint",
        "anon": "aws_skip_signature",
        "requester_pays": "aws_request_payer",
    },
    "abfs": {
        "account_name": "azure_storage_account_name",
        "account_key": "azure_storage_account_key",
        "sas_token": "azure_storage_sas_token",
        "tenant_id": "azure_storage_tenant_id",
        "client_id": "azure_storage_client_id",
        "client_secret": "azure_storage_client_secret",
        "anon": "azure_skip_signature",
    },
    "gs": {"token": "google_service_account", "anon": "google_skip_signature"},
}
_PYARROW = {
    "s3": {
        "key": "access_key",
        "secret": "secret_key",
        "token": "session_token",
        "region": "region",
        "anon": "anonymous",
    },
    "abfs": {
        "account_name": "account_name",
        "account_key": "account_key",
        "sas_token": "sas_token",
        "tenant_id": "tenant_id",
        "client_id": "client_id",
        "client_secret": "client_secret",
    },
    "gs": {"project": "project_id", "anon": "anonymous"},
}
_DUCKDB = {
    "s3": {
        "key": "key_id",
        "secret": "secret",
        "token": "session_token",
        "profile": "profile",
        "region": "region",
        "requester_pays": "requester_pays",
    },
    "abfs": {
        "account_name": "account_name",
        "connection_string": "connection_string",
        "tenant_id": "tenant_id",
        "client_id": "client_id",
        "client_secret": "client_secret",
    },
    "gs": {},
}
_GCSFS_WORDS = {"google_default", "cache", "cloud", "browser"}
_DUCKDB_TYPES = {"s3": "s3", "abfs": "azure", "gs": "gcs"}


def object_store_options(protocol: str, given: Mapping[str, Any]) -> dict[str, str]:
    """What object_store takes, and so Polars (`storage_options=`), deltalake and obstore (`from_url(config=)`)."""
    left = dict(given)
    found: dict[str, str] = {}
    if protocol == "s3":
        if str(left.get("endpoint_url", "")).startswith("http://"):
            found["aws_allow_http"] = "true"
        path_style = left.pop("path_style", None)
        if path_style is not None:
            found["aws_virtual_hosted_style_request"] = "false" if path_style else "true"
    if protocol == "gs":
        left.pop("project", None)  # reading and writing objects needs none
        if isinstance(left.get("token"), Mapping):
            found["google_service_account_key"] = json.dumps(dict(left.pop("token")))
        elif left.get("token") in _GCSFS_WORDS:
            raise InvalidOptionError(
                f'object_store has no word for token="{left["token"]}"; leave it out, or give the path of a key file'
            )
    renamed = _renamed(_OBJECT_STORE[protocol], left, "object_store")
    return {**{name: _text(value) for name, value in renamed.items()}, **found}


def pyarrow_options(protocol: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """What `pyarrow.fs.S3FileSystem`, `AzureFileSystem` or `GcsFileSystem` takes."""
    left = dict(given)
    found: dict[str, Any] = {}
    if left.pop("path_style", None) is False:  # the other way is PyArrow's own
        found["force_virtual_addressing"] = True
    if protocol == "abfs" and left.get("anon") is False:
        del left["anon"]  # the credentials of the surroundings, which PyArrow looks for by itself
    endpoint = left.pop("endpoint_url", None)
    if endpoint:
        found["scheme"], found["endpoint_override"] = _parts(endpoint)
    return {**_renamed(_PYARROW[protocol], left, "PyArrow"), **found}


def duckdb_options(protocol: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of DuckDB's `CREATE SECRET`, by name, `type` first."""
    left = dict(given)
    found: dict[str, Any] = {"type": _DUCKDB_TYPES[protocol]}
    if protocol == "s3":
        endpoint = left.pop("endpoint_url", None)
        if endpoint:
            scheme, found["endpoint"] = _parts(endpoint)
            found["use_ssl"] = scheme == "https"
        path_style = left.pop("path_style", None)
        if path_style is not None or endpoint:  # DuckDB would ask for bucket.localhost, which s3fs would not
            found["url_style"] = "vhost" if path_style is False else "path"
        if "profile" in left:
            found["provider"] = "credential_chain"
        left.pop("anon", None)  # a secret without keys is just that
    elif "client_secret" in left:
        found["provider"] = "service_principal"
    elif protocol == "abfs" and left.get("anon") is False and "connection_string" not in left:
        found["provider"] = "credential_chain"
    if left.get("anon") is False:
        del left["anon"]
    return {**found, **_renamed(_DUCKDB[protocol], left, "DuckDB")}


def _renamed(names: Mapping[str, str], given: Mapping[str, Any], whose: str) -> dict[str, Any]:
    for field in given:
        if field not in names:
            raise InvalidOptionError(f"{whose} has no word for {field}; leave it out, or read through parqlake")
    return {names[field]: value for field, value in given.items()}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parts(endpoint: str) -> tuple[str, str]:
    scheme, _, host = endpoint.rpartition("://")
    return scheme or "https", host.rstrip("/")
