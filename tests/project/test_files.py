"""Rules for the files of the project: size, names, and what none of them may mention."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

LONGEST = 400
FORBIDDEN_MODULES = {"utils", "helpers", "common", "misc", "util", "helper"}
# Assembled, so that this file does not name what it forbids.
HOSTS = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("crates", "io"),
        ("maven", "org"),
        ("maven", "apache", "org"),
        ("proxy", "golang", "org"),
        ("deb", "debian", "org"),
    )
]
MACHINE_PATH = re.compile(r"(?<![\w.~}\])])/(?:work|root|home|Users|opt)/[a-z]")


def text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def test_no_file_is_too_long(project_files: list[Path], root: Path) -> None:
    code = [path for path in project_files if path.suffix in {".py", ".sh", ".sql"}]
    assert len(code) > 20
    lengths = {path.relative_to(root).as_posix(): len(text_of(path).splitlines()) for path in code}
    assert {name: length for name, length in lengths.items() if length > LONGEST} == {}


def test_no_module_has_a_name_that_says_nothing(project_files: list[Path]) -> None:
    names = {path.stem for path in project_files if path.suffix == ".py"} | {path.parent.name for path in project_files}
    assert names & FORBIDDEN_MODULES == set()


def test_no_file_names_a_package_registry(project_files: list[Path], root: Path) -> None:
    named = [
        (path.relative_to(root).as_posix(), host) for path in project_files for host in HOSTS if host in text_of(path)
    ]
    assert named == []


def test_no_file_names_a_path_of_some_machine(project_files: list[Path], root: Path) -> None:
    found = {path.relative_to(root).as_posix(): MACHINE_PATH.findall(text_of(path)) for path in project_files}
    assert {name: paths for name, paths in found.items() if paths} == {}


def test_the_pattern_of_machine_paths_finds_them() -> None:
    assert MACHINE_PATH.search("in " + "/".join(("", "home", "me", "x")))
    assert not MACHINE_PATH.search("docs/work/item")


def test_constraints_pin_everything_and_name_no_place(root: Path) -> None:
    lines = (root / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    shape = re.compile(r"[a-z0-9-]+==[0-9][0-9a-z.]*( ; [^#]+)?")
    assert [line for line in pins if not shape.fullmatch(line)] == []
    pinned = {line.partition("==")[0] for line in pins}
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [
        *project["project"]["dependencies"],
        *(item for extra in project["project"]["optional-dependencies"].values() for item in extra),
        *(item for group in project["dependency-groups"].values() for item in group),
    ]
    names = {re.split(r"[\[<>=!~; ]", item)[0].lower().replace("_", "-") for item in wanted} - {"parqlake"}
    names -= {"daft"}  # it wants an older PyArrow, and has an environment of its own
    assert names - pinned == set()
