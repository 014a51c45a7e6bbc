"""Counting until both sides agree, over answers that were seen before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from groupshift.application.group_counts import count_groups
from groupshift.domain.group_protocol import Kind
from groupshift.domain.protocol.counts import Counts, GaugedBroker
from groupshift.domain.verdict import Verdict
from groupshift.errors import Rejected, Transient
from groupshift_testing.clock import ManualClock


@dataclass
class Lists:
    """One broker with three classic groups."""

    def count(self) -> Mapping[int, Counts]:
        return {1: {(Kind.CLASSIC, "Stable"): 3}}

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class Gauges:
    """``told`` is what broker 1 counts, look after look; None: it does not answer."""

    told: Sequence[int | None]
    asked: list[str] = field(default_factory=list)

    def read(self, address: str) -> GaugedBroker:
        self.asked.append(address)
        count = self.told[min(len(self.asked), len(self.told)) - 1]
        if count is None:
            raise Transient("JMX does not answer")
        partitions = {"active": 10}
        types = {Kind.CLASSIC: count}
        return GaugedBroker(
            address=address, node_id=1, release="4.3.1", types=types, states={}, partitions=partitions
        )


def test_one_look_says_what_differs() -> None:
    """Without a time to wait."""
    found = count_groups(Lists(), Gauges([0]), ManualClock(), ["h:1"])
    assert (found.looks, found.judgement.verdict) == (1, Verdict.FAIL)
    assert "counts 0 groups of type classic, and lists 3" in found.judgement.reasons[0]


def test_it_looks_again_until_nothing_differs() -> None:
    """A broker that does not answer once is waited for as well."""
    found = count_groups(Lists(), Gauges([0, None, 0, 3]), ManualClock(), ["h:1"], within_s=90.0)
    assert (found.looks, found.judgement.verdict) == (4, Verdict.PASS)


def test_it_ends_with_the_time() -> None:
    """With the last look's difference, or with what the broker's silence is."""
    found = count_groups(Lists(), Gauges([2]), ManualClock(), ["h:1"], within_s=10.0)
    assert (found.looks > 4, found.judgement.verdict) == (True, Verdict.FAIL)
    with pytest.raises(Transient, match="JMX does not answer"):
        count_groups(Lists(), Gauges([None]), ManualClock(), ["h:1"], within_s=10.0)


def test_without_an_address_there_is_nothing_to_read() -> None:
    """Said before anything is asked."""
    with pytest.raises(Rejected, match="with --jmx HOST:PORT"):
        count_groups(Lists(), Gauges([3]), ManualClock(), [])
