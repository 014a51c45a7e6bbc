"""Start positions that only the log can tell, asked for again with a growing pause."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Transient
from groupshift.ports.consumer import Fetch, Reset

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
        if not due:
            return {}
        found = self._find(due)
        for each in due:
            if each in found:
                self._pauses.pop(each, None)
            else:
                pause = min(2 * self._pauses.get(each, (now, _FIRST_S / 2))[1], _LONGEST_S)
                self._pauses[each] = (time.monotonic() + pause, pause)
        return dict(found)

    def _find(self, due: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        try:
            return self._fetch.reset(due, self._reset)
        except Transient:
            return {}

    def left(self) -> float | None:
        """Seconds until `ask` has something to do, None when nothing is missing."""
        if not self._pauses:
            return None
        return max(0.0, min(due for due, _ in self._pauses.values()) - time.monotonic())
