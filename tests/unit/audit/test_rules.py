"""The three-way audit: every rule at both sides, on logs written as a coordinator writes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from groupshift.audit.inputs import KEPT, Terms, ZookeeperGroup, read_log
from groupshift.audit.offsets import (
    Audit,
    Looked,
    Mismatch,
    Reading,
    audit,
    audit_of,
    confirmed,
    summary,
    unheard_of,
)
from groupshift.audit.rules import KAFKA_RULES, STORE_RULES, Weight
from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.modes import Mode
from groupshift.domain.rows import ClusterState, GroupRow, LogEndRow, OffsetRow, ProblemRow
from groupshift.log import LogRecord
from groupshift_testing.log_encoder import encode_key, encode_value
from support.coordinator_story import Line, commit, gone
from support.coordinator_vectors import U

PARTITIONS = 5
NOW = 1_800_000_000_000
LONG_AGO = NOW - 3_600_000
MINUTE = 60_000
HOME = partition_of("g", PARTITIONS)
AWAY = (HOME + 1) % PARTITIONS


def record(line: Line, offset: int, partition: int = HOME, at: int = LONG_AGO) -> LogRecord:
    """A record at this place of the log."""
    number, key, version, value = line
    return LogRecord(
        partition=partition,
        offset=offset,
        timestamp_ms=at,
        key=encode_key(number, key),
        value=None if value is None else encode_value(number, version, value),
    )


def said(offset: int, *, at: int = LONG_AGO, topic: str = "t1", group: str = "g") -> Line:
    """A commit of an hour ago unless told otherwise."""
    return commit(group, topic, offset=offset, at=at)


def answer(offset: int, **more: Any) -> OffsetRow:
    """The coordinator's answer."""
    return OffsetRow(**{"group": "g", "topic": "t1", "partition": 0, "offset": offset, "metadata": ""} | more)


def zookeeper(
    offset: int | None = None, *, mode: Mode = Mode.ZOOKEEPER, **more: Any
) -> Mapping[str, ZookeeperGroup]:
    """The group in ZooKeeper: one migration-aware member unless told otherwise."""
    nodes = {} if offset is None else {("t1", 0): offset}
    return {"g": ZookeeperGroup(**{"mode": mode, "members": 1, "aware": 1, "offsets": nodes} | more)}


@dataclass(frozen=True, kw_only=True)
class World:
    """Three sources; the bracket opens at offset ``opened`` of the group's partition."""

    records: tuple[LogRecord, ...] = ()
    opened: int = 100
    answers: tuple[OffsetRow, ...] = ()
    zookeeper: Mapping[str, ZookeeperGroup] | None = None
    asked: tuple[str, ...] = ("g",)
    problems: tuple[ProblemRow, ...] = ()
    ends: tuple[LogEndRow, ...] = ()
    retention_ms: int | None = 7 * 24 * 60 * MINUTE

    def look(self) -> Looked:
        """Audit it."""
        opened = dict.fromkeys(range(PARTITIONS), 100) | {HOME: self.opened}
        closed = dict.fromkeys(range(PARTITIONS), 1000)
        admin = ClusterState(
            cluster_id="c",
            taken_at_ms=NOW,
            groups=[GroupRow(group=name, type="classic", state="Empty") for name in self.asked],
            offsets=self.answers,
            problems=self.problems,
            log_ends=self.ends,
        )
        terms = Terms(now_ms=NOW, commit_interval_ms=5000, retention_ms=self.retention_ms)
        reading = Reading(admin=admin, zookeeper=self.zookeeper, opened=opened, closed=closed, terms=terms)
        return audit(reading, read_log(self.records, opened=opened, closed=closed))

    def only(self) -> Mismatch:
        """The one difference."""
        (found,) = self.look().mismatches
        return found

    def agrees(self) -> bool:
        """Whether there is none, and something was audited."""
        looked = self.look()
        return looked.keys > 0 and not looked.mismatches


SETTLED = World(records=(record(said(5), 1),), answers=(answer(5),))


def test_rules_have_numbers_of_their_own_and_every_kind_a_rule() -> None:
    """A number names one rule; what is not explained says what to do."""
    rules = (*KAFKA_RULES, *STORE_RULES)
    assert len({rule.number for rule in rules}) == len(rules)
    assert all(rule.kind for rule in rules)
    assert all(rule.remedy for rule in rules if rule.weight is not Weight.EXPLAINED)


