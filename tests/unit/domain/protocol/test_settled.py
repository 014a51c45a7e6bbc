"""What a sensor waits for: each rule fails by itself, and for nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupshift.domain.group_protocol import KafkaGroup, Kind, Protocol, ProtocolView
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.protocol.live_rules import SETTLED, settled
from groupshift.domain.verdict import Verdict
from support.protocol_groups import broker, classic, consumer, member, view

UP, DOWN = Protocol.CONSUMER, Protocol.CLASSIC


def native(count: int = 2, old: int = 0, **other: object) -> KafkaGroup:
    """A consumer group that has settled at epoch 3."""
    changed: dict[str, object] = {"epoch": 3, "assignment_epoch": 3, **other}
    return replace(consumer(count, old), **changed)  # type: ignore[arg-type]


def failed(seen: ProtocolView, to: Protocol = UP) -> set[str]:
    """The rules that did not pass."""
    found = settled(seen, to)
    assert {finding.rule for finding in found} == set(SETTLED)
    return {finding.rule for finding in found if finding.verdict is not Verdict.PASS}


def test_groups_that_have_settled() -> None:
    """Of both types, with members and without. An empty group's assignment epoch stays behind for good."""
    assert failed(view(native())) == set()
    assert failed(view(classic(3)), DOWN) == set()
    assert failed(view(native(0, epoch=3, assignment_epoch=2))) == set()
    assert failed(view(classic(0)), DOWN) == set()


@pytest.mark.parametrize(
    ("group", "to", "rules"),
    [
        (classic(2), UP, {"PS01", "PS05"}),
        (native(), DOWN, {"PS01", "PS05"}),
        (native(state="Assigning"), UP, {"PS02"}),
        (replace(native(0), state="Dead"), UP, {"PS02"}),
        (native(assignment_epoch=2), UP, {"PS03"}),
        (replace(native(), epoch=4, assignment_epoch=4), UP, {"PS04"}),
        (native(2, 1), UP, {"PS05"}),
        (KafkaGroup(group="g", kind=Kind.ABSENT), DOWN, {"PS01", "PS02"}),
    ],
)
def test_each_rule_fails_by_itself(group: KafkaGroup, to: Protocol, rules: set[str]) -> None:
    """A group whose members are of the other protocol is of the other type too."""
    assert failed(view(group), to) == rules


def test_a_broker_that_says_otherwise() -> None:
    """It lists another type, names another coordinator, or is loading."""
    seen = view(native(), broker(), broker())

    def told(**change: object) -> set[str]:
        return failed(replace(seen, brokers=(seen.brokers[0], replace(seen.brokers[1], **change))))  # type: ignore[arg-type]

    assert told(lists=Kind.CLASSIC) == {"PS01", "PS06"}
    assert told(coordinator=2) == told(coordinator=None) == told(loading=True) == {"PS06"}
    assert told() == set()


def test_a_partition_with_two_owners() -> None:
    """While one member still has what another was given."""
    both = frozenset({TopicPartition("t", 0)})
    members = tuple(member(UP, n, epoch=3, assigned=both) for n in range(2))
    assert failed(view(native(members=members))) == {"PS08"}


def test_members_of_unknown_protocol_are_a_doubt_only_on_the_way_to_consumer() -> None:
    """Brokers before 4.0: a group of type classic has classic members anyway."""
    untold = view(native(members=(member(None, epoch=3),)))
    (finding,) = [f for f in settled(untold, UP) if f.rule == "PS05"]
    assert finding.verdict is Verdict.INCONCLUSIVE
