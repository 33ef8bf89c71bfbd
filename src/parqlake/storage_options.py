"""How to reach a cloud's storage: typed options that make an fsspec file system and never show a secret.

Example:
    >>> AwsStorageOptions(key="AKIA123", secret="hush", region="eu-central-1")
    AwsStorageOptions(key='***', secret='***', region='eu-central-1')
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

from parqlake.core.errors import InvalidOptionError, MissingExtraError, suggestion
from parqlake.storage_translations import duckdb_options, object_store_options, pyarrow_options
from parqlake.stores.paths import shown_url
from parqlake.stores.spellings import ANONYMOUS, fsspec_arguments, spelled, spellings

_HIDDEN = "***"
_ADDRESSES = {"endpoint_url"}


class StorageOptions:
    """What all storage options can do; make one of the classes below, or use `from_dict` or `from_env`."""

    __slots__ = ()

    protocols: ClassVar[tuple[str, ...]] = ()
    """The protocols of addresses that the options are for; the first is the usual one."""
    secrets: ClassVar[frozenset[str]] = frozenset()
    """Fields that are never shown."""
    choices: ClassVar[frozenset[str]] = frozenset()
    """Flags that say one thing if True, another if False, and leave it to the cloud's own client if left out."""
    variables: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """The environment variables that `from_env` looks into for a field; the first that is set wins."""
    package: ClassVar[tuple[str, str]] = ("fsspec", "all")
    """The package that brings the file system, and the extra that brings the package."""

    def __post_init__(self) -> None:
        """Raises `InvalidOptionError` for values of a wrong kind, and for those that contradict one another."""
        for option in fields(self):  # type: ignore[arg-type]
            value = getattr(self, option.name)
            if isinstance(option.default, bool) or option.name in self.choices:
                if not isinstance(value, bool) and value is not option.default:
                    raise self._wrong(option.name, value, "True or False")
            elif value is not None and (not isinstance(value, self._kinds(option.name)) or not value):
                raise self._wrong(option.name, value, "a string that is not empty")
        self._check()

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self._given().items())
        return f"{type(self).__name__}({shown})"

    def __str__(self) -> str:
        return repr(self)

    @property
    def protocol(self) -> str:
        """The protocol of addresses, such as `s3`."""
        return self.protocols[0]

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Takes what the usual environment variables say; what none says is left to the cloud's own client."""
        source = os.environ if environ is None else environ
        found = {}
        for name, variables in cls.variables.items():
            value = next((source[variable] for variable in variables if source.get(variable)), None)
            if value is not None:
                found[name] = value
        return cls(**cls._from_variables(found))

    def to_dict(self, *, with_secrets: bool = False) -> dict[str, Any]:
        """What was given, by field, with `protocol`; `from_dict` takes it back. Secrets only on request."""
        given: dict[str, Any] = {"protocol": self.protocol}
        for option in fields(self):  # type: ignore[arg-type]
            value = getattr(self, option.name)
            if value != option.default and (with_secrets or option.name not in self.secrets):
                given[option.name] = value if with_secrets else self._shown(option.name, value)
        return given

    def to_filesystem(self) -> Any:
        """The fsspec file system.

        Raises:
            MissingExtraError: the package for it is not installed.
            InvalidOptionError: the package refuses the options.
        """
        import fsspec  # 0.1 s of every start, and a local folder needs it not

        try:
            return fsspec.filesystem(self.protocol, **self.to_fsspec())
        except ImportError as error:
            raise MissingExtraError(*self.package) from error
        except (TypeError, ValueError):  # the cause may quote the options, and so secrets
            given = ", ".join(self._given()) or "none"
            raise InvalidOptionError(f"the {self.protocol} file system refuses the options given: {given}") from None

    def to_fsspec(self) -> dict[str, Any]:
        """What the fsspec file system takes, secrets in the clear."""
        return self._fields() if self.protocol == "file" else fsspec_arguments(self.protocol, self._fields())

    def to_object_store(self) -> dict[str, str]:
        """What object_store takes, secrets in the clear: for Polars, deltalake and obstore.

        Example:
            >>> AwsStorageOptions(region="eu-west-1", endpoint_url="http://localhost:9000").to_object_store()
            {'aws_region': 'eu-west-1', 'aws_endpoint': 'http://localhost:9000', 'aws_allow_http': 'true'}
        """
        return object_store_options(self._remote(), self._fields())

    def to_pyarrow(self) -> dict[str, Any]:
        """What the file system of `pyarrow.fs` takes, secrets in the clear.

        Example:
            >>> AwsStorageOptions(region="eu-west-1", endpoint_url="http://localhost:9000").to_pyarrow()
            {'region': 'eu-west-1', 'scheme': 'http', 'endpoint_override': 'localhost:9000'}
        """
        return pyarrow_options(self._remote(), self._fields())

    def to_duckdb(self) -> dict[str, Any]:
        """The parameters of DuckDB's `CREATE SECRET`, secrets in the clear.

        Example:
            >>> AwsStorageOptions(region="eu-west-1", endpoint_url="http://localhost:9000").to_duckdb()
            {'type': 's3', 'endpoint': 'localhost:9000', 'use_ssl': False, 'url_style': 'path', 'region': 'eu-west-1'}
        """
        return duckdb_options(self._remote(), self._fields())

    def _fields(self) -> dict[str, Any]:
        return {name: value for name, value in self.to_dict(with_secrets=True).items() if name != "protocol"}

    def _remote(self) -> str:
        if self.protocol == "file":
            raise InvalidOptionError("a local folder needs no storage options; leave them out")
        return self.protocol

    def _check(self) -> None:
        """Raises for fields that contradict one another."""

    @classmethod
    def _from_variables(cls, found: dict[str, Any]) -> dict[str, Any]:
        return found

    @classmethod
    def _kinds(cls, name: str) -> tuple[type, ...]:  # noqa: ARG003
        return (str,)

    def _given(self) -> dict[str, Any]:
        """The fields that differ from their defaults, fit to be shown."""
        given = self.to_dict(with_secrets=True)
        del given["protocol"]
        return {name: self._shown(name, value) for name, value in given.items()}

    def _shown(self, name: str, value: Any) -> Any:
        if name in self.secrets:
            return _HIDDEN
        return shown_url(value) if name in _ADDRESSES and isinstance(value, str) else value

    def _wrong(self, name: str, value: Any, wanted: str) -> InvalidOptionError:
        got = f"a {type(value).__name__}" if name in self.secrets else repr(value)
        return InvalidOptionError(f"{type(self).__name__}: {name} is {got}; give {wanted}, or leave it out")

    def _refuse_together(self, one: str, *others: str) -> None:
        for other in others:
            if getattr(self, one) and getattr(self, other):
                raise InvalidOptionError(f"{type(self).__name__}: {one} and {other} exclude each other; give one")

    def _ask_for_both(self, one: str, other: str) -> None:
        for here, missing in ((one, other), (other, one)):
            if getattr(self, here) and not getattr(self, missing):
                raise InvalidOptionError(f"{type(self).__name__}: {here} is given without {missing}; give both")


