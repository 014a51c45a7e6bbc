"""The decisions of the reconciler: one consistent view in, what to release and what to take out (F2); leases.

Pure and complete: who may act when is decided here; `groupshift.consumers` decides how.
A `Lease` is how long a member may deliver without an answer from the systems that protect it (F5). Its times
are seconds of one monotonic clock. A proof counts from the moment the question was *sent*: the server's own
timer cannot have started later.

Source: docs/reference/zookeeper-coordination.md §§8.3, 8.7, 8.10 (F1, F2, F5, F6) and D8, D10, D11.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from groupshift.domain.assignment import (
    Assignment,
    Assignor,
    TextForm,
    assign,
    consumer_of,
    map_to_threads,
    threads_by_topic,
)
from groupshift.domain.modes import ABSENT_MODE, Mode, ModeNode, effective_mode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.registration import Pattern, Registration
from groupshift.domain.znodes import INTERNAL_TOPICS


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinationView:
    """What one consistent read of ZooKeeper said (D5): both directories, mode, topics.

    ``ids_pzxid`` identifies the listing of ``ids``; ``unfenced`` are migration ids without ``fence``
    (F6); ``partitions`` are those of ``/brokers/topics``; ``problems`` are sentences about nodes that
    could not be parsed: with one of them no assignment can be computed.
    """

    mode: ModeNode = ABSENT_MODE
    ids_pzxid: int = -1
    migration_pzxid: int = -1
    migration_ids: tuple[str, ...] = ()
    registrations: Mapping[str, Registration] = field(default_factory=dict)
    unfenced: frozenset[str] = frozenset()
    partitions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        """The registered consumers, sorted."""
        return tuple(sorted(self.registrations))


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """This member: its id, its own subscription and the group's assignor.

    ``subscription`` is topic → streams, or with a wildcard ``pattern`` one expression → streams; an empty
    one owns nothing. ``hidden`` are the topics no wildcard sees, its own or another's (§3.2). ``aware`` is
    False for a consumer of the old protocol, which follows ZooKeeper only.
    """

    consumer_id: str
    subscription: Mapping[str, int]
    aware: bool
    assignor: Assignor = Assignor.RANGE
    form: TextForm = TextForm.DASH
    pattern: Pattern = Pattern.STATIC
    hidden: frozenset[str] = INTERNAL_TOPICS

    def topics(self, known: Collection[str]) -> dict[str, int]:
        """Topic → streams; a wildcard is expanded over the ``known`` topics."""
        registration = Registration(subscription=tuple(self.subscription.items()), pattern=self.pattern)
        return registration.topics(known, hidden=self.hidden)


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """All that a decision may depend on.

    ``acting`` is the mode this member obeys now (None before its first decision), ``held`` the owner
    nodes it holds (partition → thread id). ``kafka_assignment`` is what the Kafka group assigned in
    the present generation, None between generations; ``kafka_clients`` the client ids of the Kafka
    group's members, None when not known.
    """

    member: Member
    view: CoordinationView
    acting: Mode | None = None
    held: Mapping[TopicPartition, str] = field(default_factory=dict)
    kafka_assignment: frozenset[TopicPartition] | None = None
    kafka_clients: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Release first, then take. ``mode``, ``node`` and ``ids_pzxid`` say on what it rests (D6).

    ``register`` asks to (re-)create the own registration before anything else. ``list_kafka_group`` asks
    to list the Kafka group and decide again: leaving Kafka mode needs to know that no plain
    consumer is in the group (D11). ``alarms`` are sentences for people.
    """

    mode: Mode
    node: ModeNode
    ids_pzxid: int
    release: tuple[TopicPartition, ...] = ()
    take: tuple[tuple[TopicPartition, str], ...] = ()
    register: bool = False
    list_kafka_group: bool = False
    alarms: tuple[str, ...] = ()


def decide(situation: Situation) -> Decision:
    """What this member has to do now."""
    mode, ask, alarms = _choose_mode(situation)
    view, member = situation.view, situation.member
    stay = Decision(mode=mode, node=view.mode, ids_pzxid=view.ids_pzxid, alarms=alarms)
    if member.consumer_id not in view.registrations and not view.problems:
        return replace(stay, register=True)
    if ask:
        return replace(stay, list_kafka_group=True)
    if mode is Mode.ZOOKEEPER and view.problems:
        return replace(stay, alarms=(*alarms, *view.problems))
    target = _kafka_target(situation) if mode is Mode.KAFKA else zookeeper_assignment(member, view)
    target = {each: thread for each, thread in target.items() if consumer_of(thread) == member.consumer_id}
    held = situation.held
    return replace(
        stay,
        release=tuple(sorted(each for each, thread in held.items() if target.get(each) != thread)),
        take=tuple(sorted((each, thread) for each, thread in target.items() if held.get(each) != thread)),
    )


