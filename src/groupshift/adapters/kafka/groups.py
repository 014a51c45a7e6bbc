"""The Kafka half of a group, or of many: membership, committed offsets, log starts and ends, rights.

Many groups take one request a coordinator and question, for a window of groups at a time. The broker that
lists a group coordinates it, so no coordinator lookup is needed for each group. What cannot be read of one
group is a sentence about that group; it keeps no other group from being read.

`KafkaRights` says whether the tool's identity may see a group and all its topics. A broker silently leaves
out of its lists what this user may not see: topics, groups and committed offsets. It refuses only what a
request names.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from groupshift.adapters.kafka.broker import BrokerConnection, LoginRefused
from groupshift.adapters.kafka.cluster import KafkaCluster, refused, silent, without_secrets
from groupshift.adapters.kafka.requests import (
    ABSENT_IS_DEAD,
    EARLIEST,
    LATEST,
    describe,
    fetch_offsets,
    fetched,
    list_offsets,
)
from groupshift.adapters.kafka.rows import offset_rows, told
from groupshift.adapters.kafka.snapshots import listing
from groupshift.adapters.kafka.wire import (
    BrokerError,
    Malformed,
    UnsupportedByBroker,
    by_partition,
    error_name,
    raise_for,
)
from groupshift.domain.group import CommittedOffset, GroupView, LogEnd
from groupshift.domain.group_protocol import CONSUMERS, KafkaGroup, Kind
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import GONE
from groupshift.errors import Rejected
from groupshift.ports.cluster import Identity, Server

T = TypeVar("T")

_UNKNOWN_TOPIC, _NO_LEADER = 3, 5
_MOVED = frozenset({14, 15, 16})
"""What a coordinator says of a group that is not its own (any more), or not yet."""
_TOPIC_REFUSED, _GROUP_REFUSED, _CLUSTER_REFUSED = 29, 30, 31
_NEEDED = {
    _GROUP_REFUSED: "Describe the group",
    _TOPIC_REFUSED: "Describe a topic",
    _CLUSTER_REFUSED: "Describe the cluster",
}
"""The operation that an observer lacks where a broker answers with this error."""
_PAUSE_S = 0.1
_FIRST_SLICE_S = 1.0
"""The first attempt's share of the time, doubled for each further one: a broker that went away without
a word is asked again soon, a slow one is given more."""


class KafkaConnection:
    """Keeps its connections between calls, which threads may make, and opens nothing before the first.

    ``properties`` are librdkafka's security keys; their values never reach a log or a sentence.
    ``timeout_s`` bounds each `call` with all its retries.
    """

    def __init__(
        self, bootstrap_servers: str, *, properties: Mapping[str, str] | None = None, timeout_s: float = 7.0
    ) -> None:
        self._address = bootstrap_servers
        self._properties = dict(properties or {})
        self._timeout_s = timeout_s
        self._cluster: KafkaCluster | None = None
        self._lock = threading.RLock()

    @property
    def who(self) -> str:
        """The identity, for sentences to people."""
        user = self._properties.get("sasl.username")
        return f"user {user!r}" if user else "a connection without a user name"

    def call(self, work: Callable[[KafkaCluster], T]) -> T:
        """Run ``work`` and return its result; repeat it after an error, until ``timeout_s``.

        ``work`` must be safe to repeat. Raises `Transient` when Kafka does not answer in time,
        `Rejected` when it refuses the credentials, a right is missing, or a property is wrong.
        """
        with self._lock:
            deadline = time.monotonic() + self._timeout_s
            slice_s, cause = _FIRST_SLICE_S, ""
            while True:
                try:
                    cluster = self._cluster = self._cluster or KafkaCluster(
                        self._address, properties=self._properties, timeout_s=self._timeout_s
                    )
                    cluster.end_by(min(deadline, time.monotonic() + slice_s))
                    return work(cluster)
                except (OSError, BrokerError, LoginRefused, UnsupportedByBroker) as failed:
                    self.close()
                    said = without_secrets(str(failed) or type(failed).__name__, self._properties)
                    self._judge(failed, said)
                    if not cause or not isinstance(failed, TimeoutError):
                        cause = said
                    if time.monotonic() + _PAUSE_S >= deadline:
                        raise silent(self._address, self._timeout_s, cause) from None
                    time.sleep(_PAUSE_S)
                    slice_s *= 2
                except BaseException:
                    self.close()
                    raise

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        with self._lock:
            cluster, self._cluster = self._cluster, None
            if cluster is not None:
                cluster.close()

    def _judge(self, failed: Exception, said: str) -> None:
        """Raise `Rejected` for what asking again does not help."""
        if isinstance(failed, LoginRefused):
            raise refused(self._address, said) from None
        if isinstance(failed, UnsupportedByBroker):
            raise Rejected(f"Kafka at {self._address} is too old for this: {said}") from None
        needed = _NEEDED.get(failed.code) if isinstance(failed, BrokerError) else None
        if needed:
            raise Rejected(
                f"Kafka at {self._address} does not allow {self.who} to {needed} "
                f"({said}): grant it, or correct [kafka.properties]"
            ) from None


@dataclass(slots=True)
class _Answers:
    """What coordinators answer, by group: its description, and the error code and topics of its offsets."""

    described: dict[str, Any] = field(default_factory=dict)
    offsets: dict[str, tuple[int, Any]] = field(default_factory=dict)

    def code(self, group: str) -> int:
        """The error of the group, 0 for none. Raises `Malformed` when half of the answer is missing."""
        if group not in self.described or group not in self.offsets:
            raise Malformed(f"the coordinator of group {group!r} does not answer what it was asked")
        return int(self.described[group].error_code) or self.offsets[group][0]


def _ask(cluster: KafkaCluster, coordinators: Mapping[str, int], *, together: bool = True) -> _Answers:
    """Describe each group at its coordinator (a node id) and fetch all its committed offsets."""
    found = _Answers()

    def describe_all(answer: Any) -> None:
        found.described |= {str(each.group_id): each for each in answer.groups}

    def fetch_all(asked: Sequence[str], answer: Any) -> None:
        found.offsets |= {group: (code, topics) for group, code, topics in fetched(asked, answer)}

    def questions(connection: BrokerConnection, groups: Sequence[str]) -> Iterator[tuple[Any, Any]]:
        for request, _ in describe(connection, Kind.CLASSIC, groups, at_most=ABSENT_IS_DEAD):
            yield request, describe_all
        for request, asked in fetch_offsets(connection, groups, stable=False, together=together):
            yield request, partial(fetch_all, asked)

    for read, answer in cluster.ask_at(((node, group) for group, node in coordinators.items()), questions):
        read(answer)
    return found


def _log_ends(
    cluster: KafkaCluster, partitions: Iterable[TopicPartition], leaders: Mapping[TopicPartition, int]
) -> tuple[dict[TopicPartition, LogEnd], dict[TopicPartition, int]]:
    """Start and end by partition, with the newer leader epoch (brokers before 2.1 tell none), and the error
    code of each partition without an answer of its leader."""
    failed: dict[TopicPartition, int] = {}
    led: list[tuple[int, TopicPartition]] = []
    for at in partitions:
        leader = leaders.get(at)
        if leader is None or leader < 0:
            failed[at] = _UNKNOWN_TOPIC if leader is None else _NO_LEADER
        else:
            led.append((leader, at))
    found: dict[int, dict[TopicPartition, Any]] = {EARLIEST: {}, LATEST: {}}
    for spec, answer in cluster.ask_at(led, list_offsets):
        for at, each in by_partition(answer.topics).items():
            if each.error_code or each.offset < 0:
                failed[at] = int(each.error_code) or _NO_LEADER
            else:
                found[spec][at] = each
    ends = {
        at: LogEnd(
            partition=at,
            start=int(start.offset),
            end=int(end.offset),
            leader_epoch=max(int(getattr(told, "leader_epoch", -1)) for told in (start, end)),
        )
        for at, start in found[EARLIEST].items()
        if (end := found[LATEST].get(at)) is not None
    }
    return ends, failed


class KafkaGroups:
    """Reads groups at the brokers and changes nothing.

    Every answer is one the coordinator or a leader gave: a partition without a committed offset is
    absent only after it was asked for by name, a group is ``Dead`` only when its coordinator says so.
    """

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection

    def observe(self, group: str, embedded: Collection[str] = ()) -> GroupView:
        """Membership, topics of the cluster and all committed offsets.

        ``embedded`` are client ids whose subscription is known otherwise (aware members): only that
        of others is read. Raises as `KafkaConnection.call`.
        """
        return self._connection.call(lambda cluster: _observe(cluster, group, embedded))

    def positions(self, view: GroupView, partitions: Sequence[TopicPartition]) -> GroupView:
        """``view`` with log start and end of ``partitions``, and their committed offsets where it has none.

        Log ends are read last, so no offset of the same view exceeds them.
        """
        if not partitions:
            return view
        group, known = view.group, {at.partition for at in view.kafka_offsets}
        missing = [partition for partition in partitions if partition not in known]

        def work(cluster: KafkaCluster) -> GroupView:
            offsets, problems = _committed(cluster, group, missing) if missing else ((), ())
            leaders, untold = cluster.partitions_of({at.topic for at in partitions})
            for topic, code in untold.items():
                raise_for(code, f"topic {topic!r}")
            ends, failed = _log_ends(cluster, partitions, leaders)
            for at, code in failed.items():
                raise_for(code, str(at))
            return replace(
                view,
                log_ends=tuple(ends[at] for at in sorted(partitions)),
                kafka_offsets=(*view.kafka_offsets, *offsets),
                problems=(*view.problems, *problems),
            )

        return self._connection.call(work)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _observe(cluster: KafkaCluster, group: str, embedded: Collection[str]) -> GroupView:
    answers = _ask(cluster, cluster.coordinated([group]))
    raise_for(answers.code(group), f"group {group!r} is not described")
    leaders = cluster.all_leaders()
    counts = {name: len(partitions) for name, partitions in leaders.items()}
    met = cluster.met()
    listed = answers.described[group].group_state == GONE and group in listing(cluster)[0]
    return replace(_side(group, answers, embedded=embedded, counts=counts, listed=listed), brokers=met)


def _side(
    group: str, answers: _Answers, *, embedded: Collection[str], counts: Mapping[str, int], listed: bool
) -> GroupView:
    """What a coordinator's answers say of a group; ``embedded`` are client ids whose subscription need not be
    read, ``counts`` the number of partitions of every topic. A group that is Dead although it is ``listed``
    speaks another protocol, or is just gone."""
    offsets, offset_problems = _offsets(group, answers.offsets[group][1])
    found = told(Kind.CLASSIC, answers.described[group], None)
    members, consumers = found.group.members, found.group.protocol_type == CONSUMERS
    strangers = [member for member in members if consumers and member.client_id not in embedded]
    unread = tuple(
        f"the {what} of Kafka member {each.member_id!r} cannot be read "
        f"({found.unread[each.member_id, what]}): "
        "what it consumes is known in part only; check what client it runs"
        for what, of in (("subscription", strangers), ("assignment", members))
        for each in of
        if (each.member_id, what) in found.unread
    )
    if listed and found.group.state == GONE:
        text = (
            f"the brokers list group {group!r} but its coordinator describes it as Dead: it appears to use "
            "another group protocol than classic (convert it first), or was deleted just now"
        )
        offset_problems = (*offset_problems, text)
    known = {each.member_id for each in strangers}
    told_members = (each if each.member_id in known else replace(each, topics=()) for each in members)
    return GroupView(
        group=group,
        kafka=replace(found.group, members=tuple(told_members)),
        topics=counts,
        kafka_offsets=offsets,
        problems=(*offset_problems, *unread),
    )


def _committed(
    cluster: KafkaCluster, group: str, partitions: Sequence[TopicPartition]
) -> tuple[tuple[CommittedOffset, ...], tuple[str, ...]]:
    """The committed offsets of these partitions, asked for by name, and a sentence for each error."""
    connection = cluster.coordinator(group)
    ((request, asked),) = fetch_offsets(connection, [group], partitions=partitions, stable=False)
    answered = {name: (code, topics) for name, code, topics in fetched(asked, connection.ask(request))}
    code, topics = answered.get(group, (0, ()))
    raise_for(code, f"offsets of group {group!r} are not given")
    offsets, problems = _offsets(group, topics)
    told = by_partition(topics)
    unsaid = [str(partition) for partition in partitions if partition not in told]
    if unsaid:
        text = (
            f"the coordinator of group {group!r} said nothing about the committed offsets of "
            f"{', '.join(unsaid)}: whether they exist is unknown; read the group again"
        )
        problems = (*problems, text)
    return offsets, problems


def _offsets(group: str, topics: Any) -> tuple[tuple[CommittedOffset, ...], tuple[str, ...]]:
    """Those that exist, with their metadata exactly as it is stored, and a sentence for each error."""
    rows, failed = offset_rows(group, topics)
    offsets = (
        CommittedOffset(
            partition=TopicPartition(row.topic, row.partition),
            offset=row.offset,
            metadata=row.metadata or "",
            leader_epoch=-1 if row.leader_epoch is None else row.leader_epoch,
        )
        for row in rows
    )
    problems = (
        f"the committed offset of group {group!r} for {topic}-{number} cannot be read "
        f"({error_name(code)}): whether it exists is unknown; read the group again"
        for topic, number, code in sorted(failed)
    )
    return tuple(offsets), tuple(problems)


@dataclass(slots=True)
class _Known:
    """What holds for a while: the coordinator of each group, leaders and partition counts of each topic."""

    coordinators: dict[str, int]
    leaders: Mapping[TopicPartition, int]
    counts: Mapping[str, int]


class KafkaEnsemble:
    """Reads groups and changes nothing. Raises as `KafkaConnection.call`.

    Who coordinates a group follows from the broker that lists it, so no coordinator is asked for one by one.
    What cannot be read of one group is a sentence about that group; it keeps no other from being read.
    ``batches`` False asks for the offsets of each group alone, as brokers before Kafka 3.0 want it; a broker
    that is too old for batches is asked so anyway."""

    def __init__(self, connection: KafkaConnection, *, batches: bool = True) -> None:
        self._connection = connection
        self._known: _Known | None = None
        self._batches = batches

    def groups(self) -> tuple[str, ...]:
        """The groups that any broker lists, sorted; learns their coordinators anew."""
        self._known = None
        return self._call(lambda _, known: tuple(sorted(known.coordinators)))

    def observe(self, groups: Mapping[str, Sequence[str]]) -> dict[str, GroupView]:
        """Membership and committed offsets of each group; the values are client ids whose subscription is
        known otherwise (aware members). A group that no broker lists is ``Dead`` and has no offsets, unless
        it has such members: its coordinator is asked then."""
        return self._call(lambda cluster, known: self._observe(cluster, known, groups))

    def log_ends(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[dict[TopicPartition, LogEnd], list[str]]:
        """Log start and end of each partition, and a sentence about each that has none now."""
        wanted = sorted(set(partitions))

        def work(cluster: KafkaCluster, known: _Known) -> tuple[dict[TopicPartition, LogEnd], list[str]]:
            ends, failed = _log_ends(cluster, wanted, known.leaders)
            if failed:
                self._known = _learn(cluster)
                ends, failed = _log_ends(cluster, wanted, self._known.leaders)
            return ends, [_sentence(at, code) for at, code in sorted(failed.items())]

        return self._call(work) if wanted else ({}, [])

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _call(self, work: Callable[[KafkaCluster, _Known], T]) -> T:
        """Run ``work`` with what is known, which is learnt anew after an error, not after a slow answer."""

        def attempt(cluster: KafkaCluster) -> T:
            self._known = self._known or _learn(cluster)
            try:
                return work(cluster, self._known)
            except TimeoutError:
                raise
            except (OSError, BrokerError):
                self._known = None
                raise

        try:
            return self._connection.call(attempt)
        except BaseException:
            self._known = None
            raise

    def _observe(
        self, cluster: KafkaCluster, known: _Known, groups: Mapping[str, Sequence[str]]
    ) -> dict[str, GroupView]:
        unlisted = [
            group for group, embedded in groups.items() if embedded and group not in known.coordinators
        ]
        nodes = {group: known.coordinators[group] for group in groups if group in known.coordinators}
        nodes |= cluster.coordinated(unlisted) if unlisted else {}
        answers = _ask(cluster, nodes, together=self._batches)
        return {
            group: _told(group, answers, embedded, known)
            if group in nodes
            else GroupView(group=group, kafka=KafkaGroup(group=group), topics=known.counts)
            for group, embedded in groups.items()
        }


def _learn(cluster: KafkaCluster) -> _Known:
    leaders = cluster.all_leaders()
    listed, _ = listing(cluster)
    return _Known(
        coordinators={group: told.brokers[-1] for group, told in listed.items()},
        leaders={
            TopicPartition(topic, number): leader
            for topic, partitions in leaders.items()
            for number, leader in partitions.items()
        },
        counts={topic: len(partitions) for topic, partitions in leaders.items()},
    )


def _told(group: str, answers: _Answers, embedded: Collection[str], known: _Known) -> GroupView:
    """As `_side`; that a coordinator refuses to tell of the group is a problem of this group."""
    code = answers.code(group)
    if code in _MOVED:
        raise_for(code, f"group {group!r} has moved")
    if code:
        text = (
            f"the coordinator of group {group!r} refuses to describe it ({error_name(code)}): check the ACLs"
        )
        return GroupView(
            group=group, kafka=KafkaGroup(state="Unknown"), topics=known.counts, problems=(text,)
        )
    listed = group in known.coordinators
    return _side(group, answers, embedded=embedded, counts=known.counts, listed=listed)


def _sentence(at: TopicPartition, code: int) -> str:
    return (
        f"the log end of {at} cannot be read ({error_name(code)}): its lag is unknown; "
        "check the partition's leader"
    )


class KafkaRights:
    """Asks and changes nothing."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection

    def identity(self, group: str, topics: Sequence[str]) -> Identity:
        """Describe on the group and on each topic. Raises as `KafkaConnection.call`."""

        def work(cluster: KafkaCluster) -> tuple[str, ...]:
            _, untold = cluster.partitions_of(topics)
            hidden = (topic for topic in topics if untold.get(topic) == _TOPIC_REFUSED)
            return (*_group_rights(cluster, group), *(f"Describe topic {topic}" for topic in hidden))

        return Identity(server=Server.KAFKA, who=self._connection.who, missing=self._connection.call(work))


def _group_rights(cluster: KafkaCluster, group: str) -> tuple[str, ...]:
    try:
        answers = _ask(cluster, cluster.coordinated([group]))
        raise_for(answers.code(group), f"group {group!r} is not described")
    except BrokerError as refusal:
        if refusal.code != _GROUP_REFUSED:
            raise
        return (f"Describe group {group}",)
    return ()
