"""Toggling one group of many, through the same migration, fence and compare-and-set as a move of its own.

A group that a scan toggles gets a migration in the journal whose only act is the toggle. So it keeps its
group to itself, survives a crash (the next scan goes on with it), and `groupshift roll-back` takes it back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from groupshift.application import roll_back
from groupshift.application.act import act
from groupshift.application.claim import claim, demand_held
from groupshift.application.close import close
from groupshift.application.environment import Environment
from groupshift.application.finalise import keep
from groupshift.application.observe import facts
from groupshift.application.plan import migration_id
from groupshift.application.records import canonical
from groupshift.domain.judgement import Judgement
from groupshift.domain.modes import Holder, Mode
from groupshift.domain.plan import Phase, Plan, StageName, Until, WayBack, to_json
from groupshift.domain.planning import stage_of
from groupshift.domain.rulebook import AFTER, BEFORE, MODE_WANTED
from groupshift.domain.rules import ask
from groupshift.domain.step import SetMode
from groupshift.domain.verdict import Verdict
from groupshift.errors import Conflict, Rejected, Transient
from groupshift.ports.journal import Entry, EventKind, MigrationRecord
from groupshift.ports.scans import ToggleState

RUN = "scan-"
"""How the runs of migrations begin that a scan made: only those it goes on with."""

DRIVER = "manual"
"""No member is replaced, so no fleet is asked."""

_BAD = frozenset({Verdict.FAIL, Verdict.ERROR})


@dataclass(frozen=True, slots=True, kw_only=True)
class Toggle:
    """One group on its way to ``to``: its migration, the token of this run, and how it stands."""

    group: str
    to: Mode
    migration: str = ""
    token: int = 0
    state: ToggleState = ToggleState.STARTED
    reason: str = ""


def start(env: Environment, group: str, to: Mode, run: str) -> Toggle:
    """Journal and make the one write, unless the group is not fit any more or somebody else's.

    ``run`` begins with `RUN` and is this scan's. Never raises for one group: what went wrong is its state."""
    try:
        return _start_kafka(env, group, run) if to is Mode.KAFKA else _start_back(env, group, run)
    except Rejected as unfit:
        return Toggle(group=group, to=to, state=ToggleState.SKIPPED, reason=str(unfit))
    except (Conflict, Transient) as failed:
        return Toggle(group=group, to=to, state=ToggleState.FAILED, reason=str(failed))


def look(env: Environment, toggle: Toggle) -> Judgement:
    """What the rules after the toggle say of the live group now. Raises `Fenced` when somebody took the
    group's migration over: it is his to look at."""
    holder = Holder(migration=toggle.migration, token=toggle.token)
    demand_held(replace(env, held=holder), toggle.migration)
    stage = StageName.TOGGLE if toggle.to is Mode.KAFKA else StageName.UNDO_TOGGLE
    seen = facts(env, toggle.group, DRIVER, MODE_WANTED[stage])
    return Judgement(findings=ask(AFTER[stage], seen))


def settled(judged: Judgement) -> bool:
    """Whether nothing failed and everything could be measured."""
    return judged.verdict not in _BAD


def finish(env: Environment, toggle: Toggle) -> None:
    """Write down that the group has settled in the wanted mode."""
    if toggle.to is Mode.KAFKA:
        keep(env, toggle.migration, toggle.token)
    else:
        _close_back(env, toggle, "taken back to zookeeper mode and settled there by the live rules")


def take_back(env: Environment, toggle: Toggle, because: str) -> str:
    """Set a group that did not settle in kafka mode back to zookeeper; what became of it, as a clause."""
    try:
        wanted = (WayBack.ZOOKEEPER_MODE, because)
        stages = roll_back.begin(env, toggle.migration, wanted, toggle.token)
        if StageName.UNDO_TOGGLE.value in stages:
            act(env, toggle.migration, StageName.UNDO_TOGGLE, toggle.token)
    except (Rejected, Conflict, Transient) as failed:
        return f"it could not be taken back ({failed})"
    _close_back(env, toggle, f"taken back to zookeeper mode: {because}", Verdict.FAIL)
    return "it was taken back to zookeeper mode"


