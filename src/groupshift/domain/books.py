"""A move as data: what is checked, planned, asked and walked back, for each move by its name.

The lifecycle (`groupshift.application`) is one for all moves; it reads from here where moves differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from groupshift.domain import planning as coordination
from groupshift.domain import rulebook
from groupshift.domain.facts import Facts, Place
from groupshift.domain.group import GroupView
from groupshift.domain.group_protocol import Aim
from groupshift.domain.modes import Mode
from groupshift.domain.plan import Gate, MoveName, MoveRequest, Plan, Stage, StageName, Until, WayBack
from groupshift.domain.protocol import assessing
from groupshift.domain.protocol import planning as protocol
from groupshift.domain.protocol import rulebook as protocol_rules
from groupshift.domain.rules import ask
from groupshift.domain.step import Step
from groupshift.domain.verdict import Finding

MakePlan = Callable[[MoveRequest, GroupView, tuple[Place, ...]], Plan]
FindWayBack = Callable[[Plan, frozenset[StageName], GroupView, tuple[Place, ...], WayBack], tuple[Stage, ...]]
Wanted = Mode | Aim | None
"""What is to hold once a stage has settled: a mode in effect, a protocol spoken, or nothing yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """One move. ``check`` names what is wrong with a request; ``make_plan`` takes request, group and places;
    ``way_back`` gives the undo stages of the acts that were begun; ``wanted`` is what a stage leads to;
    ``stage_of`` puts the rules around a step; ``reached`` says where a plan that was carried out has led to,
    as a clause. ``settled`` and ``heals`` are the rules that only need time, after a stage and before a plan.

    ``assess`` is asked before anything is planned, of facts looked at for the rules ``looked`` (see
    `groupshift.application.observe.look`) and for ``aim``."""

    name: MoveName
    check: Callable[[MoveRequest], tuple[str, ...]]
    make_plan: MakePlan
    way_back: FindWayBack
    wanted: Callable[[Plan, StageName], Wanted]
    stage_of: Callable[[StageName, Step, Gate | None], Stage]
    settled: tuple[str, ...]
    reached: Callable[[Plan], str]
    heals: tuple[str, ...]
    looked: tuple[str, ...]
    aim: Callable[[MoveRequest], Wanted]
    assess: Callable[[MoveRequest, Facts], tuple[Finding, ...]]


def _assess_coordination(request: MoveRequest, facts: Facts) -> tuple[Finding, ...]:
    return ask(rulebook.assessed(facts.view, request.until), facts)


_REACHED = {
    Until.CANARY: "moved as far as the canary, still in zookeeper mode",
    Until.ROLL: "all members are migration-aware, still in zookeeper mode",
    Until.TOGGLE: "moved, still on MigratingConsumer",
    Until.RETIRE: "moved to plain Kafka consumers",
}

BOOKS: Mapping[MoveName, Book] = {
    MoveName.COORDINATION: Book(
        name=MoveName.COORDINATION,
        check=coordination.check,
        make_plan=coordination.make_plan,
        way_back=coordination.way_back,
        wanted=coordination.wanted_mode,
        stage_of=coordination.stage_of,
        settled=rulebook.SETTLED,
        reached=lambda plan: _REACHED[plan.until],
        heals=(*rulebook.ASSESS, *rulebook.BEFORE[StageName.TOGGLE]),
        looked=rulebook.ASSESS,
        aim=lambda request: rulebook.wanted(request.until),
        assess=_assess_coordination,
    ),
    MoveName.PROTOCOL: Book(
        name=MoveName.PROTOCOL,
        check=protocol.check,
        make_plan=protocol.make_plan,
        way_back=protocol.way_back,
        wanted=protocol.wanted,
        stage_of=protocol.stage_of,
        settled=protocol_rules.SETTLED,
        reached=protocol.reached,
        heals=assessing.HEALS,
        looked=(),
        aim=assessing.aim,
        assess=assessing.findings,
    ),
}
"""Every move by its name."""
