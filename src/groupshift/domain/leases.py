"""How long a member may deliver without having heard from the systems that protect it (F5).

Times are seconds of one monotonic clock. A proof counts from the moment the question was *sent*:
the server's own timer cannot have started later. Source: specs/zookeeper-coordination.md §8.10 F5, D8, D10.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from groupshift.domain.coordination import Mode

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
        return (
            self.zookeeper_until
            if self.mode is Mode.ZOOKEEPER
            else min(self.zookeeper_until, self.kafka_until)
        )

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
