"""The commands that pages show are those of the command line: each verb and each of its options."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

from groupshift.cli.requests import values_of
from groupshift.cli.verbs import app
from groupshift.engine.installed_moves import moves
from groupshift.errors import Rejected
from support.option_tables import PAGE, with_tables

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"(?:^|\n)\n((?: {4,}[^\n]*(?:\n|\Z))+)|^ *```\w*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
"""An indented block after a blank line, or a fenced one."""
LINE = re.compile(r"^ *(?:\.venv/bin/)?(groupshift [a-z].*?)(?:\s+# .*)?$", re.MULTILINE)
INLINE = re.compile(r"`(groupshift [a-z][^`]*)`")
OWN_PARSER = {"consume"}
"""Verbs that need the base dependencies only, and so have no typer command."""
ANYWHERE = {"--help", "--version"}
USAGE: Any = typer.BadParameter.__base__
"""What the command line raises for words that it does not take."""


def _commands(page: Path) -> list[str]:
    """Every command on a page, also in the middle of a sentence; brackets mark what may be left out."""
    inline = (re.sub(r"\s+", " ", each) for each in INLINE.findall(page.read_text()))
    return [re.sub(r"[\[\]]", "", each) for each in (*_examples(page), *inline)]


def _examples(page: Path) -> list[str]:
    """The commands that stand on lines of their own: whole ones, to be pasted."""
    return LINE.findall("\n".join(indented or fenced for indented, fenced in BLOCK.findall(page.read_text())))


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


def _refused(example: str) -> str:
    """What the command line says to a whole command before it does anything; empty: it would begin."""
    words = shlex.split(re.sub(r"[\[\]]", "", example))[1:]
    if words[0] in OWN_PARSER:
        return ""
    group: Any = _groupshift()
    move = moves().get(words[0])
    while (verbs := getattr(group, "commands", None)) and words and words[0] in verbs:
        group = verbs[words.pop(0)]
    if hasattr(group, "commands") or "--help" in words:
        return ""
    try:
        given = group.make_context(group.name, words).params
        if move is not None:
            move.request_from(values_of(move, given))
    except (USAGE, Rejected) as why:
        return str(why)
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_on_a_page_exists(page: Path) -> None:
    """Its verb is one of the command line, and takes each option that the page gives it."""
    wrong = {command: why for command in _commands(page) if (why := _wrong(command))}
    assert wrong == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_example_can_be_pasted(page: Path) -> None:
    """It has what its verb demands, and values that the verb takes."""
    refused = {example: why for example in _examples(page) if (why := _refused(example))}
    assert refused == {}


def test_an_example_that_the_command_line_refuses_is_named() -> None:
    """A value that is none of its words, a missing one, and an option that is required."""
    assert "frob" in _refused("groupshift protocol run --group g --to frob")
    assert "--group" in _refused("groupshift protocol run --to consumer")
    assert "requires an argument" in _refused("groupshift status --move")
    assert _refused("groupshift protocol run --group g --to consumer [--execute]") == ""


def test_the_options_of_each_move_are_those_of_its_request() -> None:
    """Else: .venv/bin/python tests/support/option_tables.py."""
    page = PAGE.read_text()
    assert page == with_tables(page)


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
