"""What replicates between two clusters is found by looking, and never by names against content."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from random import Random

import pytest

from groupshift.domain.commit_places import TopicNow
from groupshift.domain.modes import Isolation
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Rejected
from groupshift.links.discovery import Proposal, find_link
from groupshift.links.link import Link, LinkKind, SyncLocation
from groupshift.links.mirrormaker import Heartbeat, OffsetSync, encode_heartbeat, encode_sync
from groupshift.links.position_search import HeaderEncoding
from groupshift_testing.partition_reads import SimulatedReader
from groupshift_testing.replication import Record, SimulatedLog

TOPICS = ("orders", "eu.payments", "audit-log")


@dataclass(slots=True)
class Logs:
    """A cluster that has these partitions."""

    logs: dict[TopicPartition, SimulatedLog] = field(default_factory=dict)

    def log(self, topic: str, partition: int = 0) -> SimulatedLog:
        """The log of a partition, made when it is first named."""
        return self.logs.setdefault(TopicPartition(topic, partition), SimulatedLog())

    def topics(self) -> Mapping[str, TopicNow]:
        """See the port."""
        return {
            at.topic: TopicNow(topic=at.topic, topic_id=f"id of {at.topic}", epochs={0: 0})
            for at in self.logs
        }

    def open(
        self, partitions: Collection[TopicPartition], _isolation: Isolation
    ) -> Mapping[TopicPartition, SimulatedReader]:
        """See the port."""
        return {at: SimulatedReader(self.logs[at]) for at in partitions if at in self.logs}

    def close(self) -> None:
        """Nothing is open."""


def content(topic: str, number: int) -> Record:
    """A record like no other."""
    return Record(offset=-1, timestamp_ms=number, value=b"%s %d" % (topic.encode(), number))


def filled(seed: int = 0) -> Logs:
    """A source with topics whose logs have holes and do not begin at 0."""
    random, source = Random(seed), Logs()
    for topic in TOPICS:
        log = source.log(topic)
        log.skip(random.randint(1, 50))
        log.start = log.end
        for number in range(60):
            log.append(content(f"{topic} of {seed}", number))
            log.skip(random.choice((0, 0, 3)))
    return source


def mirrored(
    source: Logs, link: Link, *, target: Logs | None = None, heartbeats: bool = True, altered: bool = False
) -> Logs:
    """A target to which MirrorMaker copied all, and the offset syncs on their cluster."""
    target = target or Logs()
    internal = link.internal_topics
    assert internal is not None
    syncs = (source if link.sync_location is SyncLocation.SOURCE else target).log(internal.offset_syncs)
    for topic in TOPICS:
        copy = target.log(link.target_topic(topic).topic or "")
        for record in source.log(topic).records:
            changed = Record(offset=-1, timestamp_ms=record.timestamp_ms, value=b"!" + (record.value or b""))
            downstream = copy.append(changed if altered else record)
            sync = OffsetSync(topic=topic, partition=0, upstream=record.offset, downstream=downstream)
            key, value = encode_sync(sync)
            syncs.append(Record(offset=-1, timestamp_ms=0, key=key, value=value))
    target.log(internal.checkpoints)
    if heartbeats:
        beat = Heartbeat(source_alias=link.source_alias, target_alias=link.target_alias, timestamp_ms=1)
        key, value = encode_heartbeat(beat)
        target.log("heartbeats").append(Record(offset=-1, timestamp_ms=0, key=key, value=value))
    return target


def mirrormaker(kind: LinkKind = LinkKind.MM2_DEFAULT, **more: object) -> Link:
    """A link from A to B."""
    return Link(name="link", kind=kind, source_alias="A", target_alias="B", **more)  # type: ignore[arg-type]


def said(proposal: Proposal, words: str) -> bool:
    """True if a reason has these words."""
    return any(words in reason for reason in proposal.reasons)


LINKS = [
    mirrormaker(),
    mirrormaker(sync_location=SyncLocation.TARGET),
    mirrormaker(separator="_"),
    mirrormaker(separator="--", separator_in_internal_topics=False),
    mirrormaker(separator="--", sync_location=SyncLocation.TARGET),
    mirrormaker(LinkKind.MM2_IDENTITY),
    mirrormaker(LinkKind.MM2_IDENTITY, sync_location=SyncLocation.TARGET),
]


@pytest.mark.parametrize("link", LINKS)
def test_mirrormaker_is_found_with_its_policy_names_and_place_of_syncs(link: Link) -> None:
    """And its records agree."""
    source = filled()
    proposal = find_link("link", source, mirrored(source, link))
    assert proposal.link == link
    assert said(proposal, "3 of 3 topics")
    assert said(proposal, "at 3 of 3 offset syncs")
    assert said(proposal, "heartbeats on the target name the flow A->B")
    assert any("isolation" in doubt for doubt in proposal.doubts)


def test_mirrormaker_without_heartbeats_is_found_by_its_checkpoints_or_the_names_of_copies() -> None:
    """As where `emit.heartbeats.enabled` is off; then where checkpoints are off, too."""
    source = filled()
    target = mirrored(source, mirrormaker(), heartbeats=False)
    assert find_link("link", source, target).link == mirrormaker()
    del target.logs[TopicPartition("A.checkpoints.internal", 0)]
    assert find_link("link", source, target).link == mirrormaker()


def test_an_alias_that_nothing_tells_is_a_doubt() -> None:
    """Names stay, and there are neither heartbeats nor checkpoints."""
    source = filled()
    target = mirrored(source, mirrormaker(LinkKind.MM2_IDENTITY), heartbeats=False)
    del target.logs[TopicPartition("A.checkpoints.internal", 0)]
    proposal = find_link("link", source, target)
    assert (proposal.link.kind, proposal.link.target_alias) == (LinkKind.MM2_IDENTITY, "B")
    assert any("alias of the source" in doubt for doubt in proposal.doubts)


def test_of_several_flows_the_one_whose_records_agree_is_proposed() -> None:
    """The source is replicated to two clusters, and the target has copies from two."""
    source, other = filled(1), filled(2)
    to_other = Link(name="link", kind=LinkKind.MM2_DEFAULT, source_alias="A", target_alias="AA")
    mirrored(source, to_other, target=Logs({TopicPartition("A.orders", 0): SimulatedLog(end=500)}))
    target = mirrored(source, mirrormaker())
    from_other = Link(name="link", kind=LinkKind.MM2_DEFAULT, source_alias="0A", target_alias="B")
    mirrored(other, from_other, target=target)
    target.logs[TopicPartition("A.checkpoints.internal", 0)] = SimulatedLog()
    assert find_link("link", source, target).link == mirrormaker()
    assert find_link("link", other, target).link == from_other


def test_copies_beside_own_topics_of_the_same_names_are_of_the_default_policy() -> None:
    """Both clusters have an `orders` of their own, with other records."""
    source = filled()
    target = mirrored(source, mirrormaker())
    for topic in TOPICS:
        for number in range(300):
            target.log(topic).append(content(f"own {topic}", number))
    assert find_link("link", source, target).link == mirrormaker()


def test_records_that_differ_are_a_doubt_and_not_a_reason() -> None:
    """An SMT changes them."""
    source = filled()
    proposal = find_link("link", source, mirrored(source, mirrormaker(), altered=True))
    assert proposal.link == mirrormaker()
    assert any("at 0 of 3 offset syncs" in doubt and "altered_topics" in doubt for doubt in proposal.doubts)


def test_syncs_of_another_target_are_not_taken_for_ours() -> None:
    """No topic has a copy here."""
    source = filled()
    mirrored(source, mirrormaker())
    elsewhere = Logs()
    elsewhere.log("unrelated").append(content("x", 1))
    assert find_link("link", source, elsewhere).link.kind is LinkKind.NONE


@pytest.mark.parametrize("encoding", list(HeaderEncoding))
def test_a_header_with_the_source_offset_is_found(encoding: HeaderEncoding) -> None:
    """Of several headers the one that says the offset of the same record."""
    source, target = filled(), Logs()
    for topic in TOPICS:
        for record in source.log(topic).records[20:]:
            raw = record.offset.to_bytes(8, "little" if encoding is HeaderEncoding.INT64_LITTLE else "big")
            raw = b"%d" % record.offset if encoding is HeaderEncoding.DECIMAL else raw
            headers = (("attempt", b"1"), ("from-offset", raw))
            target.log(topic).append(
                Record(offset=-1, timestamp_ms=record.timestamp_ms, value=record.value, headers=headers)
            )
    link = find_link("link", source, target).link
    assert (link.kind, link.provenance_header, link.provenance_encoding) == (
        LinkKind.HEADER,
        "from-offset",
        encoding,
    )


def test_equal_records_at_equal_offsets_are_an_offset_preserving_link() -> None:
    """Behind the source, and with its log start."""
    source, target = filled(), Logs()
    for topic in TOPICS:
        original = source.log(topic)
        copy = target.log(topic)
        copy.records, copy.start = original.records[:-7], original.start
        copy.end = copy.records[-1].offset + 1
    proposal = find_link("link", source, target)
    assert proposal.link.kind is LinkKind.OFFSET_PRESERVING
    assert said(proposal, "orders-0: 48 records are the same")
    target.log("audit-log").records = []
    target.log("audit-log").append(content("foreign", 1))
    proposal = find_link("link", source, target)
    assert proposal.link.kind is LinkKind.OFFSET_PRESERVING
    assert any(doubt.startswith("audit-log-0") for doubt in proposal.doubts)


def test_where_nothing_is_certain_the_kind_is_none() -> None:
    """The same names, other records; and clusters that have nothing in common."""
    source, target = filled(), Logs()
    for topic in TOPICS:
        for number in range(30):
            target.log(topic).append(content(f"other {topic}", number))
    proposal = find_link("link", source, target)
    assert proposal.link.kind is LinkKind.NONE
    assert said(proposal, "3 topics have one name on both sides")
    assert find_link("link", Logs(), Logs()).link.kind is LinkKind.NONE


def test_damaged_records_in_mirrormakers_topics_stop_nothing() -> None:
    """In heartbeats and in syncs."""
    source = filled()
    target = mirrored(source, mirrormaker())
    for log in (source.log("mm2-offset-syncs.B.internal"), target.log("heartbeats")):
        log.append(Record(offset=-1, timestamp_ms=0, key=None, value=b"x"))
        log.append(Record(offset=-1, timestamp_ms=0, key=b"\x00\x05", value=b"x"))
    assert find_link("link", source, target).link == mirrormaker()


def test_a_name_that_is_none_is_refused_before_anything_is_read() -> None:
    """One sentence."""

    class Untouched(Logs):
        def topics(self) -> Mapping[str, TopicNow]:
            raise AssertionError

    with pytest.raises(Rejected, match="name"):
        find_link("no name", Untouched(), Untouched())