def test_the_docs_explain_every_rule() -> None:
    """docs/reference/audit-rules.md holds the table as it is in force."""
    text = (Path(__file__).parents[3] / "docs" / "reference" / "audit-rules.md").read_text()
    for rule in (*KAFKA_RULES, *STORE_RULES):
        row = (rule.number, rule.kind, rule.weight, rule.reason, rule.remedy or "-")
        assert f"| {' | '.join(row)} |" in text


def test_equal_sources_agree_and_nothing_in_any_source_is_no_key() -> None:
    """Two sources, three sources; tombstones alone are nothing."""
    assert SETTLED.agrees()
    assert replace(SETTLED, zookeeper=zookeeper(5)).agrees()
    assert World(records=(record(gone(said(5)), 1),)).look().keys == 0


@pytest.mark.parametrize("answered", [5, 6, 7])
def test_a_commit_of_the_bracket_or_the_one_before_is_in_flight(answered: int) -> None:
    """Any value that the log had between its two positions explains the answer."""
    records = (record(said(4), 1), record(said(5), 99), record(said(6), 100), record(said(7), 101))
    world = World(records=records, answers=(answer(answered),))
    if answered == 7:
        assert world.agrees()
    else:
        found = world.only()
        assert (found.kind, found.weight, found.logged) == ("commit in flight", Weight.EXPLAINED, 7)


def test_an_older_commit_than_the_last_before_the_bracket_is_stale() -> None:
    """It had time to be served before anybody asked."""
    world = World(records=(record(said(4), 1), record(said(5), 99)), answers=(answer(4),))
    assert (world.only().kind, world.only().weight) == ("stale answer", Weight.MISMATCH)


def test_a_first_commit_and_a_tombstone_of_the_bracket_are_in_flight_too() -> None:
    """Before it there was nothing, after it there is nothing."""
    assert World(records=(record(said(5), 100),)).only().kind == "commit in flight"
    assert World(records=(record(said(5), 99),)).only().kind == "only in the log"
    removed = World(records=(record(said(5), 99), record(gone(said(5)), 100)), answers=(answer(5),))
    assert removed.only().kind == "commit in flight"
    assert replace(removed, opened=101).only().kind == "served after its tombstone"


def test_what_only_the_coordinator_says_is_a_mismatch() -> None:
    """No record at all, or records that never said it."""
    assert World(answers=(answer(5),)).only().kind == "only answered"
    assert replace(SETTLED, answers=(answer(6),)).only().kind == "unexplained"


def test_a_group_that_was_not_asked_proves_no_absence() -> None:
    """Not listed, or answered with a problem: unknown; what it did answer still counts."""
    silent = replace(SETTLED, answers=())
    assert silent.only().kind == "only in the log"
    for world in (
        replace(silent, asked=()),
        replace(silent, problems=(ProblemRow(group="g", problem="a transaction is open"),)),
    ):
        assert (world.only().kind, world.only().weight) == ("not answered", Weight.UNKNOWN)
    troubled = replace(SETTLED, problems=(ProblemRow(group="g", problem="listed twice"),))
    assert troubled.agrees()
    assert troubled.look().problems == ("listed twice",)


def test_a_partition_of_which_nothing_is_answered_is_served_empty() -> None:
    """One offset alone is only in the log; of two, one answered is enough to say so."""
    both = (record(said(5), 1), record(said(6, topic="t2"), 2))
    assert {one.kind for one in World(records=both).look().mismatches} == {"partition served empty"}
    assert World(records=both, answers=(answer(5),)).only().kind == "only in the log"


def test_an_offset_whose_retention_is_over_has_lapsed() -> None:
    """The coordinator forgets it before its tombstone is in the log; without a known retention it is only
    in the log."""
    world = World(records=(record(said(5), 1),), retention_ms=MINUTE)
    assert (world.only().kind, world.only().weight) == ("lapsed", Weight.EXPLAINED)
    assert replace(world, retention_ms=2 * 60 * MINUTE).only().kind == "only in the log"
    assert replace(world, retention_ms=None).only().kind == "only in the log"


