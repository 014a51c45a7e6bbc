"""The commands that pages show are those of the command line: each verb and each of its options."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

from groupshift.cli.verbs import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"(?:^|\n)\n((?: {4,}[^\n]*(?:\n|\Z))+)|^ *```\w*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
"""An indented block after a blank line, or a fenced one."""
LINE = re.compile(r"^ *(?:\.venv/bin/)?(groupshift [a-z].*?)(?:\s+# .*)?$", re.MULTILINE)
INLINE = re.compile(r"`(groupshift [a-z][^`]*)`")
OWN_PARSER = {"consume"}
"""Verbs that need the base dependencies only, and so have no typer command."""
ANYWHERE = {"--help", "--version"}


def _commands(page: Path) -> list[str]:
    """Every command on a page, also in the middle of a sentence; brackets mark what may be left out."""
    text = page.read_text()
    blocks = "\n".join(indented or fenced for indented, fenced in BLOCK.findall(text))
    found = [*LINE.findall(blocks), *(re.sub(r"\s+", " ", each) for each in INLINE.findall(text))]
    return [re.sub(r"[\[\]]", "", each) for each in found]


@cache
def _groupshift() -> Any:
    return typer.main.get_command(app)


def _wrong(command: str) -> str:
    """What the command line does not take of a command; empty when it takes all of it."""
    words = shlex.split(command)[1:]
    group: Any = _groupshift()
    while (verbs := getattr(group, "commands", None)) and words and not words[0].startswith("-"):
        name = words.pop(0)
        if name in OWN_PARSER:
            return ""
        if name not in verbs:
            return f"no verb {name!r}"
        group = verbs[name]
    options = {name for each in group.params for name in (*each.opts, *each.secondary_opts)} | ANYWHERE
    given = (word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word))
    unknown = [name for name in given if name not in options]
    return f"no option {', '.join(unknown)}" if unknown else ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_on_a_page_exists(page: Path) -> None:
    """Its verb is one of the command line, and takes each option that the page gives it."""
    wrong = {command: why for command in _commands(page) if (why := _wrong(command))}
    assert wrong == {}


def test_a_wrong_verb_and_a_wrong_option_are_named() -> None:
    """The check can fail, and pages have commands to check."""
    assert _wrong("groupshift frob x") == "no verb 'frob'"
    assert _wrong("groupshift status --frob") == "no option --frob"
    assert _wrong("groupshift downgrade assess --to 3.9.2 --from 4.3.1") == ""
    assert sum(len(_commands(page)) for page in PAGES) > 100


def test_a_message_that_says_how_to_accept_can_be_pasted() -> None:
    """Without --execute a run is only shown, and nothing is accepted."""
    engine = [*(ROOT / "src/groupshift/engine").rglob("*.py"), *(ROOT / "src/groupshift/moves").rglob("*.py")]
    lines = [line for file in engine for line in file.read_text().splitlines() if "--accept '" in line]
    assert len(lines) > 4
    assert [line for line in lines if "--execute" not in line] == []
