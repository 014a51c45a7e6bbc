"""Whatever a stranger names is shown as it is, by every renderer, and does nothing."""

from __future__ import annotations

import ast
import io
import shlex
import subprocess
import unicodedata
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from groupshift.adapters.drivers.manual import instruction_for
from groupshift.cli import output_and_next_command as output
from groupshift.cli import run_output, scan
from groupshift.domain.modes import MemberKind
from groupshift.domain.run import Step
from groupshift.domain.verdict import Finding, Verdict
from groupshift.engine.questions_and_approvers import findings_table, words_of
from groupshift.ports.driver import Change
from groupshift.report import page, pictures
from groupshift.report.svg_and_time_axis import element
from support.page_parts import html_of

HOSTILE = (
    "app[prod]", "[/team]/orders", "[/]", "[bold]x[/bold]", "[link=http://evil.example]x[/link]", "[red", "]",
    ":smile:", "a|b", "a|b|", "`x`", "``", "*x*", "_x_", "~~x~~", "# x", "- x", "+ x", "1. x", "12) x", "> x",
    "---", "===", "    x", "<b>x</b>", "<script>alert(1)</script>", "&lt;", "&amp;", "[x](http://evil.example)",
    "![x](http://evil.example/x.png)", "http://evil.example/", "www.evil.example", "a@evil.example", "$x$",
    "\x1b[31mred", "\x1b]8;;http://evil.example\x07x", "\x9b31m", "abc\u202edef", "\u200bx",
    "a\nb", "\r\nx", "\t", "\x00", "x\\", "\\", "a\\[b]", "é" * 249, "g" * 249, "a b#c",
    "data/data-serving:forwarder", "a\u00a0b",
    "\ud800", "{{ x }}", "{x}", "%s", "'", '"', "-", "12345", "a  b",
)  # fmt: skip


def _for_all(test: Callable[[str], None]) -> Callable[[str], None]:
    """With every text of `HOSTILE`, and others."""
    for text in HOSTILE:
        test = example(text=text)(test)
    return settings(max_examples=60, deadline=None)(given(text=st.text(min_size=1, max_size=60))(test))


def _same(found: str, text: str) -> bool:
    """Without marks that show nothing alone, such as variation selectors and fillers."""
    from groupshift.domain.foreign_text_quoting import visible

    return visible(text) in found


def _printed(show: Callable[[Any], None], width: int = 4000, *, terminal: bool = False) -> str:
    from groupshift.cli.terminal import Console

    file = io.StringIO()
    console = Console(file=file, width=width)
    console._force_terminal = terminal
    show(console)
    written = file.getvalue()
    if not terminal:
        assert not [c for c in written if c != "\n" and unicodedata.category(c) in {"Cc", "Cf", "Zl", "Zp"}]
    return written


def _finding(text: str) -> Finding:
    return Finding(rule="P01", verdict=Verdict.FAIL, reason=text, hint=text)


TABLES: dict[str, Callable[[Any, str], None]] = {
    "line": lambda console, text: console.print(f"group {text}: gone"),
    "styled line": lambda console, text: console.line("run ", _styled(text), "."),
    "heading": lambda console, text: console.heading(text),
    "findings": lambda console, text: console.print(output.findings_table([_finding(text)], "x")),
    "title": lambda console, text: console.print(output.findings_table([_finding("x")], f"group {text}")),
    "next": output.next_command,
    "brake": lambda console, text: console.print(scan.brake_line(text)),
    "plan of a run": lambda console, text: console.print(run_output.steps_table("x", (_step(text),))),
}


def _styled(text: str) -> Any:
    from groupshift.cli.terminal import styled

    return styled(text, "bold")


def _step(text: str) -> Any:
    return Step(phase="p", kind="k", does=text, proof=text)


@pytest.mark.parametrize("place", TABLES)
def test_f05_the_terminal_shows_text_as_it_is(place: str) -> None:
    """Tables, titles, lines and rules; whether styled or not."""

    @_for_all
    def check(text: str) -> None:
        found = _printed(lambda console: TABLES[place](console, text))
        stripped = "\n".join(line.rstrip() for line in found.split("\n"))
        assert _same(found, text) or _same(stripped, text.strip() or text), (text, found)

    check()


