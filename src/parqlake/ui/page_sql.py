"""The SQL page: one SELECT over tables of the lake, of which some rows are shown, and no longer than some seconds."""

from __future__ import annotations

import threading
import time
from typing import Any

from parqlake.core.errors import InvalidQueryError, ParqlakeError
from parqlake.ui.explorer import Ask, Explorer
from parqlake.ui.plain import first_rows, plain_rows

MOST_ROWS = 500
SECONDS = 15.0
_LONGEST = 20_000


def sql_page(explorer: Explorer, ask: Ask) -> dict[str, Any]:
    """The page before a query was run: what can be asked for."""
    return {**_asked(explorer, ask), "result": None, "error": None}


def run_sql(explorer: Explorer, ask: Ask, *, seconds: float = SECONDS) -> dict[str, Any]:
    """Runs the query of the form; what is wrong with it is part of the answer."""
    found = _asked(explorer, ask)
    try:
        return {**found, "result": _run(explorer, found["query_text"], seconds), "error": None}
    except ParqlakeError as error:
        return {**found, "result": None, "error": str(error)}


def _asked(explorer: Explorer, ask: Ask) -> dict[str, Any]:
    return {
        "query_text": ask.text("q"),
        "tables": explorer.lake.tables()[:200],
        "most_rows": MOST_ROWS,
        "seconds": SECONDS,
    }


def _run(explorer: Explorer, query: str, seconds: float) -> dict[str, Any]:
    if not query:
        raise InvalidQueryError("the query is empty; write a SELECT, for instance: select 1")
    if len(query) > _LONGEST:
        raise InvalidQueryError(f"the query has {len(query):,} characters; at most {_LONGEST:,} are read")
    began = time.monotonic()
    answer = explorer.lake.sql(query)
    done, over = threading.Event(), threading.Event()

    def stop_in_time() -> None:
        done.wait(seconds - (time.monotonic() - began))
        while not done.is_set():  # again and again, since what has not quite begun is not interrupted
            over.set()
            answer.cancel()
            done.wait(0.1)

    clock = threading.Thread(target=stop_in_time, daemon=True)
    clock.start()
    try:
        rows, more = first_rows(answer.to_batches(), MOST_ROWS)
    except ParqlakeError as error:
        if over.is_set():
            raise InvalidQueryError(
                f"the query took longer than {seconds:g} seconds and was stopped; ask for less, or run it with lake.sql"
            ) from error
        raise
    finally:
        done.set()
        clock.join()  # it must not be the last to hold the query, or a process that ends now would crash
        answer.cancel()
    return {
        "columns": [{"name": field.name, "type": str(field.type)} for field in rows.schema],
        "rows": plain_rows(rows),
        "more": more,
        "took": time.monotonic() - began,
    }
