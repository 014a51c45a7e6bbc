"""Translates committed offsets of one partition from the source of a link to its target.

Six methods are tried in order; any doubt falls to the next, and nothing ever guesses forward. The first one,
identity, has to be proven before (`prove_identity`). For what ``lost``, ``again`` and ``exact`` mean see
docs/reference/cross-cluster-offsets.md §1.

Source: docs/reference/cross-cluster-offsets.md §§8, 9.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from groupshift.errors import Rejected
from groupshift.links.alignment import CopyTraits
from groupshift.links.link import Link
from groupshift.links.position_search import ContentSearch, Finding, HeaderSearch, OffsetHeader, SearchLimits
from groupshift.links.record_reads import FingerprintRule, SharedReads, content_by, fingerprint
from groupshift.links.sync_history import BeforeFirstSync, ReplaySign, Sync, SyncHistory, SyncOffset
from groupshift.links.translation import Certainty, Evidence, Method, OffsetPair, Reason, Translation
from groupshift.ports.records import PartitionReader, TimestampType

SAMPLE = 16
"""Records that are compared at each of the three positions."""
Sample = list[tuple[int, bytes]]
"""Offset and fingerprint of each record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityProof:
    """Whether offsets are the same on both sides, for topics with these ids; ``reason`` is a clause. A proof
    holds for these two topics only: see `holds_for`."""

    is_proven: bool
    reason: str
    source_topic_id: str
    target_topic_id: str
    positions: tuple[int, ...] = ()

    def holds_for(self, source_topic_id: str, target_topic_id: str) -> bool:
        """True if it is proven, and neither topic was made anew since."""
        same = (source_topic_id, target_topic_id) == (self.source_topic_id, self.target_topic_id)
        return self.is_proven and same


