"""Start positions that the log has to tell."""

from __future__ import annotations

import time

from groupshift.consumers.owned_partitions import Lookups
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Transient
from groupshift.ports.consumer import Reset

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Log:
    """Leaders that answer for some partitions only."""

    def __init__(self, **known):
        self.known, self.asked, self.down = known, [], False

    def offsets_at(self, partitions, to):  # noqa: ARG002
        self.asked.append(sorted(partitions))
        if self.down:
            raise Transient("no answer")
        return {each: at for each, at in self.known.items() if each in partitions}


def later(monkeypatch, seconds: float) -> None:
    """Move the clock."""
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + seconds)


def test_one_without_a_leader_does_not_delay_the_others(monkeypatch) -> None:
    """It has a pause of its own, which doubles up to five seconds."""
    later(monkeypatch, 0.0)  # the clock stands still between the steps
    log = Log()
    log.known = {P1: 7}
    lookups = Lookups(log, Reset.EARLIEST)
    assert lookups.ask([P0, P1]) == {P1: 7}
    assert lookups.ask([P0]) == {}
    assert log.asked == [[P0, P1]]
    pauses = []
    for _ in range(7):
        pauses.append(lookups.left())
        later(monkeypatch, pauses[-1] + 0.001)
        lookups.ask([P0])
    assert [round(each, 1) for each in pauses] == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert lookups.ask([P0, P1]) == {P1: 7}
    assert log.asked[-1] == [P1]


def test_what_is_not_wanted_any_more_is_forgotten() -> None:
    """So that the reconciler may sleep."""
    log = Log()
    log.down = True
    lookups = Lookups(log, Reset.LATEST)
    assert lookups.ask([P0]) == {}
    assert lookups.left() is not None
    assert lookups.ask([]) == {}
    assert lookups.left() is None
