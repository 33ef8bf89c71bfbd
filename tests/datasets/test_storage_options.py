"""Storage options: each cloud's own words, no secret shown, wrong ones named."""

from __future__ import annotations

import copy
import pickle
import sys
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest
import s3fs

from parqlake.core.errors import InvalidOptionError, MissingExtraError
from parqlake.storage_options import (
    AwsStorageOptions,
    AzureStorageOptions,
    GcsStorageOptions,
    LocalStorageOptions,
    StorageOptions,
    from_dict,
    from_env,
)

CLASSES = [AwsStorageOptions, AzureStorageOptions, GcsStorageOptions, LocalStorageOptions]
FULL: list[StorageOptions] = [
    AwsStorageOptions(
        key="hush1", secret="hush2", token="hush3", region="eu-west-1", endpoint_url="https://me:hush4@s3.example:9000"
    ),
    AwsStorageOptions(profile="work", path_style=True, requester_pays=True),
    AwsStorageOptions(anon=True),
    AzureStorageOptions(account_name="acc", account_key="hush1", sas_token="hush2"),
    AzureStorageOptions(connection_string="AccountKey=hush1", tenant_id="t", client_id="c", client_secret="hush2"),
    GcsStorageOptions(project="p", token="hush1", endpoint_url="http://localhost:4443"),
    GcsStorageOptions(project="p", token={"private_key": "hush1"}, requester_pays=True),
    LocalStorageOptions(auto_mkdir=True),
]


@pytest.mark.parametrize("options", FULL, ids=lambda options: type(options).__name__)
def test_no_secret_is_shown(options: StorageOptions) -> None:
    shown = [repr(options), str(options), f"{options}", f"{options!r:>100}", repr([options]), str(options.to_dict())]
    assert not any("hush" in text for text in shown)
    assert type(options).__name__ in repr(options)
    given = options.to_dict(with_secrets=True)
    assert set(options.to_dict()) <= set(given)
    assert from_dict(given) == options
    assert pickle.loads(pickle.dumps(options)) == copy.deepcopy(options) == options
    hash(options)


@pytest.mark.parametrize("kind", CLASSES)
def test_every_field_whose_name_speaks_of_a_secret_is_one(kind: type[StorageOptions]) -> None:
    names = {option.name for option in fields(kind)}  # type: ignore[arg-type]
    telling = {name for name in names if any(word in name for word in ("key", "secret", "token", "connection"))}
    assert kind.secrets == telling


