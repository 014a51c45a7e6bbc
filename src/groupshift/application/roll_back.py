"""Roll back: from any stage, as far back as wanted."""

from __future__ import annotations

from groupshift.application.environment import Environment
from groupshift.application.observe import facts
from groupshift.application.records import Migration, load, stage_data
from groupshift.domain.modes import MemberKind
from groupshift.domain.plan import TRANSITIONS, MoveName, Phase, Stage, WayBack
from groupshift.errors import Rejected
from groupshift.ports.driver import Change
from groupshift.ports.journal import Entry, EventKind

_NOTHING_DONE = frozenset({Phase.PLANNED, Phase.APPROVED, Phase.PREVIEW, Phase.REJECTED})


def begin(env: Environment, migration: str, wanted: tuple[WayBack, str], token: int) -> tuple[str, ...]:
    """See `App.begin_roll_back`; ``wanted`` is how far, and why when it was not asked for."""
    to, because = wanted
    found = load(env, migration)
    if found.phase in _NOTHING_DONE:
        return ()
    _demand_possible(env, found, to)
    if found.phase is Phase.ROLLING_BACK and _same_target(found, to):
        return tuple(stage.name.value for stage in found.undo)
    _fence(env, found, token)
    stages = _stages(env, found, to)
    env.append(
        Entry(
            migration=migration,
            at_ms=env.clock.now_ms(),
            kind=EventKind.ROLL_BACK_BEGUN,
            body={"to": to.value, "because": because, "stages": [stage_data(stage) for stage in stages]},
            token=token,
            phase=Phase.ROLLING_BACK,
        )
    )
    return tuple(stage.name.value for stage in stages)


def way_back(env: Environment, migration: str, to: WayBack) -> tuple[Stage, ...]:
    """See `App.way_back`."""
    found = load(env, migration)
    if found.phase in _NOTHING_DONE:
        return ()
    _demand_possible(env, found, to)
    if found.phase is Phase.ROLLING_BACK and _same_target(found, to):
        return found.undo
    return _stages(env, found, to)


def _stages(env: Environment, found: Migration, to: WayBack) -> tuple[Stage, ...]:
    seen = facts(env, found.record.group, found.plan.driver)
    return found.book.way_back(found.plan, frozenset(found.steps), seen.view, seen.places, to)


def _fence(env: Environment, found: Migration, token: int) -> None:
    """Let the fleet refuse what a run that was asleep until now would still start: a change of no slots."""
    change_id = f"{found.id}:roll_back:{token}"
    held = Change(
        change_id=change_id,
        group=found.record.group,
        slots=(),
        to=MemberKind.OLD,
        fence=found.id,
        token=token,
    )
    env.fleets(found.plan.driver).start(held)


def _same_target(found: Migration, to: WayBack) -> bool:
    begun = found.latest(EventKind.ROLL_BACK_BEGUN)
    return begun is not None and begun.body["to"] == to.value


def _demand_possible(env: Environment, found: Migration, to: WayBack) -> None:
    if found.plan.move is MoveName.PROTOCOL and to is not WayBack.OLD_MEMBERS:
        raise Rejected(f"to {to} is of the move coordination; {found.id} can go back to old_members only")
    if found.phase is not Phase.ROLLING_BACK and Phase.ROLLING_BACK not in TRANSITIONS[found.phase]:
        raise Rejected(
            f"migration {found.id} is {found.phase}: its way back is closed; plan a new migration instead"
        )
    later = [
        record
        for record in env.journal.of_group(found.record.group)
        if record.created_at_ms > found.record.created_at_ms and record.phase not in _NOTHING_DONE
    ]
    if later:
        raise Rejected(
            f"migration {found.id} was followed by {later[0].migration} on the same group; "
            f"roll that one back: groupshift roll-back {later[0].migration} --execute"
        )
