"""Translates committed offsets of one partition from the source of a link to its target.

Six methods are tried in order; any doubt falls to the next, and nothing ever guesses forward. For what
``lost``, ``again`` and ``exact`` mean see docs/reference/cross-cluster-offsets.md §1.

Source: docs/reference/cross-cluster-offsets.md §§8, 9.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from groupshift.errors import Rejected
from groupshift.links.content_search import ContentSearch, Finding, SearchLimits
from groupshift.links.fingerprints import FingerprintRule, content_by
from groupshift.links.header_search import HeaderSearch, OffsetHeader
from groupshift.links.identity import IdentityProof
from groupshift.links.link import Link
from groupshift.links.reasons import Reason
from groupshift.links.record_reads import SharedReads
from groupshift.links.segment_scan import CopyTraits
from groupshift.links.sync_history import BeforeFirstSync, ReplaySign, Sync, SyncHistory, SyncOffset
from groupshift.links.translation import Certainty, Evidence, Method, OffsetPair, Translation
from groupshift.ports.records import PartitionReader, TimestampType


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
        header = link.provenance_header
        is_altered = topic in link.altered_topics
        fingerprint = FingerprintRule.of_topics(
            source_timestamps, target_timestamps, frozenset({header} if header else ())
        )
        return cls(
            fingerprint=None if is_altered else fingerprint,
            offset_header=OffsetHeader(name=header) if header else None,
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
                target,
                rules.offset_header,
                guard=limits.guard,
                window=rules.header_window,
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
            return Translation(
                committed=committed,
                x=None,
                method=Method.CONSERVATIVE,
                certainty=Certainty.CONSERVATIVE,
                evidence=Evidence(note=f"the source ends at {source.end}, before the committed offset"),
                reason=Reason.SKIP_TOPIC_RECREATED,
            )
        expired = max(0, source.start - committed) if source else 0
        found = self._clamped(self._found_by_identity(committed) or self._find(committed + expired))
        return replace(found, committed=committed, evidence=replace(found.evidence, expired=expired))

    # -- the methods, in order -------------------------------------------------------------------------

    def _found_by_identity(self, committed: int) -> Translation | None:
        """The offset itself; also where the source has deleted it, for the target may have it still."""
        if self._identity is None or not self._identity.is_proven:
            return None
        return Translation(
            committed=committed,
            x=committed,
            method=Method.IDENTITY,
            certainty=Certainty.EXACT_PROVEN,
            evidence=Evidence(note=self._identity.reason),
        )

    def _find(self, committed: int) -> Translation:
        return self._found_by_header(committed) or self._found_by_syncs(committed)

    def _found_by_header(self, committed: int) -> Translation | None:
        place = self._by_header.place(committed) if self._by_header else None
        if place is None:
            return None
        return Translation(
            committed=committed,
            x=place.high,
            method=Method.HEADER,
            certainty=Certainty.EXACT_PROVEN,
        )

    def _found_by_syncs(self, committed: int) -> Translation:
        syncs = self._syncs
        if syncs is None or syncs.newest is None:
            return Translation(
                committed=committed,
                x=None,
                method=Method.CONSERVATIVE,
                certainty=Certainty.CONSERVATIVE,
                evidence=Evidence(note="the link has no offset sync of this partition"),
                reason=Reason.SKIP_NO_SYNC,
            )
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

    def _clamped(self, found: Translation) -> Translation:
        """Put the offset between log start and log end of the target."""
        start, end = self._target.start, self._target.end
        if found.x is None or start <= found.x <= end:
            return found
        return replace(
            found,
            x=min(max(found.x, start), end),
            evidence=replace(found.evidence, unclamped=found.x),
            reason=Reason.CLAMPED_HIGH if found.x > end else Reason.CLAMPED_LOW,
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
    found = {committed: work.translate(committed) for committed in sorted(set(commits))}
    return tuple(found[committed] for committed in commits)
