"""What a coordinator of a release would load: each rule on both sides of its line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupshift.domain.group_partition_and_count import partition_of
from groupshift.errors import Rejected
from groupshift.log import LogRecord, decode
from groupshift.log.releases import LOADERS, Coordinator, loader
from groupshift.log.replay import RULES, GroupVerdict, LoadOutcome, lint
from groupshift.log.schema import TYPES
from groupshift_testing.log_encoder import encode_key, encode_value
from support.coordinator_story import (
    PARTITIONS,
    Line,
    classic,
    commit,
    compacted,
    consumer_group,
    current,
    early_target,
    epoch,
    gone,
    log,
    member,
    partition_metadata,
    target,
    target_epoch,
    to_classic,
)
from support.coordinator_vectors import T

OLD, NEW = Coordinator.OLD, Coordinator.NEW
LOADS, LOSS, FAILS = LoadOutcome.LOADS, LoadOutcome.LOADS_WITH_LOSS, LoadOutcome.FAILS_SHARD
HOME = partition_of("g", PARTITIONS)
NEIGHBOUR = next(f"n{i}" for i in range(99) if partition_of(f"n{i}", PARTITIONS) == HOME)
FAR = next(f"n{i}" for i in range(99) if partition_of(f"n{i}", PARTITIONS) != HOME)


def judge(lines: list[Line], release: str, coordinator: Coordinator) -> GroupVerdict:
    """The verdict on group g."""
    return lint(log(*lines), release, coordinator)["g"]


def test_coordinator_31_leftovers_of_the_consumer_protocol() -> None:
    """3.4.0 serves the partition empty, also to a neighbour that never used it; 3.4.1 loads offsets."""
    records = log(commit(), *consumer_group(), commit(NEIGHBOUR)) + log(commit(FAR))
    before = lint(records, "3.4.0", OLD)
    assert {name: one.outcome for name, one in before.items()} == {"g": LOSS, NEIGHBOUR: LOSS, FAR: LOADS}
    assert before[NEIGHBOUR].rule == "O1"
    assert before[NEIGHBOUR].record is not None
    assert (before[NEIGHBOUR].record.record_type, before[NEIGHBOUR].record.src_offset) == (5, 1)
    after = lint(records, "3.4.1", OLD)
    assert (after["g"].outcome, after["g"].rule) == (LOSS, "O4")
    assert after[NEIGHBOUR].outcome is LOADS
    assert lint(records, "4.3.1", NEW)["g"].outcome is LOADS


def test_coordinator_31b_converting_is_not_enough_for_3_4_0_compacting_is() -> None:
    """Tombstones of the types from 3 on trip the old loader as well; without them it loads."""
    records = log(*consumer_group(), commit(), *to_classic())
    converted = lint(records, "3.4.0", OLD)["g"]
    assert (converted.outcome, converted.rule) == (LOSS, "O1")
    kept = lint(compacted(records), "3.4.0", OLD)["g"]
    assert kept.outcome is LOSS
    assert kept.record is not None
    assert kept.record.is_tombstone
    assert lint(compacted(records, tombstones=False), "3.4.0", OLD)["g"].outcome is LOADS
    for release, coordinator in (("3.4.1", OLD), ("3.9.2", OLD), ("3.9.2", NEW), ("4.3.1", NEW)):
        assert lint(records, release, coordinator)["g"].outcome is LOADS, release


def test_coordinator_32_a_live_5_after_a_live_2_fails_the_shard() -> None:
    """Compaction left a classic group's record before members of a consumer group: KAFKA-21117 class."""
    found = judge([commit(), classic("g"), member()], "4.3.1", NEW)
    assert (found.outcome, found.rule) == (FAILS, "N1")
    assert "KAFKA-21117" in found.reason
    assert found.record is not None
    assert found.record.record_type == 5
    assert judge([commit(), classic("g"), member()], "3.9.2", OLD).rule == "O4"


