"""The Kafka half of a group, or of many: membership, committed offsets, log starts and ends, rights.

Many groups take one request a coordinator and question, for a window of groups at a time. The broker that
lists a group coordinates it, so no coordinator lookup is needed for each group. What cannot be read of one
group is a sentence about that group; it keeps no other group from being read.

`KafkaRights` says whether the tool's identity may see a group and all its topics. A broker silently leaves
out of its lists what this user may not see: topics, groups and committed offsets. It refuses only what a
request names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from groupshift.adapters.kafka.cluster import KafkaCluster, OfCluster, attempted
from groupshift.adapters.kafka.connection_and_login import BrokerConnection
from groupshift.adapters.kafka.requests import ABSENT_IS_DEAD, describe, fetch_offsets, fetched
from groupshift.adapters.kafka.rows import group_answer, offset_rows
from groupshift.adapters.kafka.snapshots import listing, log_ends
from groupshift.adapters.kafka.wire import BrokerError, Malformed, by_partition, error_name, raise_for
from groupshift.domain.group import GroupView
from groupshift.domain.group_protocol import CONSUMERS, KafkaGroup, Kind
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import GONE, LogEndRow, OffsetRow
from groupshift.ports.cluster import Identity, Server

T = TypeVar("T")

_MOVED = frozenset({14, 15, 16})
"""What a coordinator says of a group that is not its own (any more), or not yet."""
_TOPIC_REFUSED, _GROUP_REFUSED = 29, 30


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


def _ask(cluster: KafkaCluster, coordinators: Mapping[str, int]) -> _Answers:
    """Describe each group at its coordinator (a node id) and fetch all its committed offsets."""
    answers = _Answers()

    def questions(connection: BrokerConnection, groups: Sequence[str]) -> Iterator[tuple[Any, Any]]:
        for request, _ in describe(connection, Kind.CLASSIC, groups, at_most=ABSENT_IS_DEAD):
            yield request, None
        yield from fetch_offsets(connection, groups, stable=False)

    for names, answer in cluster.ask_at(((node, group) for group, node in coordinators.items()), questions):
        if names is None:
            answers.described |= {str(each.group_id): each for each in answer.groups}
        else:
            answers.offsets |= {group: (code, topics) for group, code, topics in fetched(names, answer)}
    return answers


class KafkaGroups(OfCluster):
    """Reads groups at the brokers and changes nothing. Raises as `KafkaCluster.attempt`.

    Every answer is one the coordinator or a leader gave: a partition without a committed offset is
    absent only after it was asked for by name, a group is ``Dead`` only when its coordinator says so.
    """

    @attempted
    def observe(self, group: str, embedded: Collection[str] = ()) -> GroupView:
        """Membership, topics of the cluster and all committed offsets.

        ``embedded`` are client ids whose subscription is known otherwise (aware members): only that
        of others is read.
        """
        cluster = self._cluster
        answers = _ask(cluster, cluster.coordinated([group]))
        raise_for(answers.code(group), f"group {group!r} is not described")
        counts = dict(Counter(at.topic for at in cluster.all_leaders()))
        listed = answers.described[group].group_state == GONE and group in listing(cluster, whole=False)[0]
        side = _side(group, answers, embedded=embedded, counts=counts, listed=listed)
        return replace(side, brokers=cluster.known_brokers())

    @attempted
    def positions(self, view: GroupView, partitions: Sequence[TopicPartition]) -> GroupView:
        """``view`` with log start and end of ``partitions``, and their committed offsets where it has none.

        Log ends are read last, so no offset of the same view exceeds them.
        """
        known = {row.at for row in view.kafka_offsets}
        missing = [partition for partition in partitions if partition not in known]
        offsets: Sequence[OffsetRow] = ()
        problems: list[str] = []
        if missing:
            connection = self._cluster.coordinator(view.group)
            ((request, names),) = fetch_offsets(connection, [view.group], partitions=missing, stable=False)
            answered = {name: each for name, *each in fetched(names, connection.ask(request))}
            code, topics = answered.get(view.group, (0, ()))
            raise_for(code, f"offsets of group {view.group!r} are not given")
            offsets, problems = _offsets(view.group, topics)
            rows = by_partition(topics)
            if unsaid := [str(partition) for partition in missing if partition not in rows]:
                problems.append(
                    f"the coordinator of group {view.group!r} said nothing about the committed offsets of "
                    f"{', '.join(unsaid)}: whether they exist is unknown; read the group again"
                )
        leaders, untold = self._cluster.partitions_of({at.topic for at in partitions})
        for topic, code in untold.items():
            raise_for(code, f"topic {topic!r}")
        ends, failed = log_ends(self._cluster, partitions, leaders)
        for at, code in failed.items():
            raise_for(code, str(at))
        return replace(
            view,
            log_ends=tuple(ends[at] for at in sorted(partitions)),
            kafka_offsets=(*view.kafka_offsets, *offsets),
            problems=(*view.problems, *problems),
        )


def _side(
    group: str, answers: _Answers, *, embedded: Collection[str], counts: Mapping[str, int], listed: bool
) -> GroupView:
    """What a coordinator's answers say of a group; ``embedded`` are client ids whose subscription need not be
    read, ``counts`` the number of partitions of every topic. A group that is Dead although it is ``listed``
    speaks another protocol, or is just gone."""
    offsets, problems = _offsets(group, answers.offsets[group][1])
    description = group_answer(Kind.CLASSIC, answers.described[group], None)
    members, consumers = description.group.members, description.group.protocol_type == CONSUMERS
    strangers = [member for member in members if consumers and member.client_id not in embedded]
    unread = tuple(
        f"the {what} of Kafka member {each.member_id!r} cannot be read "
        f"({description.unread[each.member_id, what]}): "
        "what it consumes is known in part only; check what client it runs"
        for what, of in (("subscription", strangers), ("assignment", members))
        for each in of
        if (each.member_id, what) in description.unread
    )
    if listed and description.group.state == GONE:
        text = (
            f"the brokers list group {group!r} but its coordinator describes it as Dead: it appears to use "
            "another group protocol than classic (convert it first), or was deleted just now"
        )
        problems.append(text)
    known = {each.member_id for each in strangers}
    told_members = (each if each.member_id in known else replace(each, topics=()) for each in members)
    return GroupView(
        group=group,
        kafka=replace(description.group, members=tuple(told_members)),
        topics=counts,
        kafka_offsets=tuple(offsets),
        problems=(*problems, *unread),
    )


def _offsets(group: str, topics: Any) -> tuple[list[OffsetRow], list[str]]:
    """Those that exist, with their metadata exactly as it is stored, and a sentence for each error."""
    rows, failed = offset_rows(group, topics)
    return rows, [
        f"the committed offset of group {group!r} for {topic}-{number} cannot be read "
        f"({error_name(code)}): whether it exists is unknown; read the group again"
        for topic, number, code in sorted(failed)
    ]


class _Known:
    """What holds for a while: the coordinator of each group, leaders and partition counts of each topic."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self.learn(cluster)

    def learn(self, cluster: KafkaCluster) -> None:
        """Ask for all of it."""
        self.leaders = cluster.all_leaders()
        self.coordinators = {group: each.brokers[-1] for group, each in listing(cluster)[0].items()}
        self.counts = dict(Counter(at.topic for at in self.leaders))


