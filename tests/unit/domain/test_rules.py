"""What a table of rules may hold, and that whatever a rule may say is in its table with the same values."""

from __future__ import annotations

import ast
import re
import string
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from groupshift.domain.rules import Rules, Says, some
from groupshift.domain.tables import shipped
from groupshift.domain.verdict import Finding, Verdict
from groupshift.errors import Rejected

SRC = Path(__file__).resolve().parents[3] / "src" / "groupshift"
SAYING = {Says.__name__, some.__name__}

TABLES = {
    "domain/canary_rules.toml": ("domain/canary.py",),
    "domain/group_gauge_rules.toml": ("domain/group_gauges.py",),
    "domain/group_rules.toml": ("domain/group_rules.py",),
    "domain/protocol/rules.toml": ("domain/protocol/preflight.py", "domain/protocol/live_rules.py"),
    "moves/protocol/liveness_rules.toml": ("moves/protocol/liveness.py",),
    "moves/downgrade/rules.toml": ("moves/downgrade/rules.py", "domain/cluster_rules.py"),
    "moves/expansion/rules.toml": ("moves/expansion/rules.py", "domain/cluster_rules.py"),
}
"""Every table of rules, with the modules whose rules say its sentences."""
SAYING = {"Says", "some"}
"""What a rule says a sentence with."""
TEXT = """\
[Q01]
holds = "the number is even"
hint = "add one"
[Q01.odd]
verdict = "fail"
reason = "{number} is odd, not {others}"
[Q02]
holds = "the number is small"
[Q02.large]
verdict = "inconclusive"
reason = "{number} is large"
hint = "take less than {most}"
"""


def rules(text: str = TEXT, letters: str = "") -> Rules[int]:
    """The rules of a table, with what they look at."""
    return Rules("t.toml", letters, text)


def test_a_rule_says_what_it_met_or_that_it_holds() -> None:
    """With the values in their blanks, lists as for people, and the hint of the rule where a sentence has
    none."""
    asked = rules()

    @asked.rule("Q01", moot=lambda number: number == 0)
    def even(number: int) -> Iterator[Says]:
        if number % 2:
            yield Says("odd", number=number, others=["2", "4"])

    @asked.rule("Q02")
    def small(number: int) -> Iterator[Says]:
        if number > 9:
            yield Says("large", number=number, most=9)

    odd = Finding(rule="Q01", verdict=Verdict.FAIL, reason="11 is odd, not 2, 4", hint="add one")
    large = Finding(rule="Q02", verdict=Verdict.INCONCLUSIVE, reason="11 is large", hint="take less than 9")
    assert asked.ask(11) == (odd, large)
    assert asked.ask(11, ("Q02",)) == asked["Q02"].ask(11) == (large,)
    passed = Finding(rule="Q01", verdict=Verdict.PASS, reason="the number is even")
    assert asked["Q01"].ask(2) == (passed,)
    assert not asked["Q01"].ask(0)[0].applies
    assert list(asked) == ["Q01", "Q02"]


@pytest.mark.parametrize(
    ("good", "bad", "said"),
    [
        (
            'holds = "the number is even"',
            "",
            "t.toml, Q01: allowed: one or two capitals, two digits, what holds",
        ),
        ('verdict = "fail"', 'verdict = "bad"', "t.toml: Q01, odd, verdict, 'bad' is not a valid Verdict"),
        ('reason = "{number} is odd, not {others}"', "", "t.toml: Q01, odd, Sentence.__init__() missing 1"),
        (
            'hint = "add one"',
            'tip = "add one"',
            "t.toml, Q01: allowed: one or two capitals, two digits, what holds, and a hint",
        ),
        ("[Q01]", "[q01]", "t.toml, q01: allowed: one or two capitals, two digits"),
        ("Q02.large", "Q02.odd", "t.toml, Q02: sentence 'odd' is there twice; allowed: once"),
    ],
)
def test_a_fault_of_a_table_is_one_sentence(good: str, bad: str, said: str) -> None:
    """File, rule, field, value and what is allowed."""
    with pytest.raises(Rejected, match=re.escape(said)):
        rules(TEXT.replace(good, bad))


def test_a_rule_without_an_entry_is_refused() -> None:
    """When its module is imported, whatever its table has for others."""
    with pytest.raises(Rejected, match=re.escape("t.toml: rule Q03 is missing")):
        rules().rule("Q03")
    with pytest.raises(Rejected, match=re.escape("t.toml: rule Q01 is missing")):
        rules(letters="R").rule("Q01")


def blanks(text: str) -> set[str]:
    """The names of the values that a sentence wants."""
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


@pytest.mark.parametrize("file", TABLES)
def test_each_sentence_is_said_with_the_values_that_it_wants(file: str) -> None:
    """And nothing is said that is not in the table: a rule that cannot tell what it met would stop a run."""
    whole = tomllib.loads(shipped(file))
    own = {"holds", "hint"}
    wanted: dict[str, set[str]] = {}
    for entry in whole.values():
        assert isinstance(entry, dict)
        for name, said in entry.items():
            if name not in own:
                wanted[name] = blanks(said["reason"]) | blanks(said.get("hint", ""))
    said_of: dict[str, set[str]] = {}
    open_ended: list[set[str]] = []
    for module in TABLES[file]:
        for node in ast.walk(ast.parse((SRC / module).read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in SAYING:
                given = {each.arg for each in node.keywords if each.arg} - {"verdict"}
                if isinstance(node.args[0], ast.Constant):
                    said_of[str(node.args[0].value)] = given
                else:
                    open_ended.append(given)
    assert said_of.keys() <= wanted.keys()
    for name, values in wanted.items():
        known = said_of[name] == values if name in said_of else any(values <= each for each in open_ended)
        assert known, name


@pytest.mark.parametrize("file", [path.relative_to(SRC).as_posix() for path in SRC.rglob("*rules.toml")])
def test_every_table_of_rules_is_on_the_list(file: str) -> None:
    """But for those of another form."""
    assert file in {*TABLES, "audit/rules.toml", "domain/equality_rules.toml", "domain/phase_rules.toml"}
