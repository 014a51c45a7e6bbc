"""The compatibility matrix of docs/reference/zookeeper-coordination.md §9: every group, through the rules."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import pytest

from groupshift.domain.facts import Facts
from groupshift.domain.group import GroupView
from groupshift.domain.group_rules import ask
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.verdict import Verdict
from groupshift_testing.world import Occupant
from support.simulated_group import make_group

OLD, AWARE, PLAIN = MemberKind.ZOOKEEPER, MemberKind.AWARE, MemberKind.PLAIN
UNFENCED = "aware without a fence"
ZOOKEEPER, KAFKA = Mode.ZOOKEEPER, Mode.KAFKA
GROUPS = [each for size in range(1, 5) for each in combinations((OLD, AWARE, UNFENCED, PLAIN), size)]


def met(parts: tuple[str, ...], node: bytes | None) -> GroupView:
    """A group of one member of each of these parts, while the mode node says that."""
    world = make_group().world
    world.places = {
        f"m{number}": Occupant(AWARE, fence=None) if part == UNFENCED else Occupant(MemberKind(part))
        for number, part in enumerate(parts, 1)
    }
    if node is not None:
        world.write_mode(node)
    return world.read(world.group)


def refused(view: GroupView) -> dict[str, str]:
    """What the rules of the matrix say that fails, by rule; C24 needs two looks (`test_old_members`)."""
    findings = ask(("C04", "C28"), Facts(view=view))
    return {finding.rule: finding.reason for finding in findings if finding.verdict is Verdict.FAIL}


def permitted(parts: tuple[str, ...], mode: Mode) -> bool:
    """§9 in other words: who may share a group in this mode in effect."""
    aware = {AWARE, UNFENCED} & set(parts)
    if OLD in parts and (mode is KAFKA or PLAIN in parts):
        return False  # one old member keeps the mode at zookeeper, where no plain one may be
    if aware and PLAIN in parts and mode is ZOOKEEPER:
        return False
    return not (mode is KAFKA and len(aware) == 2)


@pytest.mark.parametrize("node", [None, b"zookeeper", b"kafka"])
@pytest.mark.parametrize("parts", GROUPS, ids="+".join)
def test_the_rules_say_of_every_group_what_the_matrix_says(
    parts: tuple[str, ...], node: bytes | None
) -> None:
    """All 15 compositions under each mode node; an unfenced member alone is no matter of the matrix."""
    view = met(parts, node)
    failed = refused(view).keys() - ({"C28"} if AWARE not in parts else set())
    assert (not failed) is permitted(parts, view.effective_mode)


@dataclass(frozen=True)
class Cell:
    """A group as it is met: who is in it, what the node says, and which rule refuses it (None: none)."""

    line: str
    parts: tuple[str, ...]
    node: bytes | None
    rule: str | None
    says: str = ""


CELLS = [
    Cell("M1", (OLD, OLD), None, None),
    Cell("M2", (OLD, AWARE), None, None),
    Cell("M2", (OLD, AWARE), b"kafka", None),
    Cell("M3", (AWARE, AWARE), None, None),
    Cell("M3", (AWARE, AWARE), b"kafka", None),
    Cell("M4", (AWARE, PLAIN), b"kafka", None),
    Cell("M4", (AWARE, PLAIN), b"zookeeper", "C04", "m2-1-uuid are in group orders-app in zookeeper mode"),
    Cell("M4", (AWARE, PLAIN), None, "C04", "consumed twice"),
    Cell("M5", (OLD, PLAIN), None, "C04", "m2-1-uuid are in group orders-app beside old members"),
    Cell("M5", (OLD, PLAIN), b"kafka", "C04", "orders-app_m1-1"),
    Cell("M5", (OLD, AWARE, PLAIN), b"kafka", "C04", "m3-1-uuid"),
    Cell("M7", (UNFENCED, AWARE), b"kafka", "C28", "orders-app_m1-1 publish no fence"),
    Cell("M7", (UNFENCED, AWARE), b"zookeeper", None),
    Cell("M8", (PLAIN, PLAIN), b"kafka", None),
]
"""By the line of the matrix; line 6, old members that commit to Kafka, is `test_old_members`'s."""


@pytest.mark.parametrize("cell", CELLS, ids=lambda c: f"{c.line}-{'+'.join(c.parts)}-{c.node}-{c.rule}")
def test_a_group_of_a_cell_is_refused_by_its_rule_or_by_none(cell: Cell) -> None:
    """Both sides: the allowed cell has no failure, the refused one names the member."""
    failed = refused(met(cell.parts, cell.node))
    assert set(failed) == ({cell.rule} if cell.rule else set())
    assert cell.says in "".join(failed.values())
