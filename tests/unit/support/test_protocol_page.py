"""The tables in the documentation are those of the data."""

from __future__ import annotations

from pathlib import Path

from groupshift.domain.group_gauges import RULES as COUNTED
from groupshift.domain.protocol.answers import TABLE
from groupshift.domain.protocol.live_rules import RULES as MOVE_RULES
from groupshift.domain.protocol.live_rules import SETTLED
from groupshift.domain.protocol.preflight import RULES
from groupshift.moves.protocol.liveness import WATCHED
from support.protocol_page import BEGIN, END, markdown

DOC = Path(__file__).resolve().parents[3] / "docs" / "reference" / "protocol-answers.md"


def test_the_documentation_shows_the_rows_in_force() -> None:
    """Made anew, the tables are the ones between the marks of docs/reference/protocol-answers.md."""
    text = DOC.read_text(encoding="utf-8")
    shown = text[text.index(BEGIN) : text.index(END) + len(END)]
    assert shown == markdown(), "protocol-answers.md: run PYTHONPATH=tests python -m support.protocol_page"


def test_every_row_and_rule_is_there_without_a_blank() -> None:
    """As often as in the data, and no value's braces are left."""
    lines = [line for line in markdown().splitlines() if line.startswith("| P")]
    rules = (RULES, SETTLED, MOVE_RULES, WATCHED, COUNTED)
    assert len(lines) == sum(map(len, (*TABLE.values(), *rules)))
    assert len({line.split("|")[1] for line in lines}) == len(lines)
    assert "{" not in markdown()
