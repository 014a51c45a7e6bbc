"""A member's link to the memory ZooKeeper, with all that networks do: silence, lost replies, late watches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from groupshift.domain.partitions import TopicPartition
from groupshift.domain.reconcile import CoordinationView
from groupshift.errors import Transient
from groupshift.ports.consumer import CoordinationListener, OffsetNode, OffsetWrite, SessionState
from groupshift_testing.coordination import MemoryCoordination
from properties import fence_time

SESSION_S = 6.0
NOTICE_S = 4.0
"""A client may notice a dead link only after two thirds of the session timeout (D10)."""


class Wire:
    """`groupshift.ports.consumer.Coordination` over `MemoryCoordination`, and the listener of that.

    Watches are one-shot and set by reads. ``late`` keeps their events back. ``lose`` drops the
    connection right after the server has carried out the next change: its outcome stays unknown.
    """

    def __init__(self, world: Any, name: str) -> None:
        self.world, self.name = world, name
        self.inner = MemoryCoordination(world.zookeeper, name)
        self._listener: CoordinationListener | None = None
        self._events: deque[Callable[[], None]] = deque()
        self._answers: deque[Callable[[], None]] = deque()
        self._view_watched = False
        self._owners_watched: set[TopicPartition] = set()
        self._cut_at: float | None = None
        self.suspended = self.late = self.lose = False
        self.session: int | None = None
        self.member: Any = None

    # -- the network -----------------------------------------------------------------------------

    @property
    def up(self) -> bool:
        """Whether packets get through."""
        return self._cut_at is None

    def cut(self) -> None:
        """No packet gets through any more."""
        if self._cut_at is None:
            self._cut_at = fence_time.MACHINE.now

    def heal(self) -> None:
        """They do again."""
        self._cut_at = None

    def turn(self) -> None:
        """The client's own thread: notices silence, comes back, hands on what has arrived."""
        if self._cut_at is not None and fence_time.MACHINE.now - self._cut_at >= NOTICE_S:
            self.suspend()
        gone = self.session not in self.world.sessions
        if gone and not self.suspended:
            self.suspend()
        if self.suspended and self.up:
            self._reconnect(expired=gone)
        self.hear()

    def hear(self) -> None:
        """What has arrived is handed on."""
        while self._answers:
            self._answers.popleft()()
        while self._events and self.up and not self.late:
            self._events.popleft()()

    def suspend(self) -> None:
        """The client notices that the connection is gone; its watches are void."""
        if not self.suspended:
            self.suspended = True
            self._view_watched = False
            self._owners_watched.clear()
            self._events.clear()
            self.inner.suspend()

    def _reconnect(self, *, expired: bool) -> None:
        if expired and self._listener is not None:
            self._listener.session_changed(SessionState.LOST)
        self.suspended = False
        self.inner.reconnect(expired=expired)
        self.session = self.inner.session_id()
        self.world.opened(self.session)

    # -- listener of the memory server -----------------------------------------------------------

    def view_changed(self) -> None:
        """The view's watches fire once."""
        if self._view_watched:
            self._view_watched = False
            self._events.append(self.told().view_changed)

    def owner_changed(self, partition: TopicPartition) -> None:
        """An owner node's watch fires once."""
        if partition in self._owners_watched:
            self._owners_watched.discard(partition)
            self._events.append(lambda: self.told().owner_changed(partition))

    def session_changed(self, session: SessionState) -> None:
        """At once: kazoo calls its listeners on the connection's thread."""
        self.told().session_changed(session)

    def told(self) -> CoordinationListener:
        """Whom to tell."""
        assert self._listener is not None
        return self._listener

    # -- the port --------------------------------------------------------------------------------

    @property
    def session_s(self) -> float:
        """Seconds."""
        return SESSION_S

    def start(self, listener: CoordinationListener, timeout: float) -> None:
        """Open the first session."""
        self._listener = listener
        self.inner.start(self, timeout)
        self.session = self.inner.session_id()
        self.world.opened(self.session)

    def session_id(self) -> int | None:
        """None while known to be silent."""
        return None if self.suspended else self.inner.session_id()

    def ask(self) -> None:
        """A request: goes out when the network lets it, or fails when the silence is noticed."""
        fence_time.MACHINE.point()
        fence_time.MACHINE.wait(lambda: self.suspended or self.up, None)
        if self.suspended:
            raise Transient("the link is silent")
        if self.session not in self.world.sessions:
            self.suspend()
            raise Transient("the session has expired")

    def answer(self) -> None:
        """The reply to a change, unless it is lost."""
        if self.lose:
            self.lose = False
            self.suspend()
            raise Transient("the connection was lost before the reply")

    def register(self, registration: bytes, migration: bytes | None) -> None:
        """One transaction."""
        self.ask()
        self.inner.register(registration, migration)
        if migration is not None:
            self.world.judge.published(self.name, migration)
        self.answer()

    def publish(self, migration: bytes) -> None:
        """The mode in effect."""
        self.ask()
        self.inner.publish(migration)
        self.world.judge.published(self.name, migration)
        self.answer()

    def unregister(self) -> None:
        """One transaction."""
        self.ask()
        self.inner.unregister()
        self.answer()

    def observe(self, known: CoordinationView | None, topics: Sequence[str]) -> CoordinationView:
        """One view, with its watches."""
        self.ask()
        self._view_watched = True
        return self.inner.observe(known, topics)

    def claim(self, wanted: Mapping[TopicPartition, str]) -> Mapping[TopicPartition, OffsetNode | None]:
        """Node by node: others come in between."""
        result: dict[TopicPartition, OffsetNode | None] = {}
        for each, thread in wanted.items():
            self.ask()
            self._owners_watched.add(each)
            result |= self.inner.claim({each: thread})
            if result[each] is not None:
                self.world.judge.restored(each, self.name)
            self.answer()
        return result

    def release(self, writes: Mapping[TopicPartition, OffsetWrite | None]) -> None:
        """One transaction."""
        self.ask()
        self.inner.release(writes)
        self._judge({each: write for each, write in writes.items() if write is not None})
        self.answer()

    def write_offsets(
        self, writes: Mapping[TopicPartition, OffsetWrite]
    ) -> Mapping[TopicPartition, OffsetNode | None]:
        """Version-checked."""
        self.ask()
        result = self.inner.write_offsets(writes)
        self._judge(writes)
        self.answer()
        return result

    def offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, OffsetNode]:
        """Read."""
        self.ask()
        return self.inner.offsets(partitions)

    def leave_offsets(self, writes: Mapping[TopicPartition, OffsetWrite]) -> None:
        """Where nobody has written since."""
        self.ask()
        self.inner.leave_offsets(writes)
        self._judge(writes)
        self.answer()

    def resync(self, held: Mapping[TopicPartition, str]) -> frozenset[TopicPartition]:
        """What is mine."""
        self.ask()
        mine = self.inner.resync(held)
        self._owners_watched.update(held)
        self.answer()
        return mine

    def unowned(self, partitions: Sequence[TopicPartition]) -> frozenset[TopicPartition]:
        """Nobody's."""
        self.ask()
        return self.inner.unowned(partitions)

    def wake(self) -> None:
        """F9: every old member rebalances."""
        self.ask()
        self.world.wake()
        self.answer()

    def prove(self, answered: Callable[[float], None]) -> None:
        """The answer comes later, with the client's next turn; it counts from now."""
        sent, session = fence_time.MACHINE.now, self.session_id()
        if self.up and session is not None and session in self.world.sessions:
            registered = self.world.zookeeper.ids.get(self.name, (None, b""))[0] == session
            if registered:
                self._answers.append(lambda: answered(sent) if session == self.session_id() else None)

    def close(self) -> None:
        """End the session, or leave that to the server."""
        if self.up and not self.suspended:
            self.world.end_session(self.session)
        if self.inner in self.world.zookeeper.links:
            self.world.zookeeper.links.remove(self.inner)
        self.session = None

    def _judge(self, writes: Mapping[TopicPartition, OffsetWrite]) -> None:
        for each in writes:
            value = self.world.zookeeper.offsets.get(each, OffsetNode()).value
            if value is not None:
                self.world.judge.committed(each, value)
