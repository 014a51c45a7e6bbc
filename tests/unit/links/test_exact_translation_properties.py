"""All methods against the truth, on random logs, at rest and in mid-replay."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from groupshift.links.alignment import CopyTraits
from groupshift.links.partition_translation import TranslationRules, translate_partition
from groupshift.links.position_search import OffsetHeader, SearchLimits
from groupshift.links.record_reads import FingerprintRule
from groupshift.links.sync_history import SyncHistory
from groupshift.links.translation import Certainty, Method, Translation
from groupshift_testing.partition_reads import SimulatedReader
from groupshift_testing.replication import Chances, Replication, no_headers, play

SEEDS = range(15)
SHORT_GUARD = 150
COMMIT_OFTEN = 0.15
"""Keeps replays shorter than the short guard."""
CALM = Chances(foreign=0.0)


def history(replication: Replication) -> SyncHistory:
    """The syncs that the replicator has written so far."""
    made = SyncHistory()
    for sync in replication.syncs:
        made.append(sync)
    return made


def source_header(upstream: int) -> tuple[tuple[str, bytes], ...]:
    """The header of a replicator that writes source offsets."""
    return (("src", b"%d" % upstream),)


def translations(
    replication: Replication, random: Random, rules: TranslationRules
) -> tuple[Translation, ...]:
    """Both ends of the source, and 25 committed offsets between them."""
    target, source = SimulatedReader(replication.target), SimulatedReader(replication.source)
    commits = [0, source.end, *(random.randint(0, source.end) for _ in range(25))]
    return translate_partition(commits, target=target, source=source, syncs=history(replication), rules=rules)


def check(replication: Replication, each: Translation) -> None:
    """Nothing is skipped, and the position is no higher than the exact one."""
    if each.x is not None and each.certainty is Certainty.EXACT_PROVEN:
        assert replication.lost(each.x, each.committed) == 0, each
        assert each.x <= replication.exact(each.committed), each


def looks(chances: Chances, seed: int, rules: TranslationRules, *, period: int = 0, header: bool = False):
    """Play in three parts, and translate after each: in mid-replay perhaps, and at last at rest."""
    random = Random(seed)
    replication = Replication(
        offset_lag_max=random.choice((5, 20, 100)),
        acknowledge_every=random.choice((1, 50, 1_000_000)),
        offset_headers=source_header if header else no_headers,
    )
    for part in range(3):
        play(replication, random, records=random.randint(1, 250), chances=chances, period=period)
        if part == 2:
            replication.settle()
        yield replication, translations(replication, random, rules)


KINDS = {
    "plain": Chances(crash=0.02),
    "transactional": Chances(hole=0.3, crash=0.02, sync_lost=0.2),
    "markers on both sides": Chances(hole=0.1, target_marker=0.1, crash=0.02, sync_lost=0.2),
    "filtered": Chances(filtered=0.1, crash=0.02, sync_lost=0.2),
    "foreign": Chances(foreign=0.05, hole=0.1, crash=0.02, sync_lost=0.2),
    "compacted": Chances(compacted=0.1, hole=0.1, sync_lost=0.2),
    "all but compaction": Chances(hole=0.2, filtered=0.1, foreign=0.05, target_marker=0.1, crash=0.02),
}


def rules_of(chances: Chances, *, timestamps: bool, guard: int) -> TranslationRules:
    """What a person declares of such a link."""
    return TranslationRules(
        fingerprint=FingerprintRule(timestamps=timestamps, provenance_headers=frozenset({"src"})),
        traits=CopyTraits(drops_records=chances.filtered > 0, foreign_writers=chances.foreign > 0),
        limits=SearchLimits(guard=guard),
    )


@pytest.mark.parametrize(
    ("kind", "period"),
    # removed records with equal content were superseded, so compaction goes without repeated content
    [(kind, period) for kind in KINDS for period in (0, 40, 3) if not (period and kind == "compacted")],
)
@pytest.mark.parametrize("guard", [100_000, SHORT_GUARD])
def test_cluster_03_prediction_and_scan_lose_nothing_at_rest_and_in_mid_replay(kind, period, guard) -> None:
    """H10. Periodic content has no timestamps here, so that equal records cannot be told apart."""
    chances = replace(KINDS[kind], commit=COMMIT_OFTEN)
    rules = rules_of(chances, timestamps=not period, guard=guard)
    proven = 0
    for seed in SEEDS:
        for replication, found in looks(chances, seed, rules, period=period):
            for each in found:
                check(replication, each)
                proven += each.method in {Method.PREDICTION, Method.SCAN}
    assert proven > (20 if period else 450)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("guard", [100_000, SHORT_GUARD])
def test_cluster_03_headers_lose_nothing_at_rest_and_in_mid_replay(kind, guard) -> None:
    """No content is needed, and no sync."""
    chances = replace(KINDS[kind], commit=COMMIT_OFTEN)
    rules = replace(
        rules_of(chances, timestamps=True, guard=guard),
        fingerprint=None,
        offset_header=OffsetHeader(name="src"),
    )
    by_header = exact = 0
    for seed in SEEDS:
        for replication, found in looks(chances, seed, rules, period=3, header=True):
            for each in found:
                check(replication, each)
                by_header += each.method is Method.HEADER
                exact += each.x == replication.exact(each.committed)
    assert by_header > 1_000
    assert exact > by_header * (0.99 if guard > SHORT_GUARD else 0.95)


@pytest.mark.parametrize("kind", KINDS)
def test_cluster_03_conservative_at_most_proven_at_most_exact(kind) -> None:
    """At rest. The same offsets, with and without the methods that look at records."""
    chances = replace(KINDS[kind], commit=COMMIT_OFTEN)
    rules = rules_of(chances, timestamps=True, guard=100_000)
    compared = 0
    for seed in SEEDS:
        for replication, found in looks(chances, seed, rules):
            if replication.replaying:
                continue
            syncs = history(replication)
            for each in found:
                lowest = syncs.conservative(each.committed)
                if lowest and each.x is not None:
                    exact = replication.exact(each.committed)
                    assert lowest.offset <= each.x <= exact or lowest.offset > exact
                    compared += each.method is not Method.CONSERVATIVE
    assert compared > 300


def test_cluster_03_repeated_content_is_exact_where_nothing_is_dropped() -> None:
    """The same 40 records again and again: at rest, counts and syncs tell what content cannot. Behind the
    newest sync of a replicator that is behind, nothing does: it may have begun to copy again."""
    exact = everything = 0
    rules = rules_of(CALM, timestamps=False, guard=100_000)
    for seed in SEEDS:
        for replication, found in looks(replace(CALM, commit=COMMIT_OFTEN), seed, rules, period=40):
            newest = replication.syncs[-1].upstream if replication.syncs else -1
            is_at_rest = replication.position >= replication.source.end
            for each in found:
                if is_at_rest or each.committed <= newest:
                    everything += 1
                    exact += each.x == replication.exact(each.committed)
    assert everything > 900
    assert exact >= 0.999 * everything
