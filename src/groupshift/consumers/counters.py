"""What a consumer counts for its metrics; see `groupshift.consumers.statistics`."""

from __future__ import annotations

import time


class Counters:
    """Each counter has one writing thread: ``kafka_commits`` the membership's, the rest the reconciler's.

    Commits are counted by partition. A rebalance lasts from the first difference between what is held and
    what should be until there is none; ``rebalance_s`` is the sum in seconds."""

    def __init__(self) -> None:
        self.kafka_commits = 0
        self.zookeeper_commits = 0
        self.rebalances = 0
        self.rebalance_s = 0.0
        self.woken = 0
        self._since: float | None = None

    def differ(self, *, different: bool) -> None:
        """After each decision: whether something had to be given up, taken or started."""
        now = time.monotonic()
        if different and self._since is None:
            self._since = now
        elif not different and self._since is not None:
            self.rebalances += 1
            self.rebalance_s += now - self._since
            self._since = None
