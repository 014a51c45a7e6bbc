"""From a link to the rules of translation, and from a translation to what is decided about a write."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from groupshift.errors import Rejected
from groupshift.links.alignment import CopyTraits
from groupshift.links.link import Link, LinkKind
from groupshift.links.partition_translation import TranslationRules, translate_partition
from groupshift.links.position_search import OffsetHeader
from groupshift.links.record_reads import FingerprintRule
from groupshift.links.sync_history import SyncHistory
from groupshift.links.translation import Certainty, Evidence, Method, Reason, Translation
from groupshift.links.write_rules import Action, Failure, LogRange, Observation, TopicIds, decide
from groupshift.ports.records import TimestampType
from groupshift_testing.partition_reads import SimulatedReader
from groupshift_testing.replication import Chances, Replication, SimulatedLog, no_headers, play

CREATE, APPEND = TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME
BY_SYNCS = TranslationRules(fingerprint=None)


def link(**changes: Any) -> Link:
    """MirrorMaker from ``primary`` to ``backup``, unless ``changes`` say otherwise."""
    usual = {"name": "dr", "kind": LinkKind.MM2_DEFAULT, "source_alias": "primary", "target_alias": "backup"}
    return Link(**{**usual, **changes})


def rules(of: Link, topic: str = "orders", *, target_timestamps: TimestampType = CREATE) -> TranslationRules:
    """The rules for a topic whose source has the producers' timestamps."""
    return TranslationRules.of_link(of, topic, source_timestamps=CREATE, target_timestamps=target_timestamps)


# -- from a link to the rules --------------------------------------------------------------------------


def test_a_link_that_declares_nothing_has_the_default_rules() -> None:
    """Timestamps count only where both topics have the producers' own."""
    assert rules(link()) == TranslationRules()
    appended = rules(link(), target_timestamps=APPEND)
    assert appended == TranslationRules(fingerprint=FingerprintRule(timestamps=False))


@pytest.mark.parametrize("trait", ["drops_records", "foreign_writers"])
def test_rules_have_the_traits_that_the_link_declares(trait: str) -> None:
    """Each by itself."""
    assert rules(link(**{trait: True})).traits == CopyTraits(**{trait: True})


def test_the_header_of_a_link_gives_offsets_and_does_not_count_as_content() -> None:
    """The copies have it, and the originals have not."""
    declared = rules(link(kind=LinkKind.HEADER, provenance_header="src"))
    assert declared.offset_header == OffsetHeader(name="src")
    assert declared.fingerprint == FingerprintRule(provenance_headers=frozenset({"src"}))


def test_records_of_an_altered_topic_are_not_compared() -> None:
    """Those of the link's other topics are."""
    altering = link(altered_topics={"orders"})
    assert rules(altering).fingerprint is None
    assert rules(altering, "payments").fingerprint == FingerprintRule()


def replicated(**options: Any) -> Replication:
    """300 records, all copied, one sync each 20, replication at rest."""
    made = Replication(offset_lag_max=20, **options)
    for number in range(300):
        made.produce(b"%d" % number)
    made.settle()
    return made


def translate(replication: Replication, *commits: int, by: TranslationRules) -> tuple[Translation, ...]:
    """Translate with both clusters and all syncs."""
    syncs = SyncHistory()
    for sync in replication.syncs:
        syncs.append(sync)
    return translate_partition(
        commits,
        target=SimulatedReader(replication.target),
        source=SimulatedReader(replication.source),
        syncs=syncs,
        rules=by,
    )


@pytest.mark.parametrize(("header", "method"), [(b"%d", Method.HEADER), (b"no number %d", Method.PREDICTION)])
def test_a_link_with_a_header_translates_by_it_or_else_by_content(header: bytes, method: Method) -> None:
    """A header that cannot be read still does not count as content."""
    replication = replicated(offset_headers=lambda upstream: (("src", header % upstream),))
    (found,) = translate(replication, 150, by=rules(link(provenance_header="src")))
    assert (found.method, found.x, found.certainty) == (method, 150, Certainty.EXACT_PROVEN)


# -- from a translation to a decision ------------------------------------------------------------------


def log_range(log: SimulatedLog) -> LogRange:
    """Start and end of a log."""
    return LogRange(log.start, log.end)


def observed(replication: Replication, commit: int | Failure | None, **changes: Any) -> Observation:
    """A group that committed on the source and is Empty on the target, without a commit there."""
    return Observation(
        **{
            "group": "billing",
            "source": Replication.PARTITION,
            "target": Replication.PARTITION,
            "state": "Empty",
            "target_commit": None,
            "source_commit": commit,
            "source_log": log_range(replication.source),
            "target_log": log_range(replication.target),
            "ids_before": TopicIds("s", "t"),
            "ids_now": TopicIds("s", "t"),
            **changes,
        }
    )