def test_f05_a_terminal_gets_no_escape_sequence_of_a_stranger() -> None:
    """Where colours are on, ours are the only sequences."""
    for text in ("\x1b[2J", "\x9b2J", "\x1b]0;title\x07"):
        found = _printed(lambda console, t=text: console.line(_styled(t)), terminal=True)  # type: ignore[misc]
        assert text not in found


def test_f05_progress_and_questions_show_text_as_it_is() -> None:
    """A bar's description and a prompt; rich takes both for markup unless told otherwise."""
    from groupshift.cli.terminal import Console, choose, progress_bar
    from groupshift.domain.foreign_text_quoting import visible

    for text in ("reading [/team]/orders", "[red]x", ":smile:", "a\x1b[31m"):
        file = io.StringIO()
        console = Console(file=file, width=300)
        console._force_terminal = console.is_interactive = True
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TERM", "xterm")
            with progress_bar(console, "x") as told:
                told(text, 1, 2)
        assert visible(text) in file.getvalue()
        asked = io.StringIO()
        plain = Console(file=asked, width=300)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("builtins.input", lambda *_: "yes")
            assert choose(plain, text, ["yes", "no"], "no") == "yes"
        assert visible(text) in asked.getvalue()


def test_f05_ids_are_never_broken_over_lines() -> None:
    """At 80 columns and less, in pipes too: a table that does not fit becomes lists."""
    from groupshift.cli.terminal import Table

    ids = ("orders-of-the-team-20261125T012233-abcd", "a group with blanks " * 3 + "x", "c" * 120)
    for width in (40, 60, 80, 100):
        table = Table("runs", ("run", "group", "client id", "reason"))
        table.add_row(*ids, "nobody reads the group " * 20)
        found = _printed(lambda console, t=table: console.print(t), width)  # type: ignore[misc]
        assert all(each in found for each in ids), found
        lines = [line for line in found.split("\n") if "nobody" in line]
        assert len(lines) > 1, "sentences are wrapped"


