"""Where old members commit, and with which assignor they share: told by their deeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from groupshift.domain.assignment import Assignor, TextForm, assign
from groupshift.domain.facts import Facts
from groupshift.domain.group import GroupView, Member, Owner
from groupshift.domain.group_protocol import KafkaGroup
from groupshift.domain.group_rules import ask
from groupshift.domain.modes import ABSENT_MODE, MemberKind
from groupshift.domain.old_members import fitting, held_by_old, worth_a_second_look
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import LogEndRow, OffsetRow
from groupshift.domain.verdict import Finding, Verdict

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def view(znode: int | None, kafka: int | None, end: int = 200, **changes: object) -> GroupView:
    """One old member that owns t-0, with an offset in either store."""
    made = GroupView(
        group="g",
        taken_at_ms=0,
        exists=True,
        mode=ABSENT_MODE,
        ids=("g_a",),
        members=(Member(member_id="g_a", kind=MemberKind.ZOOKEEPER, subscription=(("t", 1),)),),
        owners=(Owner(partition=P0, thread_id="g_a-0", czxid=7, session_id=1),),
        zookeeper_offsets=() if znode is None else (OffsetRow(group="g", **P0._asdict(), offset=znode),),
        kafka_offsets=() if kafka is None else (OffsetRow(group="g", **P0._asdict(), offset=kafka),),
        log_ends=(LogEndRow(**P0._asdict(), log_start=0, log_end=end),),
    )
    return replace(made, **changes)


def storage(then: GroupView | None, now: GroupView) -> Finding:
    """What C24 says."""
    (finding,) = ask(("C24",), Facts(view=now, earlier=held_by_old(then) if then else None))
    return finding


@pytest.mark.parametrize(
    ("then", "now", "verdict", "says"),
    [
        (view(100, None), view(150, None), Verdict.PASS, "no old member"),
        (view(100, 90), view(150, 90), Verdict.PASS, "no old member"),
        (view(90, 100), view(90, 140, 250), Verdict.FAIL, "g_a commits to Kafka"),
        (view(None, 100), view(None, 140), Verdict.FAIL, "t-0 advanced while it owned them"),
        (view(100, 100), view(140, 140), Verdict.FAIL, "offsets.storage=kafka"),
        (view(90, 100, 200), view(90, 100, 250), Verdict.INCONCLUSIVE, "g_a may have"),
        (view(90, 100, 200), view(90, 100, 200), Verdict.PASS, "no old member"),
        (view(90, 100), view(120, 100, 250), Verdict.PASS, "no old member"),
        # A commit that a former, aware owner sent late is not this member's.
        (view(100, 80), view(100, 100), Verdict.PASS, "no old member"),
    ],
    ids=[
        "zookeeper only", "an earlier move left offsets", "kafka only", "never in zookeeper", "dual commit",
        "stands still while the log moves", "all at rest", "catches up", "late follower",
    ],
)  # fmt: skip
def test_where_an_old_member_commits_shows_between_two_looks(
    then: GroupView, now: GroupView, verdict: Verdict, says: str
) -> None:
    """An advance in Kafka under an old owner proves it; standing still behind Kafka is a doubt."""
    finding = storage(then, now)
    assert (finding.verdict, says in finding.reason) == (verdict, True), finding
    assert bool(finding.hint) is (verdict is not Verdict.PASS)


def test_only_an_uninterrupted_tenure_counts() -> None:
    """Between the looks somebody else owned the partition: that one may have committed."""
    again = replace(view(90, 140), owners=(replace(view(0, 0).owners[0], czxid=8),))
    assert storage(view(90, 100), again).verdict is Verdict.PASS


def test_a_second_look_is_taken_only_where_it_can_tell_something() -> None:
    """No offset in Kafka, or one that ZooKeeper has passed, needs none; without it C24 is in doubt."""
    assert [
        worth_a_second_look(held_by_old(view(*each)))
        for each in ((100, None), (100, 99), (100, 100), (None, 5))
    ] == [
        False,
        False,
        True,
        True,
    ]
    assert storage(None, view(100, 99)).verdict is Verdict.PASS
    assert storage(None, view(100, 100)).verdict is Verdict.INCONCLUSIVE


THREADS = {"clicks": ("g_c1-0", "g_c2-0"), "orders": ("g_c1-0", "g_c2-0")}
PARTITIONS = {"clicks": (0, 1), "orders": (0, 1, 2)}


def owning(owned: dict[TopicPartition, str]) -> GroupView:
    """Two members of one stream on each of two topics (RR3 of §5.2), and these owner nodes."""
    subscription = (("clicks", 1), ("orders", 1))
    ids = ("g_c1", "g_c2")
    return GroupView(
        group="g",
        taken_at_ms=0,
        exists=True,
        mode=ABSENT_MODE,
        ids=ids,
        members=tuple(Member(member_id=i, kind=MemberKind.ZOOKEEPER, subscription=subscription) for i in ids),
        owners=tuple(
            Owner(partition=partition, thread_id=thread, czxid=1, session_id=1)
            for partition, thread in owned.items()
        ),
        kafka=KafkaGroup(state="Empty"),
        log_ends=tuple(
            LogEndRow(topic=topic, partition=number, log_start=0, log_end=1)
            for topic, numbers in PARTITIONS.items()
            for number in numbers
        ),
    )


@pytest.mark.parametrize(
    ("assignor", "form", "name"),
    [
        (Assignor.RANGE, TextForm.DASH, "range"),
        (Assignor.ROUND_ROBIN, TextForm.BRACKET, "roundrobin (bracket form, up to 0.11)"),
        (Assignor.ROUND_ROBIN, TextForm.DASH, "roundrobin (dash form, from 1.0)"),
    ],
)
def test_the_owner_nodes_tell_the_assignor(assignor: Assignor, form: TextForm, name: str) -> None:
    """RR3's topics order differently in the two text forms, and range differs from both."""
    seen = owning(assign(assignor, THREADS, PARTITIONS, form))
    assert fitting(seen) == (name,)
    (finding,) = ask(("C25",), Facts(view=seen))
    assert (finding.verdict, finding.reason) == (Verdict.PASS, f"the owner nodes fit {name}")


