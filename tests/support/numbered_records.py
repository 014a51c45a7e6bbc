"""Records that a scenario writes itself, at the moment when it wants them."""

from __future__ import annotations

from groupshift_sandbox.producer import NumberedProducer


def write(bootstrap: str, topic: str, partitions: int, count: int) -> None:
    """Append ``count`` numbered records to each partition of a topic that nobody else writes to."""
    numbered = NumberedProducer(bootstrap, topic, partitions)
    for partition in range(partitions):
        for _ in range(count):
            numbered.send(partition)
    numbered.flush()