def test_options_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        AwsStorageOptions().key = "x"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"protocol": "s3", "key": "k", "secret": "s"}, AwsStorageOptions(key="k", secret="s")),
        ({"protocol": "s3a", "anon": True}, AwsStorageOptions(anon=True)),
        (
            {
                "protocol": "s3",
                "access_key_id": "k",
                "secret_access_key": "s",
                "session_token": "t",
                "region_name": "r",
            },
            AwsStorageOptions(key="k", secret="s", token="t", region="r"),
        ),
        ({"protocol": "az", "account_name": "a", "sas_token": "s"}, AzureStorageOptions("a", sas_token="s")),
        ({"protocol": "gs", "project": "p"}, GcsStorageOptions("p")),
        ({"protocol": "file"}, LocalStorageOptions()),
        ({"protocol": "local", "auto_mkdir": False}, LocalStorageOptions()),
    ],
)
def test_from_dict(given: dict[str, Any], expected: StorageOptions) -> None:
    assert from_dict(given) == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"key": "hush"}, "need a protocol; give one of: file, local, s3"),
        ({"protocol": "s3s", "key": "hush"}, r"unknown protocol 's3s'; did you mean \"s3a?\"\?"),
        ({"protocol": 3}, "unknown protocol 3"),
        ({"protocol": "s3", "secrte": "hush"}, 'takes no "secrte"; did you mean "secret"\\? fields: key, secret'),
        ({"protocol": "abfs", "acount_key": "hush"}, 'did you mean "account_key"'),
        ({"protocol": "s3", 7: "hush"}, 'takes no "7"'),
        ({"protocol": "s3", "key": "hush"}, "key is given without secret; give both"),
        ({"protocol": "s3", "key": "hush", "access_key_id": "hush2"}, "key is given twice"),
        ({"protocol": "s3", "key": b"hush", "secret": "hush"}, "key is a bytes; give a string"),
        ({"protocol": "s3", "key": "hush", "secret": ""}, "secret is a str; give a string that is not empty"),
        ({"protocol": "s3", "region": 7}, "region is 7; give a string"),
        ({"protocol": "s3", "anon": "yes"}, "anon is 'yes'; give True or False"),
        ({"protocol": "s3", "anon": True, "key": "hush", "secret": "hush"}, "anon and key exclude each other"),
        ({"protocol": "s3", "profile": "p", "key": "hush", "secret": "hush"}, "profile and key exclude each other"),
        ({"protocol": "az", "account_key": "hush"}, "account_key is given without account_name"),
        ({"protocol": "gs", "token": "hush", "anon": True}, "anon and token exclude each other"),
        ("hush", "are a str; give a mapping"),
    ],
)
def test_wrong_options_are_named_without_their_values(given: Any, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message) as caught:
        from_dict(given)
    assert isinstance(caught.value, ValueError)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("protocol", "environ", "expected"),
    [
        ("s3", {}, AwsStorageOptions()),
        (
            "s3",
            {
                **{"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t"},
                **{"AWS_DEFAULT_REGION": "r", "AWS_PROFILE": "not with keys", "AWS_ENDPOINT_URL": "http://localhost:1"},
            },
            AwsStorageOptions(key="k", secret="s", token="t", region="r", endpoint_url="http://localhost:1"),
        ),
        (
            "s3",
            {"AWS_PROFILE": "p", "AWS_REGION": "r1", "AWS_DEFAULT_REGION": "r2"},
            AwsStorageOptions(None, None, None, "p", "r1"),
        ),
        ("s3", {"AWS_PROFILE": ""}, AwsStorageOptions()),
        ("abfs", {"AZURE_STORAGE_ACCOUNT": "a", "AZURE_STORAGE_KEY": "k"}, AzureStorageOptions("a", "k")),
        ("az", {"AZURE_STORAGE_CONNECTION_STRING": "c"}, AzureStorageOptions(connection_string="c")),
        (
            "gs",
            {"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_APPLICATION_CREDENTIALS": "key.json"},
            GcsStorageOptions("p", "key.json"),
        ),
        ("file", {"AWS_PROFILE": "p"}, LocalStorageOptions()),
    ],
)
def test_from_env(
    protocol: str, environ: dict[str, str], expected: StorageOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert from_env(protocol, environ) == expected
    for kind in CLASSES:
        for names in kind.variables.values():
            for name in names:
                monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert from_env(protocol) == expected
    assert type(expected).from_env() == expected


def test_half_a_key_in_the_environment_is_an_error() -> None:
    with pytest.raises(InvalidOptionError, match="key is given without secret"):
        from_env("s3", {"AWS_ACCESS_KEY_ID": "k"})
    with pytest.raises(InvalidOptionError, match="unknown protocol 'ftp'"):
        from_env("ftp")


def test_a_local_file_system() -> None:
    assert LocalStorageOptions().to_filesystem().protocol == ("file", "local")
    assert LocalStorageOptions(auto_mkdir=True).to_filesystem().auto_mkdir is True


@pytest.mark.parametrize(
    ("options", "package", "extra"),
    [
        (AwsStorageOptions(), "s3fs", "s3"),
        (AzureStorageOptions(), "adlfs", "azure"),
        (GcsStorageOptions(), "gcsfs", "gcs"),
    ],
)
def test_a_missing_package_names_the_extra(
    options: StorageOptions, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    known = sys.modules["fsspec.registry"]._registry
    monkeypatch.delitem(known, options.protocol, raising=False)  # remembered there once it was used
    with pytest.raises(MissingExtraError, match=rf"{package} is not installed; run: pip install 'parqlake\[{extra}\]'"):
        options.to_filesystem()


def test_what_s3fs_is_given() -> None:
    options = AwsStorageOptions(
        key="k", secret="s", token="t", region="eu-west-1", endpoint_url="http://localhost:1", path_style=True
    )
    filesystem = options.to_filesystem()
    assert isinstance(filesystem, s3fs.S3FileSystem)
    assert (filesystem.key, filesystem.secret, filesystem.token) == ("k", "s", "t")
    assert filesystem.endpoint_url == "http://localhost:1"
    assert filesystem.client_kwargs == {"region_name": "eu-west-1"}
    assert filesystem.config_kwargs == {"s3": {"addressing_style": "path"}}
