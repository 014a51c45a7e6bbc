"""The six methods in order, their checks, and what falls to the next."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupshift.errors import Rejected
from groupshift.links.alignment import CopyTraits
from groupshift.links.partition_translation import TranslationRules, prove_identity, translate_partition
from groupshift.links.position_search import HeaderEncoding, OffsetHeader, SearchLimits
from groupshift.links.record_reads import FingerprintRule
from groupshift.links.sync_history import BeforeFirstSync, PartitionPair, SyncHistory
from groupshift.links.translation import Certainty, Method, OffsetPair, Reason, Translation
from groupshift.ports.records import LogRecordView
from groupshift_testing.partition_reads import SimulatedReader
from groupshift_testing.replication import Record, Replication, SimulatedLog

PROVEN, LIKELY, CONSERVATIVE = Certainty
RULES = TranslationRules()
BY_HEADER = TranslationRules(fingerprint=None, offset_header=OffsetHeader(name="src"))
NO_TIME = FingerprintRule(timestamps=False)


def history(replication: Replication, *, source_start: int | None = None) -> SyncHistory:
    """All syncs; ``source_start``: S.start when the first of them was seen."""
    made = SyncHistory()
    if source_start is not None:
        made.observe(
            PartitionPair(
                source_id="s", target_id="t", source_start=source_start, target_end=0, sync_log_end=0
            )
        )
    for sync in replication.syncs:
        made.append(sync)
    return made


def translate(
    replication: Replication, *commits: int, rules: TranslationRules = RULES, syncs: SyncHistory | None = None
) -> tuple[Translation, ...]:
    """Translate with all that is known now."""
    return translate_partition(
        commits,
        target=SimulatedReader(replication.target),
        source=SimulatedReader(replication.source),
        syncs=syncs or history(replication),
        rules=rules,
    )


def replicated(records: int = 300, **options) -> Replication:
    """So many records, all copied, one sync each 20, replication at rest."""
    made = Replication(offset_lag_max=options.pop("lag", 20), **options)
    for number in range(records):
        made.produce(b"%d" % number)
    made.settle()
    return made


def assert_exact(replication: Replication, *found: Translation) -> None:
    """Every translation is proven, and is the exact position."""
    for each in found:
        assert (each.x, each.certainty) == (replication.exact(each.committed), PROVEN), each


# -- identity ------------------------------------------------------------------------------------------


def mirror(source: SimulatedLog, *, until: int | None = None) -> SimulatedLog:
    """A copy of a log with the same offsets, as far as it has come."""
    end = source.end if until is None else until
    made = SimulatedLog(records=[record for record in source.records if record.offset < end], end=end)
    made.start = source.start
    return made


def proof(source: SimulatedLog, target: SimulatedLog):
    """Whether identity is proven."""
    return prove_identity(
        SimulatedReader(source),
        SimulatedReader(target),
        FingerprintRule(),
        source_topic_id=source.topic_id,
        target_topic_id=target.topic_id,
    )


def test_identity_is_the_offset_itself_and_never_above_the_targets_end() -> None:
    """The last commits of a link that is behind are clamped, and that is still exact."""
    source = replicated().source
    target = mirror(source, until=250)
    found = translate_partition(
        [100, 250, 280],
        target=SimulatedReader(target),
        source=SimulatedReader(source),
        identity=proof(source, target),
    )
    assert [(each.x, each.reason) for each in found] == [
        (100, Reason.OK),
        (250, Reason.OK),
        (250, Reason.CLAMPED_HIGH),
    ]
    assert {(each.method, each.certainty) for each in found} == {(Method.IDENTITY, PROVEN)}
    assert found[2].evidence.unclamped == 280


def test_identity_holds_for_records_that_only_the_target_has_still() -> None:
    """The source's retention was faster: to go on at its log start would skip what the target has."""
    source = replicated().source
    target = mirror(source)
    source.delete_before(100)
    (found,) = translate_partition(
        [30],
        target=SimulatedReader(target),
        source=SimulatedReader(source),
        identity=proof(source, target),
    )
    assert (found.method, found.x, found.evidence.expired) == (Method.IDENTITY, 30, 70)


def test_identity_holds_for_these_two_topics_only() -> None:
    """A topic that was made anew has another id."""
    source = replicated().source
    proven = proof(source, mirror(source))
    assert proven.holds_for(proven.source_topic_id, proven.target_topic_id)
    assert not proven.holds_for(proven.source_topic_id, "another")
    assert not proven.holds_for("another", proven.target_topic_id)