def translation(x: int | None, **changes: Any) -> Translation:
    """One of commit 280."""
    usual = {"method": Method.CONSERVATIVE, "certainty": Certainty.CONSERVATIVE}
    return Translation(committed=280, x=x, **{**usual, **changes})


@pytest.mark.parametrize("seed", range(6))
def test_what_is_decided_is_the_translated_offset(seed: int) -> None:
    """On random logs, by each method, where nothing changes between translation and decision."""
    random = Random(seed)
    replication = Replication(
        offset_lag_max=random.choice((5, 50)),
        offset_headers=(lambda upstream: (("src", b"%d" % upstream),)) if seed % 3 == 0 else no_headers,
    )
    play(replication, random, records=300, chances=Chances(hole=0.1, crash=0.02, sync_lost=0.2))
    replication.delete_target_before(random.randint(0, replication.target.end))
    by = BY_SYNCS if seed % 3 == 1 else rules(link(provenance_header="src"))
    for found in translate(replication, *range(0, replication.source.end + 1, 7), by=by):
        decision = decide(observed(replication, found.committed).with_translation(found))
        assert decision.x == found.x
        assert decision.reason is found.reason
        assert decision.translated == found.unclamped


def test_an_offset_below_the_targets_start_says_how_many_records_are_gone() -> None:
    """So the translation's own clamp must not hide them."""
    replication = replicated()
    replication.delete_target_before(200)
    (found,) = translate(replication, 30, by=BY_SYNCS)
    decision = decide(observed(replication, 30).with_translation(found))
    assert (decision.x, decision.reason, decision.translated) == (200, Reason.CLAMPED_LOW, 22)


def test_cluster_11_a_target_that_was_cut_is_left_out_until_a_new_sync() -> None:
    """The old syncs point behind the cut, and where the records that were copied since begin is not known."""
    replication = replicated()
    replication.truncate_target(150)
    (found,) = translate(replication, 250, by=BY_SYNCS)
    decision = decide(observed(replication, 250).with_translation(found))
    assert (decision.action, decision.x, decision.reason) == (Action.SKIP, None, Reason.SKIP_TOPIC_RECREATED)


def test_a_link_that_preserves_offsets_goes_on_with_the_log() -> None:
    """Translated when the target ended at 250; it ends at 270 now, and the commit is 280."""
    behind = translation(
        250, method=Method.IDENTITY, evidence=Evidence(unclamped=280), reason=Reason.CLAMPED_HIGH
    )
    cell = observed(replicated(), 280, target_log=LogRange(0, 270)).with_translation(behind)
    decision = decide(cell)
    assert (decision.x, decision.translated) == (270, 280)
    assert decision.sentences[0] == "link_behind"


def test_a_target_that_grew_between_the_looks_is_not_taken_for_one_that_was_cut() -> None:
    """A live link: the records are read after the log's range."""
    replication = replicated()
    for number in range(300, 330):
        replication.produce(b"%d" % number)
    before = observed(replication, 320)
    replication.settle()
    (found,) = translate(replication, 320, by=rules(link()))
    decision = decide(before.with_translation(found))
    assert (decision.action, decision.x, decision.reason) == (Action.WRITE, 320, Reason.OK)


def test_the_offset_before_a_replay_lowered_it_is_not_written() -> None:
    """It stands behind copies that the replay has not made again."""
    lowered = translation(117, evidence=Evidence(before_replay=260))
    assert decide(observed(replicated(), 280).with_translation(lowered)).x == 117


@pytest.mark.parametrize(
    "reason", [Reason.SKIP_NO_SYNC, Reason.SKIP_BEFORE_FIRST_SYNC, Reason.SKIP_TOPIC_RECREATED]
)
def test_a_commit_without_a_translation_is_skipped_for_its_reason(reason: Reason) -> None:
    """Those that a translation knows."""
    cell = observed(replicated(), 280).with_translation(translation(None, reason=reason))
    decision = decide(cell)
    assert (decision.action, decision.x, decision.reason) == (Action.SKIP, None, reason)


@pytest.mark.parametrize("commit", [279, 281, -1, None, Failure("down")], ids=str)
def test_the_translation_of_another_commit_is_refused(commit: int | Failure | None) -> None:
    """A group that went back meanwhile would skip what lies between."""
    with pytest.raises(Rejected, match=r"billing, orders-0: offset 280 was translated, .* translate the"):
        observed(replicated(), commit).with_translation(translation(280))
