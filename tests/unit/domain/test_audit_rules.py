"""What the table of audit rules may hold: each kind of fault is one sentence that names it."""

from __future__ import annotations

import re

import pytest

from groupshift.audit.case import Case, Terms
from groupshift.audit.rules import FACTS, FILE, KAFKA_RULES, STORE_RULES, read_rules
from groupshift.domain.tables import shipped
from groupshift.errors import Rejected

TABLE = shipped(FILE)
REMEDY = 'remedy = "look at the problems of the audit, then repeat it for this group"'
FAULTS = (
    ('kind = "not answered"', 'kind = " silent"', "A01, kind: ' silent' is refused; allowed: a text of one"),
    ('weight = "unknown"', 'weight = "heavy"', "A01, weight: 'heavy' is refused; allowed: one of explained,"),
    ('unless = ["asked", "has_answer"]', "", "A01: the field unless is missing; allowed: facts that when do"),
    ('unless = ["asked", "has_answer"]', 'unless = ["ask"]', "A01, unless: 'ask' is refused; allowed: asked"),
    ('when = ["unreadable"]', 'when = ["agrees"]', "A02, unless: a list of 1 values is refused; allowed: fa"),
    (REMEDY, "", "A01: the field remedy is missing; allowed: a text, since the weight is unknown"),
    (REMEDY, 'remedy = ""', "A01, remedy: '' is refused; allowed: a text of one line"),
    (REMEDY, REMEDY + "\nurgent = true", "A01: the field 'urgent' is unknown; allowed: number, kind, weight"),
    ('number = "A01"', 'number = "B01"', "B01, number: 'B01' is refused; allowed: A and two digits"),
    ('number = "A01"', "", "audit/rules.toml, kafka 1: the field number is missing; allowed: all of number,"),
    ('number = "A33"', 'number = "A01"', "audit/rules.toml, number: 'A01' is there twice; allowed: each val"),
    ("[[kafka]]", 'name = "rules"\n[[kafka]]', "audit/rules.toml: the field 'name' is unknown; allowed: kaf"),
)  # fmt: skip


@pytest.mark.parametrize(("good", "bad", "said"), FAULTS, ids=[bad for _, bad, _ in FAULTS])
def test_a_fault_is_refused_with_file_rule_field_value_and_what_is_allowed(
    good: str, bad: str, said: str
) -> None:
    """The table as it is shipped, but for one place."""
    assert good in TABLE
    with pytest.raises(Rejected, match=re.escape(said)) as fault:
        read_rules(TABLE.replace(good, bad, 1))
    assert str(fault.value).startswith(FILE)


def test_the_table_as_it_is_shipped_is_whole() -> None:
    """What is read twice is the same, every fact can be read off a case, and an empty file is refused."""
    assert read_rules(TABLE) == (KAFKA_RULES, STORE_RULES)
    case = Case(
        key=("g", "t", 0), asked=True, answer=None, winner=None, history=(), opened=0, foreign=(),
        foreign_moving=False, group=None, silent=False, zookeeper=None, end=None, terms=Terms(now_ms=0),
    )  # fmt: skip
    assert {fact for fact, holds in FACTS.items() if holds(case)} == {
        *("asked", "agrees", "follows", "same_details", "stores_agree"),
    }
    with pytest.raises(Rejected, match=re.escape("my.toml: the field kafka is missing")):
        read_rules("", "my.toml")