def _start_kafka(env: Environment, group: str, run: str) -> Toggle:
    record = _ours(env, group)
    if record is None:
        if env.groups.read(group).mode.requested is Mode.KAFKA:
            raise Rejected(f"the mode node of group {group} holds kafka already; nothing is to be written")
        record = _create(env, group, run, Phase.APPROVED)
    token = claim(env, record.migration, run)
    toggle = Toggle(group=group, to=Mode.KAFKA, migration=record.migration, token=token)
    if record.phase is Phase.ROLLING_BACK:
        said = take_back(env, toggle, "an earlier scan was killed while it took the group back")
        return _with(toggle, ToggleState.FAILED, said)
    try:
        act(env, record.migration, StageName.TOGGLE, token)
    except Rejected as unfit:
        close(env, record.migration, token)
        return _with(toggle, ToggleState.SKIPPED, str(unfit))
    except (Conflict, Transient) as failed:
        return _with(toggle, ToggleState.FAILED, str(failed))
    return toggle


def _start_back(env: Environment, group: str, run: str) -> Toggle:
    seen = facts(env, group, DRIVER, Mode.ZOOKEEPER)
    if seen.view.mode.requested is not Mode.KAFKA:
        raise Rejected(f"the mode node of group {group} does not ask for kafka; nothing is to be taken back")
    judged = Judgement(findings=ask(BEFORE[StageName.UNDO_TOGGLE], seen))
    if not settled(judged):
        raise Rejected(f"group {group} cannot be taken back: {judged.reasons[0]}")
    record = _ours(env, group) or _moved(env, group) or _create(env, group, run, Phase.RUNNING)
    token = claim(env, record.migration, run)
    toggle = Toggle(group=group, to=Mode.ZOOKEEPER, migration=record.migration, token=token)
    try:
        roll_back.begin(env, record.migration, (WayBack.ZOOKEEPER_MODE, ""), token)
        act(env, record.migration, StageName.UNDO_TOGGLE, token)
    except (Rejected, Conflict, Transient) as failed:
        return _with(toggle, ToggleState.FAILED, str(failed))
    return toggle


def _ours(env: Environment, group: str) -> MigrationRecord | None:
    """The open migration that a scan made and did not end. Raises `Rejected` for anybody else's."""
    record = env.journal.open_of(group)
    if record is not None and not record.run.startswith(RUN):
        raise Rejected(
            f"group {group} has the open migration {record.migration} ({record.phase}); "
            f"finish it or take it back with: groupshift roll-back {record.migration} --execute"
        )
    return record


def _moved(env: Environment, group: str) -> MigrationRecord | None:
    """The migration that brought the group where it is, if its way back is open."""
    latest = next((r for r in env.journal.of_group(group) if r.phase not in _NEVER_ACTED), None)
    return latest if latest is not None and latest.phase is Phase.MOVED else None


_NEVER_ACTED = frozenset({Phase.PREVIEW, Phase.REJECTED})


def _create(env: Environment, group: str, run: str, phase: Phase) -> MigrationRecord:
    """A migration whose only act is the toggle; approved by the rules of the scan, so without a gate."""
    now = env.clock.now_ms()
    plan = Plan(
        group=group,
        driver=DRIVER,
        until=Until.TOGGLE,
        soak_s=0,
        execute=True,
        slots=(),
        stages=(stage_of(StageName.TOGGLE, SetMode(to=Mode.KAFKA)),),
    )
    own = f"{run}/{group}"
    record = MigrationRecord(
        migration=migration_id(group, own, now),
        group=group,
        run=own,
        phase=phase,
        plan_hash=plan.hash,
        plan=to_json(plan),
        request=canonical({"group": group, "run": own, "actor": "scan", "execute": True}),
        created_at_ms=now,
        updated_at_ms=now,
    )
    env.journal.create(record)
    body = {"plan_hash": plan.hash, "actor": "scan", "stages": [StageName.TOGGLE.value]}
    env.append(Entry(migration=record.migration, at_ms=now, kind=EventKind.PLANNED, body=body))
    return record


def _close_back(env: Environment, toggle: Toggle, reason: str, verdict: Verdict = Verdict.PASS) -> None:
    env.append(
        Entry(
            migration=toggle.migration,
            at_ms=env.clock.now_ms(),
            kind=EventKind.CLOSED,
            body={"verdict": verdict.value, "reason": reason},
            token=toggle.token,
            phase=Phase.ROLLED_BACK,
        )
    )


def _with(toggle: Toggle, state: ToggleState, reason: str) -> Toggle:
    return Toggle(
        group=toggle.group,
        to=toggle.to,
        migration=toggle.migration,
        token=toggle.token,
        state=state,
        reason=reason,
    )