def test_f05_an_error_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a name in it holds."""
    from groupshift.cli import main as command_line
    from groupshift.errors import Rejected

    def refuse(_: object) -> int:
        raise Rejected("group '[/x]\n\x1b[31m' is not there")

    monkeypatch.setattr(command_line, "_called", refuse)
    assert command_line.main(["assess"]) == 2
    assert capsys.readouterr().err == "rejected: group '[/x]\\n\\x1b[31m' is not there\n"


def test_f05_commands_can_be_pasted() -> None:
    """A shell gets back the name, which does nothing on the way."""
    from groupshift.domain.foreign_text_quoting import command, visible

    for text in HOSTILE:
        if "\x00" in text or "\ud800" in text:
            continue  # no argument of a program can hold these
        typed = command("printf", "%s", text)
        assert visible(typed) == typed
        got = subprocess.run(
            ["bash", "-c", typed], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}
        )
        assert got.stdout.decode() == text
    assert shlex.split(command("groupshift", "assess", "--group", "a b#c"))[-1] == "a b#c"


def test_f05_nothing_in_the_command_line_passes_the_terminal_by() -> None:
    """Markup, prompts and bars of rich are used in one module; a string that is printed has no meaning."""
    folder = Path(output.__file__).parent
    allowed = {("rich.text", "Text"), ("rich.status", "Status")}
    wrong: list[str] = []
    for path in sorted(folder.glob("*.py")):
        if path.name == "terminal.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rich"):
                wrong += [
                    f"{path.name}: {node.module}.{name.name}"
                    for name in node.names
                    if (node.module, name.name) not in allowed
                ]
            if isinstance(node, ast.Attribute) and node.attr in {"from_markup", "from_ansi", "echo", "secho"}:
                wrong.append(f"{path.name}:{node.lineno} {node.attr}")
    assert wrong == []


class _Read(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [value or "" for _, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def _read(document: str) -> _Read:
    found = _Read()
    found.feed(document)
    found.close()
    return found


def _page(text: str) -> str:
    top = page.Headline(verdict=Verdict.PASS, word=text, sentence=text, now=[(text, text, text)])
    alarms = [page.Alarm(lead=text, text=text, items=[text], hint=text)]
    return page.render(
        page.Page(title=text, top=top, lead=text, alarms=alarms, sections=[page.section(text)])
    )


PAGES: dict[str, Callable[[str], str]] = {
    "element": lambda text: element("p", text),
    "attribute": lambda text: element("p", "", title=text),
    "note": html_of,
    "word": lambda text: html_of(page.code(text)),
    "table": lambda text: html_of(page.Table(heads=["group"], rows=[[text]])),
    "facts": lambda text: html_of(page.Facts([("group", text)])),
    "details": lambda text: html_of(page.Details(text, [text])),
    "page": _page,
    "legend": lambda text: html_of(page.Legend({text: "#123456"}, {text: text})),
    "picture": lambda text: pictures.ownership(text, [0], {text: {(text, 0): (text,)}}, {text: "#123456"}),
}


@pytest.mark.parametrize("place", PAGES)
def test_f05_pages_and_pictures_show_text_as_it_is(place: str) -> None:
    """In text, attributes, titles of SVG; no tag comes with it."""
    usual = set(_read(PAGES[place]("x")).tags)

    @_for_all
    def check(text: str) -> None:
        found = _read(PAGES[place](text))
        assert any(_same(each, text) for each in (*found.text, *found.attributes)), text
        assert set(found.tags) == usual

    check()


def _rendered(text: str) -> _Read:
    return _read(MarkdownIt("gfm-like").render(text))


NOTES: dict[str, Callable[[str], str]] = {
    "findings": lambda text: findings_table((_finding(text),)),
    "instruction": lambda text: instruction_for(
        Change(change_id="c", group=text, slots=(text,), to=MemberKind.PLAIN)
    ),
}


@pytest.mark.parametrize("place", NOTES)
def test_s12_markdown_shows_text_as_it_is(place: str) -> None:
    """No link, picture, tag, list or cell comes from a name; what a gate shows is the name."""
    usual = sorted(_rendered(NOTES[place]("x")).tags)

    @_for_all
    def check(text: str) -> None:
        found = _rendered(NOTES[place](text))
        assert sorted(found.tags) == usual, (text, found.tags)
        assert _same("".join(found.text), text.strip() or text) or _same("".join(found.text), text), text

    check()


@pytest.mark.parametrize("text", ["//evil.example", "a //evil.example/x", "(//evil.example)"])
def test_s12_an_address_without_a_scheme_is_no_link(text: str) -> None:
    """Browsers follow it, and so does what makes links of text."""
    from groupshift.domain.foreign_text_quoting import markdown, shown

    for escape in (markdown, shown):
        found = _rendered(escape(text))
        assert ("a" in found.tags, _same("".join(found.text), text)) == (False, True)


@pytest.mark.parametrize("text", ["evil.com", "a.b.evil.de/x", "x.рф", "orders_v1.io:9092", "app.py"])
def test_s12_a_bare_host_is_no_link(text: str) -> None:
    """Some renderers make a link of whatever ends like a host."""
    from groupshift.domain.foreign_text_quoting import markdown, shown

    for escape in (markdown, shown):
        found = _rendered(escape(text))
        assert ("a" in found.tags, _same("".join(found.text), text)) == (False, True)


def test_s12_the_places_of_a_step_are_no_markup() -> None:
    """Member ids are what a client chose."""
    from groupshift.domain.foreign_text_quoting import markdown

    step = Step(phase="p", kind="k", does="![x](http://evil.example)")
    assert "img" not in _rendered(markdown(words_of(step))).tags


@_for_all
def test_f05_json_does_nothing_to_a_terminal(text: str) -> None:
    """The same value, with what has no shape escaped."""
    import json

    from groupshift.domain.foreign_text_quoting import json_text, visible

    written = json_text(json.dumps({"group": text}, ensure_ascii=False))
    assert visible(written) == written
    assert json.loads(written) == {"group": text}
