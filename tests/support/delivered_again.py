"""Which records a ledger has more than once."""

from __future__ import annotations

from collections.abc import Iterable

from groupshift.domain.partitions import TopicPartition
from groupshift_sandbox.ledger import Delivery, delivered


def delivered_again(deliveries: Iterable[Delivery]) -> dict[TopicPartition, list[int]]:
    """Offsets delivered more than once, ascending, per partition that has any."""
    repeated = {
        partition: sorted(offset for offset, times in counts.items() if times > 1)
        for partition, counts in delivered(deliveries).items()
    }
    return {partition: offsets for partition, offsets in repeated.items() if offsets}