def _repeats(content: list[bytes]) -> bool:
    """True if records are equal to those one or more places further on."""
    return any(content[shift:] == content[:-shift] for shift in range(1, len(content) // 2 + 1))


def prove_identity(
    source: PartitionReader,
    target: PartitionReader,
    rule: FingerprintRule,
    *,
    source_topic_id: str,
    target_topic_id: str,
) -> IdentityProof:
    """Compare 16 records at three positions, log starts and log ends of both sides.

    The first, middle and last records that both sides hold must have the same offsets and fingerprints on
    both, and the target may hold nothing that the source has not. Open the target's reader first.
    """
    start, end = max(source.start, target.start), min(source.end, target.end)
    positions = (start, start + (end - start) // 2, end)

    def proof(reason: str, *, is_proven: bool = False) -> IdentityProof:
        return IdentityProof(
            is_proven=is_proven,
            reason=reason,
            source_topic_id=source_topic_id,
            target_topic_id=target_topic_id,
            positions=positions,
        )

    if target.end > source.end:
        return proof(f"the target ends at {target.end}, behind the source, which ends at {source.end}")
    if start >= end:
        both_empty = (source.start, source.end) == (target.start, target.end)
        return proof("the two logs have no offset in common", is_proven=both_empty)
    samples = [
        (_sample(source, rule, position, start, end), _sample(target, rule, position, start, end))
        for position in positions
    ]
    problem = _problem(samples)
    if problem:
        return proof(problem)
    compared = sum(len(sample) for sample, _ in samples)
    return proof(f"{compared} records are the same at their offsets", is_proven=True)


def _problem(samples: list[tuple[Sample, Sample]]) -> str:
    """Why the samples of both sides do not prove that offsets are the same; empty: they do."""
    for ours, theirs in samples:
        if ours != theirs:
            offset = (ours or theirs)[0][0]
            return f"the records from {offset} on are not the same on both sides"
    compared = [ours for ours, _ in samples if ours]
    if not compared:
        return "there is no record to compare"
    if all(_repeats([digest for _, digest in sample]) for sample in compared):
        return "the records repeat, so equal records prove nothing"
    return ""


def _sample(side: PartitionReader, rule: FingerprintRule, position: int, start: int, end: int) -> Sample:
    """Offset and fingerprint of 16 records from a position on, or before it if the logs end there."""
    records = side.before(position, SAMPLE) if position == end else side.read(position, SAMPLE)
    return [(record.offset, fingerprint(record, rule)) for record in records if start <= record.offset < end]


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslationRules:
    """What is declared of a link, and how far translation looks.

    ``fingerprint`` None: the replicator changes records (an SMT), so content proves nothing.
    ``offset_header``: the header with the source offset, if the replicator writes one. ``traits``: what is
    declared of its copies. ``certainty_min``: what is less certain is replaced by the
    conservative offset. ``before_first_sync`` None: the default of `SyncHistory.default_before_first`.
    ``header_window``: records behind a position that are looked through for replays.
    """

    fingerprint: FingerprintRule | None = field(default_factory=FingerprintRule)
    offset_header: OffsetHeader | None = None
    traits: CopyTraits = field(default_factory=CopyTraits)
    certainty_min: Certainty = Certainty.EXACT_PROVEN
    before_first_sync: BeforeFirstSync | None = None
    limits: SearchLimits = field(default_factory=SearchLimits)
    header_window: int = 1_000

    @classmethod
    def of_link(
        cls, link: Link, topic: str, *, source_timestamps: TimestampType, target_timestamps: TimestampType
    ) -> TranslationRules:
        """The rules for a source topic of a link: what the link declares, and the defaults of all else.

        ``source_timestamps`` and ``target_timestamps`` are the timestamp types of the two topics. The level
        of ``link.isolation`` is for who opens the source's reader: with another one, records that the
        replicator never copied would count, or copies would have no original.
        """
        name, encoding = link.provenance_header, link.provenance_encoding
        header = OffsetHeader.of(name, encoding) if name else None
        is_altered = topic in link.altered_topics
        fingerprint = FingerprintRule.of_topics(
            source_timestamps, target_timestamps, header.added if header else frozenset()
        )
        return cls(
            fingerprint=None if is_altered else fingerprint,
            offset_header=header,
            traits=CopyTraits(drops_records=link.drops_records, foreign_writers=link.foreign_writers),
        )


class PartitionTranslation:
    """Translates offsets of one partition, as both sides are now. See `translate_partition`."""

    def __init__(
        self,
        *,
        target: PartitionReader,
        source: PartitionReader | None = None,
        syncs: SyncHistory | None = None,
        identity: IdentityProof | None = None,
        replay_sign: ReplaySign | None = None,
        rules: TranslationRules | None = None,
    ) -> None:
        self._source, self._target, self._syncs = source, target, syncs
        self._identity = identity
        self._rules = rules = rules or TranslationRules()
        limits = rules.limits
        if replay_sign and syncs:
            since = target.end - _replayed_from(replay_sign, syncs)
            limits = replace(limits, guard=max(limits.guard, since))
        self._by_header: HeaderSearch | None = None
        if rules.offset_header:
            self._by_header = HeaderSearch(
                target, rules.offset_header, guard=limits.guard, window=rules.header_window
            )
        self._by_content: ContentSearch | None = None
        if source and syncs and rules.fingerprint:
            key_of = content_by(rules.fingerprint)
            self._by_content = ContentSearch(
                SharedReads(source, key_of),
                SharedReads(target, key_of),
                syncs,
                limits=limits,
                traits=rules.traits,
            )

    def translate(self, committed: int) -> Translation:
        """Translate one committed offset. Raises: as `translate_partition`."""
        if committed < 0:
            raise Rejected(f"committed offset {committed} is negative; leave out partitions without a commit")
        source = self._source
        if source and committed > source.end:
            note = f"the source ends at {source.end}, before the committed offset"
            return _nothing(committed, Reason.SKIP_TOPIC_RECREATED, note)
        expired = max(0, source.start - committed) if source else 0
        translation = self._clamped(
            self._found_by_identity(committed)
            or self._found_by_header(committed)
            or self._found_by_syncs(committed)
        )
        return replace(translation, evidence=replace(translation.evidence, expired=expired))

    # -- the methods, in order -------------------------------------------------------------------------

    def _found_by_identity(self, committed: int) -> Translation | None:
        """The offset itself, at most the log end of a target that is behind."""
        if self._identity is None or not self._identity.is_proven:
            return None
        return Translation(
            committed=committed,
            x=committed,
            method=Method.IDENTITY,
            certainty=Certainty.EXACT_PROVEN,
            evidence=Evidence(note=self._identity.reason),
        )

    def _found_by_header(self, committed: int) -> Translation | None:
        place = self._by_header.place(committed) if self._by_header else None
        if place is None:
            return None
        return Translation(
            committed=committed, x=place.high, method=Method.HEADER, certainty=Certainty.EXACT_PROVEN
        )

    def _found_by_syncs(self, committed: int) -> Translation:
        syncs = self._syncs
        if syncs is None or syncs.newest is None:
            note = "the link has no offset sync of this partition"
            return _nothing(committed, Reason.SKIP_NO_SYNC, note)
        if syncs.newest.downstream >= self._target.end:
            note = f"the target ends at {self._target.end}, before the newest offset sync"
            return _nothing(committed, Reason.SKIP_TOPIC_RECREATED, note)
        anchor, following = syncs.anchor(committed), syncs.next_sync(committed)
        evidence = Evidence(anchor=_pair(anchor), next_sync=_pair(following))
        finding = self._by_content.find(committed) if self._by_content else None
        lowest = syncs.conservative(committed)
        if finding:
            certainty, note = self._judge(finding, lowest, following)
            if certainty and certainty.satisfies(self._rules.certainty_min):
                return Translation(
                    committed=committed,
                    x=finding.place.low,
                    method=finding.method,
                    certainty=certainty,
                    evidence=evidence,
                )
            evidence = replace(evidence, note=note)
        if lowest is None:
            return self._before_first_sync(committed, evidence)
        x = lowest.offset
        if finding and finding.is_replay and finding.place.high < x:
            # the syncs of a replay stand behind copies that it has not made again
            x, evidence = finding.place.low, replace(evidence, before_replay=x)
        return Translation(
            committed=committed,
            x=x,
            method=Method.CONSERVATIVE,
            certainty=Certainty.CONSERVATIVE,
            evidence=evidence,
        )

    @staticmethod
    def _judge(
        finding: Finding, lowest: SyncOffset | None, following: Sync | None
    ) -> tuple[Certainty | None, str]:
        """How certain a finding is, and why it is not proven; none if the syncs around it contradict it."""
        x = finding.place.low
        if not finding.is_replay and lowest and x < lowest.offset:
            return None, f"{finding.method} gave {x}, below the conservative offset {lowest.offset}"
        if following and x > following.downstream:
            return None, f"{finding.method} gave {x}, behind the next sync at {following.downstream}"
        if finding.place.is_exact:
            return Certainty.EXACT_PROVEN, ""
        return Certainty.EXACT_LIKELY, f"{finding.method} could not tell where from {x} on the position is"

    def _before_first_sync(self, committed: int, evidence: Evidence) -> Translation:
        x = None
        if self._syncs:
            x = self._syncs.before_first_sync(
                committed, target_start=self._target.start, policy=self._rules.before_first_sync
            )
        return Translation(
            committed=committed,
            x=x,
            method=Method.BEFORE_FIRST_SYNC,
            certainty=Certainty.CONSERVATIVE,
            evidence=evidence,
            reason=Reason.SKIP_BEFORE_FIRST_SYNC if x is None else Reason.OK,
        )

    def _clamped(self, translation: Translation) -> Translation:
        """Put the offset between log start and log end of the target."""
        start, end = self._target.start, self._target.end
        if translation.x is None or start <= translation.x <= end:
            return translation
        return replace(
            translation,
            x=min(max(translation.x, start), end),
            evidence=replace(translation.evidence, unclamped=translation.x),
            reason=Reason.CLAMPED_HIGH if translation.x > end else Reason.CLAMPED_LOW,
        )


def _nothing(committed: int, reason: Reason, note: str) -> Translation:
    """No target offset, for a reason."""
    return Translation(
        committed=committed,
        x=None,
        method=Method.CONSERVATIVE,
        certainty=Certainty.CONSERVATIVE,
        evidence=Evidence(note=note),
        reason=reason,
    )


def _replayed_from(sign: ReplaySign, syncs: SyncHistory) -> int:
    """The target offset from which on the first copies of what a replay repeats lie."""
    sync: Sync | None = sign.before
    while sync and sync.upstream > sign.after.upstream:
        older = syncs.inverse(sync.downstream - 1)
        sync = older.sync if older else None
    return sync.downstream if sync else 0


def _pair(sync: Sync | None) -> OffsetPair | None:
    return OffsetPair(sync.upstream, sync.downstream) if sync else None


def translate_partition(
    commits: Sequence[int],
    *,
    target: PartitionReader,
    source: PartitionReader | None = None,
    syncs: SyncHistory | None = None,
    identity: IdentityProof | None = None,
    replay_sign: ReplaySign | None = None,
    rules: TranslationRules | None = None,
) -> tuple[Translation, ...]:
    """Translate committed offsets of one partition, for any number of groups; returns them in their order.

    The offsets are worked through in rising order and share all reads: no record is fetched twice. ``source``
    None: the source cluster is lost; headers and syncs still translate. ``replay_sign``: from `SyncHistory`;
    the end of the target is read back to what that replay repeats, if that is more than the rules' guard.

    Read in this order: the commits, the syncs, then open ``target``, then ``source``.

    Raises:
        Rejected: an offset is negative; or one lies before the first sync, and the rules say ``fail``.
        Transient: brokers do not answer in time.
    """
    work = PartitionTranslation(
        target=target, source=source, syncs=syncs, identity=identity, replay_sign=replay_sign, rules=rules
    )
    translation = {committed: work.translate(committed) for committed in sorted(set(commits))}
    return tuple(translation[committed] for committed in commits)
