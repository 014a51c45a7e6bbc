"""The pages for people: every link leads somewhere, and every page is in the index."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
INDEX = DOCS / "README.md"
AUDIENCES = {"start", "service-teams", "runbooks", "reference", "safety", "adr"}
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
NAMED = re.compile(r"\bdocs/[a-z0-9-]+(?:/[\w.-]+)*\.md(?:#[\w-]+)?")
"""A page as code, comments and messages name it: by its path from the root of the repository."""
FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
ELSEWHERE = {"tests/unit/support/test_refactor.py": "makes a tree of its own"}


def _tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    files = (ROOT / name for name in listed.split("\0") if name)
    return [file for file in files if file.is_file() and not file.is_symlink()]


def _pages() -> list[Path]:
    return [
        *_tracked("docs/*.md"),
        *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG")),
    ]


@cache
def anchors(page: Path) -> frozenset[str]:
    """What can stand behind ``#`` in a link to ``page``, as GitHub makes it of the headings."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.*)$", FENCED.sub("", page.read_text()), re.MULTILINE):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")
        numbered = (f"{slug}-{number}" for number in range(1, len(found) + 1))
        found.add(next(each for each in (slug, *numbered) if each not in found))
    return frozenset(found)


def _missing(target: str, base: Path) -> bool:
    """Whether a link from the folder ``base`` leads nowhere."""
    name, _, anchor = target.partition("#")
    file = (base / name).resolve() if name else None
    if file is None or not file.exists():
        return True
    return bool(anchor) and anchor not in anchors(file)


@pytest.mark.parametrize("page", _pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_resolves(page: Path) -> None:
    """Files and headings alike; addresses of the web are not asked."""
    links = LINK.findall(FENCED.sub("", page.read_text()))
    local = [each for each in links if not re.match(r"[a-z]+:", each)]
    here = [page.name + each if each.startswith("#") else each for each in local]
    assert [each for each in here if _missing(each, page.parent)] == []


def test_every_page_that_code_names_exists() -> None:
    """Docstrings, comments, messages, tests and build files name pages by paths that lead to one."""
    kinds = ("*.py", "*.sql", "*.toml", "*.yaml", "*.yml", "*.md", "Makefile", "docker/*", "*.html", "*.go")
    wrong = {
        f"{file.relative_to(ROOT)}: {target}"
        for file in _tracked(*kinds)
        if str(file.relative_to(ROOT)) not in ELSEWHERE
        for target in NAMED.findall(file.read_text(errors="replace"))
        if _missing(target, ROOT)
    }
    assert sorted(wrong) == []


def test_every_page_lies_with_its_audience_and_in_the_index() -> None:
    """A page that nobody can find is not there; decisions are listed by their folder."""
    pages = [page for page in _tracked("docs/*.md") if page != INDEX]
    assert [page.name for page in pages if page.relative_to(DOCS).parts[0] not in AUDIENCES] == []
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in LINK.findall(INDEX.read_text())}
    listed = [page for page in pages if page.parent.name != "adr"]
    assert [str(page.relative_to(DOCS)) for page in listed if page not in linked] == []


def test_every_picture_is_on_a_page() -> None:
    """What no page shows is out of date before anybody sees it."""
    pictures = {picture.name for picture in _tracked("docs/images/*")}
    shown = " ".join(page.read_text() for page in _pages())
    assert sorted(name for name in pictures if name not in shown) == []