def altered(log: SimulatedLog, offset: int) -> SimulatedLog:
    """The log with another value there."""
    made = mirror(log)
    made.records = [replace(each, value=b"!") if each.offset == offset else each for each in made.records]
    return made


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda log: altered(log, 3), "from 0 on are not the same"),
        (lambda log: altered(log, 155), "from 150 on are not the same"),
        (lambda log: altered(log, 299), "are not the same"),
        (lambda log: replace(mirror(log), end=301), "behind the source"),
        (lambda _: SimulatedLog(), "no offset in common"),
        (lambda log: replace(mirror(log), records=[]), "are not the same"),
    ],
    ids=["start", "middle", "end", "longer", "empty", "no records"],
)
def test_identity_is_not_proven_by_a_difference_at_start_middle_or_end(make, reason) -> None:
    """Log ends count, too: the target holds nothing that the source has not."""
    source = replicated().source
    found = proof(source, make(source))
    assert not found.is_proven
    assert reason in found.reason


def test_identity_is_not_proven_by_records_that_repeat() -> None:
    """They would be equal at other offsets, too."""
    same = Replication()
    for _ in range(100):
        same.produce(b"same", timestamp_ms=1)
    assert not proof(same.source, mirror(same.source)).is_proven
    empty = SimulatedLog()
    assert proof(empty, SimulatedLog()).is_proven


# -- header --------------------------------------------------------------------------------------------


def source_header(upstream: int) -> tuple[tuple[str, bytes], ...]:
    """A decimal source offset."""
    return (("src", b"%d" % upstream),)


@pytest.mark.parametrize(
    ("encoding", "value", "offset"),
    [
        (HeaderEncoding.DECIMAL, b"42", 42),
        (HeaderEncoding.DECIMAL, b"-1", None),
        (HeaderEncoding.DECIMAL, b"9" * 5_000, None),
        (HeaderEncoding.DECIMAL, b"", None),
        (HeaderEncoding.INT64, b"\0" * 7 + b"*", 42),
        (HeaderEncoding.INT64, b"\xff" * 8, None),
        (HeaderEncoding.INT64, b"42", None),
        (HeaderEncoding.DECIMAL, None, None),
    ],
)
def test_a_header_is_read_by_its_encoding_or_not_at_all(encoding, value, offset) -> None:
    """A header of an earlier hop stands in front of the last one."""
    record = LogRecordView(offset=0, timestamp_ms=0, value=b"", headers=(("src", b"7"), ("src", value)))
    assert OffsetHeader(name="src", encoding=encoding).source_offset(record) == offset


@pytest.mark.parametrize("guard", [100_000, 50])
def test_cluster_03_headers_are_exact_without_syncs_and_without_the_source(guard: int) -> None:
    """On an unplanned loss of S, the target alone tells it; few records are read below the guard."""
    replication = replicated(3_000, offset_headers=source_header)
    rules = replace(BY_HEADER, limits=SearchLimits(guard=guard), header_window=20)
    reader = SimulatedReader(replication.target)
    found = translate_partition([0, 1, 1_234, 2_960, 3_000], target=reader, rules=rules)
    assert_exact(replication, *found)
    assert reader.records_read <= (3_000 if guard > 3_000 else 400)
    assert {each.method for each in found} == {Method.HEADER}


def test_headers_that_are_missing_fall_to_the_next_method() -> None:
    """A target whose replicator wrote none, or began late."""
    replication = replicated()
    rules = replace(RULES, offset_header=OffsetHeader(name="src"))
    (found,) = translate(replication, 100, rules=rules)
    assert (found.method, found.x) == (Method.PREDICTION, 100)


# -- prediction and scan -------------------------------------------------------------------------------


def test_cluster_12_plain_records_are_predicted_and_the_end_is_the_end() -> None:
    """Commits on a sync, between two, behind the newest, at the end."""
    replication = replicated()
    found = translate(replication, 0, 20, 21, 22, 150, 299, 300)
    assert_exact(replication, *found)
    assert {each.method for each in found} == {Method.PREDICTION}
    around = [sync.upstream for sync in replication.syncs if 130 < sync.upstream < 170]
    assert found[4].evidence.anchor == OffsetPair(around[0], around[0])
    assert found[4].evidence.next_sync == OffsetPair(around[1], around[1])


