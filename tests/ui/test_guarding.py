"""Who may ask, what may be changed, and that nothing of a lake is ever run as code."""

from __future__ import annotations

import re
import socket
import threading
import urllib.request
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from ui_lake import BREAKOUT, PAGES, SCRIPT

import parqlake
from parqlake.core.errors import InvalidOptionError
from parqlake.testing.data import ORDERS, orders
from parqlake.ui import app, serve

pytestmark = pytest.mark.xdist_group("ui")
HOST = "http://127.0.0.1:8765"
LAKE_PLACES = ("/", "/health", "/runs", "/sql", "/nowhere", "/?q=%3Cscript%3E")


def test_answers_keep_to_themselves(client: TestClient) -> None:
    for place in (*LAKE_PLACES, "/tables/sales.orders/overview", "/lake.json", "/static/explorer.css"):
        headers = client.get(place).headers
        policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert {policy[name] for name in ("script-src", "style-src", "connect-src", "form-action")} == {"'self'"}
        assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert "unsafe" not in headers["content-security-policy"]
        assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "same-origin")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "localhost@evil.example", "10.0.0.9"])
def test_other_names_are_refused(client: TestClient, host: str) -> None:
    answer = client.get("/lake.json", headers={"host": host})
    assert (answer.status_code, "tables" in answer.text) == (421, False)


def test_our_own_names_are_not(client: TestClient) -> None:
    for host in ("127.0.0.1:1", "localhost", "LOCALHOST:8765", "[::1]:8765"):
        assert client.get("/lake.json", headers={"host": host}).status_code == 200


def test_other_sites_are_refused(client: TestClient) -> None:
    for headers in (
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"},
    ):
        assert client.get("/lake.json", headers=headers).status_code == 403
        assert client.post("/sql.json", data={"q": "select 1"}, headers=headers).status_code == 403
    assert client.post("/sql", data={"q": "select 1"}, headers={"origin": HOST}).status_code == 200
    followed = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert client.get("/", headers=followed).status_code == 200
    assert client.post("/sql", data={"q": "select 1"}, headers=followed).status_code == 403


def test_a_token_opens_once_and_a_cookie_from_then_on(shown: parqlake.Lake) -> None:
    asks = TestClient(app(shown, token="s3cret"), base_url="http://192.168.1.7:8765", follow_redirects=False)
    assert asks.get("/").status_code == 401
    assert asks.get("/?token=wrong").status_code == 401
    assert asks.get("/static/explorer.css").status_code == 401
    opened = asks.get("/tables/sales.orders/history?token=s3cret&page=1")
    assert (opened.status_code, opened.headers["location"]) == (303, "/tables/sales.orders/history?page=1")
    cookie = opened.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "s3cret" not in cookie
    assert asks.get("/").status_code == 200
    odd = 'prefs={"a": 1}; a[b]=x y; ' + cookie.partition(";")[0]
    asks.cookies.clear()
    assert asks.get("/", headers={"cookie": odd}).status_code == 200, "what others left there does not matter"
    assert asks.get("/", headers={"host": "evil.example"}).status_code == 421
    away = asks.get("//evil.example/%2e%2e/?token=s3cret")
    assert away.headers.get("location", "/").startswith("/")
    assert not away.headers.get("location", "/").startswith("//")


def test_nothing_is_changed_unless_that_was_allowed(client: TestClient, shown: parqlake.Lake) -> None:
    before = shown.table("sales.orders").version
    assert 'name="csrf"' not in client.get("/tables/sales.orders/maintenance").text
    answer = client.post("/tables/sales.orders/do/compact", data={"csrf": "x"})
    assert (answer.status_code, "Read-only" in answer.text) == (403, True)
    assert shown.table("sales.orders").version == before