class ListedKafkaGroups(OfCluster):
    """Reads groups and changes nothing. Raises as `KafkaCluster.attempt`.

    Who coordinates a group follows from the broker that lists it, so no coordinator is asked for one by one.
    What cannot be read of one group is a sentence about that group; it keeps no other from being read. But
    nothing is read while a partition of the offsets topic moves or has no leader: any group may be hidden.
    Brokers before Kafka 3.0 are asked for the offsets of each group alone."""

    def __init__(self, cluster: KafkaCluster) -> None:
        super().__init__(cluster)
        self._known: _Known | None = None

    def groups(self) -> tuple[str, ...]:
        """The groups that any broker lists, sorted; learns their coordinators anew."""
        self._known = None
        return self._call(lambda known: tuple(sorted(known.coordinators)))

    def observe(self, groups: Mapping[str, Sequence[str]]) -> dict[str, GroupView]:
        """Membership and committed offsets of each group; the values are client ids whose subscription is
        known otherwise (aware members). A group that no broker lists is ``Dead`` and has no offsets, unless
        it has such members: its coordinator is asked then."""

        def work(known: _Known) -> dict[str, GroupView]:
            nodes = {group: known.coordinators[group] for group in groups if group in known.coordinators}
            unlisted = [group for group, embedded in groups.items() if embedded and group not in nodes]
            nodes |= self._cluster.coordinated(unlisted) if unlisted else {}
            answers = _ask(self._cluster, nodes)
            return {
                group: _told(group, answers, embedded, known)
                if group in nodes
                else GroupView(group=group, kafka=KafkaGroup(group=group), topics=known.counts)
                for group, embedded in groups.items()
            }

        return self._call(work)

    def log_ends(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[dict[TopicPartition, LogEndRow], list[str]]:
        """Log start and end of each partition, and a sentence about each that has none now."""
        wanted = sorted(set(partitions))

        def work(known: _Known) -> tuple[dict[TopicPartition, LogEndRow], list[str]]:
            ends, failed = log_ends(self._cluster, wanted, known.leaders)
            if failed:
                known.learn(self._cluster)
                ends, failed = log_ends(self._cluster, wanted, known.leaders)
            return ends, [
                f"the log end of {at} cannot be read ({error_name(code)}): its lag is unknown; "
                "check the partition's leader"
                for at, code in sorted(failed.items())
            ]

        return self._call(work) if wanted else ({}, [])

    def _call(self, work: Callable[[_Known], T]) -> T:
        """Run ``work`` with what is known, which is learnt anew after an error, not after a slow answer."""
        known, self._known = self._known, None

        def attempt() -> T:
            nonlocal known
            known = known or _Known(self._cluster)
            try:
                return work(known)
            except TimeoutError:
                raise
            except (OSError, BrokerError):
                known = None
                raise

        answer = self._cluster.attempt(attempt)
        self._known = known
        return answer


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


class KafkaRights(OfCluster):
    """Asks what the tool's identity may do, and changes nothing."""

    @attempted
    def identity(self, group: str, topics: Sequence[str]) -> Identity:
        """Whether Describe on the group and on each topic is granted. Raises as `KafkaCluster.attempt`."""
        _, untold = self._cluster.partitions_of(topics)
        missing = [f"Describe topic {topic}" for topic in topics if untold.get(topic) == _TOPIC_REFUSED]
        try:
            answers = _ask(self._cluster, self._cluster.coordinated([group]))
            raise_for(answers.code(group), f"group {group!r} is not described")
        except BrokerError as refusal:
            if refusal.code != _GROUP_REFUSED:
                raise
            missing.insert(0, f"Describe group {group}")
        return Identity(server=Server.KAFKA, who=self._cluster.who, missing=tuple(missing))
