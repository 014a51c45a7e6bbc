"""The Kafka side of one group member: membership, assignment, commits under its generation."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from threading import Event
from typing import Protocol

from groupshift.domain.group import KafkaGroup
from groupshift.domain.partitions import TopicPartition


class MembershipListener(Protocol):
    """Called on the membership's own thread."""

    def assigned(self, partitions: frozenset[TopicPartition]) -> None:
        """A new generation; returns at once."""
        ...

    def revoked(self, kept: frozenset[TopicPartition] = frozenset()) -> Event:
        """All but ``kept`` (none, unless the assignor is a cooperative one) is to be given up. The
        generation ends when the event is set (D3), or after a bound; without ``kept``, delivery has
        stopped when this returns. Commits are still carried out until then."""
        ...

    def lost(self) -> None:
        """Membership is gone: delivery has stopped when this returns."""
        ...


class Membership(Protocol):
    """Takes part in the Kafka group without fetching."""

    @property
    def session_s(self) -> float:
        """The Kafka session timeout in seconds."""
        ...

    def start(self, listener: MembershipListener) -> None:
        """Begin; returns at once. The group is joined when there is something to `subscribe` to."""
        ...

    def subscribe(self, topics: Collection[str]) -> None:
        """Be a member with these topics (none: no member at all); returns at once. With the same topics
        again: ask the brokers anew for their partitions."""
        ...

    def joined(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for a generation; True in one. Only there commits are possible."""
        ...

    def commit(self, offsets: Mapping[TopicPartition, int], timeout: float) -> None:
        """Commit under the present generation and wait: proof of membership.

        Raises `Conflict` when the group no longer knows this member and `Transient` when it does not
        answer within ``timeout`` seconds or is rebalancing."""
        ...

    def commit_later(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Best-effort commit, in order with the others; failures are retried by the next one."""
        ...

    def committed(
        self, partitions: Collection[TopicPartition], timeout: float
    ) -> Mapping[TopicPartition, int | None]:
        """Committed offsets, None where there is none. Raises `Transient`."""
        ...

    def clients(self, timeout: float) -> frozenset[str]:
        """Client ids of all members of the group now. Raises `Transient`."""
        ...

    def describe(self, timeout: float) -> KafkaGroup:
        """State, members and assignments of the group now (none while it is not stable). Raises `Transient`,
        also when the answer lacks this very member."""
        ...

    def close(self, timeout: float) -> None:
        """Leave the group; idempotent."""
        ...