def test_changes_need_the_token_of_the_form(tmp_path: Path) -> None:
    with parqlake.connect(tmp_path / "lake") as lake:
        table = lake.create_table("a.b", ORDERS)
        for number in range(6):
            table.append(orders(5, first=5 * number))
        asks = TestClient(app(lake, allow_writes=True), base_url=HOST)
        page = asks.get("/tables/a.b/maintenance").text
        (token,) = set(re.findall(r'name="csrf" value="([^"]+)"', page))
        for data in ({}, {"csrf": ""}, {"csrf": token[:-1]}, {"csrf": token + "x"}):
            assert asks.post("/tables/a.b/do/compact", data=data).status_code == 403
        assert asks.get("/tables/a.b/do/compact").status_code == 405
        good = {"csrf": token}
        assert asks.post("/tables/a.b/do/compact", data=good, headers={"origin": "http://evil"}).status_code == 403
        assert table.version == 6
        done = asks.post("/tables/a.b/do/compact", data=good)
        assert (done.status_code, "version 7" in done.text, table.files().num_rows) == (200, True, 1)
        assert asks.post("/tables/a.b/do/restore", data={**good, "version": "3"}).status_code == 200
        assert table.scan().count() == 15
        assert asks.post("/tables/a.b/do/tag", data={**good, "version": "2", "name": "early"}).status_code == 200
        assert table.tags() == {"early": 2}
        for action in ("restore", "tag"):  # no version is none, and not the empty one
            answer = asks.post(f"/tables/a.b/do/{action}", data={**good, "name": "early"})
            assert (answer.status_code, "no version is given" in answer.text) == (400, True)
        assert (table.tags(), table.scan().count()) == ({"early": 2}, 15)
        assert asks.post("/tables/a.b/do/optimize", data={**good, "column": "id"}).status_code == 200
        assert asks.post("/tables/a.b/do/maintain", data=good).status_code == 200
        assert asks.post("/tables/a.b/do/vacuum", data={**good, "older_than": "1s"}).status_code == 400
        assert asks.post("/tables/a.b/do/vacuum", data=good).status_code == 200
        assert asks.post("/tables/a.b/do/drop", data=good).status_code == 404
        assert asks.post("/sql", content=b"q=" + b"x" * 70_000).status_code == 413


class _Tags(HTMLParser):
    """What a browser would see as tags and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_names_and_values_are_never_markup(bad_client: TestClient) -> None:
    asked = {"where": f"\"{SCRIPT}\" = '{SCRIPT}'", "column": SCRIPT, "before": "0", "after": "4", "vacuum": "7d"}
    places = [*(f"/tables/bad.table/{page}" for page in PAGES), "/", "/runs", "/health"]
    seen = 0
    for place in places:
        for values in ({}, asked):
            page = bad_client.get(place, params=values)
            assert page.status_code == 200, (place, page.text)
            parser = _Tags()
            parser.feed(page.text)
            scripts = [attributes for tag, attributes in parser.tags if tag == "script"]
            assert all((attributes.get("src") or "").startswith("/static/") for attributes in scripts)
            assert len(scripts) == 3
            assert not [tag for tag, attributes in parser.tags if any(name.startswith("on") for name in attributes)]
            assert not [tag for tag, attributes in parser.tags if "style" in attributes or tag == "style"]
            images = [attributes["src"] for tag, attributes in parser.tags if tag == "img"]
            assert set(images) == {"/static/mark.svg"}
            links = [attributes.get("href") or "" for tag, attributes in parser.tags if tag == "a"]
            assert all(link.startswith(("/", "?", "#")) and not link.startswith("//") for link in links)
            assert [tag for tag, _ in parser.tags].count("h1") == 1
            assert "{{7*7}}" not in page.text or BREAKOUT.replace('"', "&#34;")[:3] in page.text
            seen += page.text.count("&lt;script&gt;")
    assert seen > 40
    twin = bad_client.get("/tables/bad.table/overview.json").json()
    assert twin["columns"][0]["name"] == SCRIPT
    typed = bad_client.post("/sql", data={"q": f"select '{SCRIPT}' as \"{SCRIPT}\""}).text
    assert "<script>alert" not in typed
    assert "&lt;script&gt;" in typed


def test_static_files_do_not_lead_out(client: TestClient) -> None:
    for path in ("/static/../application.py", "/static/%2e%2e/application.py", "/static/..%2f..%2f_version.py"):
        assert client.get(path).status_code == 404


def test_serve_listens_where_it_says(shown: parqlake.Lake, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InvalidOptionError, match="cannot listen"):
            serve(shown, port=taken.getsockname()[1])
    with pytest.raises(InvalidOptionError, match="token"):
        serve(shown, token="")
    said = threading.Event()
    address = ""

    def opened(url: str) -> bool:
        nonlocal address
        with urllib.request.build_opener(urllib.request.HTTPCookieProcessor()).open(url, timeout=10) as answer:
            assert answer.status == 200
        address = url
        said.set()
        return True

    from parqlake.ui import serving

    servers: list[object] = []
    original = serving.uvicorn.Server

    class Stoppable(original):  # type: ignore[misc, valid-type]
        def __init__(self, config: object) -> None:
            super().__init__(config)
            servers.append(self)

    patch = pytest.MonkeyPatch()
    patch.setattr(serving.webbrowser, "open", opened)
    patch.setattr(serving.uvicorn, "Server", Stoppable)
    try:
        asked = {"host": "127.0.0.2", "port": 0, "token": "t0", "open_browser": True}
        thread = threading.Thread(target=serve, args=(shown,), kwargs=asked, daemon=True)
        thread.start()
        assert said.wait(20)
        servers[0].should_exit = True  # type: ignore[attr-defined]
        thread.join(20)
        assert not thread.is_alive()
    finally:
        patch.undo()
    assert re.fullmatch(r"http://127\.0\.0\.2:\d+/\?token=t0", address)
    assert address in capsys.readouterr().err
