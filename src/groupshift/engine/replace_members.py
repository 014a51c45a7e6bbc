"""Replace the members of a group by a driver of its fleet, there and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from groupshift.domain.group_rules import ask
from groupshift.domain.modes import MemberKind
from groupshift.domain.run import (
    Checked,
    Instruction,
    Json,
    Outcome,
    Step,
    StepRecord,
    StepState,
    outcome_of,
)
from groupshift.engine.group import G, GroupRules, driver_of, facts_now, group_of, settling
from groupshift.engine.handlers import INSTRUCTION
from groupshift.engine.move import Handler, Run, Standing
from groupshift.ports.driver import Change, ForPerson, Occupant

REPLACE_MEMBERS = "replace_members"
"""The kind of step: ``args`` are ``slots`` (the driver's names of places), the kinds ``old`` and ``new``, and
``takes_back`` (keys of the steps whose changes it takes back, oldest first)."""
_JOINED = ("C18",)
"""Asked of the changed places only: a member that its driver calls running may not have joined yet."""


class ReplaceMembers(Handler[G]):
    """Replaces the members in some places of the fleet: the driver does it, or a person whom it instructs."""

    touches = True

    def __init__(self, rules: GroupRules[Any]) -> None:
        self._rules = rules

    def allowed(self, run: Run[G], step: Step) -> Checked:
        """Ask the preconditions of the live group."""
        numbers = self._rules.before(step)
        findings = ask(numbers, self._rules.facts(run, step)) if numbers else ()
        return Checked(outcome=outcome_of(findings) if findings else Outcome.PASS, findings=findings)

    def intend(self, run: Run[G], step: Step) -> Json:
        """Keep the change, and how many members of the new kind are met."""
        view = run.ports.side.groups.read(group_of(run))
        records = run.records
        taken_back = (records[each] for each in step.args.get("takes_back", ()) if each in records)
        return {
            "change_id": f"{run.name}:{step.phase}",
            "slots": list(step.args["slots"]),
            "to": step.args["new"],
            "met": len(view.of_kind(MemberKind(step.args["new"]))),
            "undoes": [str(each.intent["change_id"]) for each in taken_back],
        }

    def stands(self, run: Run[G], step: Step, record: StepRecord) -> Standing:
        """Made: the driver knows the change, a person was told of it, or there is nothing left to make."""
        if record.state is not StepState.INTENDED or INSTRUCTION in record.result:
            return Standing.MADE
        change, driver = change_of(run, record.intent), driver_of(run)
        if driver.took_up(change):
            return Standing.MADE
        kinds = {slot.name: slot.kind for slot in driver.slots(group_of(run))}
        shows = all(kinds.get(name) is change.to for name in change.slots)
        made = shows if kinds else _shows(run, step, record.intent)
        return Standing.MADE if made else Standing.AS_MET

    def act(self, run: Run[G], step: Step, intent: Json) -> Json | Instruction:
        """Hand the change to the driver; one that it knows is not made twice."""
        change = _with_occupants(run, step, change_of(run, intent))
        run.hold(step)
        started = driver_of(run).start(change)
        return Instruction(text=started.instruction) if isinstance(started, ForPerson) else {}

    def check(self, run: Run[G], step: Step, record: StepRecord) -> Checked:
        """See whether the places have changed, and what only needs time holds."""
        change = change_of(run, record.intent)
        status = driver_of(run).observe(change)
        if not status.done and not _shows(run, step, record.intent):
            instructed = INSTRUCTION in record.result
            return Checked(outcome=Outcome.PERSON if instructed else Outcome.WAIT, detail=status.detail)
        facts = facts_now(run, self._rules.wanted(run, step))
        changed = replace(facts, places=tuple(each for each in facts.places if each.name in change.slots))
        return settling((*ask(self._rules.settled(step), facts), *ask(_JOINED, changed)))


def change_of(run: Run[G], intent: Json) -> Change:
    """Return the driver's change that an intent describes, with the token of this claim."""
    return Change(
        change_id=str(intent["change_id"]),
        group=group_of(run),
        slots=tuple(intent["slots"]),
        to=MemberKind(intent["to"]),
        fence=run.name,
        token=run.token,
        undoes=tuple(intent.get("undoes", ())),
    )


def raise_fence(run: Run[G]) -> None:
    """Let the driver refuse what a process that was asleep until now would still start: a change of no
    places, with the token of this claim."""
    change_id = f"{run.name}:roll_back:{run.token}"
    driver_of(run).start(change_of(run, {"slots": (), "to": MemberKind.ZOOKEEPER, "change_id": change_id}))


def _shows(run: Run[G], step: Step, intent: Json) -> bool:
    """Whether the group shows the change, where the driver cannot know (people deploy): as many members of
    the new kind as were met when it was intended, and one more for each place; vacated places are seen as an
    empty group.

    In a rollback as many as the fleet has places do as well, once nobody of the kind that goes is left: a
    step that was done in part, or never, leaves more of them than are to come."""
    if driver_of(run).slots(group_of(run)):
        return False
    view, to = run.ports.side.groups.read(group_of(run)), MemberKind(intent["to"])
    if to is MemberKind.VACANT:
        return not view.members
    there = len(view.of_kind(to))
    if there >= int(intent["met"]) + len(intent["slots"]):
        return True
    all_back = there >= len(run.there.about["slots"]) and not view.of_kind(MemberKind(step.args["old"]))
    return bool(step.undoes) and all_back


def _with_occupants(run: Run[G], step: Step, change: Change) -> Change:
    """The change with who is there now, for people: places of a rollback were named when others were there,
    and not each of them may have been replaced."""
    if driver_of(run).slots(change.group):
        return change
    members = run.ports.side.groups.read(change.group).members
    old, named = MemberKind(step.args["old"]), set(change.slots)
    occupants = tuple(
        Occupant(member_id=each.member_id, kind=each.kind, host=(each.host or "").lstrip("/"))
        for each in members
        if (each.kind is old if change.undoes else {each.member_id, each.client_id} & named)
    )
    return replace(change, occupants=occupants)
