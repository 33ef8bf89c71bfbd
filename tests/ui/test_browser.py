"""The explorer in a real browser: every page, the predicate box, the diff, keys, narrow screens, a hostile lake."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from shooting import SHOTS, shoot, start_browser
from ui_lake import PAGES, SCRIPT

import parqlake
from parqlake.testing.data import ORDERS, orders
from parqlake.ui import app

pytestmark = pytest.mark.xdist_group("ui")
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
SHIFTED = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
UNNAMED = """[...document.querySelectorAll("input:not([type=hidden]), select, textarea, button, a, svg[role=img]")]
    .filter(e => !e.labels?.length && !e.getAttribute("aria-label") && !e.textContent.trim()).map(e => e.outerHTML)"""
IMAGES = Path(__file__).resolve().parents[2] / "docs/images/ui"


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Any]:
    with start_browser(chromium) as started:
        yield started


@pytest.fixture(scope="module")
def address(shown: parqlake.Lake, served: Callable[[Any], str]) -> str:
    return served(app(shown))


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page that fails the test if anything in it does: scripts, the policy, what it loads."""
    context = browser.new_context(viewport=WIDE, reduced_motion="reduce")
    opened = context.new_page()
    wrong: list[str] = []
    opened.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
    opened.on("requestfailed", lambda request: wrong.append(request.url) if not _aborted(request) else None)
    yield opened
    context.close()
    assert wrong == []


def _aborted(request: Any) -> bool:
    return "ERR_ABORTED" in (request.failure or "")


def test_every_page_opens_wide_and_narrow(page: Any, address: str) -> None:
    places = ["/", "/health", "/runs", "/sql", *(f"/tables/sales.orders/{name}" for name in PAGES)]
    for place in places:
        answer = page.goto(address + place)
        assert answer.status == 200
        assert page.locator("h1").count() == 1
        assert page.evaluate(UNNAMED) == []
        for size in (NARROW, WIDE):
            page.set_viewport_size(size)
            assert not page.evaluate(SHIFTED), f"{place} is wider than {size['width']} pixels"
    page.goto(f"{address}/tables/staging.empty/clustering")
    assert page.get_by_text("No files").is_visible()


def test_the_predicate_box_lights_files_up(page: Any, address: str) -> None:
    page.goto(f"{address}/tables/sales.events/clustering?column=customer")
    assert page.locator("svg.ranges rect.skipped").count() == 0
    page.fill("#where", "customer between 1000 and 1200")
    page.wait_for_selector(".kept-figures")
    lit, dark = (page.locator(f"svg.ranges rect.{kind}").count() for kind in ("kept", "skipped"))
    assert 0 < lit < dark
    assert "where=customer" in page.url
    page.fill("#where", "custmer = 1")
    page.wait_for_selector(".wrong")
    assert "did you mean" in page.locator(".wrong").inner_text()
    page.fill("#where", "customer < 0")
    page.locator(".kept-figures b").first.get_by_text("0", exact=True).wait_for()


def test_versions_are_compared_from_the_history(page: Any, address: str, shown: parqlake.Lake) -> None:
    deleted = next(e for e in shown.table("sales.orders").history() if e.operation == "delete")
    page.goto(f"{address}/tables/sales.orders/history")
    page.check(f"input[name=before][value='{deleted.version - 1}']")
    page.check(f"input[name=after][value='{deleted.version}']")
    page.get_by_role("button", name="Compare the two").click()
    page.wait_for_url("**/diff?*")
    assert page.locator("table.diff tr.minus").count() == min(60, deleted.removed_rows)
    assert page.locator("table.diff tr.plus").count() == 0


def test_keys_theme_tabs_and_sql(page: Any, address: str) -> None:
    page.goto(f"{address}/tables/sales.orders/overview")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.keyboard.press("t")
    assert page.evaluate(ground) != light
    page.keyboard.press("]")
    page.wait_for_url("**/history")
    assert page.evaluate(ground) != light, "the theme is remembered"
    page.keyboard.press("/")
    page.keyboard.type("gold.daily")
    page.keyboard.press("Enter")
    page.wait_for_url("**/tables/gold.daily/overview")
    page.keyboard.press("?")
    assert page.locator("dialog#keys").is_visible()
    page.keyboard.press("Escape")
    page.get_by_role("tab", name="Polars").click()
    assert page.get_by_role("tabpanel").locator("visible=true").inner_text().count("to_polars") == 1
    page.goto(f"{address}/sql")
    page.keyboard.press("p")
    page.keyboard.type("select 6 * 7 as answer")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("table.data")
    assert page.locator("table.data td").inner_text() == "42"


def test_a_hostile_lake_is_only_shown(page: Any, hostile: parqlake.Lake, served: Callable[[Any], str]) -> None:
    address = served(app(hostile))
    for name in ("history", "diff", "files", "runs"):
        page.goto(f"{address}/tables/bad.table/{name}")
        assert page.locator("main script, main img, h1:has-text('out')").count() == 0
    page.goto(f"{address}/tables/bad.table/overview")
    assert page.locator("table.columns .name").first.inner_text() == SCRIPT
    page.goto(f"{address}/tables/bad.table/clustering")
    quoted = SCRIPT.replace("'", "''")
    page.fill("#where", f"\"{SCRIPT}\" = '{quoted}'")
    page.wait_for_selector(".kept-figures")


def test_it_works_without_scripts(browser: Any, address: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    try:
        page = context.new_page()
        page.goto(f"{address}/tables/sales.events/explain")
        page.fill("#where", "customer = 7")
        page.get_by_role("button", name="Show").click()
        assert "customer = 7" in page.locator("#result").inner_text()
        page.goto(f"{address}/sql")
        page.fill("#q", "select 6 * 7 as answer")
        page.get_by_role("button", name="Run").click()
        assert page.locator("table.data td").inner_text() == "42"
    finally:
        context.close()


def test_forms_that_write_are_let_through(page: Any, served: Callable[[Any], str], tmp_path: Path) -> None:
    with parqlake.connect(tmp_path / "lake") as lake:
        table = lake.create_table("a.b", ORDERS)
        for number in range(2):
            table.append(orders(5, first=5 * number))
        page.goto(f"{served(app(lake, allow_writes=True))}/tables/a.b/maintenance")
        page.locator("form[action$='/do/compact'] button").click()
        page.get_by_role("heading", name="Done").wait_for()
        assert "version 3" in page.locator("main").inner_text()
        assert table.version == 3


def test_the_documents_show_every_page() -> None:
    assert {path.stem for path in IMAGES.glob("*.png")} == set(SHOTS)
    assert sum(path.stat().st_size for path in IMAGES.glob("*.png")) < 1_500_000


@pytest.mark.slow
def test_screenshots_are_made(browser: Any, address: str, tmp_path: Path) -> None:
    shoot(browser, address, tmp_path)
    assert {path.stem for path in tmp_path.glob("*.png")} == set(SHOTS)
