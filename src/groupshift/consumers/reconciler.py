"""The one thread that owns a member's coordination state (F2): it observes, decides, acts.

ZooKeeper watches and Kafka callbacks only post to it. Each pass works by difference on one
consistent view; whatever could not be done is done by a later pass, never given up.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future

from groupshift.consumers.agenda import Agenda
from groupshift.consumers.departure import leave
from groupshift.consumers.holdings import Holdings, Parts, Policy
from groupshift.consumers.identity import Identity
from groupshift.domain.coordination import Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.reconcile import CoordinationView, Decision, Situation, decide
from groupshift.errors import Conflict, GroupshiftError, Transient
from groupshift.ports.coordination import OffsetWrite, Session

_LOG = logging.getLogger(__name__)
_RETRY_S = 0.2
_DRAIN_TURN_S = 0.005
_IDLE_S = 1.0
_REFRESH_S = 30.0
_CLIENTS_S = 1.0


class Reconciler:
    """Drives one member. Everything without an underscore may be called from any thread."""

    def __init__(self, identity: Identity, parts: Parts, policy: Policy, commit_every_s: float) -> None:
        self._identity, self._member = identity, identity.member
        self._parts, self._policy = parts, policy
        self._holdings = Holdings(parts, policy)
        self._commit_every_s = commit_every_s
        self._agenda = Agenda()
        self._thread = threading.Thread(
            target=self._run, name=f"groupshift-reconciler-{self._member.consumer_id}", daemon=True
        )
        self._session: int | None = None
        self._registered = self._joined = self._closing = self._evicted = False
        self._dirty = self._stale = True
        self._view: CoordinationView | None = None
        self._acting: Mode | None = None
        self._assignment: frozenset[TopicPartition] | None = None
        self._clients: frozenset[str] | None = None
        self._published: tuple[Mode, str] | None = None
        self._unsaved: dict[TopicPartition, OffsetWrite] = {}
        self._waiting: list[threading.Event] = []
        self.alarms: tuple[str, ...] = ()

    # -- called from elsewhere -------------------------------------------------------------------

    def start(self) -> None:
        """Begin; the link to ZooKeeper must be up."""
        self._thread.start()

    @property
    def mode(self) -> Mode | None:
        """The mode in effect here; None before the first decision."""
        return self._acting

    def held(self) -> frozenset[TopicPartition]:
        """The partitions whose owner node this member holds."""
        return frozenset(self._holdings.threads())

    def commit(self, offsets: Mapping[TopicPartition, int]) -> Future[None]:
        """Commit positions in the order of the mode; the future carries the error."""
        done: Future[None] = Future()

        def request() -> None:
            try:
                self._holdings.commit(self._acting or Mode.ZOOKEEPER, offsets)
            except GroupshiftError as error:
                _LOG.info("%s: commit: %s", self._member.consumer_id, error)
                done.set_exception(error)
            else:
                done.set_result(None)

        self._agenda.post(request)
        return done

    def close(self, timeout: float) -> bool:
        """Leave in the order of L3; True when the thread has ended within ``timeout`` seconds."""
        self._agenda.post(self._begin_closing)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def out_of_range(self, partition: TopicPartition) -> None:
        """The fetcher cannot go on there."""
        if not self._closing:
            self._agenda.post(lambda: self._reset(partition))

    # CoordinationListener

    def session_changed(self, session: Session) -> None:
        """Silence stops delivery at once (D10); the rest is done by the thread."""
        if session is not Session.CONNECTED:
            self._parts.delivery.change_lease(lambda lease: lease.suspend())
        self._agenda.post(self._link_changed)

    def view_changed(self) -> None:
        """A watch fired."""
        self._agenda.post(self._outdate)

    def owner_changed(self, partition: TopicPartition) -> None:
        """A node came free, or one of mine was deleted by somebody else (D9 in old members)."""
        self._agenda.post(lambda: self._verify(partition))

    # MembershipListener

    def assigned(self, partitions: frozenset[TopicPartition]) -> None:
        """A new generation proves the membership as of now."""
        membership, now = self._parts.membership, time.monotonic()
        if membership is not None:
            self._parts.delivery.change_lease(lambda lease: lease.prove_kafka(now, membership.session_s))
        self._agenda.post(lambda: self._adopt(partitions))

    def revoked(self) -> threading.Event:
        """Delivery stops at once; the event says that everything is released (D3)."""
        self._parts.delivery.change_lease(lambda lease: lease.lose_kafka())
        released = threading.Event()
        self._agenda.post(lambda: self._give_back(released))
        return released

    def lost(self) -> None:
        """Stop at once; no Kafka commit will be accepted."""
        self._parts.delivery.change_lease(lambda lease: lease.lose_kafka())
        self._agenda.post(self._evict)

    # -- events, on the thread -------------------------------------------------------------------

    def _begin_closing(self) -> None:
        self._closing = True

    def _link_changed(self) -> None:
        self._dirty = self._stale = True
        self._agenda.cancel("proof")

    def _outdate(self) -> None:
        self._stale = True

    def _verify(self, partition: TopicPartition) -> None:
        self._holdings.unblock(partition)
        if partition in self._holdings.threads():
            self._dirty = True

    def _reset(self, partition: TopicPartition | None = None) -> None:
        try:
            self._holdings.reset(partition)
        except Transient as error:
            _LOG.warning("%s: %s", self._member.consumer_id, error)
            threading.Timer(_IDLE_S, self._agenda.post, [self._reset]).start()

    def _adopt(self, assignment: frozenset[TopicPartition] | None) -> None:
        self._assignment, self._clients, self._evicted = assignment, None, False

    def _evict(self) -> None:
        self._adopt(None)
        self._evicted = True

    def _give_back(self, released: threading.Event) -> None:
        self._adopt(None)
        self._waiting.append(released)

    # -- the loop --------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._closing:
                self._agenda.receive(self._sleep_s())
                self._attempt()
        finally:
            self._closing = True
            self._leave()

    def _sleep_s(self) -> float:
        """Until the next timer; the retry's alone after a failure, none while not connected."""
        retry = self._agenda.left("retry")
        if retry is not None:
            return retry
        if self._parts.coordination.session_id() is None:
            return _IDLE_S
        return 0.0 if self._waiting else self._agenda.idle(_IDLE_S)

    def _attempt(self) -> None:
        """One pass. It acknowledges the revocations its decision knew of, once nothing of them is held."""
        if self._closing:
            return
        known, done = list(self._waiting), False
        try:
            done = self._pass()
            self._agenda.cancel("retry")
        except GroupshiftError as error:
            _LOG.info("%s: %s", self._member.consumer_id, error)
            self._dirty = True
            self._agenda.cancel("retry")
            self._agenda.begin("retry", _RETRY_S if self._registered else _IDLE_S)
        if done or self._acting is not Mode.KAFKA:
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
        if session != self._session:
            self._begin_session(session)
        self._register()
        self._prove_session()
        if self._dirty:
            self._holdings.resync()
            self._dirty = False
        self._observe()
        try:
            self._apply(self._decide())
        finally:
            self._commit_when_due()  # what is held goes on, whatever else could not be done (O3, F5)
        return True

    # -- session and registration ----------------------------------------------------------------

    def _begin_session(self, session: int) -> None:
        """Forget the former session's nodes; save the progress they stood for if nobody went on (O9)."""
        self._unsaved |= self._holdings.abandon()
        if self._unsaved:
            self._parts.coordination.leave_offsets(self._unsaved)
            self._unsaved = {}
        self._session, self._registered, self._published, self._view = session, False, None, None

    def _register(self) -> None:
        if self._registered:
            return
        migration = self._awareness() if self._member.aware else None
        self._parts.coordination.register(self._identity.written(), migration)
        self._registered, self._stale = True, True
        if self._parts.membership is not None and not self._joined:
            self._joined = True
            self._parts.membership.start(self)

    def _prove_session(self) -> None:
        """Ask three times a session whether it lives; the answer extends the lease (F5)."""
        session_s = self._parts.coordination.session_s
        if self._agenda.every("proof", session_s / 3):
            self._parts.coordination.prove(
                lambda sent: self._parts.delivery.change_lease(
                    lambda lease: lease.prove_zookeeper(sent, session_s)
                )
            )

    def _awareness(self) -> bytes:
        known = self._view is not None
        return self._identity.awareness(
            self._acting if known else None, self._view.mode if self._view else None
        )

    # -- observe, decide, act --------------------------------------------------------------------

    def _observe(self) -> None:
        if self._agenda.every("refresh", _REFRESH_S):
            self._stale = True
            self._holdings.unblock()
        if self._stale or self._view is None:
            self._stale = False
            try:
                self._view = self._parts.coordination.observe(self._view, sorted(self._member.subscription))
            except GroupshiftError:
                self._stale = True
                raise

    def _decide(self) -> Decision:
        decision = decide(self._situation())
        if decision.ask_clients and self._parts.membership is not None:
            self._clients = self._parts.membership.clients(_CLIENTS_S)
            decision = decide(self._situation())
        return decision

    def _learn_clients(self) -> None:
        """Know who is in the Kafka group before a toggle needs it; they change with the generation only."""
        membership, needed = self._parts.membership, self._clients is None and self._assignment is not None
        if membership is None or not needed or self._acting is not Mode.KAFKA:
            self._agenda.cancel("clients")  # a due timer that nobody asks for would keep the loop awake
            return
        if self._agenda.every("clients", _IDLE_S):
            try:
                self._clients = membership.clients(_CLIENTS_S)
            except Transient as error:
                _LOG.info("%s: %s", self._member.consumer_id, error)

    def _situation(self) -> Situation:
        assert self._view is not None  # noqa: S101 (observed before)
        return Situation(
            member=self._member,
            view=self._view,
            acting=self._acting,
            held=self._holdings.threads(),
            kafka_assignment=self._assignment,
            kafka_clients=self._clients,
        )

    def _apply(self, decision: Decision) -> None:
        self._report(decision.alarms)
        if decision.register:
            self._registered, self._stale = False, True
            raise Transient("the own registration is gone; registering again")
        self._release(decision)
        self._follow(decision.mode)
        self._holdings.take(decision.take)
        try:
            self._holdings.start(decision.mode)
        finally:
            self._publish(decision)
        self._learn_clients()

    def _release(self, decision: Decision) -> None:
        """Across a toggle, and after an eviction, the znode is the commit: the next owner raises Kafka's."""
        assignment = self._assignment
        self._drain(decision.release)
        settled = decision.mode is self._acting and not self._evicted
        self._holdings.release(decision.release, decision.mode if settled else Mode.ZOOKEEPER)
        if self._assignment != assignment:
            raise Transient("the Kafka assignment changed during a hand-over: deciding again")

    def _drain(self, partitions: Collection[TopicPartition]) -> None:
        """Let readers finish what they were given, within the bound; their commits are still carried out."""
        self._parts.delivery.cut_off(partitions)
        deadline = time.monotonic() + self._policy.drain_s
        while self._parts.delivery.busy(partitions) and time.monotonic() < deadline:
            self._agenda.receive(_DRAIN_TURN_S)

    def _follow(self, mode: Mode) -> None:
        """Before Kafka's word counts, prove the membership for what is kept (D8)."""
        if mode is self._acting:
            return
        if mode is Mode.KAFKA:
            try:
                self._holdings.prove()
            except (Conflict, Transient) as error:
                _LOG.warning("%s: delivery waits for the Kafka group: %s", self._member.consumer_id, error)
        self._parts.delivery.change_lease(lambda lease: lease.follow(mode))
        _LOG.info("%s: %s mode", self._member.consumer_id, mode)
        self._acting = mode

    def _publish(self, decision: Decision) -> None:
        """After it is in effect (F6, F7): which mode, because of which write of the mode node."""
        wanted = (decision.mode, decision.node.identity)
        if self._member.aware and self._published != wanted:
            self._parts.coordination.publish(self._awareness())
            self._published = wanted

    def _report(self, alarms: tuple[str, ...]) -> None:
        for alarm in alarms:
            if alarm not in self.alarms:
                _LOG.error("%s: %s", self._member.consumer_id, alarm)
        self.alarms = alarms

    def _commit_when_due(self) -> None:
        """Auto commit; in Kafka mode also the lease, a third of the Kafka session apart (F5)."""
        membership = self._parts.membership
        in_kafka = self._acting is Mode.KAFKA and membership is not None
        every_s = self._commit_every_s if self._policy.auto_commit else _REFRESH_S
        if in_kafka and membership is not None:
            unproven = self._parts.delivery.lease.kafka_until <= time.monotonic()
            every_s = min(every_s, membership.session_s / 3)
            every_s = _RETRY_S if unproven and self._holdings.threads() else every_s
            self._agenda.hasten("commit", every_s)
        self._agenda.begin("commit", every_s)
        if self._agenda.every("commit", every_s) and (in_kafka or self._policy.auto_commit):
            self._holdings.commit(self._acting or Mode.ZOOKEEPER)

    # -- leaving ---------------------------------------------------------------------------------

    def _leave(self) -> None:
        same = self._parts.coordination.session_id() == self._session
        leave(
            self._parts,
            release=self._release_all if same else self._holdings.abandon,
            released=lambda: self._acknowledge(list(self._waiting)),
        )

    def _release_all(self) -> None:
        self._drain(list(self._holdings.threads()))
        if self._policy.auto_commit:
            try:
                self._holdings.settle()
            except (Transient, Conflict) as error:
                _LOG.warning("%s: last commit to Kafka: %s", self._member.consumer_id, error)
        self._holdings.release(list(self._holdings.threads()), Mode.ZOOKEEPER)