def test_records_outside_the_groups_partition_are_foreign_or_a_split_brain() -> None:
    """Older residue is foreign, served or not; a later commit elsewhere means two coordinators."""
    elsewhere = record(said(9, at=LONG_AGO - 1), 1, AWAY)
    residue = replace(SETTLED, records=(*SETTLED.records, elsewhere))
    found = residue.only()
    assert (found.rule, found.kind, found.foreign_partition, found.foreign_offset) == (
        "A05",
        "foreign record",
        AWAY,
        9,
    )
    assert replace(residue, answers=(answer(9),)).only().rule == "A04"
    assert World(records=(elsewhere,)).only().rule == "A05"
    later = record(said(9, at=LONG_AGO + 1), 1, AWAY)
    assert replace(SETTLED, records=(*SETTLED.records, later)).only().kind == "split brain"
    now = record(said(9, at=LONG_AGO - 1), 100, AWAY)
    assert replace(SETTLED, records=(*SETTLED.records, now)).only().kind == "split brain"
    assert replace(SETTLED, records=(*SETTLED.records, record(gone(said(9)), 1, AWAY))).agrees()


def test_metadata_and_leader_epoch_are_compared_byte_by_byte() -> None:
    """A trailing NUL is a difference; an absent leader epoch is -1."""
    for more in ({"metadata": "\0"}, {"leader_epoch": 3}):
        assert replace(SETTLED, answers=(answer(5, **more),)).only().kind == "metadata differs"
    for more in ({"leader_epoch": -1}, {"leader_epoch": None}, {"metadata": None}):
        assert replace(SETTLED, answers=(answer(5, **more),)).agrees()


def test_a_record_that_cannot_be_read_decides_nothing() -> None:
    """A cut value, and a version that is newer than we know: that one counts when it agrees."""
    whole = record(said(5), 1)
    assert whole.value is not None
    cut = World(records=(replace(whole, value=whole.value[:9]),), answers=(answer(5),))
    assert (cut.only().kind, cut.only().weight) == ("unreadable record", Weight.UNKNOWN)
    number, key, _, value = commit(offset=5, at=LONG_AGO, version=4)
    newer = b"\0\5" + encode_value(number, 4, value or {})[2:]
    newest = World(records=(replace(record((number, key, 4, value), 1), value=newer),), answers=(answer(5),))
    assert newest.agrees()
    assert replace(newest, answers=(answer(6),)).only().kind == "unreadable record"


def test_offsets_lie_within_the_topics_log() -> None:
    """The end itself is inside; below the start the records are gone."""
    for start, end, kind in (
        (0, 5, None),
        (5, 9, None),
        (0, 4, "beyond the log end"),
        (6, 9, "below the log start"),
    ):
        row = LogEndRow(topic="t1", partition=0, log_start=start, log_end=end)
        world = replace(SETTLED, ends=(row,))
        assert [one.kind for one in world.look().mismatches] == ([] if kind is None else [kind])


def test_what_is_in_flight_hides_nothing_that_is_not_explained() -> None:
    """Wrong metadata, an offset beyond the log end, a znode that stands still: a busy group has them too."""
    records = (record(said(5), 99), record(said(6), 100))
    busy = World(records=records, answers=(answer(5),), zookeeper=zookeeper(5))
    assert busy.only().kind == "commit in flight"
    assert replace(busy, answers=(answer(5, metadata="x"),)).only().kind == "metadata differs"
    short = LogEndRow(topic="t1", partition=0, log_start=0, log_end=4)
    assert replace(busy, ends=(short,)).only().kind == "beyond the log end"
    assert replace(busy, zookeeper=zookeeper(3)).only().kind == "stores diverge"


def test_a_tombstone_is_expired_removed_or_unknown_by_its_time() -> None:
    """The last commit and the retention tell; ZooKeeper's word counts in its own mode only."""
    for at, retention, kind in (
        (LONG_AGO + MINUTE, MINUTE, "expired"),
        (LONG_AGO + MINUTE - 1, MINUTE, "removed"),
        (LONG_AGO + MINUTE, None, "tombstoned"),
    ):
        records = (record(said(5), 1), record(gone(said(5)), 2, at=at))
        for mode, weight in ((Mode.KAFKA, Weight.MISMATCH), (Mode.ZOOKEEPER, Weight.EXPLAINED)):
            world = World(records=records, retention_ms=retention, zookeeper=zookeeper(5, mode=mode))
            assert (world.only().kind, world.only().weight) == (kind, weight)
    compacted = World(records=(record(gone(said(5)), 2),), zookeeper=zookeeper(5))
    assert compacted.only().kind == "tombstoned"


def test_what_kafka_never_had_counts_in_kafka_mode() -> None:
    """In zookeeper mode old members commit to ZooKeeper only."""
    assert World(zookeeper=zookeeper(5)).only().weight is Weight.EXPLAINED
    found = World(zookeeper=zookeeper(5, mode=Mode.KAFKA)).only()
    assert (found.kind, found.weight) == ("never committed", Weight.MISMATCH)
    assert World(zookeeper=zookeeper(5), asked=()).only().kind == "not answered"


