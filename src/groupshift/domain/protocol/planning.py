"""From a request and an observed group to a plan of the move ``protocol``, and from acts made to the way
back. Pure.

Online, members are replaced one after the other; offline, all of them stop before the first of the new kind
starts. Source: docs/reference/group-coordinator.md §§5.2-5.4.
"""

from __future__ import annotations

from groupshift.domain.facts import Place
from groupshift.domain.group import GroupView, Member
from groupshift.domain.group_protocol import Aim, Protocol, Way
from groupshift.domain.modes import MemberKind
from groupshift.domain.plan import Gate, MoveName, MoveRequest, Plan, Stage, StageName, Until, WayBack
from groupshift.domain.planning import MAX_GROUP, MAX_SOAK_S
from groupshift.domain.protocol import rulebook
from groupshift.domain.step import ReplaceMembers, Soak, Step

KIND = {Protocol.CLASSIC: MemberKind.PLAIN, Protocol.CONSUMER: MemberKind.NATIVE}
"""The kind of a member that speaks a protocol."""

_ONLINE = (StageName.CANARY, StageName.ROLL)
_INVERSES = {StageName.FILL: StageName.UNDO_FILL, StageName.EMPTY: StageName.UNDO_EMPTY}


def check(request: MoveRequest) -> tuple[str, ...]:
    """Everything wrong with the values of a request, one clause each; empty when usable."""
    problems = []
    if not 0 < len(request.group) <= MAX_GROUP:
        problems.append(
            f"group {request.group!r} has {len(request.group)} characters: name one of 1 to {MAX_GROUP}"
        )
    if request.to is None:
        problems.append("to is missing: name the protocol, classic or consumer")
    if request.canary < 1:
        problems.append(f"canary {request.canary} is less than 1 member")
    if request.canary_share:
        problems.append(f"canary_share {request.canary_share} is not known to this move: name a canary")
    if request.canary_watch_s:
        problems.append(f"canary_watch_s {request.canary_watch_s} is not known to this move: use 0")
    if not 0 <= request.soak_s <= MAX_SOAK_S:
        problems.append(f"soak {request.soak_s} s is not between 0 and {MAX_SOAK_S}")
    if request.way is Way.OFFLINE and request.driver == "kubernetes":
        problems.append("driver kubernetes keeps no place empty: move online, or offline with driver manual")
    if request.way is Way.OFFLINE and request.until is Until.CANARY:
        problems.append("until canary does not fit offline: all members stop at once")
    return tuple(problems)


def places_of(view: GroupView, places: tuple[Place, ...]) -> tuple[Place, ...]:
    """The driver's places in its order, or, where it cannot know them, the members by the names that people
    know them by."""
    if places:
        return places
    names = [_name(member) for member in view.members]
    found = (
        Place(
            name=name if names.count(name) == 1 else member.member_id,
            kind=member.kind,
            running=True,
            member_id=member.member_id,
        )
        for name, member in zip(names, view.members, strict=True)
    )
    return tuple(sorted(found, key=lambda place: place.name))


def _name(member: Member) -> str:
    return member.client_id or member.member_id


def make_plan(request: MoveRequest, view: GroupView, places: tuple[Place, ...]) -> Plan:
    """The stages that this group still needs, in order; without members to replace, the soak alone.

    ``request.to`` is there (`check`)."""
    to = request.to or Protocol.CONSUMER
    everywhere = places_of(view, places)
    names = tuple(place.name for place in everywhere)
    others = tuple(place.name for place in everywhere if place.kind is not KIND[to])
    steps = _offline(names, to) if request.way is Way.OFFLINE and others else _online(request, others, to)
    steps.append((StageName.SOAK, Soak(seconds=request.soak_s)))
    return Plan(
        group=request.group,
        driver=request.driver,
        until=Until.CANARY if request.until is Until.CANARY else Until.ROLL,
        soak_s=request.soak_s,
        execute=request.execute,
        slots=names,
        stages=tuple(
            stage_of(name, step, Gate.PLAN if index == 0 else None)
            for index, (name, step) in enumerate(steps)
        ),
        move=MoveName.PROTOCOL,
        to=to,
        way=request.way,
    )


def _online(request: MoveRequest, others: tuple[str, ...], to: Protocol) -> list[tuple[StageName, Step]]:
    first, rest = others[: request.canary], others[request.canary :]
    wanted = ((StageName.CANARY, first), (StageName.ROLL, () if request.until is Until.CANARY else rest))
    old, new = KIND[to.other], KIND[to]
    return [(name, ReplaceMembers(slots=slots, old=old, new=new)) for name, slots in wanted if slots]


def _offline(names: tuple[str, ...], to: Protocol) -> list[tuple[StageName, Step]]:
    return [
        (StageName.EMPTY, ReplaceMembers(slots=names, old=KIND[to.other], new=MemberKind.VACANT)),
        (StageName.FILL, ReplaceMembers(slots=names, old=MemberKind.VACANT, new=KIND[to])),
    ]


def stage_of(name: StageName, step: Step, gate: Gate | None = None) -> Stage:
    """A stage with the rules that the rulebook asks around it."""
    return Stage(name=name, step=step, gate=gate, before=rulebook.BEFORE[name], after=rulebook.AFTER[name])


def way_back(
    plan: Plan, begun: frozenset[StageName], view: GroupView, places: tuple[Place, ...], to: WayBack
) -> tuple[Stage, ...]:
    """The inverses of the acts that were begun, last one first.

    ``begun`` are the stages whose act was at least intended; there is one way back only."""
    del view, places, to
    online = [stage.step for stage in plan.stages if stage.name in _ONLINE and stage.name in begun]
    replaced = [step for step in online if isinstance(step, ReplaceMembers)]
    if replaced:
        slots = tuple(slot for step in replaced for slot in step.slots)
        there = ReplaceMembers(slots=slots, old=replaced[0].old, new=replaced[0].new)
        return (stage_of(StageName.UNDO_MEMBERS, there.inverse),)
    steps = ((name, plan.stage(name)) for name in _INVERSES if name in begun)
    return tuple(
        stage_of(_INVERSES[name], stage.step.inverse)
        for name, stage in steps
        if stage is not None and isinstance(stage.step, ReplaceMembers)
    )


def wanted(plan: Plan, stage: StageName) -> Aim | None:
    """The protocol that members are to speak once ``stage`` has settled; None while both are at home."""
    if plan.to is None or (stage is StageName.SOAK and not _whole(plan)):
        return None
    return Aim(to=plan.to.other if stage.undoes else plan.to, way=plan.way or Way.ONLINE)


def reached(plan: Plan) -> str:
    """Where this plan has led to."""
    if _whole(plan):
        return f"all members speak the {plan.to} protocol"
    return f"the canary speaks the {plan.to} protocol"


def _whole(plan: Plan) -> bool:
    """Whether no member is left out by this plan."""
    rolls = plan.stage(StageName.ROLL) or plan.stage(StageName.FILL)
    return rolls is not None or plan.until is not Until.CANARY or len(plan.slots) == len(_canary(plan))


def _canary(plan: Plan) -> tuple[str, ...]:
    stage = plan.stage(StageName.CANARY)
    return stage.step.slots if stage and isinstance(stage.step, ReplaceMembers) else ()
