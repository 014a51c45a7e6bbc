"""The pages show what strangers named as it is: Jinja escapes tags, but not what an eye misreads."""

from __future__ import annotations

import pytest
from markdown_it import MarkdownIt

NAMES = ("app[prod]", "a\x1b[31m", "abc\u202edef", "a\nb", "<b>x</b>", "a\u00a0b", "\u200b")


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_f05_a_template_shows_a_name_as_it_is(name: str) -> None:
    """In every template, for it is done where templates are rendered."""
    from html import escape

    from fastapi import Request

    from groupshift.domain.foreign_text_quoting import visible
    from groupshift_airflow.web.rendering import rendered

    asked = Request({"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []})
    page = bytes(rendered(asked, "problem.html", sentence=f"group {name}\x1b").body).decode()
    assert escape(visible(f"group {name}\x1b")) in page
    assert not {"\x1b", "\u202e", "\u200b", "\u00a0"} & set(page)


def test_f05_the_form_of_the_protocol_move_takes_any_group() -> None:
    """As the command line does; that of coordination takes what the old consumer takes."""
    import re

    from groupshift_airflow.runbook import form

    coordination, protocol = form("coordination", zookeeper=True), form("protocol")
    for name in ("[/team]/orders", "app[prod]", "a b#c", "data/data-serving:forwarder"):
        assert re.search(protocol["group"].schema["pattern"], name)
        assert not re.search(coordination["group"].schema["pattern"], name)


def test_s12_the_plan_of_a_run_at_its_gate_is_no_markup() -> None:
    """What steps do names groups and nodes."""
    from groupshift.domain.foreign_text_quoting import markdown

    does = "convert group ![x](http://evil.example) | <b>"
    shown = MarkdownIt("gfm-like").render(f"| step |\n|---|\n| {markdown(does)} |\n")
    assert "<img" not in shown
    assert "<b>" not in shown
    assert "href" not in shown
