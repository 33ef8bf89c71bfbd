"""Storage options in everybody's words: read as one, and told to everybody."""

from __future__ import annotations

from typing import Any

import pytest

from parqlake.core.errors import InvalidOptionError
from parqlake.storage_options import (
    AwsStorageOptions,
    AzureStorageOptions,
    GcsStorageOptions,
    LocalStorageOptions,
    StorageOptions,
    from_dict,
)
from parqlake.stores.opening import open_store
from parqlake.stores.spellings import fsspec_options

S3 = AwsStorageOptions(
    key="k", secret="hush", token="t", region="eu-west-1", endpoint_url="http://localhost:9000", path_style=True
)
S3_SPELLINGS: dict[str, dict[str, Any]] = {
    "s3fs": {
        "key": "k",
        "secret": "hush",
        "token": "t",
        "endpoint_url": "http://localhost:9000",
        "client_kwargs": {"region_name": "eu-west-1"},
        "config_kwargs": {"s3": {"addressing_style": "path"}},
    },
    "s3fs, all of it nested": {
        "client_kwargs": {
            "aws_access_key_id": "k",
            "aws_secret_access_key": "hush",
            "aws_session_token": "t",
            "region_name": "eu-west-1",
            "endpoint_url": "http://localhost:9000",
        },
        "config_kwargs": {"s3": {"addressing_style": "path"}},
    },
    "object_store": {
        "aws_access_key_id": "k",
        "aws_secret_access_key": "hush",
        "aws_session_token": "t",
        "aws_region": "eu-west-1",
        "aws_endpoint": "http://localhost:9000",
        "aws_allow_http": "true",
        "aws_virtual_hosted_style_request": "false",
    },
    "deltalake": {
        "AWS_ACCESS_KEY_ID": "k",
        "AWS_SECRET_ACCESS_KEY": "hush",
        "AWS_SESSION_TOKEN": "t",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_ENDPOINT_URL": "http://localhost:9000",
        "ALLOW_HTTP": "true",
        "VIRTUAL_HOSTED_STYLE_REQUEST": "false",
    },
    "PyArrow": {
        "access_key": "k",
        "secret_key": "hush",
        "session_token": "t",
        "region": "eu-west-1",
        "endpoint_override": "localhost:9000",
        "scheme": "http",
        "force_virtual_addressing": False,
    },
    "DuckDB": {
        "key_id": "k",
        "secret": "hush",
        "session_token": "t",
        "region": "eu-west-1",
        "endpoint": "localhost:9000",
        "use_ssl": False,
        "url_style": "path",
    },
}
OTHERS: list[tuple[str, dict[str, Any], StorageOptions]] = [
    ("s3", {"skip_signature": "true"}, AwsStorageOptions(anon=True)),
    ("s3", {"anonymous": True, "request_payer": "requester"}, AwsStorageOptions(anon=True, requester_pays=True)),
    ("s3", {"endpoint": "s3.example"}, AwsStorageOptions(endpoint_url="https://s3.example")),
    ("s3", {"key": None, "anon": False, "force_virtual_addressing": True}, AwsStorageOptions(path_style=False)),
    ("s3", {"config_kwargs": {"s3": {"addressing_style": "virtual"}}}, AwsStorageOptions(path_style=False)),
    ("abfs", {"account_name": "a", "anon": False}, AzureStorageOptions("a", anon=False)),
    ("abfs", {"account_name": "a", "azure_skip_signature": "true"}, AzureStorageOptions("a", anon=True)),
    ("gs", {"token": "anon"}, GcsStorageOptions(anon=True)),
    ("s3", {"AWS_REGION": "r", "region": "r"}, AwsStorageOptions(region="r")),
    (
        "abfs",
        {"AZURE_STORAGE_ACCOUNT_NAME": "a", "azure_storage_access_key": "hush"},
        AzureStorageOptions("a", "hush"),
    ),
    (
        "az",
        {"azure_tenant_id": "t", "azure_client_id": "c", "azure_client_secret": "hush"},
        AzureStorageOptions(tenant_id="t", client_id="c", client_secret="hush"),
    ),
    ("abfs", {"account_name": "a", "sas_key": "hush"}, AzureStorageOptions("a", sas_token="hush")),
    ("gs", {"google_service_account": "key.json", "project_id": "p"}, GcsStorageOptions("p", "key.json")),
    ("gs", {"service_account_key": '{"private_key": "hush"}'}, GcsStorageOptions(token={"private_key": "hush"})),
    (
        "gs",
        {"anonymous": True, "endpoint_override": "localhost:1", "scheme": "http"},
        GcsStorageOptions(anon=True, endpoint_url="http://localhost:1"),
    ),
]


@pytest.mark.parametrize("spelling", S3_SPELLINGS)
def test_everybodys_spelling_means_the_same(spelling: str) -> None:
    given = S3_SPELLINGS[spelling]
    assert from_dict({"protocol": "s3", **given}) == S3
    assert fsspec_options("s3a", given) == S3_SPELLINGS["s3fs"] == S3.to_fsspec()


