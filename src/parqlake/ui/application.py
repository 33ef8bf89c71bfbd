"""The ASGI application: which page lies where, what a request asks for, and what is answered when that fails."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from parqlake.core.errors import ConflictError, InputError, NotFoundError, ParqlakeError
from parqlake.core.names import parse_table_name
from parqlake.table.lake import Lake
from parqlake.ui.actions import act
from parqlake.ui.explorer import Ask, Explorer
from parqlake.ui.guard import Guard, same
from parqlake.ui.page_clustering import clustering_page, explain_page
from parqlake.ui.page_diff import diff_page
from parqlake.ui.page_files import files_page
from parqlake.ui.page_history import history_page
from parqlake.ui.page_lake import health_page, lake_page, table_health_page
from parqlake.ui.page_maintenance import maintenance_page
from parqlake.ui.page_overview import overview_page
from parqlake.ui.page_runs import runs_page, table_runs_page
from parqlake.ui.page_sql import run_sql, sql_page
from parqlake.ui.rendering import Renderer, json_answer

_LONGEST_BODY = 64_000
_LOG = logging.getLogger("parqlake.ui")
Build = Callable[[Explorer, Ask], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its place, its name for people, and what makes its content."""

    name: str
    title: str
    build: Build


LAKE_PAGES = (
    Page("lake", "Tables", lake_page),
    Page("health", "Health", health_page),
    Page("runs", "Runs", runs_page),
    Page("sql", "SQL", sql_page),
)
TABLE_PAGES = (
    Page("overview", "Overview", overview_page),
    Page("history", "History", history_page),
    Page("diff", "Diff", diff_page),
    Page("files", "Files", files_page),
    Page("clustering", "Clustering", clustering_page),
    Page("explain", "Explain", explain_page),
    Page("maintenance", "Maintenance", maintenance_page),
    Page("runs", "Runs", table_runs_page),
    Page("health", "Health", table_health_page),
)


def app(lake: Lake, *, allow_writes: bool = False, token: str | None = None, hosts: Collection[str] = ()) -> Starlette:
    """The explorer of a lake as an ASGI application, for tests and for servers of one's own.

    It reads only, unless `allow_writes` says otherwise. Requests have to name a host that is known, and must not
    come from other sites. The lake stays the caller's: it is not closed.

    Args:
        lake: as `parqlake.connect` gives it.
        allow_writes: offers to compact, cluster, vacuum, restore and tag.
        token: has to stand in the address of the first request (`?token=…`); a cookie stands for it from then on.
        hosts: names that requests may use for the server, beside those of the loopback interface.

    Example:
        >>> import uvicorn
        >>> uvicorn.run(app(parqlake.connect("warehouse")), port=8765)   # doctest: +SKIP
    """
    explorer = Explorer(lake, allow_writes=allow_writes)
    site = _Site(explorer)
    routes = [
        Mount("/static", StaticFiles(directory=Path(__file__).parent / "static"), name="static"),
        Route("/", site.lake_page(LAKE_PAGES[0])),
        Route("/lake.json", site.lake_page(LAKE_PAGES[0])),
        Route("/search", site.search),
        Route("/sql", site.run_query, methods=["POST"]),
        Route("/sql.json", site.run_query, methods=["POST"]),
    ]
    for page in LAKE_PAGES[1:]:
        routes += [Route(f"/{page.name}{suffix}", site.lake_page(page)) for suffix in ("", ".json")]
    for page in TABLE_PAGES:
        place = f"/tables/{{table}}/{page.name}"
        routes += [Route(f"{place}{suffix}", site.table_page(page)) for suffix in ("", ".json")]
    routes.append(Route("/tables/{table}", site.to_overview))
    routes.append(Route("/tables/{table}/do/{action}", site.act, methods=["POST"]))
    return Starlette(
        routes=routes,
        middleware=[Middleware(Guard, hosts=tuple(hosts), token=token)],
        exception_handlers={HTTPException: site.not_there},
    )


