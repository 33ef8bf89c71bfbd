"""Who may ask: the host that is named, the origin that asks, the token, and the headers that keep answers at home.

A browser sends requests to a loopback server for any page that it shows. So a request must name a host that is ours
(else another site's name could be pointed here), one that another site sends is refused, and one that does more
than read must come from our own pages. For other interfaces a token is needed as well: once in the address, then as a
cookie.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Collection
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
SAFE_METHODS = frozenset({"GET", "HEAD"})
_TOKEN = "token"  # noqa: S105 (the name of a parameter)
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with no-referrer, browsers send `Origin: null` even with our own forms
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """ASGI middleware that lets only those requests through that are meant for this server."""

    def __init__(self, app: ASGIApp, *, hosts: Collection[str] = (), token: str | None = None) -> None:
        """Guards an application.

        Args:
            app: what is guarded.
            hosts: names of this server beside those of the loopback interface.
            token: what has to be shown; nothing if left out. With one, any address of this machine may be named, since
                a name that was pointed here by others brings no cookie of ours.
        """
        self._app = app
        self._hosts = LOOPBACK | {host.lower() for host in hosts}
        self._token = token
        self._secret = secrets.token_bytes(32)
        self._cookie = f"parqlake-{hashlib.sha256(self._secret).hexdigest()[:12]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers what is not let through, and adds the headers to everything."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    if name != "cache-control" or "cache-control" not in headers:
                        headers[name] = value
            await send(message)

        refused = self._refusal(scope, Headers(scope=scope))
        await (refused or self._app)(scope, receive, with_headers)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        if not self._is_ours(headers.get("host", "")):
            return _refused(421, "this server is not known by that name")
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is not None and not _same_origin(origin, headers["host"]):
            return _refused(403, "another site asked")
        navigates = headers.get("sec-fetch-mode") == "navigate" and scope["method"] in SAFE_METHODS
        if site in ("cross-site", "same-site") and not navigates:
            return _refused(403, "another site asked")
        return None if self._token is None else self._unproven(scope, headers, self._token)

    def _is_ours(self, host: str) -> bool:
        try:
            name = (urlsplit(f"//{host}").hostname or "") if not set(host) & set("/?#@\\ ") else ""
        except ValueError:
            return False
        return name in self._hosts or (self._token is not None and _is_address(name))

    def _unproven(self, scope: Scope, headers: Headers, token: str) -> Response | None:
        """A refusal, or a way back to the same page with a cookie, or nothing if the cookie is there."""
        pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        shown = next((value for name, value in pairs if name == _TOKEN), None)
        if shown is not None and same(shown, token):
            rest = urlencode([(name, value) for name, value in pairs if name != _TOKEN])
            path = "/" + scope["path"].lstrip("/")
            answer = RedirectResponse(path + (f"?{rest}" if rest else ""), status_code=303)
            answer.set_cookie(self._cookie, self._proof(token), httponly=True, samesite="strict", path="/")
            return answer
        if same(_cookie(headers, self._cookie), self._proof(token)):
            return None
        return _refused(401, "open the address that was printed at the start: it holds a token")

    def _proof(self, token: str) -> str:
        return hmac.new(self._secret, token.encode(), hashlib.sha256).hexdigest()


def is_loopback(host: str) -> bool:
    """Whether a server that binds to the host can be reached from this machine only."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _refused(status: int, text: str) -> Response:
    return PlainTextResponse(f"{text}\n", status)


def _same_origin(origin: str, host: str) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def same(shown: str, wanted: str) -> bool:
    """Whether a secret is the one that is wanted; how long it takes tells nothing."""
    return hmac.compare_digest(shown.encode(), wanted.encode())


def _cookie(headers: Headers, name: str) -> str:
    """The cookie of that name, whatever cookies others have left beside it; empty if there is none."""
    jars = [cookie_parser(text) for text in headers.getlist("cookie")]  # the standard library's gives up on an odd one
    return next((jar[name] for jar in jars if name in jar), "")
