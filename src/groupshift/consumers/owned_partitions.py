"""The partitions that a member owns, and the order in which it takes, commits and releases them (F1, F8).

Only the reconciler's thread calls this. To take: create the owner node, read offsets, raise the znode,
fetch. To release: cut off delivery, stop fetching, let readers finish what they have, commit, delete the
owner node. `Lookups` asks for start positions that only the log knows, again with a growing pause.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from groupshift.consumers.group_state import Parts, Policy
from groupshift.consumers.threads import EventLoop
from groupshift.domain.assignment import stream_of
from groupshift.domain.modes import Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Conflict, Transient
from groupshift.ports.consumer import Fetch, OffsetNode, OffsetWrite, Reset

_LOG = logging.getLogger(__name__)
_COMMIT_S = 1.0
_COMMITTED_S = 1.0
_JOIN_S = 2.0
_CONTENDED_S = 20.0
_TURN_S = 0.005

Offsets = Mapping[TopicPartition, int]


@dataclass(slots=True)
class _Held:
    """An owner node of mine. ``kafka`` is what Kafka is known to hold; delivery began at ``first`` and
    ended at ``left`` (while it is given up)."""

    thread: str
    node: OffsetNode
    kafka: int | None = None
    started: bool = False
    left: int | None = None
    first: int | None = None

    def settled(self) -> int | None:
        """Where delivery ended, or the offset that was committed last, in either store."""
        if self.left is not None:
            return self.left
        known = [each for each in (self.node.value, self.kafka) if each is not None]
        return max(known, default=None)


class OwnedPartitions:
    """The owner nodes of this member and everything that hangs on them: delivery, fetching, commits.

    An owner node is created before a partition is fetched and deleted after its last commit, so two members
    never deliver one partition (F1). Offsets are the next ones to read, as in both stores."""

    def __init__(self, parts: Parts, policy: Policy, loop: EventLoop) -> None:
        self._parts, self._policy, self._loop = parts, policy, loop
        self._held: dict[TopicPartition, _Held] = {}
        self._blocked: set[TopicPartition] = set()
        self._refused: dict[TopicPartition, float] = {}
        self._astray: set[TopicPartition] = set()
        self._lookups, self._resets = (Lookups(parts.fetch, policy.reset) for _ in range(2))

    def threads(self) -> dict[TopicPartition, str]:
        """Partition → thread id of every owner node held."""
        return {each: held.thread for each, held in self._held.items()}

    # -- taking ----------------------------------------------------------------------------------

    def take(self, wanted: Iterable[tuple[TopicPartition, str]]) -> None:
        """Claim of ``wanted`` (partition, thread id) what is free; the rest is waited for by watch.

        What another member refuses to give up is remembered with the time, see `contended`. Raises
        `Transient`: what was created then is found by `resync`."""
        missing = {each: thread for each, thread in wanted if each not in self._held}
        self._refused = {each: since for each, since in self._refused.items() if each in missing}
        free = {each: thread for each, thread in missing.items() if each not in self._blocked}
        for each, node in (self._parts.coordination.claim(free) if free else {}).items():
            if node is None:
                self._blocked.add(each)
                self._refused.setdefault(each, time.monotonic())
            else:
                self._refused.pop(each, None)
                self._held[each] = _Held(free[each], node)

    def contended(self) -> list[TopicPartition]:
        """What another member has kept although it is due to this one, for longer than a hand-over takes."""
        now = time.monotonic()
        return sorted(each for each, since in self._refused.items() if now - since > _CONTENDED_S)

    def unblock(self, partition: TopicPartition | None = None) -> None:
        """An owner node has changed (None: any may have): try again."""
        self._blocked -= self._blocked if partition is None else {partition}

    def start(self, mode: Mode) -> None:
        """Start what is held but not yet delivered, as far as start positions are known; the others are
        asked for again when `lookup_in` says. Raises `Transient`: to be repeated."""
        self._astray &= {each for each, held in self._held.items() if held.started}
        for each, at in self._resets.ask(self._astray).items():
            _LOG.warning("%s: position out of range, going on at %d", each, at)
            self._parts.fetch.add({each: at}, self._parts.delivery.move(each, at))
            self._astray.discard(each)
        waiting = {each: held for each, held in self._held.items() if not held.started}
        if not waiting:
            return
        self._read_kafka(waiting, mode)
        settled = {each: held.settled() for each, held in waiting.items()}
        known = {each: at for each, at in settled.items() if at is not None}
        if mode is Mode.KAFKA:
            self._commit_to_kafka(known)
        else:
            self._kafka_later(known)
        self._write_nodes({each: at for each, at in known.items() if (waiting[each].node.value or -1) < at})
        self._begin({each: at for each, at in known.items() if each in self._held})
        self._begin(self._lookups.ask([each for each in waiting if each not in known]))

    def _begin(self, starts: Mapping[TopicPartition, int]) -> None:
        """Deliver from these positions: the application hears of them before the first record."""
        if not starts:
            return
        opened = {each: (stream_of(self._held[each].thread), at) for each, at in starts.items()}
        arm = self._parts.delivery.open(opened)
        self._parts.application.assigned(starts)
        self._parts.fetch.add(starts, arm)
        for each, at in starts.items():
            held = self._held[each]
            held.started, held.left, held.first = True, None, at

    def delivering(self, partitions: Collection[TopicPartition]) -> bool:
        """Whether all of these are held, and everything held is delivered."""
        return all(each in self._held for each in partitions) and all(
            held.started for held in self._held.values()
        )

    def stray(self, partition: TopicPartition) -> None:
        """The broker does not have the position (zookeeper-coordination.md §6.5)."""
        self._astray.add(partition)

    def lookup_in(self) -> float | None:
        """Seconds until `start` has to ask for a position again; None when all are known."""
        left = [each for each in (self._lookups.left(), self._resets.left()) if each is not None]
        return min(left, default=None)

    def _read_kafka(self, waiting: Mapping[TopicPartition, _Held], mode: Mode) -> None:
        """The higher of both stores (zookeeper-coordination.md §6.3); logs both when they differ (O7)."""
        if self._parts.membership is None:
            return
        try:
            stored = self._parts.membership.committed(list(waiting), _COMMITTED_S)
        except Transient:
            if mode is Mode.KAFKA or any(held.node.value is None for held in waiting.values()):
                raise
            _LOG.warning("starting from ZooKeeper's offsets alone: the Kafka coordinator does not answer")
            return
        for each, held in waiting.items():
            held.kafka = stored.get(each)
        apart = [
            f"{each}: {held.kafka} in Kafka, {held.node.value} in ZooKeeper"
            for each, held in sorted(waiting.items())
            if None not in (held.kafka, held.node.value) and held.kafka != held.node.value
        ]
        if apart:
            _LOG.info("starting at the higher of two committed offsets: %s", "; ".join(apart))

    # -- committing ------------------------------------------------------------------------------

    def commit(self, mode: Mode, offsets: Offsets | None = None) -> None:
        """Commit ``offsets``, by default what is due, in the order of the mode (F8).

        Raises `Conflict` when a partition of ``offsets`` is not held, `Transient` when a store is silent."""
        due = self._due() if offsets is None else offsets
        if strangers := [str(each) for each in due if each not in self._held]:
            raise Conflict(f"{', '.join(strangers)} moved to another member before the commit")
        if mode is Mode.KAFKA:
            self._commit_to_kafka(due)
            self._write_nodes(due)
        else:
            self._write_nodes(due)
            self._kafka_later(due)
            for each in due.keys() & self._held:
                self._held[each].kafka = None  # it may be lower now than what was read on taking

    def _due(self) -> dict[TopicPartition, int]:
        """What was delivered; without auto commit what was committed last, or where delivery began."""
        if self._policy.auto_commit:
            return {each: at for each, at in self._parts.delivery.positions().items() if each in self._held}
        settled = {
            each: held.first if held.settled() is None else held.settled()
            for each, held in self._held.items()
            if held.started
        }
        return {each: at for each, at in settled.items() if at is not None}

    def prove(self) -> None:
        """Prove the Kafka membership by a synchronous commit (D8). Raises `Transient` or `Conflict`."""
        self._commit_to_kafka(self._due())

    def _commit_to_kafka(self, offsets: Offsets) -> None:
        membership = self._parts.membership
        if membership is None or not offsets:
            return
        sent = time.monotonic()
        try:
            membership.commit(offsets, _COMMIT_S)
        except Conflict:
            self._parts.delivery.change_lease(lambda lease: lease.lose_kafka(time.monotonic()))
            raise
        self._parts.delivery.change_lease(lambda lease: lease.prove_kafka(sent, membership.session_s))
        for each, at in offsets.items():
            self._held[each].kafka = at

    def _kafka_later(self, offsets: Offsets) -> None:
        """In zookeeper mode Kafka follows, best effort; what is believed is read back on taking."""
        if self._parts.membership is not None:
            held = self._held
            behind = {each: at for each, at in offsets.items() if each in held and held[each].kafka != at}
            self._parts.membership.commit_later(behind)

    def _write_nodes(self, offsets: Offsets) -> None:
        writes = {
            each: OffsetWrite(offset=at, version=self._held[each].node.version)
            for each, at in offsets.items()
            if self._held[each].node.value != at
        }
        written = self._parts.coordination.write_offsets(writes) if writes else {}
        for each, node in written.items():
            if node is not None:
                self._held[each].node = node
                self._parts.counters.zookeeper_commits += 1
            else:
                _LOG.error("%s: the owner node is no longer mine; stopping", each)
                self._lose([each])

    # -- giving up -------------------------------------------------------------------------------

    def drain(self, partitions: Collection[TopicPartition]) -> None:
        """Let readers finish what they were given and the application hear of it, within the bound; their
        commits are still carried out."""
        if not partitions:
            return
        delivery = self._parts.delivery
        delivery.cut_off(partitions)
        notice = self._parts.application.revoking(partitions)
        deadline = time.monotonic() + self._policy.drain_s
        while delivery.busy(partitions) or (notice is not None and not notice.done):
            if time.monotonic() >= deadline:
                break
            self._loop.receive(_TURN_S)
        if notice is not None:
            notice.give_up()
            self._loop.receive(0)  # a commit that the callback asked for as its last deed

    def give_up_all(self) -> None:
        """On leaving: the znode is the last word, Kafka gets it before, as well as it can be reached, which
        may have to wait for a join."""
        self.drain(list(self._held))
        membership = self._parts.membership
        if not self._policy.auto_commit or membership is None:
            self.release(list(self._held), Mode.ZOOKEEPER)
            return
        if any(held.started for held in self._held.values()):
            membership.joined(_JOIN_S)
        self.release(list(self._held), Mode.KAFKA)

    def release(self, partitions: Collection[TopicPartition], mode: Mode) -> None:
        """Give up, within the bounds of F3. Raises `Transient`; what was not deleted stays held.

        In Kafka mode a commit to Kafka comes before that to ZooKeeper, or is left out where it fails."""
        leaving = [each for each in partitions if each in self._held]
        if not leaving:
            return
        self._end([each for each in leaving if self._held[each].started])
        left = {each: at for each in leaving if (at := self._held[each].left) is not None}
        if mode is Mode.KAFKA:
            try:
                self._commit_to_kafka(left)
            except (Conflict, Transient) as error:
                _LOG.warning("hand-over without a commit to Kafka (%s); ZooKeeper has it", error)
        self._parts.coordination.release({each: self._last_write(each) for each in leaving})
        self._parts.counters.zookeeper_commits += len(left)
        for each in leaving:
            del self._held[each]

    def _end(self, partitions: Collection[TopicPartition]) -> None:
        positions = self._parts.delivery.end(partitions)
        self._parts.fetch.remove(partitions, self._parts.delivery.parted(partitions))
        self._astray.difference_update(partitions)
        for each in partitions:
            held = self._held[each]
            held.left = positions.get(each, held.left) if self._policy.auto_commit else held.settled()
            held.started = False

    def _last_write(self, partition: TopicPartition) -> OffsetWrite | None:
        """Also when nothing seems to have changed: the version finds a late writer (O6)."""
        held = self._held[partition]
        return None if held.left is None else OffsetWrite(offset=held.left, version=held.node.version)

    def abandon(self) -> dict[TopicPartition, OffsetWrite]:
        """The session is gone: stop, forget all nodes; what could still be committed (O9)."""
        self._end(list(self._held))
        writes = {each: self._last_write(each) for each in self._held}
        self._lose(list(self._held))
        self.unblock()
        return {each: write for each, write in writes.items() if write is not None}

    def resync(self) -> None:
        """After an unknown outcome: drop what is not mine, delete what I forgot. Delivery of what was lost
        ends at once, without a commit. Raises `Transient`."""
        self.unblock()
        kept = self._parts.coordination.resync(self.threads())
        self._lose([each for each in self._held if each not in kept])

    def _lose(self, partitions: Collection[TopicPartition]) -> None:
        """Stop what is no longer mine."""
        self._end(partitions)
        self._parts.application.lost(partitions)
        for each in partitions:
            del self._held[each]


_FIRST_S = 0.2
_LONGEST_S = 5.0


class Lookups:
    """Only the reconciler's thread calls this. Each partition has a pause of its own, so that one without
    a leader is asked for seldom and the others at once."""

    def __init__(self, fetch: Fetch, reset: Reset) -> None:
        self._fetch, self._reset = fetch, reset
        self._pauses: dict[TopicPartition, tuple[float, float]] = {}

    def ask(self, wanted: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The reset positions of those whose pause is over and whose leader answers."""
        self._pauses = {each: pause for each, pause in self._pauses.items() if each in wanted}
        now = time.monotonic()
        due = [each for each in wanted if self._pauses.get(each, (now, 0.0))[0] <= now]
        offsets: dict[TopicPartition, int] = {}
        with suppress(Transient):
            offsets |= self._fetch.offsets_at(due, self._reset) if due else {}
        for each in due:
            _, pause = self._pauses.pop(each, (now, _FIRST_S / 2))
            if each not in offsets:
                pause = min(2 * pause, _LONGEST_S)
                self._pauses[each] = (time.monotonic() + pause, pause)
        return offsets

    def left(self) -> float | None:
        """Seconds until `ask` has something to do, None when nothing is missing."""
        if not self._pauses:
            return None
        return max(0.0, min(due for due, _ in self._pauses.values()) - time.monotonic())