@pytest.mark.parametrize(("ago", "kind"), [(5000, "zookeeper within its interval"), (5001, "stores diverge")])
def test_zookeeper_may_be_behind_for_a_commit_interval(ago: int, kind: str) -> None:
    """From Kafka's first commit beyond the znode on; later commits do not restart the clock."""
    records = (record(said(5), 1), record(said(6, at=NOW - ago), 2), record(said(7, at=NOW - 1), 3))
    world = World(records=records, answers=(answer(7),), zookeeper=zookeeper(5, mode=Mode.KAFKA))
    assert world.only().kind == kind
    fresh = World(records=records[1:], answers=(answer(7),), zookeeper=zookeeper(None))
    assert fresh.only().kind == (kind if kind == "zookeeper within its interval" else "not in zookeeper")


@pytest.mark.parametrize(("ago", "kind"), [(5000, "kafka within its interval"), (5001, "stores diverge")])
def test_kafka_may_be_behind_for_a_commit_interval(ago: int, kind: str) -> None:
    """Kafka's own last commit tells."""
    world = World(records=(record(said(5, at=NOW - ago), 1),), answers=(answer(5),))
    assert replace(world, zookeeper=zookeeper(6)).only().kind == kind


def test_u04_a_busy_znode_does_not_date_kafkas_delay() -> None:
    """Kafka 10,720 records and 9 minutes behind a znode that was written just now: the stores diverge."""
    world = World(records=(record(said(24_377, at=NOW - 9 * MINUTE), 1),), answers=(answer(24_377),))
    found = replace(world, zookeeper=zookeeper(35_097)).look()
    assert [(one.rule, one.weight) for one in found.mismatches] == [("A33", Weight.MISMATCH)]
    assert found.suspicious


def test_u04_a_group_without_aware_members_is_left_behind_whatever_the_znode_says() -> None:
    """Old members commit to ZooKeeper only: nothing will follow in Kafka, and that is explained as such."""
    old = World(records=(record(said(5, at=NOW - 9 * MINUTE), 1),), answers=(answer(5),))
    assert replace(old, zookeeper=zookeeper(9, aware=0)).only().rule == "A31"


def test_u04_of_several_commits_kafkas_last_one_counts() -> None:
    """A tombstone, or a commit that was made anew at an older offset, does not hide the last one."""
    records = (record(said(5, at=NOW - 9 * MINUTE), 1), record(said(6, at=NOW - 8 * MINUTE), 2))
    late = World(records=records, answers=(answer(6),), zookeeper=zookeeper(9))
    assert late.only().rule == "A33"
    fresh = replace(late, records=(records[0], record(said(6, at=NOW - 1000), 2)))
    assert fresh.only().rule == "A30"


def test_u04_a_commit_without_a_time_is_said_and_not_clean() -> None:
    """Neither explained nor a mismatch: nothing tells how long Kafka has been behind."""
    world = World(records=(record(said(5, at=-1), 1),), answers=(answer(5),))
    found = replace(world, zookeeper=zookeeper(6)).look()
    assert [(one.rule, one.weight) for one in found.mismatches] == [("A38", Weight.UNKNOWN)]
    assert found.suspicious


def test_a_store_to_which_no_member_commits_is_left_behind() -> None:
    """Plain consumers write no znodes, old members nothing to Kafka; in kafka mode the latter matters."""
    plain = replace(SETTLED, zookeeper=zookeeper(3, mode=Mode.KAFKA, members=0, aware=0))
    old = replace(SETTLED, zookeeper=zookeeper(9, aware=0))
    assert (plain.only().kind, old.only().kind) == ("store left behind", "store left behind")
    wrong = replace(SETTLED, zookeeper=zookeeper(9, mode=Mode.KAFKA, aware=0))
    assert wrong.only().kind == "stores diverge"


def test_a_znode_of_the_bracket_agrees() -> None:
    """Both stores were written while they were read."""
    records = (record(said(5), 99), record(said(6), 100))
    assert World(records=records, answers=(answer(6),), zookeeper=zookeeper(5)).agrees()


def test_a_znode_that_could_not_be_read_proves_no_absence() -> None:
    """Beside one that could be it does not matter."""
    side = zookeeper(None, problems=("/consumers/g/offsets/t1/0 may not be read",))
    found = replace(SETTLED, zookeeper=side).only()
    assert (found.kind, found.weight) == ("not read", Weight.UNKNOWN)
    assert replace(SETTLED, zookeeper=zookeeper(5, problems=("another node",))).agrees()


