"""Counting groups: what brokers publish held against what they list, until both agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from groupshift.domain.judgement import Judgement
from groupshift.domain.protocol.counts import CountView, counted
from groupshift.domain.verdict import Verdict
from groupshift.errors import Rejected, Transient
from groupshift.ports.clock import Clock
from groupshift.ports.cluster import CoordinatorGauges, GroupLists

_PAUSE_S = 2.0
_OPEN = frozenset({"PG01", "PG02", "PG03"})
"""What another look may mend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The last look, how many there were, and what the rules say of it."""

    view: CountView
    looks: int
    judgement: Judgement


def count_groups(
    lists: GroupLists,
    gauges: CoordinatorGauges,
    clock: Clock,
    addresses: Sequence[str],
    *,
    within_s: float = 0.0,
) -> Counted:
    """Look until nothing differs, or until ``within_s`` has passed; at least once. A broker that does not
    answer is waited for as well; at the deadline `Transient` is raised. Else as the ports raise."""
    if not addresses:
        raise Rejected("no JMX address is given: name each broker's with --jmx HOST:PORT")
    deadline, looks = clock.now_ms() + within_s * 1000, 0
    while True:
        looks += 1
        late = clock.now_ms() >= deadline
        try:
            gauged = tuple(gauges.read(address) for address in addresses)
            view = CountView(gauged=gauged, listed=lists.count())
        except Transient:
            if late:
                raise
        else:
            judged = Judgement(findings=counted(view))
            waits = any(each.rule in _OPEN and each.verdict is not Verdict.PASS for each in judged.findings)
            if late or not waits:
                return Counted(view=view, looks=looks, judgement=judged)
        clock.sleep(_PAUSE_S)