def test_assignors_that_cannot_be_told_apart_are_all_named() -> None:
    """One member owns everything whichever it uses: said, not guessed."""
    finding = ask(("C25",), Facts(view=view(1, None)))[0]
    assert finding.verdict is Verdict.PASS
    assert finding.reason.count("roundrobin") == 2
    assert "cannot be told apart" in finding.reason


def contention() -> GroupView:
    """c1 took its share by range; c2 (bracket form) met taken nodes, gave up and owns nothing."""
    ranged = assign(Assignor.RANGE, THREADS, PARTITIONS)
    return owning({partition: thread for partition, thread in ranged.items() if thread.startswith("g_c1")})


def swapped() -> GroupView:
    """Complete, and yet nobody's arithmetic."""
    ranged = assign(Assignor.RANGE, THREADS, PARTITIONS)
    other = {"g_c1-0": "g_c2-0", "g_c2-0": "g_c1-0"}
    return owning({partition: other[thread] for partition, thread in ranged.items()})


@pytest.mark.parametrize(
    ("made", "says"), [(contention, "g_c1: range, g_c2: none"), (swapped, "g_c1: none, g_c2: none")]
)
def test_owners_that_fit_no_assignor_are_a_warning_that_names_each_member(
    made: Callable[[], GroupView], says: str
) -> None:
    """Contention of two assignors, or a group that has not settled: a person looks."""
    (finding,) = ask(("C25",), Facts(view=made()))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert says in finding.reason
    assert "partition.assignment.strategy" in finding.hint


def test_in_kafka_mode_the_owners_follow_kafka() -> None:
    """§5 says nothing about them then."""
    aware = tuple(replace(member, kind=MemberKind.AWARE) for member in swapped().members)
    mode = replace(ABSENT_MODE, data=b"kafka", version=0)
    seen = replace(swapped(), members=aware, migration_ids=("g_c1", "g_c2"), mode=mode)
    assert ask(("C25",), Facts(view=seen))[0].verdict is Verdict.PASS


def test_a_pattern_counts_with_the_topics_that_it_names() -> None:
    """The console consumer registers a whitelist even for one topic."""
    seen = owning(assign(Assignor.RANGE, THREADS, PARTITIONS))
    listed = tuple(
        replace(member, pattern="white_list", subscription=(("clicks|orders", 1),)) for member in seen.members
    )
    assert fitting(replace(seen, members=listed)) == ("range",)
