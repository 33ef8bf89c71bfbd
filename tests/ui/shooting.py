"""Pictures of every page for the documents: `python tests/ui/shooting.py` makes them anew in docs/images/ui.

They are taken of the same lake that the tests look at, only larger; see scripts/chromium.sh for the browser.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_FILES = "/tables/sales.orders"
_EVENTS = "/tables/sales.events"
SHOTS: dict[str, tuple[str, str, int]] = {
    "lake": ("/", "light", 1280),
    "lake-dark": ("/", "dark", 1280),
    "overview": (f"{_FILES}/overview", "light", 1280),
    "history": (f"{_FILES}/history", "light", 1280),
    "diff": (f"{_FILES}/diff?before=11&after=13&keys=id", "light", 1280),
    "files": (f"{_FILES}/files?version=8", "light", 1280),
    "clustering": (f"{_EVENTS}/clustering?where=customer+between+9000+and+11000", "light", 1280),
    "clustering-dark": (f"{_EVENTS}/clustering?where=customer+between+9000+and+11000", "dark", 1280),
    "clustering-phone": (f"{_EVENTS}/clustering?where=customer+between+9000+and+11000", "light", 390),
    "explain": (f"{_EVENTS}/explain?where=customer+%3C+500+and+amount+%3E+100", "light", 1280),
    "maintenance": (f"{_EVENTS}/maintenance", "light", 1280),
    "runs": ("/tables/gold.daily/runs", "light", 1280),
    "health": ("/health", "light", 1280),
    "sql": ("/sql", "light", 1280),
}
_QUERY = """select region, count(*) as orders, round(sum(amount)) as amount
from sales.orders group by all order by amount desc"""
_TALLEST = 1040


@contextmanager
def start_browser(chromium: str) -> Iterator[Any]:
    """A headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()


def shoot(browser: Any, address: str, folder: Path) -> None:
    """Makes one picture of each page."""
    for name, (place, scheme, width) in SHOTS.items():
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        try:
            page = context.new_page()
            page.goto(address + place)
            if name == "sql":
                page.fill("#q", _QUERY)
                page.get_by_role("button", name="Run").click()
                page.wait_for_selector("table.data")
            height = min(_TALLEST, page.evaluate("document.documentElement.scrollHeight"))
            page.set_viewport_size({"width": width, "height": height})
            page.screenshot(path=folder / f"{name}.png")
        finally:
            context.close()


def main() -> None:
    """Fills a lake, serves it, and makes the pictures."""
    import uvicorn
    from ui_lake import fill

    import parqlake
    from parqlake.ui import app

    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images/ui")
    folder.mkdir(parents=True, exist_ok=True)
    chromium = next(path for name in ("chromium", "google-chrome") if (path := shutil.which(name)))
    os.environ["LOGNAME"], socket.gethostname = "ana", lambda: "laptop"  # pictures name no real user or machine
    place = Path(tempfile.gettempdir()) / "parqlake-pictures"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    with parqlake.connect(place / "warehouse") as lake:
        fill(lake, rows=40_000, hours=48)
        server = uvicorn.Server(uvicorn.Config(app(lake), port=8799, log_level="warning"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.05)
        with start_browser(chromium) as browser:
            shoot(browser, "http://127.0.0.1:8799", folder)
        server.should_exit = True
        thread.join()
    shutil.rmtree(place)


if __name__ == "__main__":
    main()
