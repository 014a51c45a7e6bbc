"""From a request and an observed group to a plan, and from acts made to the way back. Pure."""

from __future__ import annotations

import re
from math import ceil

from groupshift.domain import rulebook
from groupshift.domain.facts import Place
from groupshift.domain.group import GroupView
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.plan import CanaryTerms, Gate, MoveRequest, Plan, Stage, StageName, Until, WayBack
from groupshift.domain.rules_storage import shares
from groupshift.domain.step import DeleteModeNode, ReplaceMembers, SetMode, Soak, Step

MAX_GROUP = 249
"""How long a group id may be: as long as the name of a topic."""
NAME_OF_GROUP = re.compile(rf"(?!\.{{1,2}}$)[A-Za-z0-9._-]{{1,{MAX_GROUP}}}")
"""What the ids of groups of the old consumer look like: it takes no other, and they are znodes."""
_REACH = tuple(Until)
MAX_SOAK_S = 7 * 24 * 3600
MAX_WATCH_S = 3600


def check(request: MoveRequest) -> tuple[str, ...]:
    """Everything wrong with the values of a request, one clause each; empty when usable."""
    problems = []
    if not NAME_OF_GROUP.fullmatch(request.group):
        problems.append(
            f"group {request.group!r} is no group id of the old consumer, which takes 1 to {MAX_GROUP} "
            "letters, digits, '.', '_' and '-'; move a Kafka group with: groupshift protocol run"
        )
    if request.canary < 1:
        problems.append(f"canary {request.canary} is less than 1 member")
    if not 0 <= request.canary_share <= 1:
        problems.append(f"canary_share {request.canary_share} is no share between 0 and 1")
    if request.canary_share and request.canary != 1:
        problems.append(
            f"canary {request.canary} and canary_share {request.canary_share} are both given: choose one"
        )
    if not 0 <= request.canary_watch_s <= MAX_WATCH_S:
        problems.append(f"canary_watch_s {request.canary_watch_s} is not between 0 and {MAX_WATCH_S}")
    if not 0 <= request.soak_s <= MAX_SOAK_S:
        problems.append(f"soak {request.soak_s} s is not between 0 and {MAX_SOAK_S}")
    return tuple(problems)


def places_of(view: GroupView, places: tuple[Place, ...]) -> tuple[Place, ...]:
    """The driver's places in its order, or, where it cannot know them, the members themselves."""
    if places:
        return places
    return tuple(
        Place(name=member.member_id, kind=member.kind, running=True, member_id=member.member_id)
        for member in sorted(view.members, key=lambda member: member.member_id)
    )


def make_plan(request: MoveRequest, view: GroupView, places: tuple[Place, ...]) -> Plan:
    """The stages that this group still needs, in order, up to ``request.until``.

    Stages without work are left out: a group whose members are all aware starts at the toggle."""
    everywhere = places_of(view, places)
    old = [place for place in everywhere if place.kind is MemberKind.OLD]
    canary = canary_places(request, view, old)
    first = tuple(place.name for place in canary)
    rest = [place.name for place in old if place.name not in first]
    zookeeper = [place.name for place in everywhere if place.kind is not MemberKind.PLAIN]
    steps: list[tuple[StageName, Step, Gate | None]] = []
    _replace(steps, StageName.CANARY, list(first), (MemberKind.OLD, MemberKind.AWARE))
    if _reaches(request, Until.ROLL):
        _replace(steps, StageName.ROLL, rest, (MemberKind.OLD, MemberKind.AWARE))
    if _reaches(request, Until.TOGGLE) and view.effective_mode is not Mode.KAFKA:
        steps.append((StageName.TOGGLE, SetMode(to=Mode.KAFKA), Gate.TOGGLE))
    if _reaches(request, Until.RETIRE):
        _replace(steps, StageName.RETIRE, zookeeper, (MemberKind.AWARE, MemberKind.PLAIN))
    steps.append((StageName.SOAK, Soak(seconds=request.soak_s), None))
    if _reaches(request, Until.RETIRE):  # before, members need the mode node: it cannot be finalised
        steps.append((StageName.FINALISE, DeleteModeNode(), Gate.FINALISE))
    return Plan(
        group=request.group,
        driver=request.driver,
        until=request.until,
        soak_s=request.soak_s,
        execute=request.execute,
        slots=tuple(place.name for place in everywhere),
        stages=tuple(_first_asks(steps)),
        canary=_terms(request, view, canary),
    )


