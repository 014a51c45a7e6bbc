"""The invariants of the fence, judged on what really happened: deliveries, commits, published modes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Protocol

from groupshift.domain.modes import Mode, ModeNode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.registration import parse_awareness


class Invariant(StrEnum):
    """What must hold under every schedule."""

    ONE_DELIVERER = "never two deliverers of a partition at one instant"
    COMMITTED = "nothing is committed that was not delivered"
    NO_LOSS = "every record is delivered by someone once the faults have stopped"
    OWNED = "every partition is owned and delivered again once the faults have stopped"
    LAST_MODE = "the last mode wins everywhere"
    STAYS = "with all members aware and mode kafka, no published mode leaves kafka"
    ONCE = "without a fault no record is delivered twice"
    NO_SPIN = "a member with nothing to do waits"


class Violation(AssertionError):
    """An invariant is broken."""

    def __init__(self, invariant: Invariant, story: str) -> None:
        super().__init__(f"{invariant}: {story}")
        self.invariant = invariant


class Deliverer(Protocol):
    """A member, as far as deliveries go."""

    name: str

    def may_deliver(self) -> Iterable[TopicPartition]:
        """What it would hand out if it were asked now."""
        ...


class Judge:
    """Watches one group. Violations of invariants outside ``judged`` are passed over.

    A interval is one stretch in which a member was set to deliver a partition. ``flaws`` counts the holes
    of the old members themselves (§4.5): nobody else can close them.
    """

    def __init__(self, judged: frozenset[Invariant] = frozenset(Invariant)) -> None:
        self._judged = judged
        self.delivered: dict[TopicPartition, set[int]] = defaultdict(set)
        self._prefix: Counter[TopicPartition] = Counter()
        self._tenure: dict[TopicPartition, tuple[str, int]] = {}
        self._past: set[tuple[TopicPartition, str, int]] = set()
        self._robbed: set[tuple[TopicPartition, str]] = set()
        self.flaws: Counter[str] = Counter()
        self.faults = 0
        self._kafka_writes: set[str] = set()

    def broken(self, invariant: Invariant, story: str) -> None:
        """Report a violation."""
        if invariant in self._judged:
            raise Violation(invariant, story)

    # -- deliveries ------------------------------------------------------------------------------

    def deliver(self, member: Deliverer, interval: int, partition: TopicPartition, offset: int) -> None:
        """``member`` has just handed out a record."""
        self._note(partition, offset, once=not self.faults)
        present, now = self._tenure.get(partition), (member.name, interval)
        if (partition, member.name) in self._robbed:
            self.flaws["robbed of its node by an old member"] += 1
        elif present != now:
            if (partition, *now) in self._past:
                self.broken(Invariant.ONE_DELIVERER, f"{partition}: {now}, {present}, and {now} again")
            if present is not None:
                self._past.add((partition, *present))
            self._tenure[partition] = now

    def deliver_by_flaw(self, partition: TopicPartition, offset: int) -> None:
        """An old member that does not hold its node any more goes on (§4.5)."""
        self.flaws["old member without its node"] += 1
        self._note(partition, offset, once=False)

    def _note(self, partition: TopicPartition, offset: int, *, once: bool) -> None:
        seen = self.delivered[partition]
        if once and offset in seen:
            self.broken(Invariant.ONCE, f"{partition}: offset {offset}")
        seen.add(offset)
        while self._prefix[partition] in seen:
            self._prefix[partition] += 1

    def robbed(self, partition: TopicPartition, name: str) -> None:
        """An old member has deleted the owner node of ``name`` (§4.5, D9)."""
        self._robbed.add((partition, name))

    def restored(self, partition: TopicPartition, name: str) -> None:
        """``name`` begins anew, with a node of its own."""
        self._robbed.discard((partition, name))

    def one_deliverer(self, members: Iterable[Deliverer]) -> None:
        """At this instant."""
        holder: dict[TopicPartition, str] = {}
        for member in members:
            for each in member.may_deliver():
                if (each, member.name) in self._robbed:
                    continue
                other = holder.setdefault(each, member.name)
                if other != member.name:
                    self.broken(Invariant.ONE_DELIVERER, f"{each}: {other} and {member.name}")

    # -- commits and modes -----------------------------------------------------------------------

    def committed(self, partition: TopicPartition, offset: int) -> None:
        """A position was written to a store."""
        if offset > self._prefix[partition]:
            self.broken(Invariant.COMMITTED, f"{partition}: {offset}, delivered {self._prefix[partition]}")

    def mode_written(self, node: ModeNode, *, all_aware: bool) -> None:
        """The mode node was written."""
        self._kafka_writes = {node.identity} if node.requested is Mode.KAFKA and all_aware else set()

    def old_member_registered(self) -> None:
        """From now on zookeeper is right, whatever the node says."""
        self._kafka_writes = set()

    def published(self, name: str, payload: bytes) -> None:
        """A member has published what it acts on."""
        said = parse_awareness(payload)
        if said.mode is Mode.ZOOKEEPER and said.acting_on in self._kafka_writes:
            self.broken(Invariant.STAYS, f"{name} publishes zookeeper, acting on a write of kafka")

    def missing(self, ends: dict[TopicPartition, int]) -> Any:
        """How much of the log was never delivered, by partition."""
        return {str(each): end - self._prefix[each] for each, end in ends.items() if self._prefix[each] < end}
