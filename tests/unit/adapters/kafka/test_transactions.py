"""Groups whose first commit may be in a transaction are asked again, and each is asked once after a look that
found none open: it may have ended between its group's answer and that look."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from groupshift.adapters.kafka import transactions
from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.transactions import FirstCommits, OpenTransaction
from groupshift.domain.group_partition_and_count import partition_of

COUNT = 5
PAY, LATER = OpenTransaction("pay", 1), OpenTransaction("later", 2)


class Cluster:
    """Five partitions of the offsets topic."""

    def partitions_of(self, topics: set[str]) -> tuple[list[int], dict[str, int]]:
        """All led by one."""
        assert topics == {"__consumer_offsets"}
        return [1] * COUNT, {}


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """What is doubtful when these transactions write the partition of ``g``."""
    first = FirstCommits()

    def asked(*open_now: OpenTransaction) -> dict[str, str]:
        found = {partition_of("g", COUNT): frozenset(open_now)} if open_now else {}
        monkeypatch.setattr(transactions, "open_commits", lambda _cluster: found)
        return first.doubtful(cast("KafkaCluster", Cluster()), ["g"])

    return asked


def test_one_that_ended_between_answer_and_look_is_not_missed(ask) -> None:
    """None is open any more, yet the group is asked once more, at once; that answer counts."""
    assert ask() == {"g": ""}
    assert ask() == {}


def test_one_that_is_open_is_waited_for_and_later_ones_are_not(ask) -> None:
    """Until it ended, and then once more."""
    assert ask(PAY) == {"g": "its first commit may be in a transaction that is open: 'pay'"}
    assert ask(PAY, LATER) == {"g": "its first commit may be in a transaction that is open: 'pay'"}
    assert ask(LATER) == {"g": ""}
    assert ask(LATER) == {}
