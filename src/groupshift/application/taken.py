"""Whether a change of members that was intended was taken up by whoever makes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groupshift.application.environment import Environment
from groupshift.application.records import Migration
from groupshift.domain.modes import MemberKind
from groupshift.domain.plan import Stage
from groupshift.domain.step import ReplaceMembers
from groupshift.ports.driver import Change

Data = Mapping[str, Any]


def change_of(found: Migration, intended: Data, token: int = 0) -> Change:
    """The fleet change that an intent describes."""
    return Change(
        change_id=str(intended["change_id"]),
        group=found.record.group,
        slots=tuple(intended["slots"]),
        to=MemberKind(intended["to"]),
        fence=found.id,
        token=token,
        undoes=tuple(intended.get("undoes", ())),
    )


def taken_up(env: Environment, found: Migration, stage: Stage, intended: Data) -> bool:
    """The driver knows the change, or there is nothing left of it to make."""
    change = change_of(found, intended)
    fleet = env.fleets(found.plan.driver)
    if fleet.took_up(change):
        return True
    kinds = {slot.name: slot.kind for slot in fleet.slots(found.record.group)}
    if kinds:
        return all(kinds.get(name) is change.to for name in change.slots)
    return seen_in_group(env, found, stage, intended)


def seen_in_group(env: Environment, found: Migration, stage: Stage, intended: Data) -> bool:
    """Where the driver cannot know (people deploy): as many members of the wanted kind as were met when
    the change was intended, and one more for each place; vacated places are seen as an empty group.

    On the way back as many as the fleet has places do as well, once nobody of the kind that goes is left: a
    stage that was done in part, or never, leaves more of them than are to come."""
    change = change_of(found, intended)
    if env.fleets(found.plan.driver).slots(found.record.group):
        return False
    view = env.groups.read(found.record.group)
    if change.to is MemberKind.VACANT:
        return not view.members
    there = len(view.of_kind(change.to))
    if there >= int(intended["met"]) + len(change.slots):
        return True
    if not stage.name.undoes or not isinstance(stage.step, ReplaceMembers):
        return False
    return there >= len(found.plan.slots) and not view.of_kind(stage.step.old)