class _Site:
    """Answers requests."""

    def __init__(self, explorer: Explorer) -> None:
        self._explorer = explorer
        self._renderer = Renderer(explorer)

    def lake_page(self, page: Page) -> Callable[[Request], Response]:
        """What answers requests for a page about the lake."""
        return lambda request: self._answer(request, page, f"{page.name}.html")

    def table_page(self, page: Page) -> Callable[[Request], Response]:
        """What answers requests for a page about a table."""
        return lambda request: self._answer(request, page, f"table_{page.name}.html")

    def search(self, request: Request) -> Response:
        """Leads to the table of that name, or to those that have it in theirs."""
        wanted = request.query_params.get("q", "").strip()
        if wanted in self._explorer.lake.tables():
            return RedirectResponse(f"/tables/{quote(wanted)}/overview", 303)
        return RedirectResponse(f"/?q={quote(wanted)}", 303)

    def to_overview(self, request: Request) -> Response:
        """Leads to the first page of a table."""
        return RedirectResponse(f"/tables/{quote(request.path_params['table'])}/overview", 307)

    async def run_query(self, request: Request) -> Response:
        """Runs the query of the SQL page."""
        ask = Ask(values=await _form(request))
        return await run_in_threadpool(self._answer, request, Page("sql", "SQL", run_sql), "sql.html", ask)

    async def act(self, request: Request) -> Response:
        """Does what a form asks for, if that is allowed and the form is ours."""
        values = await _form(request)
        return await run_in_threadpool(self._act, request, Ask(request.path_params["table"], values))

    def not_there(self, request: Request, error: Exception) -> Response:
        """The answer to a request for what does not exist."""
        assert isinstance(error, HTTPException)
        text = "There is no such page." if error.status_code == 404 else error.detail
        return self._failed(request, error.status_code, "Not here", text)

    def _act(self, request: Request, ask: Ask) -> Response:
        if not self._explorer.allow_writes:
            return self._failed(
                request, 403, "Read-only", "The explorer was started without allow_writes, and changes nothing."
            )
        if not same(ask.text("csrf"), self._explorer.csrf):
            return self._failed(request, 403, "Not from here", "The form is not one of this server; load it again.")
        try:
            parse_table_name(ask.table)
            done = act(self._explorer.lake.table(ask.table), request.path_params["action"], ask)
        except Exception as error:
            return self._raised(request, error)
        if _wants_json(request):
            return json_answer(done)
        return self._renderer.html("done.html", {**_place(request, None), **done, "name": ask.table})

    def _answer(self, request: Request, page: Page, template: str, ask: Ask | None = None) -> Response:
        if ask is None:
            values = parse_qs(request.url.query, keep_blank_values=True)
            ask = Ask(request.path_params.get("table", ""), values)
        try:
            data = page.build(self._explorer, ask)
            if not _wants_json(request):
                # What is typed into a box may be wrong for a moment: the page says so, and htmx shows such pages.
                return self._renderer.html(template, {**_place(request, page), **data})
        except Exception as error:
            return self._raised(request, error)
        return json_answer(data, status=400 if data.get("error") else 200)

    def _raised(self, request: Request, error: Exception) -> Response:
        """What is wrong in words that are meant to be read; of what should not happen, the log has the details."""
        if isinstance(error, ParqlakeError):
            return self._failed(request, _status(error), _title(error), str(error))
        _LOG.exception("%s %s", request.method, request.url.path, exc_info=error)
        text = f"{type(error).__name__}: the server's log has the details."
        return self._failed(request, 500, "Something went wrong", text)

    def _failed(self, request: Request, status: int, title: str, text: str) -> Response:
        if _wants_json(request):
            return json_answer({"error": text, "status": status}, status=status)
        data = {**_place(request, None), "title": title, "text": text, "status": status}
        return self._renderer.html("error.html", data, status=status)


def _place(request: Request, page: Page | None) -> dict[str, Any]:
    """Where a page is, for its links: its own name, that of its table, and its JSON twin."""
    path = request.url.path
    twin = None if page is None else "/lake.json" if path == "/" else f"{path}.json"
    return {
        "here": page.name if page else None,
        "page_title": page.title if page else None,
        "table_name": request.path_params.get("table"),
        "twin": f"{twin}?{request.url.query}" if twin and request.url.query else twin,
        "lake_pages": LAKE_PAGES,
        "table_pages": TABLE_PAGES,
    }


def _wants_json(request: Request) -> bool:
    if request.url.path.endswith(".json"):
        return True
    accepted = request.headers.get("accept", "")
    return "application/json" in accepted and "text/html" not in accepted


async def _form(request: Request) -> dict[str, list[str]]:
    """The fields of a form; refused if it is too long to be one of ours."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _LONGEST_BODY:
            raise HTTPException(413, "The form is too long.")
    return parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)


def _status(error: ParqlakeError) -> int:
    kinds = ((NotFoundError, 404), (InputError, 400), (ConflictError, 409))
    return next((status for kind, status in kinds if isinstance(error, kind)), 503)


def _title(error: ParqlakeError) -> str:
    titles = {404: "Not found", 400: "That does not work", 409: "Somebody was faster"}
    return titles.get(_status(error), "The lake cannot be read")
