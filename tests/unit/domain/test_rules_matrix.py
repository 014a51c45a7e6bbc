"""The compatibility matrix: every cell of §9, allowed and refused, in the table and through the rules."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import pytest

from groupshift.domain import rules_matrix
from groupshift.domain.facts import Facts
from groupshift.domain.group_rules import RULES, ask
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.rules_matrix import MATRIX, Part, forbidden, parts_of
from groupshift.domain.verdict import Verdict
from groupshift_testing.world import Occupant, World
from support.simulated_group import make_group

OLD, AWARE, PLAIN = MemberKind.OLD, MemberKind.AWARE, MemberKind.PLAIN
ZOOKEEPER, KAFKA = Mode.ZOOKEEPER, Mode.KAFKA
GROUPS = [frozenset(each) for size in range(1, 6) for each in combinations(Part, size)]


def permitted(parts: frozenset[Part], mode: Mode) -> bool:
    """§9 in other words: who may share a group in this mode in effect."""
    old = bool(parts & {Part.OLD, Part.OLD_IN_KAFKA})
    aware = bool(parts & {Part.FENCED, Part.UNFENCED})
    if old and (mode is KAFKA or Part.PLAIN in parts):
        return False  # one old member keeps the mode at zookeeper, where no plain one may be
    if Part.OLD_IN_KAFKA in parts and aware:
        return False
    if aware and Part.PLAIN in parts and mode is ZOOKEEPER:
        return False
    return not (mode is KAFKA and {Part.FENCED, Part.UNFENCED} <= parts)


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("parts", GROUPS, ids=lambda parts: "+".join(sorted(parts)))
def test_the_table_says_of_every_group_what_the_specification_says(
    parts: frozenset[Part], mode: Mode
) -> None:
    """All 31 compositions in both modes; whatever is refused is spoken of by a line."""
    assert any(mix.speaks_of(parts) for mix in MATRIX)
    assert (forbidden(parts, {mode}) == ()) is permitted(parts, mode)


def test_every_line_has_its_source_and_every_refusal_its_rule() -> None:
    """A line that is not allowed in every mode in which it can be met names an existing rule."""
    assert [mix.number for mix in MATRIX] == [f"M{number}" for number in range(1, 9)]
    for mix in MATRIX:
        assert mix.source.startswith("§")
        reachable = {ZOOKEEPER} if mix.number in {"M1", "M2", "M5", "M6"} else set(Mode)
        assert (not mix.rule) is (reachable <= mix.modes)
        assert not mix.rule or mix.rule in RULES


@dataclass(frozen=True)
class Cell:
    """A group as it is met: who is in it, what the node says, and which rule refuses it (None: none)."""

    line: str
    kinds: tuple[MemberKind, ...]
    node: bytes | None
    rule: str | None
    says: str = ""
    unfenced: bool = False


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
    Cell("M7", (AWARE, AWARE), b"kafka", "C28", "orders-app_m1-1 publish no fence", unfenced=True),
    Cell("M7", (AWARE, AWARE), b"zookeeper", None, unfenced=True),
    Cell("M8", (PLAIN, PLAIN), b"kafka", None),
]


@pytest.mark.parametrize("cell", CELLS, ids=lambda c: f"{c.line}-{'+'.join(c.kinds)}-{c.node}-{c.rule}")
def test_a_group_of_a_cell_is_refused_by_its_rule_or_by_none(cell: Cell) -> None:
    """Both sides: the allowed cell has no failure, the refused one names the member."""
    world = make_group().world
    world.places = {f"m{n}": Occupant(kind) for n, kind in enumerate(cell.kinds, 1)}
    world.places["m1"].fence = None if cell.unfenced else 1
    if cell.node is not None:
        world.write_mode(cell.node)
    view = world.read(world.group)
    assert cell.line in {mix.number for mix in MATRIX if mix.speaks_of(parts_of(view))}
    findings = ask(("C04", "C28"), Facts(view=view))
    failed = {finding.rule: finding.reason for finding in findings if finding.verdict is Verdict.FAIL}
    assert set(failed) == ({cell.rule} if cell.rule else set())
    assert cell.says in "".join(failed.values())


@pytest.mark.parametrize(("commits", "line"), [((), "M1"), (("orders-app_m1-1",), "M6")])
def test_an_old_member_that_commits_to_kafka_stands_in_a_line_of_its_own(
    commits: tuple[str, ...], line: str
) -> None:
    """Line 6; `test_old_members` shows how such a member is found."""
    world: World = make_group().world
    parts = parts_of(world.read(world.group), commits)
    beside = parts | {Part.FENCED}
    assert {mix.number for mix in forbidden(beside, {ZOOKEEPER})} == ({"M6"} if line == "M6" else set())
    assert rules_matrix.forbidden(parts, {ZOOKEEPER}) == ()