@pytest.mark.parametrize(
    ("lines", "rule"),
    [
        # a: another kind of group
        ([classic("g", "m1"), current()], "N1"),
        ([classic("g", "m1"), gone(current())], "N1"),
        ([classic("g", protocol_type=""), member(), epoch()], "L0"),
        ([commit(), *consumer_group()], "L0"),
        ([classic("g", "m1"), gone(classic("g")), *consumer_group()], "L0"),
        ([*consumer_group(), classic("g", "m1")], "L0"),
        ([epoch(kind=11), member()], "N1"),
        ([epoch(kind=17), *consumer_group()], "N1"),
        # b: a member's tombstone before those of its assignments
        ([*consumer_group(), gone(member())], "N2"),
        ([*consumer_group(), gone(current()), gone(member())], "N2"),
        ([*consumer_group(), gone(target()), gone(member())], "N2"),
        ([*consumer_group(), gone(current()), gone(target()), gone(member())], "L0"),
        ([*consumer_group(), gone(member("g", "other"))], "L0"),
        ([gone(member()), epoch()], "L0"),
        ([member(), gone(member()), epoch()], "N2"),
        # c: a group's tombstone while something remains
        ([commit(), *consumer_group(), gone(epoch())], "N3"),
        ([commit(), epoch(), gone(epoch())], "N3"),
        ([commit(), epoch(), target(), gone(target_epoch())], "N4"),
        ([commit(), epoch(), target_epoch(), gone(target_epoch()), gone(epoch()), commit()], "L0"),
        ([*consumer_group(), *to_classic()], "L0"),
        ([gone(epoch()), commit()], "L0"),
    ],
)
def test_the_new_loader_stops_where_the_released_one_does(lines: list[Line], rule: str) -> None:
    """Conditions a, b and c, each with the order that fails and the order that does not."""
    found = judge([*lines, commit(partition=1)], "4.3.1", NEW)
    assert found.rule == rule
    assert found.outcome is RULES[rule].outcome
    assert (found.record is None) == (rule == "L0")


def test_a_failed_shard_takes_its_neighbours_and_nobody_else() -> None:
    """Every group of the partition gets NOT_COORDINATOR; other partitions load."""
    records = log(classic("g"), member(), commit(NEIGHBOUR)) + log(commit(FAR))
    found = lint(records, "4.1.2", NEW)
    assert {name: one.outcome for name, one in found.items()} == {"g": FAILS, NEIGHBOUR: FAILS, FAR: LOADS}


@pytest.mark.parametrize(
    ("lines", "strict", "later"),
    [
        ([target(), member(), epoch()], "N5", "L0"),
        ([gone(current()), member(), epoch()], "N5", "L0"),
        ([epoch(), current(), member()], "N5", "L0"),
        ([epoch(), gone(member("g", "x"))], "N5", "L0"),
        ([commit(), member(), epoch()], "N1", "L0"),
        ([partition_metadata(), epoch()], "N5", "L0"),
        (consumer_group(), "L0", "L0"),
    ],
)
def test_3_9_forgives_less_than_4_0(lines: list[Line], strict: str, later: str) -> None:
    """Up to 3.9 members must follow their group, and offsets must not come before it."""
    assert judge(lines, "3.9.2", NEW).rule == strict
    assert judge(lines, "3.8.1", NEW).rule == strict
    assert judge(lines, "4.0.2", NEW).rule == later


@pytest.mark.parametrize(("release", "rule"), [("4.1.2", "N1"), ("4.2.0", "N1"), ("4.2.1", "L0")])
def test_offsets_before_a_streams_group(release: str, rule: str) -> None:
    """KAFKA-20254: a group of offsets did not become a streams group before 4.2.1."""
    assert judge([commit(), epoch(kind=17)], release, NEW).rule == rule


@pytest.mark.parametrize(
    ("version", "release", "coordinator", "rule"),
    [
        (4, "3.4.0", OLD, "O2"),
        (4, "3.4.1", OLD, "L0"),
        (4, "4.0.2", NEW, "L0"),
        (3, "2.0.1", OLD, "O2"),
        (3, "2.1.0", OLD, "L0"),
        (1, "0.9.0.1", OLD, "L0"),
    ],
)
def test_value_versions_of_commits(version: int, release: str, coordinator: Coordinator, rule: str) -> None:
    """Version 4 (from 4.1 on every commit) empties the partition of an old coordinator before 3.4.1."""
    assert judge([commit(version=version)], release, coordinator).rule == rule