@pytest.mark.parametrize(("protocol", "given", "expected"), OTHERS)
def test_other_clouds_and_flags(protocol: str, given: dict[str, Any], expected: StorageOptions) -> None:
    assert from_dict({"protocol": protocol, **given}) == expected
    assert fsspec_options(protocol, given) == expected.to_fsspec()


def test_what_is_told_to_others_is_understood_again() -> None:
    assert S3.to_object_store() == S3_SPELLINGS["object_store"]
    assert S3.to_duckdb() == {"type": "s3", **S3_SPELLINGS["DuckDB"]}
    plain = {name: value for name, value in S3_SPELLINGS["PyArrow"].items() if name != "force_virtual_addressing"}
    assert S3.to_pyarrow() == plain
    for _, _, options in OTHERS:
        if not isinstance(options, GcsStorageOptions) or not options.endpoint_url:
            told = options.to_object_store()
            left = {"project": options.project} if isinstance(options, GcsStorageOptions) else {}
            assert from_dict({"protocol": options.protocol, **told, **left}) == options


def test_what_is_left_out_is_not_what_is_false() -> None:
    server: dict[str, Any] = {"endpoint_url": "https://oss.example"}
    style: list[Any] = [None, True, False]
    made = [AwsStorageOptions(**server, path_style=chosen) for chosen in style]
    nested = [options.to_fsspec().get("config_kwargs", {}).get("s3", {}).get("addressing_style") for options in made]
    assert nested == [None, "path", "virtual"], "s3fs takes the path for any endpoint, unless it is told"
    assert [options.to_duckdb()["url_style"] for options in made] == ["path", "path", "vhost"]
    assert "url_style" not in AwsStorageOptions(region="r").to_duckdb()
    asked = [options.to_object_store().get("aws_virtual_hosted_style_request") for options in made]
    assert asked == [None, "false", "true"]
    assert [options.to_pyarrow().get("force_virtual_addressing") for options in made] == [None, None, True]
    azure = AzureStorageOptions("a", anon=False)
    assert azure.to_fsspec() == fsspec_options("az", {"account_name": "a", "anon": "false"})
    assert azure.to_fsspec() == {"account_name": "a", "anon": False}, "else adlfs looks for no credentials"
    assert azure.to_object_store()["azure_skip_signature"] == "false"
    assert azure.to_pyarrow() == {"account_name": "a"}
    assert azure.to_duckdb() == {"type": "azure", "provider": "credential_chain", "account_name": "a"}
    assert AzureStorageOptions("a").to_fsspec() == {"account_name": "a"}
    assert GcsStorageOptions(token="anon").to_object_store() == {"google_skip_signature": "true"}
    with pytest.raises(InvalidOptionError, match='no word for token="cloud"'):
        GcsStorageOptions(token="cloud").to_object_store()
    for wrong in (lambda: AwsStorageOptions(path_style=0), lambda: AzureStorageOptions("a", anon="no")):  # type: ignore[arg-type]
        with pytest.raises(InvalidOptionError, match="give True or False"):
            wrong()


def test_what_the_others_themselves_make_of_it() -> None:
    import duckdb
    import pyarrow.fs

    assert pyarrow.fs.S3FileSystem(**S3.to_pyarrow()).region == "eu-west-1"
    assert pyarrow.fs.GcsFileSystem(**GcsStorageOptions("p", anon=True).to_pyarrow()).project_id == "p"
    told = ", ".join(f"{name} '{value}'" for name, value in S3.to_duckdb().items())
    try:
        duckdb.connect().execute(f"CREATE SECRET ({told})")
    except duckdb.Error as error:  # without the extension that reaches S3, DuckDB has no such secrets
        assert "httpfs" in str(error)


def test_what_has_no_word_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="object_store has no word for profile"):
        AwsStorageOptions(profile="p").to_object_store()
    with pytest.raises(InvalidOptionError, match="PyArrow has no word for requester_pays"):
        AwsStorageOptions(requester_pays=True).to_pyarrow()
    with pytest.raises(InvalidOptionError, match="DuckDB has no word for account_key"):
        AzureStorageOptions("a", "hush").to_duckdb()
    with pytest.raises(InvalidOptionError, match="a local folder needs no storage options"):
        LocalStorageOptions().to_object_store()


def test_unknown_names_are_passed_on_or_refused_with_a_suggestion() -> None:
    own = {"default_block_size": 1, "client_kwargs": {"verify": False, "region_name": "r"}, "retries": 3}
    expected = {"default_block_size": 1, "client_kwargs": {"verify": False, "region_name": "r"}, "retries": 3}
    assert fsspec_options("s3", own) == expected
    assert fsspec_options("memory", {"kye": 1}) == {"kye": 1}
    for wrong, message in (
        ({"aws_acces_key_id": "hush"}, '"aws_acces_key_id" is unknown; did you mean'),
        ({"endpont_url": "hush"}, 'did you mean "endpoint_url"'),
        ({"key": "hush", "access_key": "hush2"}, 'key is given twice, once as "access_key"'),
        ({"url_style": "paths"}, 'give "path" or "vhost"'),
        ({"skip_signature": "perhaps"}, "skip_signature is 'perhaps'; give True or False"),
    ):
        with pytest.raises(InvalidOptionError, match=message) as caught:
            open_store("s3://bucket/lake", wrong)
        assert "hush" not in str(caught.value)
