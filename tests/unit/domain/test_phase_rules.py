"""What a phase allows to differ between two snapshots."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from groupshift.domain.evidence import Moment
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.phase_rules import (
    PHASE_RULES,
    AllowedChanges,
    allowed_changes,
    records_per_interval,
    restored_changes,
)
from groupshift.domain.plan import Phase, PhaseName, ReplaceMembers, SetMode
from groupshift.domain.snapshot import snapshot_rows
from groupshift.errors import Rejected
from support.simulated_group import make_group

TOGGLE = Phase(name=PhaseName.TOGGLE, step=SetMode(to=Mode.KAFKA))
CANARY = Phase(
    name=PhaseName.CANARY, step=ReplaceMembers(slots=("m1",), old=MemberKind.ZOOKEEPER, new=MemberKind.AWARE)
)


def pair():
    """Two snapshots of an aware group, toggled in between."""
    bench = make_group(MemberKind.AWARE)
    before = snapshot_rows(bench.world.read(bench.world.group), {})
    bench.world.write_mode(b"kafka")
    bench.clock.sleep(9.99)
    return before, snapshot_rows(bench.world.read(bench.world.group), {})


def test_after_a_phase_its_step_says_what_may_differ() -> None:
    """A toggle changes the mode node, a canary one member."""
    before, after = pair()
    toggle = allowed_changes(TOGGLE, Moment.AFTER, before, after, 7)
    assert (toggle.mode_text, toggle.kafka_mode, toggle.replaced) == ("kafka", True, 0)
    canary = allowed_changes(CANARY, Moment.AFTER, before, before, 7)
    assert (canary.replaced, canary.old, canary.new) == (1, MemberKind.ZOOKEEPER, MemberKind.AWARE)
    assert (canary.mode_text, canary.kafka_mode) == (None, False)


def test_before_a_phase_nothing_may_differ_but_offsets() -> None:
    """Continuity between the snapshot before and the last one."""
    before, after = pair()
    for phase in (TOGGLE, CANARY):
        changes = allowed_changes(phase, Moment.BEFORE, before, after, 7)
        assert (changes.replaced, changes.old, changes.new, changes.mode_text) == (0, None, None, None)
    assert {rule.difference for rule in PHASE_RULES if rule.allowed} == {"advanced", "extra", "metadata_only"}
    assert {rule.difference for rule in PHASE_RULES if rule.difference and not rule.allowed} == {
        "lost",
        "regressed",
    }


def test_a_way_back_restores_the_members_of_the_first_snapshot() -> None:
    """And may leave a mode node that says zookeeper where none was (D13)."""
    before, after = pair()
    again = ReplaceMembers(slots=("m1",), old=MemberKind.AWARE, new=MemberKind.ZOOKEEPER)
    back = Phase(name=PhaseName.UNDO_MEMBERS, step=again)
    changes = restored_changes(allowed_changes(back, Moment.AFTER, before, after, 7), "zookeeper")
    assert (changes.replaced, changes.old, changes.new, changes.mode_text) == (0, None, None, "zookeeper")
    assert AllowedChanges.from_data(json.loads(json.dumps(changes.to_data()))) == replace(changes, log=[])


def test_what_a_job_cannot_use_is_one_sentence() -> None:
    """The rules of another release, and ones that lack or spoil a key."""
    before, after = pair()
    data = allowed_changes(CANARY, Moment.AFTER, before, after, 7).to_data()
    for spoilt in ({"version": 9}, {"phase": "party"}, {"gap": "many"}, {"old": "young"}):
        with pytest.raises(Rejected, match=r"rules"):
            AllowedChanges.from_data({**data, **spoilt})
    with pytest.raises(Rejected, match="lack or spoil the key 'moment'"):
        AllowedChanges.from_data({key: value for key, value in data.items() if key != "moment"})


def test_the_rate_of_a_commit_interval_is_that_of_the_busiest_partition() -> None:
    """One record in each of six partitions within the ten seconds, so half a one in five: rounded up."""
    before, after = pair()
    assert records_per_interval(before, after, 5000) == 1
    assert records_per_interval(before, before, 5000) == 0