def canary_places(request: MoveRequest, view: GroupView, old: list[Place]) -> list[Place]:
    """The places replaced first, by name: so many, or the fewest that hold the share asked for.

    A member's share is what the group's assignor gives to its streams; all old places where even they do
    not hold so much."""
    if not request.canary_share:
        return old[: request.canary]
    due = shares(view)
    wanted, chosen = ceil(request.canary_share * len(view.partitions)), list[Place]()
    for place in sorted(old, key=lambda each: (-due.get(each.member_id or "", 0), each.name)):
        if chosen and sum(due.get(each.member_id or "", 0) for each in chosen) >= wanted:
            break
        chosen.append(place)
    return sorted(chosen, key=lambda place: place.name)


def _terms(request: MoveRequest, view: GroupView, canary: list[Place]) -> CanaryTerms:
    if not canary:
        return CanaryTerms()
    due = shares(view)
    held = sum(due.get(place.member_id or "", 0) for place in canary)
    return CanaryTerms(watch_s=request.canary_watch_s, held=held, partitions=len(view.partitions))


def _reaches(request: MoveRequest, until: Until) -> bool:
    return _REACH.index(request.until) >= _REACH.index(until)


def _replace(
    steps: list[tuple[StageName, Step, Gate | None]],
    name: StageName,
    slots: list[str],
    kinds: tuple[MemberKind, MemberKind],
) -> None:
    if slots:
        steps.append((name, ReplaceMembers(slots=tuple(slots), old=kinds[0], new=kinds[1]), None))


def _first_asks(steps: list[tuple[StageName, Step, Gate | None]]) -> list[Stage]:
    """Stages with their rules; the first act stands behind the approval of the plan."""
    return [
        stage_of(name, step, gate or (Gate.PLAN if index == 0 else None))
        for index, (name, step, gate) in enumerate(steps)
    ]


def stage_of(name: StageName, step: Step, gate: Gate | None = None) -> Stage:
    """A stage with the rules that the rulebook asks around it."""
    return Stage(name=name, step=step, gate=gate, before=rulebook.BEFORE[name], after=rulebook.AFTER[name])


def wanted_mode(plan: Plan, stage: StageName) -> Mode | None:
    """The mode in effect once ``stage`` has settled; soak keeps the mode of the last act planned."""
    if stage in rulebook.MODE_WANTED:
        return rulebook.MODE_WANTED[stage]
    acts = [each.name for each in plan.stages if each.name in rulebook.MODE_WANTED]
    return rulebook.MODE_WANTED[acts[-1]] if acts else None


def way_back(
    plan: Plan, begun: frozenset[StageName], view: GroupView, places: tuple[Place, ...], to: WayBack
) -> tuple[Stage, ...]:
    """The undo stages needed, in order: inverses of the acts that were begun.

    ``begun`` are the stages whose act was at least intended. A toggle is also taken back when the mode
    node asks for kafka now. Without any member act of its own (they were aware before) a way back to
    old members covers every place that holds none."""
    back: list[Stage] = []
    retire = plan.stage(StageName.RETIRE)
    if retire and StageName.RETIRE in begun and isinstance(retire.step, ReplaceMembers):
        back.append(stage_of(StageName.UNDO_RETIRE, retire.step.inverse))
    if StageName.TOGGLE in begun or view.mode.requested is Mode.KAFKA:
        back.append(stage_of(StageName.UNDO_TOGGLE, SetMode(to=Mode.KAFKA).inverse))
    if to is WayBack.OLD_MEMBERS:
        slots = _replaced_slots(plan, begun) or _not_old(plan, view, places)
        if slots:
            forward = ReplaceMembers(slots=slots, old=MemberKind.OLD, new=MemberKind.AWARE)
            back.append(stage_of(StageName.UNDO_MEMBERS, forward.inverse))
    return tuple(back)


def _replaced_slots(plan: Plan, begun: frozenset[StageName]) -> tuple[str, ...]:
    names = (StageName.CANARY, StageName.ROLL)
    stages = [plan.stage(name) for name in names if name in begun]
    steps = [stage.step for stage in stages if stage]
    return tuple(sorted(slot for step in steps if isinstance(step, ReplaceMembers) for slot in step.slots))


def _not_old(plan: Plan, view: GroupView, places: tuple[Place, ...]) -> tuple[str, ...]:
    if plan.stage(StageName.CANARY) or plan.stage(StageName.ROLL):
        return ()
    return tuple(place.name for place in places_of(view, places) if place.kind is not MemberKind.OLD)
