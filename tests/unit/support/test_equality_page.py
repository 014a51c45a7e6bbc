"""The tables of equality rules in the documentation are those of the data."""

from __future__ import annotations

import re
from pathlib import Path

from groupshift.domain.equality_rules import RULES
from groupshift.domain.phase_rules import PHASE_RULES
from support.equality_page import BEGIN, END, markdown

DOC = Path(__file__).resolve().parents[3] / "docs" / "reference" / "equality-rules.md"

VALIDATION = DOC.parents[2] / "src" / "groupshift" / "spark" / "validation.py"


def test_the_documentation_shows_the_rules_in_force() -> None:
    """Made anew, the tables are the ones between the marks of docs/reference/equality-rules.md."""
    text = DOC.read_text(encoding="utf-8")
    shown = text[text.index(BEGIN) : text.index(END) + len(END)]
    assert shown == markdown(), "equality-rules.md: run PYTHONPATH=tests python -m support.equality_page"


def test_every_rule_is_a_row() -> None:
    """No rule is left out, none is there twice."""
    rows = [line for line in markdown().splitlines() if line.startswith("| E")]
    assert len(rows) == sum(map(len, RULES.values()))
    assert len({row.split("|")[1] for row in rows}) == len(rows)


def test_every_rule_of_a_phase_is_a_row() -> None:
    """Those of the table, and those that the job judges itself: no number of a report is unknown."""
    shown = set(re.findall(r"^\| (V\d\d) ", markdown(), re.MULTILINE))
    said = set(re.findall(r'"(V\d\d)"', VALIDATION.read_text(encoding="utf-8")))
    assert shown == {rule.rule for rule in PHASE_RULES} | said
