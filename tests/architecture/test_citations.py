"""What code and pages cite is here: a page, a section of a page; or it is an address of the public web."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"
KINDS = ("*.py", "*.sql", "*.toml", "*.md", "*.go", "*.css", "*.yaml", "*.yml", "Makefile", "docker/*")
OWN = {
    "tests/architecture/test_citations.py": "has what it looks for",
    "tests/architecture/test_sentences.py": "has pages made up",
    "tests/unit/support/test_refactor.py": "makes a tree of its own",
}
PAGE = re.compile(r"(?<![\w/.{}<>*-])((?:[\w.-]+/)*[\w-]+\.md)\b")
PRIVATE = re.compile(
    r"(?<![\w/-])specs?/|\bspecs? §|\bdesign/\w|\bredesign\b|\b[Ii]ssues? \d|\bthe specification\b"
)
"""Papers that lie beside the repository, and numbers of a tracker that nobody outside can read."""
SECTION = re.compile(
    r"§§? ?([0-9A-Z](?:\.\d+)*)((?:(?:,|,? and|,? to|[-\N{EN DASH}])\s+(?:§§? ?)?[0-9](?:\.\d+)*(?![\w%']))*)"
)
NUMBER = re.compile(r"[0-9A-Z](?:\.\d+)*")
HEADING = re.compile(r"^##+ ([0-9A-Z](?:\.\d+)*)\.? ", re.MULTILINE)


@cache
def _texts() -> dict[str, str]:
    """Every text file of the repository by its path from the root."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *KINDS],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    names = [name for name in listed.split("\0") if name and name not in OWN]
    files = {name: ROOT / name for name in names}
    return {
        name: file.read_text(errors="replace")
        for name, file in files.items()
        if file.is_file() and not file.is_symlink()
    }


@cache
def _sections() -> dict[str, frozenset[str]]:
    """The numbered or lettered headings of each page that has some."""
    found = {page.name: frozenset(HEADING.findall(page.read_text())) for page in REFERENCE.glob("*.md")}
    return {name: numbers for name, numbers in found.items() if numbers}


def _found(name: str, base: Path) -> bool:
    """Whether a page exists: beside the citing file, from the root, or by a name that only one page has."""
    if (ROOT / name).exists() or (base / name).exists():
        return True
    return "/" not in name and len(list((ROOT / "docs").rglob(name))) == 1


def _cited_sections(text: str) -> set[str]:
    """``2``, ``8.10`` and so on, but those of an RFC; of a range its ends."""
    own = re.sub(r"RFC \d+ §[\d.]+", "", text)
    return {number for first, rest in SECTION.findall(own) for number in (first, *NUMBER.findall(rest))}


def test_every_page_that_is_named_is_here() -> None:
    """By its path from the root, or by a name that only one page below ``docs/`` has."""
    missing = {
        f"{name}: {page}"
        for name, text in _texts().items()
        for page in PAGE.findall(re.sub(r"https?://\S+", "", text))
        if not _found(page, (ROOT / name).parent)
    }
    assert sorted(missing) == []


def test_nothing_cites_what_lies_elsewhere() -> None:
    """No private paper, no number of a private tracker."""
    wrong = {f"{name}: {found}" for name, text in _texts().items() for found in PRIVATE.findall(text)}
    assert sorted(wrong) == []


@pytest.mark.parametrize("part", ["src", "plugins", "dags", "sql", "benchmarks", "tests", "docs"])
def test_every_section_is_a_heading(part: str) -> None:
    """A section belongs to a page that the file names; in tests, which are about one thing, to any page."""
    everywhere = frozenset[str]().union(*_sections().values())
    wrong = []
    for name, text in _texts().items():
        if not name.startswith(f"{part}/"):
            continue
        pages = [page for page in _sections() if page in text]
        known = frozenset[str]().union(*(_sections()[page] for page in pages))
        if part == "tests" and not pages:
            known = everywhere
        if lost := sorted(_cited_sections(text) - known):
            wrong.append(f"{name}: {', '.join(lost)}")
    assert wrong == []


def test_sections_are_read_off_lists_and_ranges() -> None:
    """Of one page and of several, with and without a sign before each number."""
    assert _cited_sections("§§1.6, 1.7, 2; §3.1 to 3.3, §4 and 8.10 (F6), see §A; §9 lines 4, 5.") == {
        "1.6", "1.7", "2", "3.1", "3.3", "4", "8.10", "A", "9"
    }  # fmt: skip
