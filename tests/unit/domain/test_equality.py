"""What a stage allows to differ between two snapshots."""

from __future__ import annotations

import json

from groupshift.domain.equality import allowed_changes, records_per_interval, restored_changes
from groupshift.domain.evidence import Moment
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.plan import ReplaceMembers, SetMode, Stage, StageName
from groupshift.domain.snapshot import snapshot_rows
from support.simulated_group import make_group

TOGGLE = Stage(name=StageName.TOGGLE, step=SetMode(to=Mode.KAFKA))
CANARY = Stage(
    name=StageName.CANARY, step=ReplaceMembers(slots=("m1",), old=MemberKind.OLD, new=MemberKind.AWARE)
)


def pair():
    """Two snapshots of an aware group, toggled in between."""
    bench = make_group(MemberKind.AWARE)
    before = snapshot_rows(bench.world.read(bench.world.group), {})
    bench.world.write_mode(b"kafka")
    bench.clock.sleep(9.99)
    return before, snapshot_rows(bench.world.read(bench.world.group), {})


def test_after_a_stage_its_step_says_what_may_differ() -> None:
    """A toggle changes the mode node, a canary one member."""
    before, after = pair()
    toggle = allowed_changes(TOGGLE, Moment.AFTER, before, after, 7).to_data()
    assert toggle["mode_node"] == {"from": None, "to": "kafka"}
    assert (toggle["was_kafka_mode"], toggle["kafka_mode"]) == (False, True)
    assert toggle["members"]["change"] == "equal"
    canary = allowed_changes(CANARY, Moment.AFTER, before, before, 7).to_data()
    assert canary["members"] == {"change": "replaced", "count": 1, "from": "old", "to": "aware"}
    assert canary["mode_node"] == {"from": None, "to": None}


def test_before_a_stage_nothing_may_differ_but_offsets() -> None:
    """Continuity between the snapshot before and the last one."""
    before, after = pair()
    for stage in (TOGGLE, CANARY):
        data = allowed_changes(stage, Moment.BEFORE, before, after, 7).to_data()
        assert data["members"]["change"] == "equal"
        assert data["mode_node"] == {"from": None, "to": None}
        assert data["offsets"] == {
            "advanced": "allowed",
            "regressed": "never",
            "lost": "never",
            "extra": "allowed",
            "metadata_only": "allowed",
        }


def test_a_way_back_restores_the_members_of_the_first_snapshot() -> None:
    """And may leave a mode node that says zookeeper where none was (D13)."""
    before, after = pair()
    again = ReplaceMembers(slots=("m1",), old=MemberKind.AWARE, new=MemberKind.OLD)
    back = Stage(name=StageName.UNDO_MEMBERS, step=again)
    data = restored_changes(allowed_changes(back, Moment.AFTER, before, after, 7), "zookeeper").to_data()
    assert data["members"] == {"change": "restored", "count": 0, "from": None, "to": None}
    assert data["mode_node"] == {"from": None, "to": "zookeeper"}
    assert json.loads(json.dumps(data)) == data


def test_the_rate_of_a_commit_interval_is_that_of_the_busiest_partition() -> None:
    """One record in each of six partitions within the ten seconds, so half a one in five: rounded up."""
    before, after = pair()
    assert records_per_interval(before, after, 5000) == 1
    assert records_per_interval(before, before, 5000) == 0
