"""The documents are true: their code runs, their links lead somewhere, their lists are complete."""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from parqlake.core import errors

Run = Callable[..., str]
ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SKIP = "<!-- not run -->"
FENCE = re.compile(r"^```(\w*)\s*$")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def runnable(text: str) -> str:
    """The page's Python blocks, each on its own lines of the page, so that a traceback points at the page."""
    lines, kept, inside, taken, before = text.splitlines(), [], False, False, ""
    for line in lines:
        fence = FENCE.match(line)
        if fence:
            taken = not inside and fence.group(1) == "python" and before != SKIP
            inside = not inside
            kept.append("")
        else:
            kept.append(line if inside and taken else "")
        before = line.strip() or before
    assert not inside, "a code block is not closed"
    return "\n".join(kept) + "\n"


def page_name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


WITH_CODE = [page for page in PAGES if runnable(page.read_text(encoding="utf-8")).strip()]
ON_SPARK = {"docs/pipeline.md"}  # which takes its time to start


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.slow if page_name(page) in ON_SPARK else ()) for page in WITH_CODE],
    ids=page_name,
)
def test_python_blocks_run(page: Path, tmp_path: Path, run_python: Run) -> None:
    script = tmp_path / f"{page.stem}.py"
    script.write_text(runnable(page.read_text(encoding="utf-8")), encoding="utf-8")
    folder = tmp_path / "here"
    folder.mkdir()
    if page_name(page) in ON_SPARK:
        run_python("-W", "error", "-W", "ignore:PySpark does not yet", str(script), cwd=folder, timeout=600)
    else:
        run_python("-W", "error", str(script), cwd=folder)


def test_the_pages_that_show_code_are_run() -> None:
    names = {page_name(page) for page in WITH_CODE}
    assert {"README.md", "docs/index.md", "docs/quickstart.md", "docs/predicates.md", "docs/writing.md"} <= names


def test_blocks_that_are_marked_are_left_out() -> None:
    page = f"{SKIP}\n```python\nno\n```\n\n```python\nyes\n```\n```sh\nno\n```\n"
    assert runnable(page).split() == ["yes"]


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links_lead_to_files(page: Path) -> None:
    targets = [target for target in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in target]
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing


def test_every_decision_is_in_the_index_and_in_the_site() -> None:
    decisions = sorted(path.name for path in (ROOT / "docs/decisions").glob("[0-9]*.md"))
    assert len(decisions) >= 7
    index = (ROOT / "docs/decisions/index.md").read_text(encoding="utf-8")
    site = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    assert [name for name in decisions if f"({name})" not in index] == []
    assert [name for name in decisions if f'"decisions/{name}"' not in site] == []
    assert [name[:4] for name in decisions] == [f"{number:04}" for number in range(1, len(decisions) + 1)]


@pytest.mark.parametrize("path", sorted((ROOT / "docs/decisions").glob("[0-9]*.md")), ids=lambda path: path.stem)
def test_decisions_have_the_four_headings(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith(f"# {path.name[:4]}: ")
    assert [line[3:] for line in lines if line.startswith("## ")] == [
        "Context",
        "Decision",
        "Alternatives",
        "Consequences",
    ]


def test_every_page_is_in_the_site() -> None:
    site = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if f'"{page}"' not in site] == []


def test_the_page_of_errors_shows_the_whole_tree() -> None:
    text = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
    tree = text.split("```text\n")[1].split("```")[0]
    shown = {line.split()[0]: (len(line) - len(line.lstrip())) // 2 for line in tree.splitlines()}
    kinds = [k for k in vars(errors).values() if inspect.isclass(k) and issubclass(k, errors.ParqlakeError)]
    depth = {kind.__name__: len([k for k in kind.__mro__ if issubclass(k, errors.ParqlakeError)]) - 1 for kind in kinds}
    assert shown == depth


def test_the_site_builds_and_loads_nothing_from_elsewhere(tmp_path: Path, run_python: Run) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    (tmp_path / "zensical.toml").write_bytes((ROOT / "zensical.toml").read_bytes())
    run_python("-m", "zensical", "build", "--clean", "--strict", cwd=tmp_path)
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) >= len(list((ROOT / "docs").rglob("*.md")))
    loads = re.compile(r"""<(?:script|img|iframe)[^>]*\ssrc=["']?https?://|<link[^>]*\shref=["']?https?://""")
    assert [page.name for page in pages if loads.search(page.read_text(encoding="utf-8"))] == []
