"""What the table of equality rules may hold: each kind of fault is one sentence that names it."""

from __future__ import annotations

import re

import pytest

from groupshift.domain.equality_rules import FILE, RULES, RuleKind, read_demands
from groupshift.domain.tables import shipped
from groupshift.errors import Rejected

TABLE = shipped(FILE)
KEYS = (
    'keys = { kind = "unique", reason = "two answers for one partition are two coordinators for one group" }'
)
FAULTS = (
    (
        'kind = "unique"',
        'kind = "single"',
        "downgrade, answers, keys, kind, 'single' is not a valid RuleKind",
    ),
    ('kind = "unique", ', "", "downgrade, answers, keys, FieldDemand.__init__() missing 1 required"),
    ('kind = "unique", ', 'kind = "unique", live = "maybe", ', "keys, live, 'maybe' is not a valid RuleKind"),
    ('kind = "unique", ', 'kind = "unique", least = "a", ', "downgrade, answers, keys, least is no field of"),
    (KEYS, "", "protocol: keys is missing"),
    (KEYS, 'keys = "unique"', "downgrade, answers, keys, 'unique' is no FieldDemand"),
    (KEYS, KEYS.replace("keys", "locks", 1), "downgrade, answers, 'locks' is not a valid Field"),
    ('source = "group-coordinator.md §6.2"', "", "downgrade, _Table.__init__() missing 1 required"),
    ('like = ["downgrade", "members"]', 'like = ["upgrade"]', "protocol: upgrade is missing"),
    ('like = ["downgrade", "members"]', "like = 5", "protocol, like, 5 is no list"),
    ('like = ["downgrade", "members"]', 'like = ["members"]', "protocol: groups is missing"),
    ("[tables.cluster]", "[tables.clusters]", "domain/equality_rules.toml"),
)  # fmt: skip


@pytest.mark.parametrize(("good", "bad", "said"), FAULTS, ids=[f"{good}→{bad}" for good, bad, _ in FAULTS])
def test_a_fault_is_refused_with_file_table_field_value_and_what_is_allowed(
    good: str, bad: str, said: str
) -> None:
    """The table as it is shipped, but for one place."""
    assert good in TABLE
    with pytest.raises(Rejected, match=re.escape(said)) as fault:
        read_demands(TABLE.replace(good, bad, 1))
    assert str(fault.value).startswith(FILE)


def test_the_table_as_it_is_shipped_is_whole() -> None:
    """What is read twice is the same, and an empty file is refused."""
    assert read_demands(TABLE) == RULES
    for rule in (rule for rules in RULES.values() for rule in rules):
        assert ".md §" in rule.source, rule.number
        assert bool(rule.old and rule.new) is (rule.kind is RuleKind.BECOMES), rule.number
    with pytest.raises(Rejected, match=re.escape("my.toml: ")):
        read_demands("# nothing", "my.toml")