def transactional(*, target_markers: bool, aborted: bool = False) -> Replication:
    """Transactions of three records and a marker, every third of them aborted perhaps."""
    made = Replication(offset_lag_max=20, acknowledge_every=1_000)
    for number in range(100):
        for record in range(3):
            # a read_committed replicator is not given aborted records: they are holes
            if aborted and number % 3 == 0 and target_markers:
                made.source.skip()
            else:
                made.produce(b"%d-%d" % (number, record))
        made.source.skip()
        made.replicate()
        if target_markers:
            made.target.skip()
        if number % 7 == 0:
            made.writer.sends_acknowledged()
    made.settle()
    return made


@pytest.mark.parametrize("target_markers", [False, True], ids=["plain replicator", "exactly-once replicator"])
@pytest.mark.parametrize("aborted", [False, True], ids=["committed", "aborted"])
def test_cluster_12_transactions_are_exact_at_every_offset(target_markers: bool, aborted: bool) -> None:  # noqa: FBT001
    """Commits on a record, on a marker, on an aborted record, at the end behind a marker."""
    replication = transactional(target_markers=target_markers, aborted=aborted)
    found = translate(replication, *range(replication.syncs[0].upstream, replication.source.end + 1))
    assert_exact(replication, *found)
    assert found[-1].x == replication.target.end


@pytest.mark.parametrize("holes", [{150}, {149, 150, 151}, {140}, {299}, {298, 297}], ids=str)
@pytest.mark.parametrize("side", ["source", "target", "both"])
def test_cluster_13_compaction_is_exact_or_below_wherever_the_hole_is(holes: set[int], side: str) -> None:
    """At c, at an anchor (every 21st record), at the target's tail; before or after the copy."""
    replication = replicated()
    if side != "source":
        replication.compact_target(*holes)
    if side != "target":
        replication.source.compact(*holes)
    found = translate(replication, *range(301))
    assert_exact(replication, *(each for each in found if each.method is not Method.CONSERVATIVE))
    assert all(replication.lost(each.x, each.committed) == 0 for each in found)
    assert sum(each.method is not Method.CONSERVATIVE for each in found) >= 280


@pytest.mark.parametrize("more", [0, 1], ids=["not yet", "next sync"])
def test_a_period_of_dropped_records_is_not_taken_for_a_shift(more: int) -> None:
    """The same 40 records again and again, 40 of them left out: every neighbour matches 40 places on. 40
    records of others make up the number before the next sync."""
    replication = Replication(offset_lag_max=1_000)
    for number in range(400):
        replication.produce(b"%d" % (number % 40), filtered=100 <= number < 140)
    replication.replicate(1)
    replication.lose_syncs(1)
    replication.replicate()
    for _ in range(40 * more):
        replication.write_foreign(b"foreign")
    replication.produce(b"last")
    replication.settle()
    assert [(sync.upstream, sync.downstream) for sync in replication.syncs] == [
        (0, 0),
        (400, 360 + 40 * more),
    ]
    rules = TranslationRules(
        fingerprint=NO_TIME,
        traits=CopyTraits(drops_records=True, foreign_writers=True),
        limits=SearchLimits(guard=10),
    )
    found = translate(replication, *range(0, 401, 7), rules=rules)
    assert all(replication.lost(each.x, each.committed) == 0 for each in found)


def test_replication_behind_the_group_gives_what_lies_behind_the_last_copy() -> None:
    """Never a future offset; a record of others behind the last copy is read."""
    replication = replicated()
    for number in range(300, 350):
        replication.produce(b"%d" % number)
    behind, end = translate(replication, 340, 300)
    assert (behind.x, end.x) == (300, 300)
    replication.write_foreign(b"foreign")
    rules = replace(RULES, traits=CopyTraits(foreign_writers=True))
    (before_foreign,) = translate(replication, 340, rules=rules)
    assert (before_foreign.x, before_foreign.certainty) == (300, PROVEN)


def test_cluster_03_a_replay_under_way_leaves_the_group_at_the_old_copies() -> None:
    """H10: syncs of the replay stand behind copies that it has not made again."""
    replication = replicated()
    for number in range(300, 400):
        replication.produce(b"%d" % number)
    replication.replicate()
    replication.crash()
    replication.replicate(30)
    assert replication.replaying
    found = translate(replication, 290, 310, 330, 399, 400)
    assert_exact(replication, *found)
    assert [each.x for each in found] == [290, 330, 330, 399, 430]