@dataclass(frozen=True, slots=True, repr=False)
class LocalStorageOptions(StorageOptions):
    """Folders of this machine."""

    protocols: ClassVar[tuple[str, ...]] = ("file", "local")

    auto_mkdir: bool = False
    """Whether opening a file for writing creates the folders on the way to it."""


@dataclass(frozen=True, slots=True, repr=False)
class AwsStorageOptions(StorageOptions):
    """Amazon S3, and whatever speaks its language; what is left out, the AWS client looks for in its usual places."""

    protocols: ClassVar[tuple[str, ...]] = ("s3", "s3a")
    secrets: ClassVar[frozenset[str]] = frozenset({"key", "secret", "token"})
    choices: ClassVar[frozenset[str]] = frozenset({"path_style"})
    variables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "key": ("AWS_ACCESS_KEY_ID",),
        "secret": ("AWS_SECRET_ACCESS_KEY",),
        "token": ("AWS_SESSION_TOKEN",),
        "profile": ("AWS_PROFILE",),
        "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
        "endpoint_url": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    }
    package: ClassVar[tuple[str, str]] = ("s3fs", "s3")

    key: str | None = None
    """Access key id."""
    secret: str | None = None
    """Secret access key."""
    token: str | None = None
    """Session token, for keys that are valid for a while only."""
    profile: str | None = None
    """Name of a profile in the AWS configuration files."""
    region: str | None = None
    endpoint_url: str | None = None
    """The server, if it is not Amazon's."""
    anon: bool = False
    """Without credentials: public buckets."""
    path_style: bool | None = None
    """The bucket in the path of addresses, which many servers other than Amazon's want; or, if False, in the name of
    the host. Left out, it is in the path if there is an `endpoint_url`."""
    requester_pays: bool = False

    def _check(self) -> None:
        self._ask_for_both("key", "secret")
        self._refuse_together("anon", "key", "profile", "token")
        self._refuse_together("profile", "key")

    @classmethod
    def _from_variables(cls, found: dict[str, Any]) -> dict[str, Any]:
        if "key" in found:  # as in Amazon's own client, keys in the environment win over a profile named there
            found.pop("profile", None)
        return found


