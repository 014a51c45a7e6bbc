"""A member and its group: registration, what it knows before it decides, and old members.

* `Parts` and `Policy`: what a member is made of; by which rules it starts, commits and lets go.
* `GroupWatch`: the group in ZooKeeper, the member's Kafka assignment, the Kafka group.
* `RegistrationKeeper`: the member's session, its registration, the proofs of both, and the mode it publishes.
* `StaleMemberNudge`: watches over the shares of old members, when that falls to this member. It reports the
  shares that nobody takes and, if configured, wakes old members that have given up (F9).
* `GroupListener`: tells the application the assignment of the whole group before any delivery
  (zookeeper-coordination.md §8.7, L12).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from groupshift import __version__
from groupshift.consumers.callbacks import Callbacks
from groupshift.consumers.delivery import Delivery
from groupshift.consumers.metrics import Counters
from groupshift.consumers.threads import EventLoop, daemon
from groupshift.domain.assignment import GroupAssignment, kafka_threads, map_to_threads, threads_by_topic
from groupshift.domain.group_protocol import KafkaGroup
from groupshift.domain.modes import Mode, ModeNode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.reconcile import (
    CoordinationView,
    Decision,
    Member,
    Situation,
    decide,
    zookeeper_assignment,
)
from groupshift.domain.registration import Pattern, Registration, encode_awareness, encode_registration
from groupshift.domain.waking_old_members import (
    Vigil,
    due,
    entrusted,
    neglected,
    responsible,
    scheme_advice,
    schemes_of_losers,
    watch,
)
from groupshift.errors import GroupshiftError, Rejected, Transient
from groupshift.ports.consumer import Coordination, Fetch, Membership, MembershipListener, Reset

_LOG = logging.getLogger(__name__)
_SHOWN = 200
_ANSWER_S = 1.0
_CLIENTS_EVERY_S = 1.0


class GroupWatch:
    """Only the reconciler's thread calls this.

    ``assignment`` is what the Kafka group assigned in the present generation, None between generations;
    ``generation`` counts its changes. ``evicted`` is True from the loss of the membership until what was
    held is given up; no assignment counts before."""

    def __init__(self, member: Member, parts: Parts, loop: EventLoop) -> None:
        self._member, self._parts, self._loop = member, parts, loop
        self._stale = True
        static = member.pattern is Pattern.STATIC
        self._own_topics = tuple(sorted(member.subscription)) if static else ()
        self._clients: frozenset[str] | None = None
        self._subscribed: dict[str, tuple[int, ...]] | None = None
        self.view: CoordinationView | None = None
        self.assignment: frozenset[TopicPartition] | None = None
        self.evicted = False
        self.generation = 0

    # -- ZooKeeper -------------------------------------------------------------------------------

    def outdate(self) -> None:
        """A watch fired, or may have been lost."""
        self._stale = True

    def observe(self) -> None:
        """Read the view unless it is fresh. Raises `Transient`; it then stays outdated."""
        if not self._stale and self.view is not None:
            return
        self._stale = False
        with self._looking():
            self.view = view = self._parts.coordination.observe(self.view, self._own_topics)
            # One source of topic names for both systems (L5): what ZooKeeper shows is what Kafka is told.
            partitions_of = {
                topic: view.partitions.get(topic, ()) for topic in self._member.topics(view.partitions)
            }
            membership, own = self._parts.membership, self._own_topics
            if membership is not None and partitions_of != self._subscribed:
                membership.subscribe([each for each in partitions_of if partitions_of[each] or each in own])
                self._subscribed = partitions_of

    @contextmanager
    def _looking(self) -> Iterator[None]:
        """What fails is looked at again. An error that nobody foresaw is something of the view that a person
        has to see. Nothing was decided on what could not be read: the member keeps what it has, takes
        nothing, and looks again."""
        try:
            yield
        except GroupshiftError:
            self._stale = True
            raise
        except Exception as error:
            self._stale = True
            raise Rejected(
                f"the nodes of the group cannot be read ({type(error).__name__}: {str(error)[:_SHOWN]}): "
                "this member keeps what it owns, takes nothing and tries again; look at the nodes below "
                "/consumers"
            ) from error

    # -- Kafka -----------------------------------------------------------------------------------

    def adopt(self, assignment: frozenset[TopicPartition] | None) -> None:
        """A generation begins (or ends: None); who is in the group is asked anew."""
        self.assignment, self._clients = assignment, None
        self.generation += 1

    def evict(self) -> None:
        """The group has gone on without this member."""
        self.adopt(None)
        self.evicted = True

    def forgive(self) -> bool:
        """What was held when the membership was lost is given up; True when there is a new one already."""
        again, self.evicted = self.evicted and self.assignment is not None, False
        return again

    def learn_clients(self, acting: Mode | None) -> None:
        """Know who is in the Kafka group before a toggle needs it; they change with the generation only."""
        membership, needed = self._parts.membership, self._clients is None and self.assignment is not None
        if membership is None or not needed or acting is not Mode.KAFKA:
            self._loop.plan("clients", None)  # a due timer that nobody asks for would keep the loop awake
            return
        if self._loop.every("clients", _CLIENTS_EVERY_S):
            try:
                self._clients = membership.describe(_ANSWER_S).clients
            except Transient as error:
                _LOG.info("%s: %s", self._member.consumer_id, error)

    # -- deciding --------------------------------------------------------------------------------

    def decide(self, acting: Mode | None, held: Mapping[TopicPartition, str]) -> Decision:
        """What to do, on what is known now; lists the Kafka group when the decision depends on it."""
        decision = self._decide(acting, held)
        if decision.list_kafka_group and self._parts.membership is not None:
            self._clients = self._parts.membership.describe(_ANSWER_S).clients
            decision = self._decide(acting, held)
        return decision

    def _decide(self, acting: Mode | None, held: Mapping[TopicPartition, str]) -> Decision:
        """Nothing is done yet: what breaks the decision is something of the view."""
        assert self.view is not None  # noqa: S101 (observed before)
        with self._looking():
            return decide(
                Situation(
                    member=self._member,
                    view=self.view,
                    acting=acting,
                    held=held,
                    kafka_assignment=None if self.evicted else self.assignment,
                    kafka_clients=self._clients,
                )
            )


class RegistrationKeeper:
    """Only the reconciler's thread calls this. ``registered`` is False until `register` has succeeded in this
    session, and when the registration was found to be gone."""

    def __init__(self, member: Member, parts: Parts, loop: EventLoop) -> None:
        self._member, self._parts, self._loop = member, parts, loop
        self._written = Registration(
            subscription=tuple(member.subscription.items()),
            pattern=member.pattern,
            timestamp=str(int(time.time() * 1000)),
        )
        self._joined = False
        self._published: tuple[Mode, str] | None = None
        self.registered = False
        self.session: int | None = None

    def begin(self, session: int) -> None:
        """A new session: nothing of the former one is there any more."""
        self.session, self.registered, self._published = session, False, None

    def register(self, listener: MembershipListener, mode: Mode | None, node: ModeNode | None) -> bool:
        """Register unless it is done, start the membership after the first time; True when it was new.

        ``mode`` and ``node`` are in effect already when only the registration was lost."""
        if self.registered:
            return False
        awareness = self._awareness(mode, node) if self._member.aware else None
        self._parts.coordination.register(encode_registration(self._written), awareness)
        self.registered = True
        if self._parts.membership is not None and not self._joined:
            self._joined = True
            self._parts.membership.start(listener)
        return True

    def prove(self) -> None:
        """Ask three times a session whether it lives; the answer extends the lease (F5)."""
        session_s = self._parts.coordination.session_s
        if self._loop.every("proof", session_s / 3):
            self._parts.coordination.prove(
                lambda sent: self._parts.delivery.change_lease(
                    lambda lease: lease.prove_zookeeper(sent, session_s)
                )
            )

    def publish(self, mode: Mode, node: ModeNode) -> None:
        """After it is in effect (F6, F7): which mode, because of which write of the mode node."""
        wanted = (mode, node.identity)
        if self._member.aware and self._published != wanted:
            self._parts.coordination.publish(self._awareness(mode, node))
            self._published = wanted

    def _awareness(self, mode: Mode | None, node: ModeNode | None) -> bytes:
        return encode_awareness(self._written, software=__version__, mode=mode, node=node)


_LOOK_EVERY_S = 2.0
_LOOK_IDLY_S = 5.0


class StaleMemberNudge:
    """Watches over the shares of old members and wakes those that have given up.

    An old consumer stops after a few failed rebalances and then takes nothing, until ``ids`` changes again
    (zookeeper-coordination.md §4.3). One migrating member, the responsible one, looks for such shares.
    ``alarms`` are sentences for people. Only the reconciler's thread calls this."""

    def __init__(self, member: Member, parts: Parts, policy: Policy, loop: EventLoop) -> None:
        self._member, self._parts, self._loop = member, parts, loop
        self._every_s = policy.wake_every_s
        self._vigil = Vigil()
        self.alarms: tuple[str, ...] = ()

    def look(self, view: CoordinationView | None, acting: Mode | None) -> None:
        """From time to time: who owns what belongs to old members. Raises `Transient`."""
        if view is None or not responsible(self._member, view, acting):
            self._loop.plan("wake", None)
            self._vigil, self.alarms = Vigil(woken_at=self._vigil.woken_at), ()
            return
        if not self._loop.every("wake", _LOOK_EVERY_S if self._every_s > 0 else _LOOK_IDLY_S):
            return
        expected = entrusted(self._member, view)
        unowned = self._parts.coordination.unowned(sorted(expected))
        now = time.monotonic()
        self._vigil = watch(self._vigil, expected, unowned, now)
        self.alarms = ()
        if free := neglected(self._vigil, self._every_s, now):
            look = scheme_advice(self._member, schemes_of_losers(self._member, view, free))
            shares = ", ".join(map(str, free))
            self.alarms = (f"{shares}: old members do not take them; restart those members, and: {look}",)
        if due(self._vigil, self._every_s, now):
            names = ", ".join(sorted({thread for thread, _ in self._vigil.free.values()}))
            _LOG.warning(
                "%s: waking old members; nobody took the share of %s", self._member.consumer_id, names
            )
            self._parts.coordination.wake()
            self._parts.counters.woken += 1
            self._vigil = replace(self._vigil, woken_at=time.monotonic())


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The collaborators of one consumer; ``membership`` is None for one of the old protocol."""

    coordination: Coordination
    membership: Membership | None
    fetch: Fetch
    delivery: Delivery
    application: Callbacks = field(default_factory=Callbacks)
    counters: Counters = field(default_factory=Counters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """``commit_every_s`` is the auto commit's interval; ``auto_commit`` off commits only on demand.
    ``drain_s`` bounds the wait for a reader at a hand-over. ``wake_every_s`` is the least time between two
    wakings of old members, 0 for none at all."""

    reset: Reset
    auto_commit: bool
    commit_every_s: float
    drain_s: float
    wake_every_s: float = 0.0


_BOUND_S = 3.0
_PAUSE_S, _LATER_S = 0.05, 1.0
_STABLE = "Stable"


class GroupListener:
    """Tells the application which thread of the group owns which partition, before delivery starts (§8.7).

    In ZooKeeper mode the assignment is computed from the view, in Kafka mode the coordinator is asked, on a
    thread of its own for each generation. Only the reconciler's thread calls this."""

    def __init__(self, member: Member, parts: Parts, loop: EventLoop) -> None:
        self._member, self._parts, self._loop = member, parts, loop
        self._asking: int | None = None
        self._answer: tuple[int, KafkaGroup | None] | None = None
        self._announced: GroupAssignment | None = None

    def ready(self, mode: Mode, group_watch: GroupWatch) -> bool:
        """Whether delivery may start: everything about this assignment was told, or nobody listens.

        In Kafka mode the group is asked until it is stable. At the bound delivery starts with a map that is
        incomplete; the complete one is told when there is one."""
        view, assignment = group_watch.view, group_watch.assignment
        if self._parts.application.on_group_assigned is None or view is None:
            return True
        if mode is Mode.ZOOKEEPER or assignment is None:
            self.stop()
            if mode is Mode.ZOOKEEPER and not view.problems:
                self._tell(GroupAssignment(mode=mode, threads=zookeeper_assignment(self._member, view)))
            return True
        if self._answer is not None and self._answer[0] == group_watch.generation:
            self._tell(self._in_kafka(view, assignment, self._answer[1]))
            return True
        if self._asking != group_watch.generation:
            self._asking = group_watch.generation
            asking = partial(self._gather, group_watch.generation)
            daemon(f"describe-{self._member.consumer_id}", asking).start()
        return False

    def stop(self) -> None:
        """The member leaves, or has no part in the Kafka group: nobody waits for an answer any more."""
        self._asking = None

    def _tell(self, assignment: GroupAssignment) -> None:
        if assignment != self._announced:
            self._announced = assignment
            self._parts.application.group_assigned(assignment)

    def _gather(self, generation: int) -> None:
        """Ask until the group is stable or this generation is over; at the bound, say that it is not."""
        deadline, pause, late = time.monotonic() + _BOUND_S, threading.Event(), False
        membership, stable = self._parts.membership, None
        while self._asking == generation and stable is None:
            try:
                group = membership.describe(_ANSWER_S) if membership is not None else None
                stable = group if group is not None and group.state == _STABLE else None
            except GroupshiftError as error:
                _LOG.info("%s: %s", self._member.consumer_id, error)
            if stable is not None or (not late and time.monotonic() >= deadline):
                self._loop.post(partial(self._know, generation, stable))
                late = True
            if stable is None:
                pause.wait(_LATER_S if late else _PAUSE_S)

    def _know(self, generation: int, group: KafkaGroup | None) -> None:
        if self._asking == generation:
            self._answer = (generation, group)

    def _in_kafka(
        self, view: CoordinationView, assignment: frozenset[TopicPartition], group: KafkaGroup | None
    ) -> GroupAssignment:
        """By thread. Only the own partitions where the group is not known, or the pattern of another member
        cannot be evaluated: they do not wait for it."""
        own, members = self._member, () if group is None else group.members
        known = {each.topic for member in members for each in member.assigned} | set(view.partitions)
        subscriptions: dict[str, dict[str, int]] = {}
        try:
            for cid, each in view.registrations.items():
                subscriptions[cid] = each.topics(known, hidden=own.hidden)
        except Rejected as wrong:
            _LOG.warning("%s: %s", own.consumer_id, wrong)
            group = None
        if group is None:
            topics = own.topics({each.topic for each in assignment})
            threads = map_to_threads(assignment, threads_by_topic({own.consumer_id: topics}))
            return GroupAssignment(mode=Mode.KAFKA, threads=threads, complete=False)
        return GroupAssignment(mode=Mode.KAFKA, threads=kafka_threads(members, subscriptions))
