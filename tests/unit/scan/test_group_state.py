"""One row of a scan: life, lag, rest and readiness, from a view and the times of its nodes."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from groupshift.domain.group import GroupView, NoOffset
from groupshift.domain.group_protocol import KafkaGroup, KafkaMember
from groupshift.domain.modes import ABSENT_MODE, MemberKind, Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.plan import PhaseName
from groupshift.domain.rows import LogEndRow, OffsetRow
from groupshift.domain.verdict import Readiness, Verdict
from groupshift.errors import Rejected
from groupshift.scan.group_state import (
    Aspect,
    GroupState,
    Life,
    NodeTimes,
    Observed,
    Rest,
    appeared,
    difference,
    lag_of,
    last_change_ms,
    life_of,
    rest_of,
    state_from,
    state_of,
    state_text,
    vanished,
)
from support.simulated_group import make_group

P0 = TopicPartition("orders", 0)
QUIET = NodeTimes(changes=(5,), stamps=((5, 1_000),))


def view(kind: MemberKind = MemberKind.ZOOKEEPER) -> GroupView:
    """A healthy group of one kind."""
    world = make_group(kind).world
    return world.read(world.group)


def state(seen: GroupView, times: NodeTimes = QUIET, before: GroupState | None = None) -> GroupState:
    """Its row."""
    return state_of(Observed(view=seen, times=times), before)


COMMITTED = OffsetRow(group="g", **P0._asdict(), offset=1)


def bare(**values: object) -> GroupView:
    """A group without anything but what is given."""
    return GroupView(**{"group": "g", "taken_at_ms": 9_000, "exists": True, "mode": ABSENT_MODE, **values})


@pytest.mark.parametrize(
    ("seen", "life"),
    [
        (view(), Life.ACTIVE),
        (bare(ids=("g_a",)), Life.ACTIVE),
        (bare(kafka=KafkaGroup(state="Stable")), Life.ACTIVE),
        (bare(zookeeper_offsets=(COMMITTED,)), Life.DEAD),
        (
            bare(
                kafka=KafkaGroup(state="Empty"),
                kafka_offsets=(COMMITTED,),
            ),
            Life.DEAD,
        ),
        (bare(no_offsets=(NoOffset(partition=P0, held="'x'", problem="no offset"),)), Life.DEAD),
        (bare(), Life.UNUSED),
        (bare(kafka=KafkaGroup(state="Empty")), Life.UNUSED),
    ],
)
def test_life_is_members_then_offsets(seen: GroupView, life: Life) -> None:
    """A group of another protocol is in use, too: its coordinator says so by the state alone."""
    assert life_of(seen) is life


def test_an_old_group_is_ready_for_the_canary_and_not_for_the_toggle() -> None:
    """The first phase with work comes first; rules that passed are named, the others speak."""
    row = state(view())
    assert (row.old, row.aware, row.owned, row.partitions, row.lag) == (3, 0, 6, 6, 60)
    assert [each.phase for each in row.readiness] == [PhaseName.CANARY, PhaseName.ROLL, PhaseName.TOGGLE]
    assert row.next is not None
    assert (row.next.state, row.next.findings) == (Readiness.READY, ())
    assert {"C02", "C05", "C11"} <= set(row.next.passed)
    toggle = row.phase(PhaseName.TOGGLE)
    assert toggle is not None
    assert toggle.state is Readiness.NOT_READY
    assert "C13" in {finding.rule for finding in toggle.findings}
    assert all(finding.verdict is not Verdict.PASS for finding in toggle.findings)


def test_an_aware_group_is_ready_for_the_toggle_only() -> None:
    """No old member, no canary; nothing is said about the places of a fleet that nobody asked."""
    row = state(view(MemberKind.AWARE))
    assert [each.phase for each in row.readiness] == [PhaseName.TOGGLE, PhaseName.RETIRE]
    assert row.readiness[0].findings == ()
    assert "C18" not in {rule for each in row.readiness for rule in each.passed}


def test_a_group_without_members_is_ready_for_nothing() -> None:
    """Dead: no phase is offered."""
    row = state(bare(zookeeper_offsets=(COMMITTED,)))
    assert (row.life, row.readiness, row.next) == (Life.DEAD, (), None)


def test_lag_follows_the_store_of_the_mode_in_effect() -> None:
    """In kafka mode Kafka's offset counts, in zookeeper mode the znode's; without an offset it is unknown."""
    bench = make_group(MemberKind.AWARE)
    for at in bench.world.all_partitions():
        bench.world.znode[at], bench.world.kafka[at] = 70, 95
    assert lag_of(bench.world.read("orders-app")) == 6 * 30
    bench.world.write_mode(b"kafka")
    assert lag_of(bench.world.read("orders-app")) == 6 * 5
    assert lag_of(bare()) is None


def test_the_last_change_is_dated_by_the_first_later_write() -> None:
    """A deletion has no time; what was written after it bounds it from above. Without one: now."""
    stamps = ((3, 300), (5, 500), (9, 900))
    assert last_change_ms(NodeTimes(changes=(2, 4), stamps=stamps), 2_000) == 500
    assert last_change_ms(NodeTimes(changes=(9,), stamps=stamps), 2_000) == 900
    assert last_change_ms(NodeTimes(changes=(10,), stamps=stamps), 2_000) == 2_000
    assert last_change_ms(NodeTimes(), 2_000) is None


def test_a_change_while_the_group_is_read_is_not_dated_before_it() -> None:
    """Found by a scan whose member claimed its last partition 6 ms after the reading began."""
    began = bare(members=view().members)
    times = NodeTimes(changes=(5,), stamps=((5, 9_006),))
    row = state_of(Observed(view=began, times=times, read_by_ms=9_200), None)
    assert (row.taken_at_ms, row.stable_since_ms) == (9_000, 9_006)
    assert state_of(Observed(view=began, times=times), None).stable_since_ms == 9_000


def seen_before(fingerprint: str, zookeeper_ms: int = 600, kafka_ms: int = 0) -> GroupState:
    """What the last scan saw."""
    rest = Rest(zookeeper_ms=zookeeper_ms, kafka_ms=kafka_ms)
    return GroupState(group="g", taken_at_ms=0, life=Life.ACTIVE, fingerprint=fingerprint, rest=rest)


@pytest.mark.parametrize(
    ("before", "known", "since"),
    [
        (None, 700, 700),
        (None, None, 2_000),
        (seen_before("z.k"), 700, 600),
        (seen_before("z.k", 1_500), 700, 700),
        (seen_before("z.k"), None, 600),
        (seen_before("y.k"), 1_600, 1_600),
        (seen_before("z.j"), 700, 2_000),
        (seen_before("z.k", 600, 1_500), 700, 1_500),
        (seen_before("y.k", 600, 1_500), 1_600, 1_600),
        (seen_before("y.k"), None, 2_000),
    ],
)
def test_rest_counts_from_what_is_proven(before: GroupState | None, known: int | None, since: int) -> None:
    """A change in Kafka alone has no time: it counts from the scan that met it, and stays so."""
    assert rest_of(2_000, "z.k", known, before).since_ms == since


def test_a_state_in_another_form_is_refused_with_a_remedy() -> None:
    """Such as that of a scan of another release."""
    with pytest.raises(Rejected, match="empty the table scan_state"):
        state_from('{"group":"g","members":[["old",2]]}')


def test_the_last_scan_is_the_first_of_two_looks() -> None:
    """An old member that commits to Kafka is found by the second scan; the journal keeps what it needs."""
    world = make_group(MemberKind.ZOOKEEPER).world
    for at in world.all_partitions():
        world.kafka[at] = 90
    first = state(world.read(world.group))
    doubtful = {finding.rule: finding.verdict for finding in first.readiness[0].findings}
    assert doubtful == {"C24": Verdict.INCONCLUSIVE}
    kept = state_from(state_text(first))
    assert state(world.read(world.group), before=kept).readiness[0].findings == ()
    for at in world.all_partitions():
        world.ends[at] = world.kafka[at] = 120
    second = state(world.read(world.group), before=kept)
    found = second.readiness[0].findings
    assert {(each.rule, each.verdict) for each in found} == {("C24", Verdict.FAIL)}
    assert all("offsets.storage=kafka" in each.reason for each in found)


def test_a_restart_changes_the_fingerprint_and_an_offset_does_not() -> None:
    """Rest is about members, mode and owners, not about progress."""
    seen = view(MemberKind.AWARE)
    first = state(seen)
    moved = replace(seen, zookeeper_offsets=(), kafka_offsets=())
    assert state(moved).fingerprint == first.fingerprint
    kafka = replace(seen.kafka, members=(KafkaMember(member_id="x", client_id="x", host="h"),))
    changed = state(replace(seen, kafka=kafka)).fingerprint
    assert changed.partition(".")[0] == first.fingerprint.partition(".")[0]
    assert changed != first.fingerprint
    assert state(seen, NodeTimes(changes=(6,))).fingerprint != first.fingerprint


def test_a_state_survives_the_journal() -> None:
    """Whatever was found comes back equal."""
    for seen in (view(), view(MemberKind.AWARE), bare(), replace(view(), problems=("node x: broken",))):
        assert state_from(state_text(state(seen))) == state(seen)
        assert json.loads(state_text(state(seen))) == json.loads(json.dumps(asdict(state(seen))))


def test_differences_name_what_changed_and_never_the_progress() -> None:
    """Members, mode, life and the next phase; offsets and lag always change and are left out."""
    old, aware = state(view()), state(view(MemberKind.AWARE))
    assert {change.aspect for change in difference(old, aware)} == {Aspect.MEMBERS, Aspect.NEXT}
    assert difference(old, replace(old, lag=0, taken_at_ms=7, zookeeper_offsets=1)) == ()
    kafka = replace(aware, mode=Mode.KAFKA)
    assert [(c.before, c.after) for c in difference(aware, kafka)] == [("zookeeper", "kafka")]
    restarted = difference(aware, replace(aware, fingerprint="other"))
    assert [change.aspect for change in restarted] == [Aspect.MOVED]
    assert appeared(old).after == "active, 3 old"
    assert vanished("g", old).before == "active, 3 old"


@pytest.mark.parametrize(
    ("committed", "current", "said"),
    [(1, 0, 1), (99, 3, 1), (3, 3, 0), (0, 3, 0), (-1, 0, 0), (5, -1, 0)],
)
def test_f10_a_scan_names_commits_with_a_leader_epoch_too_high(
    committed: int, current: int, said: int
) -> None:
    """Above the partition's; an epoch that is not known is nothing to hold it against."""
    at = TopicPartition("orders", 0)
    seen = replace(
        bare(log_ends=(LogEndRow(**at._asdict(), log_start=0, log_end=9, leader_epoch=current),)),
        kafka_offsets=(OffsetRow(group="g", **at._asdict(), offset=5, leader_epoch=committed),),
    )
    named = [each for each in state(seen).problems if "groupshift repair epochs" in each]
    assert len(named) == said
    if said:
        assert f"orders-0 ({committed}, now {current})" in named[0]