@dataclass(frozen=True, slots=True, repr=False)
class AzureStorageOptions(StorageOptions):
    """Azure Blob Storage and Data Lake Storage."""

    protocols: ClassVar[tuple[str, ...]] = ("abfs", "abfss", "az", "adl")
    secrets: ClassVar[frozenset[str]] = frozenset({"account_key", "connection_string", "sas_token", "client_secret"})
    choices: ClassVar[frozenset[str]] = frozenset({"anon"})
    variables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "account_name": ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"),
        "account_key": ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY"),
        "connection_string": ("AZURE_STORAGE_CONNECTION_STRING",),
        "sas_token": ("AZURE_STORAGE_SAS_TOKEN",),
        "tenant_id": ("AZURE_TENANT_ID",),
        "client_id": ("AZURE_CLIENT_ID",),
        "client_secret": ("AZURE_CLIENT_SECRET",),
    }
    package: ClassVar[tuple[str, str]] = ("adlfs", "azure")

    account_name: str | None = None
    account_key: str | None = None
    connection_string: str | None = None
    sas_token: str | None = None
    tenant_id: str | None = None
    client_id: str | None = None
    client_secret: str | None = None
    anon: bool | None = None
    """Without credentials: public containers. With False, credentials are looked for in the usual places, which
    `account_name` alone does not make adlfs do."""

    def _check(self) -> None:
        self._refuse_together("anon", "account_key", "connection_string", "sas_token", "client_secret")
        if not self.connection_string and not self.account_name:
            for name in ("account_key", "sas_token"):
                if getattr(self, name):
                    raise InvalidOptionError(f"{type(self).__name__}: {name} is given without account_name; give both")


@dataclass(frozen=True, slots=True, repr=False)
class GcsStorageOptions(StorageOptions):
    """Google Cloud Storage."""

    protocols: ClassVar[tuple[str, ...]] = ("gs", "gcs")
    secrets: ClassVar[frozenset[str]] = frozenset({"token"})
    variables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "project": ("GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT"),
        "token": ("GOOGLE_APPLICATION_CREDENTIALS",),
        "endpoint_url": ("STORAGE_EMULATOR_HOST",),
    }
    package: ClassVar[tuple[str, str]] = ("gcsfs", "gcs")

    project: str | None = None
    token: str | Mapping[str, Any] | None = field(default=None, hash=False)
    """A path of a service account's JSON file, its content as a mapping, or a word of gcsfs such as `cloud`."""
    endpoint_url: str | None = None
    """The server, if it is not Google's."""
    anon: bool = False
    """Without credentials: public buckets."""
    requester_pays: bool = False

    @classmethod
    def _kinds(cls, name: str) -> tuple[type, ...]:
        return (str, Mapping) if name == "token" else (str,)

    def _fields(self) -> dict[str, Any]:
        given = StorageOptions._fields(self)  # no super(): a class with slots is made anew by its decorator
        if given.get("token") == ANONYMOUS:
            del given["token"]
            given["anon"] = True
        return given

    def _check(self) -> None:
        self._refuse_together("anon", "token")


_CLASSES: tuple[type[StorageOptions], ...] = (
    LocalStorageOptions,
    AwsStorageOptions,
    AzureStorageOptions,
    GcsStorageOptions,
)
_BY_PROTOCOL = {protocol: kind for kind in _CLASSES for protocol in kind.protocols}


def from_dict(options: Mapping[str, Any]) -> StorageOptions:
    """Makes storage options from a mapping with `protocol` and the fields of the class that it stands for.

    The spellings of s3fs, object_store, PyArrow and DuckDB are understood as well; see `parqlake.stores.spellings`.

    Raises:
        InvalidOptionError: no or an unknown protocol, an unknown field, or a wrong value. No value that could be
            secret is shown.

    Example:
        >>> from_dict({"protocol": "s3", "key": "AKIA123", "secret": "hush"})
        AwsStorageOptions(key='***', secret='***')
    """
    if not isinstance(options, Mapping):
        raise InvalidOptionError(f"storage options are a {type(options).__name__}; give a mapping with a protocol")
    kind = _kind(options.get("protocol"))
    names = [option.name for option in fields(kind)]  # type: ignore[arg-type]
    given = {name: value for name, value in options.items() if name != "protocol"}
    if kind is LocalStorageOptions:
        taken, unknown = {n: v for n, v in given.items() if n in names}, [n for n in given if n not in names]
    else:
        taken, rest = spelled(kind.protocols[0], given)
        unknown = list(rest)
    for name in unknown:
        known = names if kind is LocalStorageOptions else [*names, *spellings(kind.protocols[0])]
        raise InvalidOptionError(
            f'{kind.__name__} takes no "{name}";{suggestion(str(name), known)} fields: {", ".join(names)}'
        )
    return kind(**taken)


def from_env(protocol: str, environ: Mapping[str, str] | None = None) -> StorageOptions:
    """Makes the storage options for a protocol from the cloud's usual environment variables.

    Args:
        protocol: such as `s3`, `abfs`, `gs` or `file`.
        environ: where to look instead of the process's environment.
    """
    return _kind(protocol).from_env(environ)


def _kind(protocol: object) -> type[StorageOptions]:
    known = ", ".join(_BY_PROTOCOL)
    if protocol is None:
        raise InvalidOptionError(f"storage options need a protocol; give one of: {known}")
    kind = _BY_PROTOCOL.get(protocol) if isinstance(protocol, str) else None
    if kind is None:
        hint = suggestion(protocol, _BY_PROTOCOL) if isinstance(protocol, str) else ""
        raise InvalidOptionError(f"unknown protocol {protocol!r};{hint} give one of: {known}")
    return kind