def test_cluster_03_a_replay_that_is_longer_than_the_guard_is_read_back_to_its_sign() -> None:
    """The archive knows how far back: ten minutes may be more than the records of the guard."""
    replication = replicated()
    for number in range(300, 400):
        replication.produce(b"%d" % number)
    replication.replicate()
    replication.crash()
    replication.replicate(90)
    rules = replace(RULES, limits=SearchLimits(guard=20))
    syncs = history(replication)
    sign = syncs.replay_sign(target_end=replication.target.end, now_ms=replication.clock_ms)
    target, source = SimulatedReader(replication.target), SimulatedReader(replication.source)
    (found,) = translate_partition(
        [330], target=target, source=source, syncs=syncs, rules=rules, replay_sign=sign
    )
    assert_exact(replication, found)
    assert found.x == 390


# -- certainty, bounds, and the rest -------------------------------------------------------------------


def ambiguous() -> Replication:
    """Equal records, one of them left out: which one cannot be told."""
    made = Replication(offset_lag_max=1_000, acknowledge_every=1_000_000)
    for number in range(200):
        made.produce(b"same" if 50 <= number < 60 else b"%d" % number, filtered=number == 55)
    made.replicate(1)
    made.lose_syncs(1)
    made.settle()
    return made


def test_what_is_weaker_than_certainty_min_is_replaced_by_the_conservative_offset() -> None:
    """The default takes proven positions only."""
    rules = replace(RULES, fingerprint=NO_TIME, traits=CopyTraits(drops_records=True))
    replication = ambiguous()
    (found,) = translate(replication, 57, rules=rules)
    assert (found.method, found.certainty) == (Method.CONSERVATIVE, CONSERVATIVE)
    assert found.x == history(replication).conservative(57).offset
    assert "scan" in found.evidence.note
    (likely,) = translate(replication, 57, rules=replace(rules, certainty_min=LIKELY))
    assert (likely.method, likely.certainty) == (Method.SCAN, LIKELY)
    assert found.x < likely.x <= replication.exact(57)
    assert PROVEN.satisfies(LIKELY)
    assert not CONSERVATIVE.satisfies(LIKELY)


def test_changed_records_are_not_compared() -> None:
    """A topic that an SMT alters is translated by syncs alone."""
    replication = replicated()
    (found,) = translate(replication, 150, rules=replace(RULES, fingerprint=None))
    assert (found.method, found.x) == (Method.CONSERVATIVE, history(replication).conservative(150).offset)


@pytest.mark.parametrize("shift", [25, -25])
def test_a_finding_outside_the_syncs_around_it_is_void(shift: int) -> None:
    """Syncs of other records than these: the content says 150, the syncs say otherwise."""
    replication = replicated()
    shifted = SyncHistory()
    for sync in replication.syncs:
        if sync.downstream + shift >= 0:
            shifted.append(replace(sync, downstream=sync.downstream + shift))
    (found,) = translate(replication, 150, syncs=shifted)
    assert found.method is Method.CONSERVATIVE


def test_cluster_03_a_replay_that_no_sync_shows_lowers_the_conservative_offset() -> None:
    """The first run's syncs were lost, so the replay's look like its own; the target shows the old copies."""
    replication = Replication(offset_lag_max=1_000)
    for number in range(300):
        same = 120 < number < 126
        replication.produce(b"same" if same else b"%d" % number, filtered=number == 123)
    replication.replicate(100)
    replication.committed = 100
    replication.lose_syncs(1)
    replication.replicate()
    replication.crash()
    replication.replicate(15)
    assert [(sync.upstream, sync.downstream) for sync in replication.syncs] == [(0, 0), (100, 299)]
    rules = replace(RULES, fingerprint=NO_TIME, traits=CopyTraits(drops_records=True))
    (found,) = translate(replication, 123, rules=rules)
    assert (found.method, found.evidence.before_replay) == (Method.CONSERVATIVE, 300)
    assert found.unclamped == found.x
    assert replication.lost(300, 123) > 0
    assert replication.lost(found.x, 123) == 0


