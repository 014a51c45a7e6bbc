"""Waves of toggles: start a few groups, wait until they have settled, go on; stop at the budget or the brake.

Every group that is under way may fail, so a wave is never larger than what is left of the error budget: even
if all of it fails, no more than the budget has failed. The brake stops before the next wave.

A toggle uses the migration, fence and compare-and-set of any other move. A group that a scan toggles gets a
migration in the journal with the toggle as its only step. So it keeps its group to itself, survives a crash
(the next scan goes on with it), and `groupshift roll-back` takes it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from groupshift.application import roll_back
from groupshift.application.act import act
from groupshift.application.claim import claim, demand_held
from groupshift.application.close import close
from groupshift.application.environment import Environment
from groupshift.application.finalise import keep
from groupshift.application.observe import LOOK_AGAIN_S, facts
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
from groupshift.errors import Conflict, Fenced, Rejected, Transient
from groupshift.ports.journal import Entry, EventKind, MigrationRecord
from groupshift.scan.ports import Brake, ScanRecord, Scans, ToggleRecord, ToggleState
from groupshift.scan.state import GroupState, Life

MAX_STABLE_S = 30 * 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveRules:
    """``size`` groups at most in one wave; after ``budget`` failures nothing more is started; a group is
    toggled to kafka only when it is at rest for ``stable_s`` seconds; ``limit`` groups at most in one run
    (0: all)."""

    size: int = 5
    budget: int = 2
    stable_s: int = 3600
    limit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A group that may be toggled; small groups come first, for they risk least."""

    group: str
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run of waves is: groups still to do, in order, and how many failed."""

    todo: tuple[str, ...]
    failed: int = 0


def check(rules: WaveRules) -> tuple[str, ...]:
    """Everything wrong with the values, one clause each; empty when usable."""
    problems = []
    if rules.size < 1:
        problems.append(f"wave size {rules.size} is less than 1 group")
    if rules.budget < 1:
        problems.append(f"error budget {rules.budget} is less than 1 failure, so nothing could be started")
    if not 0 <= rules.stable_s <= MAX_STABLE_S:
        problems.append(f"stable time {rules.stable_s} s is not between 0 and {MAX_STABLE_S}")
    if rules.limit < 0:
        problems.append(f"limit {rules.limit} is negative; 0 means all groups")
    return tuple(problems)


def next_wave(progress: Progress, rules: WaveRules, brake: str) -> tuple[str, ...]:
    """The groups to start now; none when the brake is pulled (``brake`` is why) or the budget is used up."""
    if brake or progress.failed >= rules.budget:
        return ()
    return progress.todo[: min(rules.size, rules.budget - progress.failed)]


def unfit(state: GroupState, rules: WaveRules, now_ms: int) -> str:
    """Why a group is not toggled to kafka by itself; empty when it is fully migrated and at rest."""
    toggle = state.stage(StageName.TOGGLE)
    if state.life is not Life.ACTIVE or not state.aware:
        return f"{state.life}, without migration-aware members"
    if toggle is None:
        return f"already in {state.mode} mode"
    if not toggle.clean:
        said = toggle.findings[0]
        return f"{said.rule}: {said.reason}"
    rest_s = (now_ms - state.stable_since_ms) // 1000
    if rest_s < rules.stable_s:
        return f"at rest for {rest_s} s only, wanted are {rules.stable_s} s"
    return ""


def ordered(candidates: Iterable[Candidate], limit: int = 0) -> tuple[str, ...]:
    """Names, smallest group first."""
    names = [each.group for each in sorted(candidates, key=lambda each: (each.partitions, each.group))]
    return tuple(names[:limit] if limit else names)


def is_asked_for(group: str, patterns: Iterable[str]) -> bool:
    """Whether one of the names or patterns is about a group. ``*`` and ``?`` stand for others; brackets,
    which group ids may hold, for themselves."""
    return any(fnmatchcase(group, pattern.replace("[", "[[]")) for pattern in patterns)


def wanted_back(state: GroupState, patterns: Iterable[str]) -> bool:
    """Whether a group that is asked for by name or pattern has kafka as its mode node."""
    return is_asked_for(state.group, patterns) and state.requested == Mode.KAFKA.value


RUN = "scan-"
"""How the runs of migrations begin that a scan made: only those it goes on with."""
Shown = Callable[[ToggleRecord], None]
"""Is told how far each group is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveReport:
    """What the waves did. ``left`` are the groups that were not started, and ``stopped`` why (empty: none
    is left)."""

    to: Mode
    execute: bool
    toggles: tuple[ToggleRecord, ...] = ()
    left: tuple[str, ...] = ()
    stopped: str = ""

    def count(self, state: ToggleState) -> int:
        """How many groups are in a state."""
        return sum(1 for each in self.toggles if each.state is state)


