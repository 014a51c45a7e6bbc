"""Live snapshots of all groups of a cluster: `groupshift.ports.cluster.GroupSnapshots`.

Reads committed offsets alone, too (`groupshift.ports.cluster.CommittedOffsets`). What a broker does not
answer yet is asked again in rounds: a `Reading` asks every coordinator once for all its groups together,
whoever coordinates a group by then; `LogEnds` asks every leader for log starts and ends of all partitions of
some topics.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from groupshift.adapters.kafka.cluster import KafkaCluster, OfCluster, attempted
from groupshift.adapters.kafka.commit_places import topics_now, with_topic_ids
from groupshift.adapters.kafka.connection_and_login import BrokerConnection
from groupshift.adapters.kafka.requests import (
    DESCRIBED,
    EARLIEST,
    LATEST,
    coordinators_in,
    describe,
    fetch_offsets,
    fetched,
    find_coordinators,
    list_groups,
    list_offsets,
    metadata_request,
)
from groupshift.adapters.kafka.rows import Described, described, group_answer, offset_rows, within_logs
from groupshift.adapters.kafka.transactions import FirstCommits
from groupshift.adapters.kafka.wire import Api, by_partition, error_name, is_retriable, raise_for
from groupshift.adapters.system import collector_paused
from groupshift.domain.group_partition_and_count import OFFSETS_TOPIC, probe_names
from groupshift.domain.group_protocol import Kind
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import (
    GONE,
    LEFT_OVER,
    LISTED_TOO,
    BrokerRow,
    ClusterState,
    Committed,
    GroupRow,
    LogEndRow,
    OffsetRow,
    ProblemRow,
)
from groupshift.ports.clock import Clock
from groupshift.ports.cluster import Progress

_AGAIN = frozenset({14, 15, 16})
"""The coordinator loads, is not there, or is another broker now."""
_UNKNOWN_TOPIC, _NO_LEADER, _MOVED = 3, 5, 16
_BY_ID = 10
"""Metadata 10 came with 2.8."""
_UNSUPPORTED, _GROUP_ID_NOT_FOUND, _UNSTABLE = 35, 69, 88


Leaders = Mapping[TopicPartition, tuple[int, int]]
"""Node id and epoch of the leader of each partition of the offsets topic; -1: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A group as brokers list it; ``row`` has no type and state where they are too old to tell."""

    row: GroupRow
    brokers: tuple[int, ...]


def listing(cluster: KafkaCluster, *, whole: bool = True) -> tuple[dict[str, Listed], dict[int, int]]:
    """Every group that a broker lists, and how many each broker lists (by node id).

    While a partition of the offsets topic moves to another leader, for a moment no broker lists its groups,
    and none says so (docs/reference/group-coordinator.md §7.3). So a ``whole`` listing counts only if all
    brokers name the same leaders before and after, and each leader serves its partitions before it lists
    them. Without ``whole`` groups may be missing: for those whose coordinators are asked anyway.

    Raises what `KafkaCluster` raises: a broker that does not answer hides groups, so nothing is told then.
    Raises a retriable `BrokerError` while a partition moves, is not served, or has no leader."""
    by_group, counts = dict[str, Listed](), dict[int, int]()
    before = _leaders(cluster) if whole else {}
    names = probe_names(range(len(before)))[: len(before)]
    lookups = cluster.ask_brokers(lambda at, _: [request for request, _ in find_coordinators(at, names)])

    def questions(at: BrokerConnection, node: int) -> list[Any]:
        pairs = zip(find_coordinators(at, names), lookups.get(node, ()), strict=False)
        coordinators = (each for (_, part), answer in pairs for each in coordinators_in(part, answer))
        own = [name for name, coordinator, code in coordinators if coordinator == node and not code]
        return [*(request for request, _ in describe(at, Kind.CLASSIC, own)), list_groups(at)]

    answers = cluster.ask_brokers(questions)
    if whole:
        _leaders(cluster, before)
    for node, (*serving, answer) in answers.items():
        for code in _AGAIN & {int(each.error_code) for probe in serving for each in probe.groups}:
            raise_for(code, f"broker {node} hides groups: it leads a partition that it does not serve")
        raise_for(answer.error_code, f"broker {node} does not list its groups")
        counts[node] = len(answer.groups)
        for each in answer.groups:
            other = by_group.get(each.group_id)
            row = GroupRow(
                group=each.group_id,
                type=getattr(each, "group_type", "").lower(),
                state=getattr(each, "group_state", ""),
                protocol_type=each.protocol_type,
            )
            by_group[each.group_id] = Listed(row=row, brokers=(*(other.brokers if other else ()), node))
    return by_group, counts


def _leaders(cluster: KafkaCluster, *before: Leaders) -> Leaders:
    """The leaders of the offsets topic. A user who may not see that topic is told none.

    Raises a retriable `BrokerError` where a broker names another leader or epoch than the others, or than
    ``before``, and for a partition without a leader."""
    answers = cluster.ask_brokers(lambda at, _: [metadata_request(at, _harmless(at))])
    looks = [*before, *(_led(answer) for (answer,) in answers.values())]
    for at in sorted({at for look in looks for at in look}):
        if len({look.get(at) for look in looks}) > 1 or looks[0][at][0] < 0:
            raise_for(_MOVED, f"groups are hidden: {at} moves or has no leader")
    return looks[0]


def _harmless(at: BrokerConnection) -> list[str] | None:
    """What to ask Metadata for: brokers before 2.8 make the offsets topic where it is asked for by name."""
    return [OFFSETS_TOPIC] if at.highest(Api.METADATA) >= _BY_ID else None


def _led(answer: Any) -> Leaders:
    partitions = by_partition(each for each in answer.topics if each.name == OFFSETS_TOPIC)
    return {at: (int(p.leader_id), getattr(p, "leader_epoch", -1)) for at, p in partitions.items()}


def log_ends(
    cluster: KafkaCluster, partitions: Iterable[TopicPartition], leaders: Mapping[TopicPartition, int]
) -> tuple[dict[TopicPartition, LogEndRow], dict[TopicPartition, int]]:
    """Start and end by partition, with the newer leader epoch (brokers before 2.1 tell none), and the error
    code of each partition without an answer of its leader. Raises what `KafkaCluster` raises."""
    failed: dict[TopicPartition, int] = {}
    led: list[tuple[int, TopicPartition]] = []
    for at in partitions:
        leader = leaders.get(at)
        if leader is None or leader < 0:
            failed[at] = _UNKNOWN_TOPIC if leader is None else _NO_LEADER
        else:
            led.append((leader, at))
    offsets: dict[int, dict[TopicPartition, Any]] = {EARLIEST: {}, LATEST: {}}
    for spec, answer in cluster.ask_at(led, list_offsets):
        for at, each in by_partition(answer.topics).items():
            if each.error_code or each.offset < 0:
                failed[at] = int(each.error_code) or _NO_LEADER
            else:
                offsets[spec][at] = each
    ends = {
        at: LogEndRow(
            topic=at.topic,
            partition=at.partition,
            log_start=int(start.offset),
            log_end=int(end.offset),
            leader_epoch=max(int(getattr(bound, "leader_epoch", -1)) for bound in (start, end)),
        )
        for at, start in offsets[EARLIEST].items()
        if (end := offsets[LATEST].get(at)) is not None
    }
    return ends, failed


@dataclass(slots=True)
class Reading:
    """What is known so far of ``groups``, and what is still to be asked; without ``members`` only their
    offsets are, and nothing needs to be ``listed``: just of a group without any it is asked whether it is
    there, for one that is not has no offset on its way."""

    groups: Sequence[str]
    listed: Mapping[str, Listed] = field(default_factory=dict)
    members: bool = True
    described: dict[str, Described] = field(default_factory=dict)
    offsets: dict[str, list[OffsetRow]] = field(default_factory=dict)
    problems: list[ProblemRow] = field(default_factory=list)
    _ask: dict[str, Kind] = field(init=False, default_factory=dict)
    _unfetched: set[str] = field(init=False, default_factory=set)
    _tried: set[str] = field(init=False, default_factory=set)
    _causes: dict[str, str] = field(init=False, default_factory=dict)
    _coordinators: dict[str, int] = field(init=False, default_factory=dict)
    _first: FirstCommits = field(init=False, default_factory=FirstCommits)

    def __post_init__(self) -> None:
        for group in self.groups:
            kind = self.listed[group].row.type if group in self.listed else ""
            known = kind in {"", *DESCRIBED}
            if self.members:
                self._ask[group] = Kind(kind) if kind and known else Kind.CLASSIC
            if self.members and not known:
                self._problem(group, f"its members are not read, for it is of type {kind}")
                self._undescribed(group)
            if kind != Kind.SHARE:  # share groups commit no offsets
                self._unfetched.add(group)

    @property
    def pending(self) -> int:
        """How many groups are not read in full."""
        return len(self._unfetched | self._ask.keys())

    def round(self, cluster: KafkaCluster, done: Callable[[], None]) -> None:
        """Ask each coordinator for its groups of ``pending``; calls ``done`` after every answer."""
        self._ask_coordinators(cluster, done)
        while not self.pending and self._queue_again(cluster):
            self._ask_coordinators(cluster, done)

    def _ask_coordinators(self, cluster: KafkaCluster, on_answer: Callable[[], None]) -> None:
        nodes, errors = cluster.coordinators(self._unfetched | self._ask.keys())
        for group, code in errors.items():
            if self._final(group, code, "has no coordinator"):
                self._unfetched.discard(group)
                self._undescribed(group)
        self._coordinators |= nodes
        places = ((nodes[group], group) for group in sorted(nodes))
        for read, answer in cluster.ask_at(places, self._questions):
            read(answer)
            on_answer()

    def _queue_again(self, cluster: KafkaCluster) -> bool:
        """Groups are to be asked again whose first commit may be on its way; whether some at once, for there
        is no transaction that they would wait for."""
        unknown = [group for group, rows in self.offsets.items() if not rows and group not in self.described]
        if unknown:
            self._ask |= dict.fromkeys(unknown, Kind.CLASSIC)
            return True
        lacking = [group for group in self.offsets if self._lacks_offsets(group)]
        again = self._first.doubtful(cluster, lacking)
        self._causes |= again
        self._unfetched |= again.keys()
        return not all(again.values())

    def _lacks_offsets(self, group: str) -> bool:
        """No offset at all, or none of a partition that a member has."""
        rows = self.offsets[group]
        if rows and not self.members:
            return False
        description = self.described[group]
        if description.group.state == GONE or (rows and not description.assignments):
            return False
        committed = {row.at for row in rows}
        return not rows or any((at.topic, at.partition) not in committed for at in description.assignments)

    def give_up(self) -> None:
        """Say of every group that is still pending what could not be read, and end."""
        for group in sorted(self._unfetched | self._ask.keys()):
            missing = {"members": self._ask, "offsets": self._unfetched}
            what = " and ".join(name for name, groups in missing.items() if group in groups)
            self._problem(group, f"{what} are not read in full ({self._causes.get(group, 'no answer')})")
            self._undescribed(group)
        self._unfetched.clear()

    def _questions(self, connection: BrokerConnection, groups: Sequence[str]) -> Iterator[tuple[Any, Any]]:
        kinds: dict[Kind, list[str]] = defaultdict(list)
        for group in groups:
            if group in self._ask:
                able = connection.highest(DESCRIBED[self._ask[group]]) >= 0
                kinds[self._ask[group] if able else Kind.CLASSIC].append(group)
        for kind, names in kinds.items():
            read = partial(self._read_described, kind)
            yield from ((request, read) for request, _ in describe(connection, kind, names))
        unfetched = [group for group in groups if group in self._unfetched]
        for request, part in fetch_offsets(connection, unfetched):
            yield request, partial(self._read_fetched, part)

    def _read_described(self, kind: Kind, answer: Any) -> None:
        for each in answer.groups:
            group, code = each.group_id, int(each.error_code)
            if group not in self._ask:
                continue
            absent = code == _UNSUPPORTED and group in self._tried and self._ask[group] is Kind.CONSUMER
            if absent or code == _GROUP_ID_NOT_FOUND or (not code and each.group_state == GONE):
                self._other_protocol(group)
            elif not code:
                description = self.described[group] = described(
                    group_answer(kind, each, self._coordinators[group])
                )
                self.problems += [ProblemRow(group=group, problem=text) for text in description.unread]
                del self._ask[group]
            elif self._final(group, code, "is not described"):
                self._undescribed(group)

    def _other_protocol(self, group: str) -> None:
        """The group is not of the type that was asked for: it was converted since the listing, or hidden from
        it. An OLD coordinator has no other type (35), and may not know what another broker lists."""
        kind = self._ask[group]
        if group not in self._tried:
            self._tried.add(group)
            self._ask[group] = Kind.CONSUMER if kind is Kind.CLASSIC else Kind.CLASSIC
            return
        del self._ask[group]
        self.described[group] = Described(
            group=GroupRow(group=group, type="", state=GONE, coordinator=self._coordinators.get(group))
        )

    def _read_fetched(self, names: Sequence[str], answer: Any) -> None:
        for group, code, topics in fetched(names, answer):
            if code == _GROUP_ID_NOT_FOUND:
                self._unfetched.discard(group)
            elif code:
                if self._final(group, code, "offsets are not given"):
                    self._unfetched.discard(group)
            else:
                self.offsets[group], failed = offset_rows(group, topics)
                unstable = [f"{topic}-{number}" for topic, number, each in failed if each == _UNSTABLE]
                if unstable:
                    self._causes[group] = f"a transaction that commits {', '.join(unstable)} is open"
                    continue
                for topic, number, each in failed:
                    self._problem(group, f"the offset of {topic}-{number} is not given ({error_name(each)})")
                self._unfetched.discard(group)

    def _final(self, group: str, code: int, what: str) -> bool:
        """Note why a group was not answered; True (and a problem) when asking again is of no use."""
        self._causes[group] = error_name(code)
        if code in _AGAIN:
            return False
        self._problem(group, f"{what} ({error_name(code)}): check the ACLs and the broker's log")
        return True

    def _undescribed(self, group: str) -> None:
        """Keep of a group that is still asked about what the listing told."""
        if self._ask.pop(group, None) is None:
            return
        nothing = GroupRow(group=group, type="", state="", protocol_type="")
        row = self.listed[group].row if group in self.listed else nothing
        self.described[group] = Described(group=replace(row, coordinator=self._coordinators.get(group)))

    def _problem(self, group: str, text: str) -> None:
        self.problems.append(ProblemRow(group=group, problem=f"group {group!r}: {text}"))


_UNKNOWN_ROUNDS = 2
"""So often a topic is asked for before it counts as deleted: a broker may learn it a moment later."""


@dataclass(slots=True)
class LogEnds:
    """What is known so far of ``topics``, and what is still to be asked; ``unread`` are those of them that no
    member reads: that one of these is gone leaves nothing to be read."""

    topics: Collection[str]
    unread: Collection[str] = frozenset()
    rows: list[LogEndRow] = field(default_factory=list)
    problems: list[ProblemRow] = field(default_factory=list)
    _unknown: dict[str, int] = field(init=False)
    _left: dict[TopicPartition, str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._unknown = dict.fromkeys(self.topics, 0)

    @property
    def pending(self) -> int:
        """How many topics and partitions are not answered."""
        return len(self._unknown) + len(self._left)

    def round(self, cluster: KafkaCluster) -> None:
        """Ask each leader once for its partitions of ``pending``."""
        leaders, errors = cluster.partitions_of({*self._unknown, *(at.topic for at in self._left)})
        for topic in errors.keys() & self._unknown.keys():
            code = errors[topic]
            self._unknown[topic] += 1
            if code == _UNKNOWN_TOPIC and self._unknown[topic] >= _UNKNOWN_ROUNDS:
                text = f"topic {topic!r} has committed offsets or members but does not exist (any more)"
                if topic in self.unread:
                    text = f"topic {topic!r}{LEFT_OVER}its committed offsets are kept as they are"
                self.problems.append(ProblemRow(problem=text))
                del self._unknown[topic]
            elif not is_retriable(code):
                self._problem(f"topic {topic!r}", error_name(code))
                del self._unknown[topic]
        fresh = self._unknown.keys() - errors.keys()
        self._left |= {at: error_name(_NO_LEADER) for at in leaders if at.topic in fresh}
        for topic in fresh:
            del self._unknown[topic]
        ends, failed = log_ends(cluster, sorted(self._left), leaders)
        for at, code in failed.items():
            self._left[at] = error_name(code)
            if not is_retriable(code):
                self._problem(str(at), self._left.pop(at))
        for at, end in ends.items():
            self.rows.append(end)
            self._left.pop(at, None)

    def give_up(self) -> None:
        """Say of everything that is still pending that it could not be read, and end."""
        for topic in sorted(self._unknown):
            self._problem(f"topic {topic!r}", error_name(_UNKNOWN_TOPIC))
        for at, cause in sorted(self._left.items()):
            self._problem(str(at), cause)
        self._unknown.clear()
        self._left.clear()

    def _problem(self, subject: str, cause: str) -> None:
        text = f"the log end of {subject} cannot be read ({cause}): check the leader of the partition"
        self.problems.append(ProblemRow(problem=text))


_PAUSE_S = 0.1


class LiveGroupSnapshots(OfCluster):
    """Reads through one `KafkaCluster`, which it closes. ``patience_s`` is how long groups may stay
    unanswered (a coordinator moves, a transaction is open) after the last one that was answered."""

    def __init__(self, cluster: KafkaCluster, clock: Clock, *, patience_s: float = 10.0) -> None:
        super().__init__(cluster)
        self._clock = clock
        self._patience_s = patience_s

    @collector_paused()
    def take(
        self, groups: Collection[str] | None = None, *, progress: Progress | None = None
    ) -> ClusterState:
        """See the port. Committed offsets are read before log ends, so none is ahead of its log."""
        tell = progress or (lambda _what, _done, _of: None)
        taken_at_ms, before = self._clock.now_ms(), self._cluster.requests
        listed, counts, brokers = self._listed(whole=groups is None)
        reading = Reading(groups=sorted(listed if groups is None else set(groups)), listed=listed)
        total = len(reading.groups)

        def done() -> None:
            tell("groups", total - reading.pending, total)

        self._in_rounds(reading, lambda: reading.round(self._cluster, done))
        described = [reading.described[group] for group in reading.groups]
        state = ClusterState(
            cluster_id=self._cluster.cluster_id,
            taken_at_ms=taken_at_ms,
            groups=[each.group for each in described],
            members=[row for each in described for row in each.members],
            subscriptions=[row for each in described for row in each.subscriptions],
            assignments=[row for each in described for row in each.assignments],
            offsets=_offsets(reading),
        )
        committed = state.committed_topics
        read = {topic for topic in state.read_topics if topic[:1] != "~"}
        ends, missing = self.log_ends(committed | read, committed - read)
        tell("log ends", len(ends), len(ends))
        topics = self._cluster.attempt(lambda: topics_now(self._cluster, state.offsets))
        again = lambda groups: self.committed(groups).offsets  # noqa: E731
        committed_by = {group: reading.offsets.get(group, ()) for group in reading.groups}
        offsets = self._cluster.attempt(lambda: with_topic_ids(self._cluster, committed_by, topics, again))
        coordinated = Counter(each.coordinator for each in state.groups)
        return replace(
            state,
            assignments=within_logs(state.assignments, ends),
            offsets=offsets,
            log_ends=ends,
            brokers=[
                replace(
                    node,
                    groups_listed=counts.get(node.node_id, 0),
                    groups_coordinated=coordinated[node.node_id],
                )
                for node in brokers
            ],
            topics=topics,
            problems=[*reading.problems, *_listed_elsewhere(listed, reading), *missing],
            requests=self._cluster.requests - before,
        )

    @attempted
    def _listed(self, *, whole: bool) -> tuple[dict[str, Listed], dict[int, int], tuple[BrokerRow, ...]]:
        """All groups of one cluster, how many each broker lists, and the brokers."""
        self._cluster.refuse_several()
        return *listing(self._cluster, whole=whole), self._cluster.brokers()

    def committed(self, groups: Collection[str]) -> Committed:
        """See the port: one OffsetFetch for each coordinator, and no listing of all groups."""
        reading = Reading(groups=sorted(set(groups)), members=False)
        self._cluster.attempt(self._cluster.refuse_several)
        self._in_rounds(reading, lambda: reading.round(self._cluster, lambda: None))
        return Committed(offsets=_offsets(reading), problems=reading.problems)

    @property
    def requests(self) -> int:
        """How many requests were sent so far."""
        return self._cluster.requests

    @attempted
    def cluster_id(self) -> str:
        """The id of the cluster. Raises as `take`."""
        self._cluster.refuse_several()
        self._cluster.brokers()
        return self._cluster.cluster_id

    @attempted
    def topics(self) -> frozenset[str]:
        """The names of all topics. Raises as `take`."""
        return self._cluster.topics()

    def log_ends(
        self, topics: Collection[str], unread: Collection[str] = frozenset()
    ) -> tuple[list[LogEndRow], list[ProblemRow]]:
        """Log starts and ends of these topics, and what could not be read; ``unread`` are those of them that
        no member reads. Raises as `take`."""
        ends = LogEnds(topics=topics, unread=unread)
        self._in_rounds(ends, lambda: ends.round(self._cluster))
        return sorted(ends.rows, key=lambda row: row.at), ends.problems

    def _in_rounds(self, reading: Reading | LogEnds, ask: Callable[[], None]) -> None:
        deadline = time.monotonic() + self._patience_s
        while before := reading.pending:
            self._cluster.attempt(ask)
            if not reading.pending:
                return
            if reading.pending < before:
                deadline = time.monotonic() + self._patience_s
            elif time.monotonic() >= deadline:
                reading.give_up()
            self._clock.sleep(_PAUSE_S)


def _offsets(reading: Reading) -> list[OffsetRow]:
    return [row for group in reading.groups for row in reading.offsets.get(group, ())]


def _listed_elsewhere(listed: Mapping[str, Listed], reading: Reading) -> Iterator[ProblemRow]:
    """Groups that a broker lists without coordinating them: a view of the past, or two coordinators
    (docs/reference/group-coordinator.md §3)."""
    for group in reading.groups:
        coordinator = reading.described[group].group.coordinator
        brokers = listed[group].brokers if group in listed else ()
        others = [node for node in brokers if node != coordinator]
        if others and coordinator is not None:
            text = (
                f"group {group!r}: listed by broker {', '.join(map(str, others))}{LISTED_TOO}"
                f"{coordinator}: it moved just now, or two brokers serve it; take the snapshot again"
            )
            yield ProblemRow(group=group, problem=text)