def test_a_mismatch_counts_when_two_looks_see_it() -> None:
    """What the second look explains is explained, what it no longer sees is gone; explained rows stay."""
    old = replace(SETTLED, answers=(answer(6), answer(7, topic="t2")))
    first = old.look()
    assert [one.kind for one in first.suspicious] == ["unexplained", "only answered"]
    assert confirmed(first, SETTLED.look()).mismatches == ()
    still = confirmed(first, replace(old, answers=(answer(6),)).look())
    assert [one.key for one in still.suspicious] == [("g", "t1", 0)]
    assert (still.keys, still.agreeing, still.mismatches[0].kind) == (2, 1, "unexplained")
    explained = replace(SETTLED, zookeeper=zookeeper(9, aware=0)).look()
    assert confirmed(explained, SETTLED.look()).mismatches == explained.mismatches


def audited(looked: Looked) -> Audit:
    """The audit of one look."""
    return Audit(began_ms=0, ended_ms=1, cluster_id="c", zookeeper=True, retention_ms=None, looked=looked)


def test_what_a_source_did_not_tell_is_not_clean() -> None:
    """Also where no offset is left that could differ; a second look that reads the group settles it."""
    side = zookeeper(None, problems=("/consumers/g/offsets/t1/0 may not be read",))
    looked = World(zookeeper=side).look()
    assert (looked.keys, looked.unread) == (0, {"g": ("/consumers/g/offsets/t1/0 may not be read",)})
    assert not audited(looked).clean
    troubled = replace(SETTLED, answers=(), problems=(ProblemRow(group="g", problem="refused"),))
    assert not audited(confirmed(troubled.look(), troubled.look())).clean
    assert audited(confirmed(troubled.look(), SETTLED.look())).clean
    other = replace(SETTLED, answers=(answer(6),), problems=(ProblemRow(problem="topic t9 is gone"),))
    assert confirmed(other.look(), SETTLED.look()).unread == {"": ("topic t9 is gone",)}
    again = audit_of(summary(audited(looked)), ())
    assert (again.clean, again.looked.unread) == (False, looked.unread)


def test_a_group_asked_for_by_name_that_nobody_knows_is_not_clean() -> None:
    """A slip in a name; one that any source has, or that is there without offsets, is no slip."""

    def found(state: str, *, nodes: bool = False, answers: tuple[OffsetRow, ...] = ()) -> Looked:
        group = GroupRow(group="g", type="", state=state)
        admin = ClusterState(cluster_id="c", taken_at_ms=NOW, groups=[group], offsets=answers)
        side = zookeeper() if nodes else {}
        position = dict.fromkeys(range(PARTITIONS), 0)
        reading = Reading(
            admin=admin,
            zookeeper=side,
            opened=position,
            closed=position,
            terms=Terms(now_ms=NOW),
            groups=["g"],
        )
        log = read_log((), opened=position, closed=position)
        return unheard_of(audit(reading, log), reading)

    looked = found("Dead")
    assert not audited(looked).clean
    assert "group 'g': neither a coordinator nor its log nor ZooKeeper knows it" in looked.problems[0]
    for known in (found("Empty"), found("Dead", nodes=True), found("Dead", answers=(answer(5),))):
        assert known.problems == ()


def test_only_the_wanted_groups_and_the_recent_past_are_kept() -> None:
    """Thousands of old commits of a key are not; those of the bracket all are."""
    records = [record(said(n), n) for n in range(500)] + [record(said(1, group="other"), 1, AWAY)]
    side = read_log(records, opened={HOME: 300}, closed=dict.fromkeys(range(PARTITIONS), 500), groups=("g",))
    history = side.history(("g", "t1", 0))
    assert [one.offset for one in history][-201:] == list(range(299, 500))
    assert len(history) <= 200 + 2 * KEPT
    assert list(side.state.groups) == ["g"]
    assert not side.state.foreign_commits


