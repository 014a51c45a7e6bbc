"""Rules about committed offsets: N3, O8, offsets that point at deleted records, and those nobody reads."""

from __future__ import annotations

from collections.abc import Iterator

from groupshift.domain.facts import Complaint, Facts, OffsetTable, sentence_list
from groupshift.domain.group import GroupView, LogEnd
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.verdict import Verdict


def _missing(view: GroupView, offsets: OffsetTable) -> Iterator[tuple[Verdict, list[str]]]:
    """Partitions without a committed offset: a failure where there are records, else a warning."""
    absent = [end for end in view.log_ends if end.partition not in offsets.by_partition]
    for verdict, found in (
        (Verdict.FAIL, sorted(end.partition for end in absent if end.end > end.start)),
        (Verdict.INCONCLUSIVE, sorted(end.partition for end in absent if end.end <= end.start)),
    ):
        if found:
            yield verdict, [str(partition) for partition in found]


def znode_offsets_complete(facts: Facts) -> Iterator[Complaint]:
    """N3: an old consumer reads only ZooKeeper."""
    for verdict, names in _missing(facts.view, OffsetTable.of(facts.view.zookeeper_offsets)):
        yield (
            verdict,
            (
                f"no offset in ZooKeeper for {sentence_list(names)}: an old consumer would start at its "
                "reset position and lose or repeat records (N3)"
            ),
            "let the group commit once to ZooKeeper, then assess again",
        )


def kafka_offsets_complete(facts: Facts) -> Iterator[Complaint]:
    """O8: a plain Kafka consumer reads only Kafka."""
    view = facts.view
    kafka = OffsetTable.of(view.kafka_offsets)
    for verdict, names in _missing(view, kafka):
        yield (
            verdict,
            f"no offset in Kafka for {sentence_list(names)}: Kafka consumers would reset (O8)",
            _COMMIT,
        )
    unread = frozenset(view.leftovers)
    behind = [
        f"{offset.partition} (Kafka {kafka.by_partition[offset.partition]}, ZooKeeper {offset.offset})"
        for offset in view.zookeeper_offsets
        if offset.partition not in unread
        and kafka.by_partition.get(offset.partition, offset.offset) < offset.offset
    ]
    if behind:
        yield (
            Verdict.FAIL,
            f"the offset in Kafka is behind ZooKeeper for {sentence_list(sorted(behind))} (O8)",
            "wait for the next commit of the members",
        )


_COMMIT = "let the migration-aware members commit once"


def kafka_offsets_begun(facts: Facts) -> Iterator[Complaint]:
    """O8, ahead of time: once aware members are in the group, offsets should appear in Kafka."""
    view = facts.view
    absent = [name for _, names in _missing(view, OffsetTable.of(view.kafka_offsets)) for name in names]
    if absent and view.migration_ids:
        said = f"no offset in Kafka yet for {sentence_list(absent)}: the toggle will ask for them (O8)"
        yield Verdict.INCONCLUSIVE, said, _COMMIT


def offsets_in_log(facts: Facts) -> Iterator[Complaint]:
    """Beyond the end: the proof fails for it, so it is told before. Committed, but deleted since: explained,
    for what happens next is the consumer's own rule."""
    beyond = _beyond_end(facts.view)
    if beyond:
        said = (
            f"the committed offset is beyond the log end for {sentence_list(beyond)}: the topic was made "
            "anew or its log truncated, and the number means another record"
        )
        hint = (
            "stop the group and set the offset to where it should go on, or let its members reset by their "
            "auto.offset.reset and commit; then assess again"
        )
        yield Verdict.FAIL, said, hint
    for sentence in resets(facts.view):
        yield Verdict.PASS, f"explained: {sentence}", ""


def _beyond_end(view: GroupView) -> list[str]:
    """Offsets that no log of the group holds yet; log ends are read last, so none is a commit meanwhile."""
    ends = {end.partition: end.end for end in view.log_ends}
    stores = (("ZooKeeper", view.zookeeper_offsets), ("Kafka", view.kafka_offsets))
    found = [
        (at.partition, f"{at.partition} ({store} {at.offset}, log end {ends[at.partition]})")
        for store, offsets in stores
        for at in offsets
        if at.offset > ends.get(at.partition, at.offset)
    ]
    return [text for _, text in sorted(found)]


def offsets_nobody_reads(facts: Facts) -> Iterator[Complaint]:
    """Offset nodes never expire, so most old groups have leftovers: named once, never a reason to fail."""
    for sentence in leftovers(facts.view):
        yield Verdict.PASS, sentence, ""


def leftovers(view: GroupView) -> tuple[str, ...]:
    """A sentence about the committed offsets that no member reads; none where there are none."""
    unread = view.leftovers
    if not unread:
        return ()
    stores = (("ZooKeeper", view.zookeeper_offsets), ("Kafka", view.kafka_offsets))
    values = {name: OffsetTable.of(offsets).by_partition for name, offsets in stores}
    none = {each.partition: each.held for each in view.no_offsets}

    def told(at: TopicPartition) -> str:
        held = [f"{name} {table[at]}" for name, table in values.items() if at in table]
        no_offset = [f"ZooKeeper holds {none[at]}, which is no offset"] if at in none else []
        return f"{at} ({', '.join((*held, *no_offset))})"

    return (f"no member reads it: kept as it is: {sentence_list([told(at) for at in unread])}",)


def resets(view: GroupView) -> tuple[str, ...]:
    """A sentence for each partition whose committed offset lies below its log's start: where its reader goes
    on, by its own ``auto.offset.reset``."""
    return tuple(
        f"the committed offset {at.offset} of {at.partition} is below the log start {end.start} (its records "
        f"are deleted): its reader begins at {_where(end)}"
        for at, end in view.below_start
    )


def _where(end: LogEnd) -> str:
    if end.start == end.end:
        return f"{end.start}, whatever its auto.offset.reset says"
    return (
        f"{end.start} with auto.offset.reset=earliest (smallest), or at {end.end} with latest (largest), "
        f"which passes over {end.end - end.start} offsets"
    )
