"""What the table of equality rules may hold: each kind of fault is one sentence that names it."""

from __future__ import annotations

import re

import pytest

from groupshift.domain.equality_rules import FILE, RULES, read_demands
from groupshift.domain.tables import shipped
from groupshift.errors import Rejected

TABLE = shipped(FILE)
KEYS = (
    'keys = { kind = "unique", reason = "two answers for one partition are two coordinators for one group" }'
)
FAULTS = (
    ('kind = "unique"', 'kind = "single"', "downgrade, keys, kind: 'single' is refused; allowed: one of equ"),
    ('kind = "unique", ', "", "downgrade, keys: the field kind is missing; allowed: all of kind, reason"),
    ('kind = "unique", ', 'kind = "unique", live = "maybe", ', "downgrade, keys, live: 'maybe' is refused;"),
    ('kind = "unique", ', 'kind = "unique", old = "a", ', "downgrade, keys: the field 'old' is unknown; all"),
    ('kind = "unique", ', 'kind = "unique", source = "§6", ', "downgrade, keys, source: '§6' is refused; al"),
    ('new = "consumer", ', "", "protocol, type: the field new is missing; allowed: all of kind, reason, old"),
    (KEYS, "", "protocol: the field keys is missing; allowed: all of groups, committed, offset"),
    (KEYS, 'keys = "unique"', "downgrade, keys: 'unique' is refused; allowed: a table that is not empty"),
    (KEYS, KEYS.replace("keys", "locks", 1), "downgrade: the field 'locks' is unknown; allowed: source, lik"),
    ('source = "group-coordinator.md §6.2"', "", "downgrade: the field source is missing; allowed: all of s"),
    ('source = "group-coordinator.md §6.2"', 'source = "§6"', "downgrade, source: '§6' is refused; allowed:"),
    ('like = ["downgrade", "members"]', 'like = ["protocol"]', "protocol, like: a list of 1 values is refus"),
    ('like = ["downgrade", "members"]', 'like = ["upgrade"]', "protocol, like: a list of 1 values is refuse"),
    ('like = ["downgrade", "members"]', "like = []", "protocol, like: a list of 0 values is refused; allowe"),
    ('like = ["downgrade", "members"]', 'like = ["members"]', "protocol: the field groups is missing; allow"),
    ("[cluster]", "[clusters]", "domain/equality.toml: the field 'clusters' is unknown; allowed: protocol,"),
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
    with pytest.raises(Rejected, match=re.escape("my.toml: the field protocol is missing")):
        read_demands("", "my.toml")