@dataclass(slots=True, kw_only=True)
class Waves:
    """One run of waves of a scan. ``settle_s`` bounds the wait for a wave to settle."""

    env: Environment
    scans: Scans
    brake: Brake
    record: ScanRecord
    rules: WaveRules
    shown: Shown
    settle_s: int = 120

    def run(self, groups: Sequence[str], to: Mode, *, execute: bool) -> WaveReport:
        """Toggle ``groups`` in this order. Without ``execute`` the waves are planned and nothing is changed.

        Raises `Rejected` when a value of the rules cannot be used."""
        problems = check(self.rules)
        if problems:
            raise Rejected(f"the waves cannot be started: {'; '.join(problems)}; correct it and run again")
        return self._act(tuple(groups), to) if execute else self._plan(tuple(groups), to)

    def _plan(self, groups: tuple[str, ...], to: Mode) -> WaveReport:
        progress, planned, wave = Progress(todo=groups), list[ToggleRecord](), 0
        while names := next_wave(progress, self.rules, ""):
            wave += 1
            planned += [self._note(Toggle(group=n, to=to, state=ToggleState.PLANNED), wave) for n in names]
            progress = Progress(todo=progress.todo[len(names) :])
        return WaveReport(to=to, execute=False, toggles=tuple(planned))

    def _act(self, groups: tuple[str, ...], to: Mode) -> WaveReport:
        before = [each for each in self._noted() if each.to is to]
        done = {each.group for each in before if each.state is ToggleState.DONE}
        progress = Progress(
            todo=tuple(group for group in groups if group not in done), failed=_failed(before)
        )
        wave, ended, why = (
            max((each.wave for each in before), default=0),
            list[ToggleRecord](),
            self._pulled(),
        )
        while names := next_wave(progress, self.rules, why):
            wave += 1
            begun = self._start(names, to, wave)
            noted = [self._note(each, wave) for each in self._settle(begun)]
            progress = Progress(todo=progress.todo[len(begun) :], failed=progress.failed + _failed(noted))
            ended += noted
            why = self._pulled()
        used_up = f"the error budget of {self.rules.budget} is used up ({progress.failed} failed)"
        stopped = (why or used_up) if progress.todo else ""
        return WaveReport(to=to, execute=True, toggles=tuple(ended), left=progress.todo, stopped=stopped)

    def _noted(self) -> tuple[ToggleRecord, ...]:
        """What this scan has toggled before: a task that is run again has no new budget."""
        return self.scans.toggles(self.record.ensemble, self.record.number)

    def _pulled(self) -> str:
        reason = self.brake.pulled()
        return f"the brake is pulled: {reason}" if reason else ""

    def _start(self, names: tuple[str, ...], to: Mode, wave: int) -> list[Toggle]:
        """Those that were started before the brake, if it is pulled meanwhile, stopped it."""
        begun: list[Toggle] = []
        run = f"{RUN}{self.record.number}-{self.env.clock.now_ms()}-{wave}"
        for name in names:
            if self.brake.pulled():
                break
            self._note(Toggle(group=name, to=to), wave)
            begun.append(start(self.env, name, to, run))
        return begun

    def _settle(self, begun: list[Toggle]) -> list[Toggle]:
        """Each with its end: done, or failed and taken back."""
        ended = {each.group: each for each in begun if each.state is not ToggleState.STARTED}
        waiting = {each.group: each for each in begun if each.state is ToggleState.STARTED}
        reasons: dict[str, str] = {}
        deadline = self.env.clock.now_ms() + self.settle_s * 1000
        while waiting and self.env.clock.now_ms() < deadline:
            for group, toggle in list(waiting.items()):
                try:
                    reasons[group] = self._look(toggle)
                except Fenced as lost:
                    ended[group] = replace(waiting.pop(group), state=ToggleState.FAILED, reason=str(lost))
                    continue
                if not reasons[group]:
                    ended[group] = self._finish(waiting.pop(group))
            if waiting:
                self.env.clock.sleep(LOOK_AGAIN_S)
        for group, toggle in waiting.items():
            ended[group] = self._fail(toggle, reasons.get(group, "nothing was seen of it"))
        return [ended[each.group] for each in begun]

    def _look(self, toggle: Toggle) -> str:
        """Why it has not settled; empty when it has."""
        try:
            judged = look(self.env, toggle)
        except Transient as silent:
            return str(silent)
        return "" if settled(judged) else judged.reasons[0]

    def _finish(self, toggle: Toggle) -> Toggle:
        try:
            finish(self.env, toggle)
        except (Conflict, Transient) as failed:
            return replace(toggle, state=ToggleState.FAILED, reason=str(failed))
        return replace(toggle, state=ToggleState.DONE, reason=f"settled in {toggle.to} mode")

    def _fail(self, toggle: Toggle, why: str) -> Toggle:
        because = f"group {toggle.group} did not settle in {toggle.to} mode within {self.settle_s} s: {why}"
        if toggle.to is Mode.KAFKA:
            because = f"{because}; {take_back(self.env, toggle, because)}"
        return replace(toggle, state=ToggleState.FAILED, reason=because)

    def _note(self, toggle: Toggle, wave: int) -> ToggleRecord:
        noted = ToggleRecord(
            group=toggle.group,
            to=toggle.to,
            wave=wave,
            state=toggle.state,
            at_ms=self.env.clock.now_ms(),
            reason=toggle.reason,
            migration=toggle.migration,
        )
        self.scans.put_toggle(self.record, noted)
        self.shown(noted)
        return noted


def _failed(toggles: Sequence[ToggleRecord]) -> int:
    return sum(1 for each in toggles if each.state is ToggleState.FAILED)


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
