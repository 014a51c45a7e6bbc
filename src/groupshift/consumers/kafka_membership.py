"""`groupshift.ports.consumer.Membership` on confluent-kafka: the embedded Kafka consumer (EKC).

It never fetches: ``assign([])`` in the callback (with a cooperative assignor: assigned and paused) keeps
the membership and leaves the records to the fetcher; ``unassign()`` at the end of a revocation lets the
rebalance go on (docs/reference/zookeeper-coordination.md §8.1, checked). It has a thread of its own and takes
no lock of the reconciler (L1). Commits are made on that thread too, in order and also while a revocation is
under way (O1); the reconciler waits for them within a bound, so that a coordinator that does not answer
cannot hold a hand-over (L2).

What the group has committed, and who is in it, goes over other connections. A broker answers the requests of
one connection in order, and a JoinGroup only when the rebalance is over: a request on the member's own
connection waits for it (observed: 1 to 3 s at every join). Members come from the older listing call: the
admin client's DescribeConsumerGroups aborts the process (an assertion in librdkafka 2.16.0) when it times
out after the process was paused.
"""

from __future__ import annotations

import logging
import threading
import time
import warnings
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

from groupshift.consumers.config import connecting
from groupshift.consumers.fetcher import look_at_topics
from groupshift.consumers.metrics import Counters
from groupshift.consumers.threads import Calls, daemon
from groupshift.domain.group_protocol import KafkaGroup, KafkaMember
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Conflict, Transient
from groupshift.log.decode import parse_assignment
from groupshift.ports.consumer import MembershipListener

_LOG = logging.getLogger(__name__)
_TURN_S = 0.02
_AGAIN_S = 1.0
_REVOKE_S = 5.0
_REFRESHES_S = (0.1, 0.5, 2.0)
_METADATA_S = 0.5
_WARM_S = 1.0
_LEFT_S = 0.1