def belonging(*answers: OffsetRow, winner: str = "", ends: Mapping[Any, int] | None = None) -> Looked:
    """An audit of these answers, where topic t1 has the id U, two partitions and leader epochs 3 and 0; the
    log agrees, with the topic id ``winner`` in its record."""
    from groupshift.domain.commit_places import TopicNow, Topics

    records = []
    for number, each in enumerate(answers):
        kind, key, _, value = commit(each.group, each.topic, each.partition, offset=each.offset, at=LONG_AGO)
        assert value is not None
        value |= {"leaderEpoch": -1 if each.leader_epoch is None else each.leader_epoch, "topicId": winner}
        records.append(record((kind, key, 4 if winner else 3, value), number))
    state = ClusterState(
        cluster_id="c",
        taken_at_ms=NOW,
        groups=[GroupRow(group="g", type="classic", state="Empty")],
        offsets=answers,
        log_ends=[LogEndRow(topic="t1", partition=number, log_start=0, log_end=200) for number in (0, 1)],
        topics=Topics(
            now={
                "t1": TopicNow(topic="t1", topic_id=U, epochs={0: 3, 1: 0}),
                "gone": TopicNow(topic="gone", exists=False),
            },
            ends=ends or {},
        ),
    )
    opened, closed = dict.fromkeys(range(PARTITIONS), 100), dict.fromkeys(range(PARTITIONS), 1000)
    reading = Reading(admin=state, zookeeper=None, opened=opened, closed=closed, terms=Terms(now_ms=NOW))
    return audit(reading, read_log(records, opened=opened, closed=closed))


def named(looked: Looked) -> list[tuple[str, str]]:
    """Rule and kind of every difference."""
    return [(one.rule, one.kind) for one in looked.mismatches]


ABOVE, LOW = ("A34", "leader epoch too high"), ("A35", "leader epoch too low")


@pytest.mark.parametrize(
    ("epoch", "partition", "ends", "expected"),
    [
        (4, 0, {}, [ABOVE]),  # one too high
        (99, 0, {}, [ABOVE]),
        (1, 1, {("t1", 1, 1): -1}, [ABOVE]),  # its leader knows no such epoch
        (1, 1, {("t1", 1, 1): 160}, []),  # the leader is ahead of the broker that was asked
        (3, 0, {}, []),  # the current one
        (2, 0, {("t1", 0, 2): 180}, []),  # an earlier one that reached beyond the offset
        (2, 0, {("t1", 0, 2): 150}, []),  # just so far
        (0, 0, {("t1", 0, 0): 100}, [LOW]),
        (0, 0, {("t1", 0, 0): -1}, [LOW]),
        (0, 0, {}, []),  # its leader does not tell: nothing is claimed
        (None, 0, {}, []),
        (-1, 0, {}, []),
    ],
)
def test_f10_a_foreign_leader_epoch_is_named(
    epoch: int | None, partition: int, ends: Mapping[Any, int], expected: list[tuple[str, str]]
) -> None:
    """Above the partition's, or ended before the offset; nothing else, and nothing that is not known."""
    looked = belonging(answer(150, leader_epoch=epoch, partition=partition), ends=ends)
    assert named(looked) == expected
    assert looked.agreeing == 1 - len(expected)


OTHER = "pnZcymezThatEe9XU5FPyw"


@pytest.mark.parametrize(
    ("told", "logged", "expected"),
    [
        (None, U, []),
        (U, U, []),
        (None, "", []),  # a record of version 3 names no topic: nothing is claimed
        (None, OTHER, [("A36", "former topic")]),
        (U, OTHER, [("A36", "former topic")]),  # the log has the last word
        ("former", "", [("A36", "former topic")]),
        ("former", OTHER, [("A36", "former topic")]),
        ("former", U, []),  # made anew between the two looks
    ],
)
def test_f03_a_commit_of_a_former_topic_is_named(
    told: str | None, logged: str, expected: list[tuple[str, str]]
) -> None:
    """By the id in its record, or by a coordinator that answers it by name and not by the topic's id."""
    assert named(belonging(answer(150, topic_id=told), winner=logged)) == expected


def test_f03_a_former_topic_comes_before_what_follows_from_it() -> None:
    """Beyond the end of the new log, with an epoch of the old one: it is named for what it is."""
    assert named(belonging(answer(999, leader_epoch=9), winner=OTHER)) == [("A36", "former topic")]


@pytest.mark.parametrize(
    ("topic", "partition", "expected"),
    [
        ("t1", 1, []),
        ("t1", 2, [("A37", "no such partition")]),
        ("gone", 0, [("A37", "no such partition")]),
        ("not told", 0, []),  # no rights to describe it: nothing is claimed
    ],
)
def test_f09_a_committed_partition_that_the_topic_does_not_have_is_named(
    topic: str, partition: int, expected: list[tuple[str, str]]
) -> None:
    """A topic that is gone, or has fewer partitions than the commit's."""
    assert named(belonging(answer(5, topic=topic, partition=partition))) == expected
