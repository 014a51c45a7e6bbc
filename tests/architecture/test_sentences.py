"""How long the sentences for people are: README, CONTRIBUTING, CHANGELOG and all pages of ``docs/``.

A heading, an item of a list and a cell of a table count as a sentence each; code blocks do not. A colon, a
semicolon and a dash end no sentence. `test_the_prose_of_each_page` leaves tables out, for short cells would
hide long sentences.

``python tests/architecture/test_sentences.py [PAGE]…`` prints figures of pages and their longest sentences.
"""

from __future__ import annotations

import re
import statistics
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
MEDIAN, P90, LONGEST = 16, 28, 50
SHOWN = 10
FEW = 8
"""Pages with fewer sentences are held to the longest only: of five sentences one is no ninth decile."""

_FENCE = re.compile(r"\s*(```|~~~)")
_ITEM = re.compile(r"^\s*([-*+]|\d+\.)\s+")
_CODE_INDENT, _CODE_IN_ITEM = 4, 6
_CELL = re.compile(r"(?<!\\)\|")
_END = re.compile(r"(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bvs\.)(?<=[.!?])[)\"”*`_]*\s+(?=[\"“(*`_\[]*[\w`…\[])")
_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True, order=True)
class Sentence:
    """``words`` of ``text``, which begins in ``line`` of a page; ``cell``: it stands in a table."""

    words: int
    line: int
    text: str
    cell: bool


@dataclass(slots=True)
class _Blocks:
    """Paragraphs, items, headings and cells of a page, each with the line in which it begins."""

    found: list[tuple[int, str, bool]]
    open: list[str]
    start: int = 0

    def close(self) -> None:
        if self.open:
            self.found.append((self.start, " ".join(self.open), False))
        self.open = []

    def take(self, number: int, text: str) -> None:
        if not self.open:
            self.start = number
        self.open.append(text)


def _blocks(page: str) -> list[tuple[int, str, bool]]:
    blocks = _Blocks([], [])
    fenced, blank, in_list = False, True, False
    for number, line in enumerate(page.splitlines(), 1):
        text, indent = line.strip(), len(line) - len(line.lstrip())
        if _FENCE.match(line) or fenced or not text or text.startswith("<!--"):
            blocks.close()
            fenced ^= bool(_FENCE.match(line))
        elif blank and indent >= (_CODE_IN_ITEM if in_list else _CODE_INDENT) and not _ITEM.match(line):
            continue
        elif text.startswith(("#", "|")):
            blocks.close()
            cells = [text.lstrip("# ")] if text[0] == "#" else _CELL.split(text.strip("|"))
            rule = not set(text) - set("|-: ")
            blocks.found += [
                (number, each.strip(), text[0] == "|") for each in cells if each.strip() and not rule
            ]
            in_list = in_list and text[0] == "|"
        else:
            if _ITEM.match(line):
                blocks.close()
            in_list = bool(_ITEM.match(line)) or (in_list and (indent > 0 or bool(blocks.open)))
            blocks.take(number, _ITEM.sub("", line).strip())
        blank = not text
    blocks.close()
    return blocks.found


def sentences(page: str) -> Iterator[Sentence]:
    """Every sentence of a page in Markdown. A link counts by its text, code in a line as one word."""
    for line, block, cell in _blocks(page):
        text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", block)
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
        text = re.sub(r"`[^`]*`", "`code`", text)
        for each in _END.split(text):
            words = sum(bool(_WORD.search(word)) for word in each.split())
            if words:
                yield Sentence(words, line, each, cell)


def figures(found: Iterable[Sentence]) -> tuple[float, int, int]:
    """Median, ninth decile and maximum of the words of a sentence."""
    counts = sorted(each.words for each in found)
    return statistics.median(counts), counts[len(counts) * 9 // 10], counts[-1]


def longest(found: Iterable[tuple[Path, Sentence]]) -> str:
    """The longest sentences, one a line."""
    worst = sorted(found, key=lambda each: -each[1].words)[:SHOWN]
    return "\n".join(f"{s.words:3} {page.relative_to(ROOT)}:{s.line} {s.text}" for page, s in worst)


def _all(pages: Iterable[Path]) -> list[tuple[Path, Sentence]]:
    return [(page, each) for page in pages for each in sentences(page.read_text())]


def test_all_sentences_together() -> None:
    """Half of them have at most 16 words, nine of ten at most 28."""
    found = _all(PAGES)
    print(longest(found))
    median, p90, _ = figures(each for _, each in found)
    assert (median <= MEDIAN, p90 <= P90) == (True, True), f"median {median}, p90 {p90}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_prose_of_each_page(page: Path) -> None:
    """The same numbers, page by page and without tables; and no sentence of more than 50 words."""
    found = [(page, each) for each in sentences(page.read_text()) if not each.cell]
    print(longest(found))
    median, p90, most = figures(each for _, each in found)
    if len(found) < FEW:
        median, p90 = 0, 0
    assert (median <= MEDIAN, p90 <= P90, most <= LONGEST) == (True,) * 3, (
        f"median {median}, p90 {p90}, {most}"
    )


def test_what_counts_as_a_sentence() -> None:
    """Headings, items and cells do; code does not; a colon ends none."""
    page = "# One two\n\nA b c: d e. F `g h` [i j](k.md).\n\n    no code here\n\n- l m\n  n\n"
    page += "\n| o | p q |\n|---|---|\n\n```\nnor here\n```\n"
    assert [(each.words, each.cell) for each in sentences(page)] == [
        (2, False), (5, False), (4, False), (3, False), (1, True), (2, True)
    ]  # fmt: skip


if __name__ == "__main__":
    chosen = [Path(each).resolve() for each in sys.argv[1:]] or PAGES
    for one in chosen:
        every = [each for _, each in _all([one])]
        prose = [each for each in every if not each.cell]
        print(one.relative_to(ROOT), len(every), *figures(every), "prose", len(prose), *figures(prose))
    print("all", *figures(each for _, each in _all(chosen)))
    print(longest(_all(chosen)))