class KafkaMembership:
    """Member of group ``properties['group.id']``, subscribed to topics by name.

    ``properties`` are librdkafka's; ``client.id`` is the member's consumer id, by which others match
    this membership with the registration in ZooKeeper. ``session_s`` is the session timeout in seconds.
    """

    def __init__(self, properties: Mapping[str, Any], counters: Counters) -> None:
        self._counters = counters
        self.session_s = float(properties["session.timeout.ms"]) / 1000
        self._group, self._client_id = str(properties["group.id"]), str(properties["client.id"])
        self._topics: list[str] = []
        self._refreshes: list[float] = []
        self._incremental = "cooperative" in str(properties.get("partition.assignment.strategy", ""))
        self._commits = KafkaCommits()
        self._consumer = Consumer({**properties, "on_commit": self._commits.on_commit})
        # Clients that never join read what the group has committed, and who is in it.
        self._connecting = connecting(properties)
        self._reader = Consumer({**self._connecting, "group.id": self._group, "enable.auto.commit": False})
        self._reading = threading.Lock()
        self._admin: AdminClient | None = None
        self._assigned: frozenset[TopicPartition] = frozenset()
        self._calls = Calls()
        self._later: Future[None] | None = None
        self._thread = daemon(f"member-{self._client_id}", self._run)
        self._farewell = daemon(f"farewell-{self._client_id}", self._consumer.close)
        self._stopping = False
        self._joined = threading.Event()
        self._listener: MembershipListener

    # -- the thread ------------------------------------------------------------------------------

    def warm(self, topics: Collection[str]) -> None:
        """Find the coordinator, if it answers; before `start`."""
        for topic in sorted(topics)[:1]:
            try:
                self.committed([TopicPartition(topic, 0)], _WARM_S)
            except Transient as error:
                _LOG.info("%s", error)

    def start(self, listener: MembershipListener) -> None:
        """Poll on the own thread."""
        self._listener = listener
        self._thread.start()

    def subscribe(self, topics: Collection[str]) -> None:
        """Names only: both coordination systems see one source of topics (L5, L6)."""
        self._calls.hand(lambda: self._subscribe(sorted(topics)))

    def _subscribe(self, topics: list[str]) -> None:
        if topics != self._topics:
            self._topics = topics
            if topics:
                self._consumer.subscribe(
                    topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
                )
            else:
                self._consumer.unsubscribe()
        self._refreshes = [time.monotonic() + each for each in _REFRESHES_S] if topics else []

    def _run(self) -> None:
        while not self._stopping:
            self._calls.serve(_TURN_S)
            # A full answer makes the client compare its subscription with what there is, and rejoin; the
            # brokers hear of a change a little later than ZooKeeper's watchers.
            while self._refreshes and self._refreshes[0] <= time.monotonic():
                del self._refreshes[0]
                look_at_topics(self._consumer, _METADATA_S)
            try:
                message = self._consumer.poll(0)
            except Exception:  # noqa: BLE001 (what a callback raises comes out of `poll`)
                _LOG.exception("group %s: a rebalance failed; this member leaves and rejoins", self._group)
                self._join_again()
                continue
            if message is not None and message.error() is not None:
                _LOG.warning("group %s: %s", self._group, message.error())
        self._farewell.start()

    def _join_again(self) -> None:
        """Nobody polled for would keep the partitions until ``max.poll.interval.ms``, and deliver nothing."""
        self._joined.clear()
        self._assigned, topics, self._topics = frozenset(), self._topics, []
        self._listener.lost()
        with suppress(KafkaException):
            self._consumer.unsubscribe()
        self._calls.serve(_AGAIN_S)
        self._subscribe(topics)

    def _on_assign(self, consumer: Consumer, partitions: list[KafkaPartition]) -> None:
        assigned = _where(partitions)
        if self._incremental:
            # Paused, and at the log end in case a request slips out: only so does the client tell the group
            # what it keeps.
            held = [KafkaPartition(*each, OFFSET_END) for each in assigned]
            consumer.incremental_assign(held)
            consumer.pause(held)
            assigned |= self._assigned
        else:
            consumer.assign([])
        self._assigned = assigned
        self._joined.set()
        self._listener.assigned(assigned)

    def _on_revoke(self, consumer: Consumer, partitions: list[KafkaPartition]) -> None:
        """Serve the listener's commits until it has let go: the generation is still valid (D3)."""
        kept = self._assigned - _where(partitions) if self._incremental else frozenset()
        if not self._stopping:
            self._commits.blocking, released = True, self._listener.revoked(kept)
            deadline = time.monotonic() + _REVOKE_S
            while not released.is_set() and time.monotonic() < deadline:
                self._calls.serve(_TURN_S)
            self._commits.blocking = False
            if not released.is_set():
                _LOG.warning("group %s: revocation not finished in %g s", self._group, _REVOKE_S)
                self._listener.lost()  # what is still held is committed under no later generation
        self._joined.clear()
        self._assigned = kept
        self._unassign(consumer, partitions)

    def _on_lost(self, consumer: Consumer, partitions: list[KafkaPartition]) -> None:
        self._joined.clear()
        self._assigned = frozenset()
        if not self._stopping:
            self._listener.lost()
        self._unassign(consumer, partitions)

    def _unassign(self, consumer: Consumer, partitions: list[KafkaPartition]) -> None:
        if self._incremental:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()

    # -- offsets ---------------------------------------------------------------------------------

    def joined(self, timeout: float) -> bool:
        """Between assignment and revocation."""
        return self._joined.wait(timeout)

    def commit(self, offsets: Mapping[TopicPartition, int], timeout: float) -> None:
        """Synchronous, on the own thread.

        Raises `Conflict` when the group no longer knows this member, `Transient` when it does not answer in
        ``timeout`` seconds or is rebalancing; the outcome is not known then."""
        if offsets:
            self._calls.ask(lambda: self._commit(offsets), timeout, "commit to Kafka")

    def commit_later(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Skipped while an earlier one is still under way: the next call carries newer offsets."""

        def attempt() -> None:
            try:
                self._commit(offsets)
            except (Transient, Conflict) as error:
                _LOG.info("group %s: commit to Kafka postponed: %s", self._group, error)

        if offsets and self._joined.is_set() and (self._later is None or self._later.done()):
            self._later = self._calls.hand(attempt)

    def _commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Never while joining: it would wait for the answer to JoinGroup on the same connection, and with it
        the thread on which the join's callbacks run, for a session timeout (observed: 10 s, all alike)."""
        if not self._joined.is_set():
            raise Transient("the Kafka group is rebalancing")
        self._commits.commit(self._consumer, offsets)
        self._counters.kafka_commits += len(offsets)

    def committed(
        self, partitions: Collection[TopicPartition], timeout: float
    ) -> Mapping[TopicPartition, int | None]:
        """One OffsetFetch for all, from any thread; None where there is none. Raises `Transient` without an
        answer in ``timeout`` seconds, and once closed."""
        places = [KafkaPartition(*each) for each in partitions]
        if not self._reading.acquire(timeout=timeout):
            raise Transient(f"committed offsets: no answer within {timeout:g} s")
        try:
            answer = self._reader.committed(places, timeout=timeout)
        except (KafkaException, RuntimeError) as error:
            raise Transient(f"the group coordinator did not give the committed offsets: {error}") from error
        finally:
            self._reading.release()
        if failed := next((each.error for each in answer if each.error is not None), None):
            raise Transient(f"the group coordinator did not give the committed offsets: {failed}")
        return {
            TopicPartition(each.topic, each.partition): each.offset if each.offset >= 0 else None
            for each in answer
        }

    # -- the group -------------------------------------------------------------------------------

    def describe(self, timeout: float) -> KafkaGroup:
        """An answer without this very member is no answer: absence proves nothing. Raises `Transient`."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                listed = self._listed(timeout)
        except KafkaException as error:
            raise Transient(f"the Kafka group {self._group} could not be listed: {error}") from error
        for group in listed:
            if any(each.client_id == self._client_id for each in group.members):
                stable = group.state == "Stable"  # only a stable one has assignments
                members = [
                    KafkaMember(
                        member_id=each.id,
                        client_id=each.client_id,
                        host=each.client_host,
                        assigned=parse_assignment(each.assignment or b"") if stable else frozenset(),
                    )
                    for each in group.members
                ]
                return KafkaGroup(state=group.state, protocol=group.protocol, members=tuple(members))
        raise Transient(f"the Kafka group {self._group} is listed without this member: not a full answer")

    def _listed(self, timeout: float) -> list[Any]:
        """A broker that has just started may say that there is no broker. The client then drops the one it
        knows and asks nobody any more (observed: librdkafka 2.16.1, two minutes and more), until it is asked
        for topics: it looks for brokers at the addresses it was given."""
        if self._admin is None:
            self._admin = AdminClient(self._connecting)
        deadline = time.monotonic() + timeout
        try:
            return list(self._admin.list_groups(self._group, timeout=timeout))
        except KafkaException:
            left = deadline - time.monotonic()
            if left <= _LEFT_S:
                raise
            self._admin.list_topics(timeout=left / 2)
            return list(self._admin.list_groups(self._group, timeout=left / 2))

    def close(self, timeout: float) -> None:
        """Leave the group; waits at most ``timeout`` seconds for the broker.

        The client ends on a thread of its own, which may be late: librdkafka (2.16.0) waits until every
        commit is answered, and repeats one that was under way when the coordinator's connection broke until
        a broker answers, without end (observed: for as long as the brokers were away). It takes no part any
        more meanwhile: no heartbeat, no listener."""
        self._stopping = True
        deadline = time.monotonic() + timeout
        if self._thread.ident is None:
            self._consumer.close()
        else:
            self._thread.join(timeout)
            if self._farewell.ident is not None:
                self._farewell.join(max(0.0, deadline - time.monotonic()))
            if self._thread.is_alive() or self._farewell.is_alive():
                _LOG.warning("group %s: Kafka does not answer; its client ends when it does", self._group)
        with self._reading:
            self._reader.close()
        self._admin = None


def _where(partitions: Collection[KafkaPartition]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(each.topic, each.partition) for each in partitions)


_ANSWER_S = 1.0
_COMMIT_TURN_S = 0.005
_LATE_S = 60.0
_FORGOTTEN = frozenset({KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION})

Asked = frozenset[tuple[str, int, int]]


class KafkaCommits:
    """``on_commit`` has to be the consumer's callback of that name.

    A synchronous commit without an answer keeps the thread for a session timeout, and with it the word that
    the membership is lost, or (with a cooperative assignor) the callbacks of a join. So a commit polls while
    it waits, except inside a revocation (`blocking`), where the generation is known to be valid and nothing
    may be polled."""

    def __init__(self) -> None:
        self.blocking = False
        self._awaited: tuple[Asked, Future[None]] = (frozenset(), Future())
        self._given_up: list[tuple[Asked, float]] = []

    def commit(self, consumer: Consumer, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit and wait. Raises `Conflict` when the group no longer knows the member, else `Transient`."""
        wanted = [KafkaPartition(*each, offset) for each, offset in offsets.items()]
        try:
            if not self.blocking:
                self._poll_until_done(consumer, wanted)
                return
            _check(None, consumer.commit(offsets=wanted, asynchronous=False) or ())
        except KafkaException as error:
            raise _family(error.args[0]) from error
        except RuntimeError as error:
            raise Transient(f"the Kafka membership is closed: {error}") from error

    def _poll_until_done(self, consumer: Consumer, wanted: list[KafkaPartition]) -> None:
        positions, answered = _asked(wanted), Future[None]()
        self._awaited = (positions, answered)
        consumer.commit(offsets=wanted, asynchronous=True)
        deadline = time.monotonic() + _ANSWER_S
        while not answered.done() and time.monotonic() < deadline:
            consumer.poll(_COMMIT_TURN_S)
        if not answered.done():
            self._given_up.append((positions, deadline + _LATE_S))
            raise Transient("commit to Kafka: no answer from the coordinator")
        answered.result()

    def on_commit(self, error: KafkaError | None, partitions: list[KafkaPartition]) -> None:
        """The answer to the commit that is waited for, or to one that was given up: that one came first if
        both ask for the same, and it proves the membership of an earlier moment only."""
        awaited, answered = self._awaited
        positions, now = _asked(partitions), time.monotonic()
        self._given_up = [each for each in self._given_up if each[1] > now]
        late = next((each for each in self._given_up if each[0] == positions), None)
        if late is not None:
            self._given_up.remove(late)
        elif not answered.done() and positions == awaited:
            try:
                _check(error, partitions)
                answered.set_result(None)
            except (Conflict, Transient) as refused:
                answered.set_exception(refused)


def _asked(partitions: list[KafkaPartition]) -> Asked:
    return frozenset((each.topic, each.partition, each.offset) for each in partitions)


def _check(error: KafkaError | None, partitions: Collection[KafkaPartition]) -> None:
    """Raise what the answer to a commit says is wrong: of all of it, or of a partition."""
    failed = error or next((each.error for each in partitions if each.error is not None), None)
    if failed is not None:
        raise _family(failed)


def _family(error: KafkaError) -> Conflict | Transient:
    if error.code() in _FORGOTTEN:
        return Conflict(f"the Kafka group no longer knows this member: {error}")
    return Transient(f"commit to Kafka failed: {error}")
