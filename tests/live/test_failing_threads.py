"""What a consumer's threads do when something fails that nobody thought of."""

from __future__ import annotations

import logging
import threading

from groupshift.consumers.kafka_membership import KafkaMembership
from groupshift.consumers.metrics import Counters
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Transient
from groupshift_sandbox.processes import wait_until


class Failing:
    """A listener whose first word about an assignment is an error."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.partitions: frozenset[TopicPartition] = frozenset()

    def assigned(self, partitions) -> None:
        self.heard.append("assigned")
        if self.heard.count("assigned") == 1:
            raise ZeroDivisionError("not foreseen")
        self.partitions = partitions

    def revoked(self, _kept=frozenset()) -> threading.Event:
        released = threading.Event()
        released.set()
        return released

    def lost(self) -> None:
        self.heard.append("lost")


def _committed(membership: KafkaMembership, at: TopicPartition) -> bool:
    try:
        membership.commit({at: 0}, 10.0)
    except Transient:
        return False
    return True


def test_a_membership_whose_callback_fails_joins_again(cluster, topic, group, caplog):
    """It would else keep its partitions until the poll interval ends, delivering none of them."""
    name, listener = topic(2), Failing()
    properties = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": group,
        "client.id": f"{group}_m1",
        "session.timeout.ms": 45000,
        "enable.auto.commit": False,
    }
    membership = KafkaMembership(properties, Counters())
    both = {TopicPartition(name, 0), TopicPartition(name, 1)}
    with caplog.at_level(logging.ERROR):
        membership.start(listener)
        membership.subscribe([name])
        try:
            wait_until(lambda: listener.partitions == both, 120, "assigned after the failure")
            wait_until(lambda: _committed(membership, TopicPartition(name, 0)), 60, "a commit is answered")
        finally:
            membership.close(10.0)
    assert listener.heard[:2] == ["assigned", "lost"]
    assert "this member leaves and rejoins" in caplog.text
    assert "not foreseen" in caplog.text