def _choose_mode(situation: Situation) -> tuple[Mode, bool, tuple[str, ...]]:
    """The mode to obey, whether the Kafka group must be listed first, and what to report."""
    view = situation.view
    if not situation.member.aware:
        return Mode.ZOOKEEPER, False, ()
    wanted, alarm = effective_mode(view.mode, view.ids, view.migration_ids), tuple[str, ...]()
    if wanted is Mode.KAFKA and view.unfenced:
        names = ", ".join(sorted(view.unfenced))
        wanted = Mode.ZOOKEEPER
        alarm = (f"{names} do not honour owner nodes (no 'fence'): staying in zookeeper mode",)
    leaving = situation.acting is Mode.KAFKA
    starting_beside_kafka = situation.acting is None and view.mode.requested is Mode.KAFKA
    if wanted is Mode.KAFKA or not (leaving or starting_beside_kafka):
        return wanted, False, alarm
    if not situation.held and not situation.member.topics(view.partitions):
        return wanted, False, alarm  # it owns nothing and is in no Kafka group: harmless either way
    if situation.kafka_clients is None:
        return Mode.KAFKA, True, alarm
    plain = situation.kafka_clients - set(view.migration_ids) - {situation.member.consumer_id}
    if not plain:
        return wanted, False, alarm
    names = ", ".join(sorted(plain))
    return Mode.KAFKA, False, (*alarm, f"plain Kafka consumers ({names}) are members: not leaving kafka mode")


def group_assignment(member: Member, view: CoordinationView) -> Assignment:
    """The old consumer's assignment (§§3.3, 5), whole; every member computes it alone."""
    members = {
        cid: each.topics(view.partitions, hidden=member.hidden) for cid, each in view.registrations.items()
    }
    return assign(member.assignor, threads_by_topic(members), view.partitions, member.form)


def zookeeper_assignment(member: Member, view: CoordinationView) -> Assignment:
    """With range only of ``member``'s topics, with round-robin of all of the group (§4.4)."""
    whole = group_assignment(member, view)
    if member.assignor is not Assignor.RANGE:
        return whole
    mine = view.registrations[member.consumer_id].topics(view.partitions, hidden=member.hidden)
    return {each: thread for each, thread in whole.items() if each.topic in mine}


def _kafka_target(situation: Situation) -> Assignment:
    """What the Kafka group assigned to me, spread over my threads (§8.7); nothing between generations.

    A wildcard is expanded over the assigned topics themselves: ZooKeeper may not show a new one yet, and
    an assignment is never dropped (L5)."""
    member, assigned = situation.member, situation.kafka_assignment or frozenset()
    threads = threads_by_topic({member.consumer_id: member.topics({each.topic for each in assigned})})
    return map_to_threads(assigned, threads)


NEVER = float("-inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to deliver: ``zookeeper_until`` always binds, ``kafka_until`` in Kafka mode only.

    ``kafka_lost`` is when the membership was lost last: what was asked before proves nothing any more.
    ``suspended`` is True from the moment the ZooKeeper link is lost until the same session is proven.
    """

    mode: Mode = Mode.ZOOKEEPER
    zookeeper_until: float = NEVER
    kafka_until: float = NEVER
    kafka_lost: float = NEVER
    suspended: bool = True

    @property
    def until(self) -> float:
        """Records may be handed out before this moment."""
        if self.suspended:
            return NEVER
        kafka_binds = self.mode is Mode.KAFKA
        return min(self.zookeeper_until, self.kafka_until) if kafka_binds else self.zookeeper_until

    def holds(self, now: float) -> bool:
        """Whether a record may be handed out at ``now``."""
        return now < self.until

    def prove_zookeeper(self, sent: float, session_s: float) -> Lease:
        """The session was alive at ``sent``; it lives at least ``session_s`` longer."""
        return replace(self, zookeeper_until=max(self.zookeeper_until, sent + session_s), suspended=False)

    def prove_kafka(self, sent: float, session_s: float) -> Lease:
        """The membership was valid at ``sent``."""
        if sent < self.kafka_lost:
            return self
        return replace(self, kafka_until=max(self.kafka_until, sent + session_s))

    def suspend(self) -> Lease:
        """ZooKeeper is silent: stop at once (D10); a proof asked for earlier no longer counts."""
        return replace(self, suspended=True, zookeeper_until=NEVER)

    def lose_kafka(self, now: float) -> Lease:
        """The Kafka membership is lost; the answer to a question of before may still arrive."""
        return replace(self, kafka_until=NEVER, kafka_lost=now)

    def follow(self, mode: Mode) -> Lease:
        """The mode whose rules bind from now on."""
        return replace(self, mode=mode)