@pytest.mark.parametrize(
    ("release", "rule"), [("0.10.0.1", "O2"), ("1.1.1", "O2"), ("2.1.1", "O2"), ("2.4.1", "L0")]
)
def test_value_versions_of_classic_groups(release: str, rule: str) -> None:
    """Version 3 of a group's record came with 2.3."""
    assert judge([classic("g", "m1")], release, OLD).rule == rule


@pytest.mark.parametrize(
    ("number", "value", "old", "new"),
    [
        (1, b"\0\3\0", "O3", "N7"),
        (1, b"\0\5\0", "O2", "N7"),
        (3, b"\0\0\0", "O4", "N7"),
        (3, b"\0\7\0\0\0\1\0", "O4", "L0"),
        (7, b"\0\7\1\0", "O4", "N7"),
        (99, b"\0\0", "L0", "N9"),
    ],
)
def test_records_that_cannot_be_read(number: int, value: bytes, old: str, new: str) -> None:
    """Unknown versions are forgiven by the new loader where no nested struct checks them."""
    fields = {"group": "g", "groupId": "g", "memberId": "m", "topic": "t", "partition": 0}
    key = encode_key(number, fields) if number in TYPES else number.to_bytes(2, "big") + b"\0\1g"
    bad = LogRecord(partition=HOME, offset=0, timestamp_ms=T, key=key, value=value)
    records = [decode(bad, partitions=PARTITIONS), *log(commit(partition=3), start=1)]
    assert lint(records, "3.9.2", OLD)["g"].rule == old
    assert lint(records, "4.3.1", NEW)["g"].rule == new


def test_early_access_layouts_fail_in_later_releases_and_the_other_way_round() -> None:
    """3.7 wrote other layouts under the same version; each release reads its own."""
    records = log(epoch(), early_target())
    assert lint(records, "3.7.2", NEW)["g"].rule == "L0"
    assert lint(records, "3.9.2", NEW)["g"].rule == "N6"
    assert judge([epoch(), target()], "3.7.2", NEW).rule == "N6"


def test_residue_of_an_expansion() -> None:
    """A copy elsewhere can shadow a group on OLD, not on NEW; a group that is only elsewhere is lost."""
    elsewhere = (HOME + 1) % PARTITIONS
    both = log(commit(offset=150)) + log(commit(offset=100), start=9, partition=elsewhere)
    old = lint(both, "3.9.2", OLD)["g"]
    assert (old.rule, old.partition) == ("O5", HOME)
    assert old.record is not None
    assert (old.record.src_partition, old.record.src_offset) == (elsewhere, 9)
    assert lint(both, "4.3.1", NEW)["g"].rule == "L0"
    cleaned = both + log(gone(commit()), start=10, partition=elsewhere)
    assert lint(cleaned, "3.9.2", OLD)["g"].rule == "L0"
    for release, coordinator in (("3.9.2", OLD), ("4.3.1", NEW)):
        lost = lint(log(commit(), partition=elsewhere), release, coordinator)["g"]
        assert (lost.rule, lost.outcome, lost.partition) == ("X1", LOSS, HOME)


def test_a_group_that_is_removed_after_its_offsets_loses_them() -> None:
    """The offsets are in the log and nobody answers with them; a later commit brings the group back."""
    removed = judge([commit(), gone(classic("g"))], "4.3.1", NEW)
    assert (removed.rule, removed.outcome) == ("N8", LOSS)
    assert removed.record is not None
    assert removed.record.src_offset == 1
    assert judge([commit(), gone(classic("g")), commit(partition=1)], "4.3.1", NEW).rule == "L0"
    assert judge([commit(), gone(classic("g"))], "3.9.2", OLD).rule == "L0"


def test_groups_with_nothing_alive_are_not_judged() -> None:
    """There is nothing to load."""
    assert lint(log(commit(), gone(commit()), gone(classic("g"))), "4.3.1", NEW) == {}