def test_too_long_segments_are_not_scanned() -> None:
    """Beyond ``scan.max.records`` the conservative offset is given."""
    replication = Replication(offset_lag_max=1_000)
    for number in range(900):
        replication.produce(b"%d" % number)
    replication.settle()
    rules = replace(RULES, limits=SearchLimits(scan=100, guard=100))
    (found,) = translate(replication, 450, rules=rules)
    assert (found.method, found.x) == (Method.CONSERVATIVE, 1)


@pytest.mark.parametrize(
    ("policy", "x", "reason"),
    [
        (BeforeFirstSync.SKIP, None, Reason.SKIP_BEFORE_FIRST_SYNC),
        (BeforeFirstSync.EARLIEST, 0, Reason.OK),
        (None, None, Reason.SKIP_BEFORE_FIRST_SYNC),
    ],
)
def test_cluster_14_before_the_first_sync_the_policy_decides(policy, x, reason) -> None:
    """The replicator began at 100; what lies before was never copied."""
    replication = Replication(offset_lag_max=20)
    for number in range(200):
        replication.produce(b"%d" % number)
    replication.position = replication.committed = 100
    replication.settle()
    rules = replace(RULES, before_first_sync=policy)
    (found,) = translate(replication, 50, rules=rules, syncs=history(replication, source_start=0))
    assert (found.x, found.reason, found.method) == (x, reason, Method.BEFORE_FIRST_SYNC)


def test_cluster_14_before_the_first_sync_may_fail() -> None:
    """The policy ``fail`` says what to set."""
    replication = Replication(offset_lag_max=20)
    replication.source.skip(10)
    replication.produce(b"first")
    replication.settle()
    with pytest.raises(Rejected, match=r"committed offset 5 .*before\.first\.sync"):
        translate(replication, 5, rules=replace(RULES, before_first_sync=BeforeFirstSync.FAIL))


def test_cluster_14_beyond_the_sources_end_nothing_is_translated() -> None:
    """The commit is of a topic that was there before."""
    (found,) = translate(replicated(), 301)
    assert (found.x, found.reason) == (None, Reason.SKIP_TOPIC_RECREATED)


def test_below_the_targets_start_its_start_counts() -> None:
    """The target's retention was faster."""
    replication = replicated()
    replication.delete_target_before(200)
    (found,) = translate(replication, 30, rules=replace(RULES, fingerprint=None))
    assert (found.x, found.reason) == (200, Reason.CLAMPED_LOW)
    assert found.evidence.unclamped is not None
    (exact,) = translate(replication, 250)
    assert_exact(replication, exact)


def test_without_a_sync_there_is_no_offset_and_bad_input_is_refused() -> None:
    """A partition that was never replicated; a commit of -1."""
    (found,) = translate(Replication(), 0)
    assert (found.x, found.reason) == (None, Reason.SKIP_NO_SYNC)
    with pytest.raises(Rejected, match="committed offset -1 is negative"):
        translate(replicated(), -1)


def test_thousands_of_groups_read_each_record_once() -> None:
    """In the order of the commits that were given."""
    replication = replicated(5_000)
    source, target = SimulatedReader(replication.source), SimulatedReader(replication.target)
    commits = [(37 * number) % 5_001 for number in range(4_000)]
    found = translate_partition(commits, target=target, source=source, syncs=history(replication))
    assert [each.committed for each in found] == commits
    assert_exact(replication, *found)
    assert source.records_read <= 5_500
    assert target.records_read <= 5_500


def test_one_group_reads_little() -> None:
    """A segment, and what the first fetch brings."""
    replication = replicated(5_000)
    source, target = SimulatedReader(replication.source), SimulatedReader(replication.target)
    rules = replace(RULES, limits=SearchLimits(guard=1_000))
    (found,) = translate_partition(
        [1_000], target=target, source=source, syncs=history(replication), rules=rules
    )
    assert_exact(replication, found)
    assert source.records_read + target.records_read <= 1_000


def test_a_record_view_of_the_simulator_has_all_fields() -> None:
    """Key and headers of a record come through."""
    log = SimulatedLog()
    log.append(Record(offset=-1, timestamp_ms=5, value=None, key=b"k", headers=(("a", None),)))
    (view,) = SimulatedReader(log).read(0, 1)
    assert view == LogRecordView(offset=0, timestamp_ms=5, value=None, key=b"k", headers=(("a", None),))
