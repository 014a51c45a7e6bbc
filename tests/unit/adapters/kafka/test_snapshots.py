"""What coordinators say of groups that are listed, put together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from groupshift.adapters.kafka.snapshots import Listed, Reading
from groupshift.domain.group_protocol import Kind
from groupshift.domain.rows import GONE, GroupRow


def answer(code: int = 0, state: str = "") -> Any:
    """Of one group."""
    return SimpleNamespace(groups=[SimpleNamespace(group_id="g", error_code=code, group_state=state)])


def reading(kind: str) -> Reading:
    """Of a group that broker 2 lists, and whose coordinator is broker 1."""
    row = GroupRow(group="g", type=kind, state="Empty", protocol_type="consumer", coordinator=None)
    listed = Listed(row=row, brokers=(2,))
    return Reading(groups=["g"], listed={"g": listed})


@pytest.mark.parametrize("code", [35, 69])
def test_a_group_that_its_old_coordinator_does_not_know_is_gone(code: int) -> None:
    """Another broker's cache lists it; that a coordinator has no consumer groups (35) says no more."""
    found = reading("classic")
    for each in (answer(state=GONE), answer(code)):
        found._read_described(Kind.CLASSIC, each)
    assert found.described["g"].group.state == GONE
    assert found.problems == []


def test_a_consumer_group_that_cannot_be_described_is_said_to_be_that() -> None:
    """An OLD coordinator lists it, and cannot tell its members (§5.4)."""
    found = reading("consumer")
    found._read_described(Kind.CONSUMER, answer(35))
    assert [each.group for each in found.problems] == ["g"]
    assert found.described["g"].group.type == "consumer"
