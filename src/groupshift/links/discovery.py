"""Finds out by looking what replicates between two clusters, and proposes a link that a person confirms.

A proposal rests on content: records that offset syncs or headers say are the same must be the same, or the
records at equal offsets must be. Names alone are told as a doubt.

Source: docs/reference/cross-cluster-offsets.md §§2, 3, 8; KIP-382.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Final

from groupshift.domain.commit_places import TopicNow
from groupshift.domain.modes import Isolation
from groupshift.domain.partitions import TopicPartition
from groupshift.links.link import HEARTBEATS, Link, LinkKind, SyncLocation
from groupshift.links.mirrormaker import (
    Heartbeat,
    HeartbeatKey,
    OffsetSync,
    decode_heartbeat,
    decode_sync,
)
from groupshift.links.partition_translation import prove_identity
from groupshift.links.position_search import HeaderEncoding, OffsetHeader
from groupshift.links.record_reads import FingerprintRule, content_by
from groupshift.log.codec import Unreadable
from groupshift.ports.records import LogRecordView, PartitionLogs, PartitionReader, TimestampType

_TAIL: Final = 2_000
"""Records of MirrorMaker's topics that are read, from the end."""
_FEW: Final = 8
"""Offset syncs whose records are compared, partitions that are looked at, records of each."""
_MANY: Final = 200
"""Topics that are looked at, for a flow or of one name."""
_SYNCS = re.compile(r"mm2-offset-syncs(?P<dot>[._-]+)(?P<alias>.+?)(?P=dot)internal", re.ASCII)
_CHECKPOINTS = re.compile(r"(?P<alias>.+?)(?P<dot>[._-]+)checkpoints(?P=dot)internal", re.ASCII)
_BEFORE_TOPIC = re.compile(r"(?P<alias>.*?[^._-])(?P<separator>[._-]+)", re.ASCII)
_SOURCE, _TARGET = "source", "target"
"""Aliases where nothing tells any."""
_ALIASES: Final = "aliases are proposed by side: write names that people know the clusters by"
_ISOLATION: Final = (
    "MirrorMaker's isolation level does not show: read_uncommitted, its default, is proposed; set isolation "
    "where its source consumer has read_committed"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A link, why it is proposed, and what a person has to look at before; all are sentences."""

    link: Link
    reasons: tuple[str, ...]
    doubts: tuple[str, ...] = ()


def find_link(name: str, source: PartitionLogs, target: PartitionLogs) -> Proposal:
    """Look at both clusters and propose what replicates from one to the other, as the link ``name``.

    The kind is ``none`` where nothing does for certain. Raises what the ports raise, and `Rejected` for a
    name that cannot be one.
    """
    unknown = Link(name=name, kind=LinkKind.NONE, source_alias=_SOURCE, target_alias=_TARGET)
    sides = _Sides(source, target)
    proposal = _mirrormaker(name, sides) or _by_header(name, sides) or _by_offsets(name, sides)
    nothing = (
        f"{len(sides.common)} topics have one name on both sides; neither offset syncs of theirs, nor a "
        "header with the source's offset, nor equal records at equal offsets were found"
    )
    return proposal or Proposal(link=unknown, reasons=(nothing,), doubts=(_ALIASES,))


class _Sides:
    """Both clusters, and the topics of each as they were first looked at."""

    def __init__(self, source: PartitionLogs, target: PartitionLogs) -> None:
        self._source, self._target = source, target
        self.on_source: Mapping[str, TopicNow] = source.topics()
        self.on_target: Mapping[str, TopicNow] = target.topics()

    @property
    def common(self) -> list[str]:
        """Topics of the same name on both sides that are not internal."""
        both = self.on_source.keys() & self.on_target.keys()
        return sorted(each for each in both if not each.startswith("__") and not each.endswith("internal"))

    def tail(self, location: SyncLocation, topic: str) -> list[LogRecordView]:
        """The last records of the first partition of a topic; none where there is no such partition."""
        at = TopicPartition(topic, 0)
        reader = self._open(location, at)
        return list(reader.before(reader.end, _TAIL)) if reader else []

    def pair(
        self, source: TopicPartition, target: TopicPartition
    ) -> tuple[PartitionReader, PartitionReader] | None:
        """Readers of two partitions, the target's opened first; None where one does not exist."""
        copy = self._open(SyncLocation.TARGET, target)
        original = self._open(SyncLocation.SOURCE, source)
        return (original, copy) if original and copy else None

    def filled(self) -> Iterator[tuple[TopicPartition, PartitionReader, PartitionReader]]:
        """Partitions of one name that hold something on the target, with both readers."""
        for topic in self.common[:_MANY]:
            for number in sorted(self.on_target[topic].epochs):
                at = TopicPartition(topic, number)
                pair = self.pair(at, at)
                if pair and pair[1].before(pair[1].end, 1):
                    yield at, *pair
                    break  # another topic says more than another partition

    @cached_property
    def flows(self) -> set[HeartbeatKey]:
        """The flows that heartbeats on the target name."""
        flows = set()
        for record in self.tail(SyncLocation.TARGET, HEARTBEATS):
            with suppress(Unreadable):
                heartbeat = decode_heartbeat(record.key, record.value)
                if isinstance(heartbeat, Heartbeat):
                    flows.add(heartbeat.key)
        return flows

    def _open(self, location: SyncLocation, at: TopicPartition) -> PartitionReader | None:
        logs = self._source if location is SyncLocation.SOURCE else self._target
        return logs.open([at], Isolation.READ_UNCOMMITTED).get(at)


def _same(source: LogRecordView, target: LogRecordView, *, more_headers: bool = False) -> bool:
    """True if two records have the same content; with ``more_headers`` the replicator may add some."""
    added = {key for key, _ in target.headers} - {key for key, _ in source.headers}
    times = source.timestamp_type, target.timestamp_type
    rule = FingerprintRule.of_topics(*times, frozenset(added if more_headers else ()))
    content = content_by(rule)
    return content(source) == content(target)


def _at(reader: PartitionReader, offset: int) -> LogRecordView | None:
    """The record at an offset; none where there is none."""
    return next((each for each in reader.read(offset, 1) if each.offset == offset), None)


# -- MirrorMaker ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A flow as one reading of the names has it. Of ``topics`` source topics ``copies`` have a copy; of
    ``compared`` offset syncs the records of ``same`` are the same on both sides. ``is_beating``: heartbeats
    name it."""

    link: Link
    syncs_topic: str
    is_beating: bool
    topics: int
    copies: int
    compared: int = 0
    same: int = 0

    @property
    def rank(self) -> tuple[int, bool, int]:
        """The best candidate has the highest."""
        return self.same, self.is_beating, self.copies


def _mirrormaker(name: str, sides: _Sides) -> Proposal | None:
    """What the offset-syncs topics say; the one of another flow has other records, or other topics."""
    candidates = [
        candidate
        for location, topics in (
            (SyncLocation.SOURCE, sides.on_source),
            (SyncLocation.TARGET, sides.on_target),
        )
        for syncs_topic in sorted(topics)
        if (parts := _SYNCS.fullmatch(syncs_topic))
        for candidate in _candidates(name, sides, location, parts)
    ]
    best = max(candidates, key=lambda each: each.rank, default=None)
    if best is None:
        return None
    link = best.link
    names = f"{link.source_alias}{link.separator}<topic>" if link.kind is LinkKind.MM2_DEFAULT else "<topic>"
    reasons = [
        f"topic {best.syncs_topic} on the {link.sync_location} cluster holds MirrorMaker's offset syncs",
        f"{best.copies} of {best.topics} topics with offset syncs have a copy named {names} on the target",
    ]
    doubts = [_ISOLATION]
    if best.is_beating:
        reasons.append(f"heartbeats on the target name the flow {link.source_alias}->{link.target_alias}")
    said = f"at {best.same} of {best.compared} offset syncs the records are the same on both sides"
    if not best.compared:
        doubts.append("no record of an offset sync could be compared: the link rests on names alone")
    elif best.same == best.compared:
        reasons.append(said)
    else:
        doubts.append(f"{said}: name topics whose records an SMT changes in altered_topics")
    for alias, placeholder in ((link.source_alias, _SOURCE), (link.target_alias, _TARGET)):
        if alias == placeholder:
            doubts.append(f"nothing tells the alias of the {placeholder}: write that of MirrorMaker's file")
    return Proposal(link=link, reasons=tuple(reasons), doubts=tuple(doubts))


def _candidates(
    name: str, sides: _Sides, location: SyncLocation, parts: re.Match[str]
) -> Iterator[_Candidate]:
    """The flows that an offset-syncs topic may belong to, of which some topic has a copy."""
    newest = _newest_syncs(sides.tail(location, parts.string))
    topics = sorted({at.topic for at in newest} & sides.on_source.keys())[:_MANY]
    for source_alias, target_alias in _aliases(sides, location, parts["alias"], topics):
        for kind, separator in _policies(source_alias, topics, sides.on_target, parts["dot"]):
            link = Link(
                name=name,
                kind=kind,
                source_alias=source_alias,
                target_alias=target_alias,
                separator=separator,
                separator_in_internal_topics=parts["dot"] == separator,
                sync_location=location,
            )
            copies = [each for each in topics if link.target_topic(each).topic in sides.on_target]
            if copies and link.internal_topics and link.internal_topics.offset_syncs == parts.string:
                compared = list(_compared(sides, link, newest.values()))
                yield _Candidate(
                    link=link,
                    syncs_topic=parts.string,
                    is_beating=HeartbeatKey(source_alias, target_alias) in sides.flows,
                    topics=len(topics),
                    copies=len(copies),
                    compared=len(compared),
                    same=sum(compared),
                )


def _newest_syncs(records: Iterable[LogRecordView]) -> dict[TopicPartition, OffsetSync]:
    """The last sync of each source partition."""
    newest = {}
    for record in records:
        with suppress(Unreadable):
            sync = decode_sync(record.key, record.value)
            if isinstance(sync, OffsetSync):
                newest[sync.key] = sync
    return newest


def _aliases(
    sides: _Sides, location: SyncLocation, alias: str, topics: Iterable[str]
) -> list[tuple[str, str]]:
    """Source and target alias of each flow that the offset-syncs topic may be of, which names one of them."""
    if location is SyncLocation.TARGET:
        targets = {flow.target_alias for flow in sides.flows if flow.source_alias == alias}
        return [(alias, each) for each in sorted(targets or {_TARGET}) if each != alias]
    sources = {flow.source_alias for flow in sides.flows if flow.target_alias == alias}
    sources |= {parts["alias"] for each in sides.on_target if (parts := _CHECKPOINTS.fullmatch(each))}
    if not sources:
        before = (
            _BEFORE_TOPIC.fullmatch(copy.removesuffix(topic))
            for topic in topics
            for copy in sides.on_target
            if copy.endswith(topic) and copy != topic
        )
        sources = {parts["alias"] for parts in before if parts}
    return [(each, alias) for each in sorted(sources or {_SOURCE}) if each != alias]


def _policies(
    alias: str, topics: Iterable[str], on_target: Iterable[str], dot: str
) -> Iterator[tuple[LinkKind, str]]:
    """The replication policies by which a topic may have its copy: the separator that most copies have
    between alias and topic, and names that stay."""
    separators = Counter(
        between
        for topic in topics
        for copy in on_target
        if copy.startswith(alias) and copy.endswith(topic) and len(copy) > len(alias) + len(topic)
        if not (between := copy[len(alias) : -len(topic)]).strip("._-")
    )
    for separator, _ in separators.most_common(1):
        yield LinkKind.MM2_DEFAULT, separator
    yield LinkKind.MM2_IDENTITY, dot


def _compared(sides: _Sides, link: Link, syncs: Iterable[OffsetSync]) -> Iterator[bool]:
    """Whether the two records of an offset sync are the same, for a few of which both are still there."""
    for sync in islice(syncs, _FEW):
        topic = link.target_topic(sync.topic).topic
        pair = sides.pair(sync.key, TopicPartition(topic, sync.partition)) if topic else None
        if pair:
            original, copy = _at(pair[0], sync.upstream), _at(pair[1], sync.downstream)
            if original and copy:
                yield _same(original, copy)


# -- others --------------------------------------------------------------------------------------------


def _by_header(name: str, sides: _Sides) -> Proposal | None:
    """Whether the last records have a header with the offset of a source record of the same content."""
    for at, source, target in islice(sides.filled(), _FEW):
        records = target.before(target.end, _FEW)
        for header in {key: None for key, _ in records[-1].headers}:
            for encoding in HeaderEncoding:
                of = OffsetHeader(name=header, encoding=encoding)
                offsets = [of.source_offset(each) for each in records]
                originals = [None if each is None else _at(source, each) for each in offsets]
                same = [
                    _same(original, copy, more_headers=True)
                    for original, copy in zip(originals, records, strict=True)
                    if original
                ]
                if same and all(same):
                    return Proposal(
                        link=Link(
                            name=name,
                            kind=LinkKind.HEADER,
                            source_alias=_SOURCE,
                            target_alias=_TARGET,
                            provenance_header=header,
                            provenance_encoding=encoding,
                        ),
                        reasons=(f"header {header} of {at} has the offset of the same record on the source",),
                        doubts=(_ALIASES,),
                    )
    return None


def _by_offsets(name: str, sides: _Sides) -> Proposal | None:
    """Whether records have their source offsets, in a few topics."""
    proofs = {
        at: prove_identity(
            source,
            target,
            FingerprintRule.of_topics(timestamps_of(source), timestamps_of(target)),
            source_topic_id=sides.on_source[at.topic].topic_id,
            target_topic_id=sides.on_target[at.topic].topic_id,
        )
        for at, source, target in islice(sides.filled(), _FEW)
    }
    proven = [at for at, proof in proofs.items() if proof.is_proven]
    if not proven:
        return None
    others = [f"{at}: {proof.reason}" for at, proof in proofs.items() if not proof.is_proven]
    return Proposal(
        link=Link(
            name=name,
            kind=LinkKind.OFFSET_PRESERVING,
            source_alias=_SOURCE,
            target_alias=_TARGET,
        ),
        reasons=tuple(f"{at}: {proofs[at].reason}" for at in proven),
        doubts=(*others, _ALIASES),
    )


def timestamps_of(reader: PartitionReader) -> TimestampType:
    """Who sets the times of the newest records."""
    newest = reader.before(reader.end, 1)
    return newest[0].timestamp_type if newest else TimestampType.CREATE_TIME
