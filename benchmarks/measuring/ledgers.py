"""The newest lines of a ledger that a member is still writing."""

from __future__ import annotations

import json
from pathlib import Path

from groupshift.domain.partitions import TopicPartition
from groupshift_sandbox.ledger import Delivery

_TAIL = 200_000


def recent(path: Path) -> list[Delivery]:
    """The last deliveries of a growing file."""
    if not path.exists():
        return []
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL))
        text = file.read().decode()
    lines = text.splitlines(keepends=True)[1 if size > _TAIL else 0 :]
    return [entry(line) for line in lines if line.endswith("\n")]


def entry(line: str) -> Delivery:
    """One line of a ledger."""
    told = json.loads(line)
    where = TopicPartition(told["topic"], told["partition"])
    return Delivery(member=told["member"], partition=where, offset=told["offset"], at_ms=told["at_ms"])
