"""What the table of audit rules may hold: each kind of fault is one sentence that names it."""

from __future__ import annotations

import re

import pytest

from groupshift.audit.inputs import Terms, read_log
from groupshift.audit.offsets import TOLD
from groupshift.audit.rules import FILE, KAFKA_RULES, STORE_RULES, AuditRule, AuditRules, Weight
from groupshift.audit.sources import Sources
from groupshift.domain.rows import ClusterState, GroupRow
from groupshift.domain.tables import shipped, table_of
from groupshift.errors import Rejected
from support.audit_rules import FACTS

TABLE = shipped(FILE)
RULES = (*KAFKA_RULES, *STORE_RULES)
FAULTS = (
    ('weight = "unknown"', 'weight = "heavy"', "kafka, 1, weight, 'heavy' is not a valid Weight"),
    ('kind = "not answered"\n', "", "kafka, 1, AuditRule.__init__() missing 1 required"),
    ('number = "A01"', 'number = "A01"\nurgent = true', "kafka, 1, urgent is no field of AuditRule"),
    ('unless = ["answered_in_full", "has_answer"]', 'unless = "asked"', "1, unless, 'asked' is no list"),
    ("[[kafka]]", 'name = "rules"\n[[kafka]]', "name is no field of AuditRules"),
)  # fmt: skip


@pytest.mark.parametrize(("good", "bad", "said"), FAULTS, ids=[bad for _, bad, _ in FAULTS])
def test_a_fault_is_refused_with_file_rule_field_and_value(good: str, bad: str, said: str) -> None:
    """The table as it is shipped, but for one place."""
    assert good in TABLE
    with pytest.raises(Rejected, match=re.escape(said)) as fault:
        table_of(AuditRules, FILE, TABLE.replace(good, bad, 1))
    assert str(fault.value).startswith(FILE)


def test_every_fact_is_told_of_a_key() -> None:
    """Also of one of which nothing is known."""
    groups = [GroupRow(group="g", type="classic", state="Empty")]
    admin = ClusterState(cluster_id="c", taken_at_ms=0, groups=groups)
    row = Sources(admin, read_log((), opened={}, closed={}), {}, Terms(now_ms=0)).row(("g", "t", 0))
    assert set(row) - FACTS == set(TOLD)
    assert {fact for fact in FACTS if row[fact]} == {
        *("answered_in_full", "agrees", "follows", "same_details", "stores_agree"),
    }


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.number)
def test_a_rule_has_facts_that_do_not_contradict_and_a_remedy(rule: AuditRule) -> None:
    """Facts that are told, each once; only what is explained needs no remedy."""
    facts = (*rule.when, *rule.unless)
    assert facts
    assert set(facts) <= FACTS
    assert len(set(facts)) == len(facts)
    assert rule.remedy or rule.weight is Weight.EXPLAINED
    assert re.fullmatch(r"A\d\d", rule.number)
    assert [each.number for each in RULES].count(rule.number) == 1
    assert all(text == text.strip() for text in (rule.kind, rule.reason, rule.remedy))