@pytest.mark.parametrize(
    ("release", "coordinator", "sentence"),
    [
        ("3.6.2", NEW, "3.6.2 has no new group coordinator; it has old"),
        ("4.1.2", OLD, "4.1.2 has no old group coordinator; it has new"),
        ("0.8.2", OLD, "has no old group coordinator; it has none"),
        ("latest", OLD, "'latest' is no Kafka version"),
    ],
)
def test_releases_without_that_coordinator_are_refused(
    release: str, coordinator: Coordinator, sentence: str
) -> None:
    """One sentence that says what the release has."""
    with pytest.raises(Rejected, match=sentence):
        lint([], release, coordinator)


def test_the_table_of_releases_has_no_gap_and_no_overlap() -> None:
    """Every release from 0.9 has one line a coordinator; both exist from 3.7 to 4.0."""
    for kind in Coordinator:
        lines = [line for line in LOADERS if line.coordinator is kind]
        assert [line.before for line in lines[:-1]] == [line.since for line in lines[1:]]
    assert loader("4.0.2", OLD).before == (4, 1)
    assert loader("3.7.0", NEW).since == (3, 7)
    assert loader("3.9.2-SNAPSHOT", NEW) is loader("3.9", NEW)


def another_brokers(group: str, *members: str, first: bool = True, version: int = 3) -> LogRecord:
    """GroupMetadata as another broker writes it: an int16 more in each member."""
    import struct

    def text(said: str | None) -> bytes:
        return struct.pack(">h", -1) if said is None else struct.pack(">h", len(said)) + said.encode()

    body = struct.pack(">h", version) + text("consumer") + struct.pack(">i", 4) + text("range")
    body += text(members[0] if members else None) + struct.pack(">q", 7) + struct.pack(">i", len(members))
    for each in members:
        told = text(each) + text(None) + text("client") + text("/127.0.0.1") + struct.pack(">ii", 300, 45)
        told += struct.pack(">i", 3) + b"abc" + struct.pack(">i", 2) + b"de"
        body += struct.pack(">h", 1) + told if first else told + struct.pack(">h", 1)
    home = partition_of(group, PARTITIONS)
    return LogRecord(
        partition=home,
        offset=partition_of(group, 9),
        timestamp_ms=7,
        key=encode_key(2, {"group": group}),
        value=body,
    )


@pytest.mark.parametrize("coordinator", list(Coordinator))
@pytest.mark.parametrize("first", [1, 0])
@pytest.mark.parametrize("groups", [{"a": ["m1"]}, {"a": ["m1", "m2"], "b": ["m3"], "c": []}])
def test_f13_of_a_log_that_another_broker_wrote_nothing_is_claimed(
    coordinator: Coordinator,
    first: int,
    groups: dict[str, list[str]],
) -> None:
    """One value of a known other layout is enough; groups without members are written alike by all."""
    written = [another_brokers(name, *members, first=bool(first)) for name, members in groups.items()]
    kind, key, version, value = commit("d", "t1", offset=5)
    assert value is not None
    home = partition_of("d", PARTITIONS)
    written.append(
        LogRecord(
            partition=home,
            offset=99,
            timestamp_ms=7,
            key=encode_key(kind, key),
            value=encode_value(kind, version, value),
        )
    )
    found = lint([decode(each, partitions=PARTITIONS) for each in written], "3.9.2", coordinator)
    assert found.keys() == {*groups, "d"}
    assert {(one.rule, one.outcome.value, one.record) for one in found.values()} == {
        ("X2", "not_proven", None)
    }


def test_f13_values_of_a_type_that_all_cannot_be_read_are_anothers_and_one_is_damaged() -> None:
    """Two groups are enough; a single one, or one that can be read beside them, is damage."""
    broken = [replace(another_brokers(name, "m"), value=b"\0\3" + bytes([0, 90, 1])) for name in "ab"]
    sound = [replace(each, offset=each.offset + 50) for each in broken[:1]]
    kind, _, version, value = classic("a", "m")
    assert value is not None
    sound[0] = replace(sound[0], value=encode_value(kind, version, value))

    def rules(*records: LogRecord) -> set[str]:
        decoded = [decode(each, partitions=PARTITIONS) for each in records]
        return {one.rule for one in lint(decoded, "4.3.1", Coordinator.NEW).values()}

    assert rules(*broken) == {"X2"}
    assert rules(broken[0]) == {"N7"}
    assert "X2" not in rules(*broken, *sound)
