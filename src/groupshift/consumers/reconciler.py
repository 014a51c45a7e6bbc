"""The one thread that owns a member's coordination state (F2): it observes, decides, acts.

ZooKeeper watches and Kafka callbacks only post to it. Each pass works by difference on one
consistent view; whatever could not be done is done by a later pass, never given up.

A decision is carried out in one order: release, follow the mode, take, start, publish (F1, F2). So is
leaving, whatever fails on the way (L3, N5).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from functools import partial

from groupshift.consumers.group_state import (
    GroupListener,
    GroupWatch,
    Parts,
    Policy,
    RegistrationKeeper,
    StaleMemberNudge,
)
from groupshift.consumers.owned_partitions import OwnedPartitions
from groupshift.consumers.threads import EventLoop, daemon
from groupshift.domain.modes import Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.reconcile import Decision, Member
from groupshift.domain.waking_old_members import scheme_advice, schemes_of_keepers
from groupshift.errors import Conflict, GroupshiftError, Rejected, Transient
from groupshift.ports.consumer import OffsetWrite, SessionState

_LOG = logging.getLogger(__name__)
_RETRY_S = 0.2
_IDLE_S = 1.0
_REFRESH_S = 30.0
_UNPROVEN_S = 0.2
_NEVER_SOONER_THAN_S = 30.0
_LEAVE_S = 4.0


class Reconciler:
    """Drives one member. Everything without an underscore may be called from any thread. ``mode`` is the
    one in effect here, None before the first decision."""

    def __init__(self, member: Member, parts: Parts, policy: Policy) -> None:
        self._member, self._parts, self._policy = member, parts, policy
        self._loop = loop = EventLoop()
        self._registration = RegistrationKeeper(member, parts, loop)
        self._group_watch = GroupWatch(member, parts, loop)
        self._owned = OwnedPartitions(parts, policy, loop)
        self._listener = GroupListener(member, parts, loop)
        self._nudge = StaleMemberNudge(member, parts, policy, loop)
        self._thread = daemon(f"reconciler-{member.consumer_id}", self._run)
        self.mode: Mode | None = None
        self._alarms, self._logged = tuple[str, ...](), tuple[str, ...]()
        self._closing, self._dirty = False, True
        self._refused: tuple[str, ...] = ()
        self._unsaved: dict[TopicPartition, OffsetWrite] = {}
        self._waiting: list[threading.Event] = []

    # -- called from elsewhere -------------------------------------------------------------------

    def start(self) -> None:
        """Begin; the link to ZooKeeper must be up."""
        self._thread.start()

    @property
    def alarms(self) -> tuple[str, ...]:
        """Sentences for people about what is wrong now."""
        return (*self._refused, *self._alarms, *self._nudge.alarms)

    @property
    def assigned_count(self) -> int:
        """How many partitions the Kafka group assigned to this member, whatever the mode."""
        return len(self._group_watch.assignment or ())

    def held(self) -> frozenset[TopicPartition]:
        """The partitions whose owner node this member holds."""
        return frozenset(self._owned.threads())

    def commit(self, offsets: Mapping[TopicPartition, int]) -> Future[None]:
        """Commit positions in the order of the mode; the future carries the error."""
        done: Future[None] = Future()

        def request() -> None:
            try:
                self._owned.commit(self.mode or Mode.ZOOKEEPER, offsets)
                done.set_result(None)
            except GroupshiftError as error:
                _LOG.info("%s: commit: %s", self._member.consumer_id, error)
                done.set_exception(error)

        self._loop.post(request)
        return done

    def close(self, timeout: float) -> bool:
        """Leave in the order of L3; True when the thread has ended within ``timeout`` seconds."""
        self._loop.post(self._begin_closing)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def out_of_range(self, partition: TopicPartition) -> None:
        """The fetcher cannot go on there."""
        if not self._closing:
            self._loop.post(lambda: self._owned.stray(partition))

    # CoordinationListener

    def session_changed(self, session: SessionState) -> None:
        """Silence stops delivery at once (D10); the rest is done by the thread."""
        if session is not SessionState.CONNECTED:
            self._parts.delivery.change_lease(lambda lease: lease.suspend())
        self._loop.post(self._link_changed)

    def view_changed(self) -> None:
        """A watch fired."""
        self._loop.post(self._group_watch.outdate)

    def owner_changed(self, partition: TopicPartition) -> None:
        """A node came free, or one of mine was deleted by somebody else (D9 in old members)."""
        self._loop.post(lambda: self._verify(partition))

    # MembershipListener

    def assigned(self, partitions: frozenset[TopicPartition]) -> None:
        """A new generation, which proves the membership as of now."""
        now = time.monotonic()
        self._loop.post(lambda: self._adopt(partitions, now))

    def revoked(self, kept: frozenset[TopicPartition] = frozenset()) -> threading.Event:
        """Delivery of all stops at once, unless something is kept; the event says that the rest is released
        (D3)."""
        if not kept:
            self._parts.delivery.change_lease(lambda lease: lease.lose_kafka(time.monotonic()))
        released = threading.Event()

        def give_back() -> None:
            self._group_watch.adopt(kept or None)
            self._waiting.append(released)

        self._loop.post(give_back)
        return released

    def lost(self) -> None:
        """Stop at once; no Kafka commit will be accepted."""
        self._parts.delivery.change_lease(lambda lease: lease.lose_kafka(time.monotonic()))
        self._loop.post(self._group_watch.evict)

    # -- events, on the thread -------------------------------------------------------------------

    def _begin_closing(self) -> None:
        self._closing = True

    def _link_changed(self) -> None:
        self._dirty = True
        self._group_watch.outdate()
        self._loop.plan("proof", None)

    def _verify(self, partition: TopicPartition) -> None:
        self._owned.unblock(partition)
        if partition in self._owned.threads():
            self._dirty = True

    def _adopt(self, partitions: frozenset[TopicPartition], since: float) -> None:
        """Unless something of a former generation is still to be given up: then a commit proves it."""
        membership = self._parts.membership
        former = self._group_watch.evicted or not self.held() <= partitions
        if membership is not None and not (former and self.mode is Mode.KAFKA):
            self._parts.delivery.change_lease(lambda lease: lease.prove_kafka(since, membership.session_s))
        self._group_watch.adopt(partitions)

    # -- the loop --------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._closing:
                self._loop.receive(self._sleep_s())
                self._attempt()
        except Exception:  # noqa: BLE001 (logged; what is left to do is done all the same)
            _LOG.exception(
                "%s: failed, and leaves the group: poll raises from now on", self._member.consumer_id
            )
        finally:
            self._closing = True
            self._leave()

    def _sleep_s(self) -> float:
        """Until the next timer; the retry's alone after a failure, none while not connected."""
        retry = self._loop.left("retry")
        if retry is not None:
            return retry
        if self._parts.coordination.session_id() is None:
            return _IDLE_S
        return 0.0 if self._waiting else self._loop.idle(_IDLE_S)

    def _attempt(self) -> None:
        """One pass. It acknowledges the revocations its decision knew of, once nothing of them is held."""
        if self._closing:
            return
        known, done, cause = list(self._waiting), False, None
        try:
            done = self._pass()
            self._loop.plan("retry", None)
            self._refused = ()
        except GroupshiftError as error:
            # What time may heal is a line of the log, what only a person can is an alarm while it lasts.
            if isinstance(error, Rejected):
                self._refused, cause = (str(error),), error.__cause__
            else:
                self._refused = ()
                _LOG.info("%s: %s", self._member.consumer_id, error)
            self._dirty = True
            self._loop.plan("retry", _RETRY_S if self._registration.registered else _IDLE_S)
        for alarm in self.alarms:
            if alarm not in self._logged:
                why = cause if alarm in self._refused else None
                _LOG.error("%s: %s", self._member.consumer_id, alarm, exc_info=why)
        self._logged = self.alarms
        if done or self.mode is not Mode.KAFKA:
            self._acknowledge(known)

    def _acknowledge(self, revocations: Collection[threading.Event]) -> None:
        for released in revocations:
            released.set()
        self._waiting = [each for each in self._waiting if not each.is_set()]

    def _pass(self) -> bool:
        """False when there is no session to act in."""
        session = self._parts.coordination.session_id()
        if session is None:
            return False
        if session != self._registration.session:
            self._begin_session(session)
        view = self._group_watch.view
        if self._registration.register(self, *((self.mode, view.mode) if view is not None else (None, None))):
            self._group_watch.outdate()
        self._registration.prove()
        if self._dirty:
            self._owned.resync()
            self._dirty = False
        if self._loop.every("refresh", _REFRESH_S):
            self._group_watch.outdate()
            self._owned.unblock()
        try:
            self._group_watch.observe()
            self._carry_out(self._group_watch.decide(self.mode, self._owned.threads()))
        finally:
            self._loop.plan("lookups", self._owned.lookup_in())
            self._commit_when_due()  # what is held goes on, whatever else could not be done (O3, F5)
        self._nudge.look(self._group_watch.view, self.mode)
        return True

    def _begin_session(self, session: int) -> None:
        """Forget the former session's nodes; save the progress they stood for if nobody went on (O9)."""
        self._unsaved |= self._owned.abandon()
        if self._unsaved:
            self._parts.coordination.leave_offsets(self._unsaved)
            self._unsaved = {}
        self._registration.begin(session)
        self._group_watch.view = None  # no watch of it stands

    def _commit_when_due(self) -> None:
        """Auto commit; in Kafka mode also the proofs that the lease needs (F5): a third of the Kafka session
        apart, and soon while the membership is unproven although something is held."""
        policy, membership = self._policy, self._parts.membership
        every_s = policy.commit_every_s if policy.auto_commit else _NEVER_SOONER_THAN_S
        proving = self.mode is Mode.KAFKA and membership is not None
        if proving and membership is not None:
            unproven = self._parts.delivery.lease.kafka_until <= time.monotonic()
            soon = unproven and bool(self.held())
            every_s = _UNPROVEN_S if soon else min(every_s, membership.session_s / 3)
            self._loop.hasten("commit", every_s)
        self._loop.begin("commit", every_s)
        if self._loop.every("commit", every_s) and (proving or policy.auto_commit):
            self._owned.commit(self.mode or Mode.ZOOKEEPER)

    # -- acting ---------------------------------------------------------------------------------

    def _carry_out(self, decision: Decision) -> None:
        """One pass. Raises `Transient` when something has to be repeated."""
        self._alarms = (*decision.alarms, *self._contention(decision.mode))
        if decision.register:
            self._registration.registered = False
            self._group_watch.outdate()
            raise Transient("the own registration is gone; registering again")
        self._parts.counters.differ(different=bool(decision.release or decision.take))
        self._release(decision)
        self._follow(decision.mode)
        self._owned.take(decision.take)
        try:
            if self._listener.ready(decision.mode, self._group_watch):
                self._owned.start(decision.mode)
        finally:
            self._registration.publish(decision.mode, decision.node)
        if self._owned.delivering([each for each, _ in decision.take]):
            self._parts.counters.differ(different=False)
        self._group_watch.learn_clients(self.mode)

    def _release(self, decision: Decision) -> None:
        """Across a toggle, and after an eviction, the znode is the commit: the next owner raises Kafka's."""
        generation = self._group_watch.generation
        self._owned.drain(decision.release)
        settled = decision.mode is self.mode and not self._group_watch.evicted
        self._owned.release(decision.release, decision.mode if settled else Mode.ZOOKEEPER)
        if self._group_watch.generation != generation:
            raise Transient("the Kafka assignment changed during a hand-over: deciding again")
        if self._group_watch.forgive() and decision.mode is Mode.KAFKA:
            raise Transient("what was held before the membership was lost is given up: deciding again")

    def _follow(self, mode: Mode) -> None:
        """Before Kafka's word counts, prove the membership for what is kept (D8)."""
        if mode is self.mode:
            return
        if mode is Mode.KAFKA:
            try:
                self._owned.prove()
            except (Conflict, Transient) as error:
                _LOG.warning("%s: delivery waits for the Kafka group: %s", self._member.consumer_id, error)
        self._parts.delivery.change_lease(lambda lease: lease.follow(mode))
        _LOG.info("%s: %s mode", self._member.consumer_id, mode)
        self.mode = mode

    def _contention(self, mode: Mode) -> tuple[str, ...]:
        """What another member does not give up. In Kafka mode nobody computes: that one does not act."""
        contended, view = self._owned.contended(), self._group_watch.view
        if not contended or view is None:
            return ()
        look = "is that one stopped, or cut off from ZooKeeper?"
        if mode is Mode.ZOOKEEPER:
            look = scheme_advice(self._member, schemes_of_keepers(self._member, view, contended))
        return (f"{', '.join(map(str, contended))}: due to this member, but another one keeps them; {look}",)

    # -- leaving ---------------------------------------------------------------------------------

    def _leave(self) -> None:
        """Stop → commit → delete owners → leave Kafka → delete ids → close ZooKeeper.

        Giving up does the first three; a revocation that waits for them is told. A step that fails is logged
        and the next one is done: a member that hangs would keep its owner nodes (N5)."""
        parts = self._parts
        same = parts.coordination.session_id() == self._registration.session
        steps: list[Callable[[], object]] = [
            self._listener.stop,
            self._owned.give_up_all if same else self._owned.abandon,
            lambda: self._acknowledge(list(self._waiting)),
            parts.coordination.unregister,
            parts.coordination.close,
        ]
        if parts.membership is not None:
            steps.insert(-2, partial(parts.membership.close, _LEAVE_S))
        for step in steps:
            try:
                step()
            except GroupshiftError as error:
                _LOG.warning("while leaving: %s", error)
            except Exception:  # noqa: BLE001 (logged; what is left to do is done all the same)
                _LOG.exception("while leaving, which goes on")
        parts.delivery.close()
