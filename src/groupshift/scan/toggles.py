"""The toggle of one group by a scan, there or back: a run of the move coordination whose only act is the
write of the mode node. It keeps its group to itself and survives a crash: the next scan goes on with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from groupshift.domain.group_rules import ask
from groupshift.domain.modes import Mode
from groupshift.domain.plan import PhaseName, WayBack
from groupshift.domain.run import RunState, StepState, plan_from
from groupshift.domain.verdict import Judgement, Verdict
from groupshift.engine.begin import begin, claim
from groupshift.engine.group import facts_of
from groupshift.engine.move import Run, RunOptions, Tools
from groupshift.engine.progress import Asks, Ended, Moved, Progress, Stopped, Waits
from groupshift.engine.roll_back import NOTHING_DONE, begin_roll_back, take_back
from groupshift.engine.run import advance, give_up
from groupshift.engine.run_end import reject
from groupshift.errors import Conflict, Rejected, Transient
from groupshift.moves.coordination.facts import CoordinationPorts
from groupshift.moves.coordination.move import ModeAlone
from groupshift.moves.coordination.plan_and_rollback import MANUAL, SET_MODE
from groupshift.moves.coordination.rules import RULES
from groupshift.ports.runs import RunRecord
from groupshift.scan.ports import ToggleState

ORIGIN = "scan-"
"""How the origins of runs begin that a scan made, and the holders of its claims: only those it goes on
with."""
LOOK_AGAIN_S = 0.5
_BACK = WayBack.ZOOKEEPER_MODE.value


@dataclass(slots=True, kw_only=True)
class Toggle:
    """One group on its way to ``to``: the claim of its run, how it stands, and why. ``silent_ms``: since when
    a server does not answer (0: all do)."""

    group: str
    to: Mode
    run: Run[CoordinationPorts] | None = None
    state: ToggleState = ToggleState.STARTED
    reason: str = ""
    silent_ms: int = 0

    def end(self, state: ToggleState, reason: str) -> None:
        """Say how it ended."""
        self.state, self.reason = state, reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Toggles:
    """Starts and looks at toggles; ``moves`` are the one-step moves by the mode that they lead to.

    No method raises for one group, unless a promise was violated: what went wrong is the toggle's state."""

    moves: Mapping[Mode, ModeAlone]
    tools: Tools
    ports: CoordinationPorts

    def start(self, toggle: Toggle, holder: str) -> None:
        """Journal a run and make its one write, unless the group is not fit any more or somebody else's.
        What does not allow the write may heal for as long as a judge is patient.

        ``holder`` begins with `ORIGIN` and names this wave."""
        group, to = toggle.group, toggle.to
        options = RunOptions(who="scan", holder=holder, patience_s=self.ports.terms.patience_s)
        try:
            former, move = self._former(group, to), self.moves[to]
            toggle.run = self._claimed(former, to, options) if former else None
            if toggle.run is None or (to is Mode.ZOOKEEPER and not _goes_back(toggle.run)):
                request, origin = move.of(group), f"{holder}/{to}/{group}"
                begun = begin(move, self.tools, self.ports, request, options, execute=True, origin=origin)
                toggle.run = self._claimed(begun, to, options)
        except Rejected as unfit:
            toggle.end(ToggleState.SKIPPED, str(unfit))
        except (Conflict, Transient) as failed:
            toggle.end(ToggleState.FAILED, str(failed))
        if toggle.run is not None:
            self.look(toggle, starting=True)
            toggle.run.options = replace(options, patience_s=0)

    def look(self, toggle: Toggle, *, starting: bool = False) -> None:
        """Go on with a run until it has to wait or is over; ``starting``: until its write was made. Whatever
        keeps a group from kafka mode sends it back to zookeeper mode. A run that somebody took over is his:
        nothing is looked at any more. What does not answer is waited for, look after look, for as long as an
        act may take to settle; where nothing was intended yet the toggle fails at once: a later look would
        write behind a brake that was pulled meanwhile."""
        run = toggle.run
        while run is not None and toggle.state is ToggleState.STARTED:
            try:
                progress = advance(run)
                toggle.silent_ms = 0
                if isinstance(progress, Waits) and not starting:
                    return
                if starting and isinstance(progress, Moved | Waits):
                    known = run.records.get(progress.step.key)
                    if known is not None and known.state is StepState.ACTED:
                        return
                if isinstance(progress, Waits):
                    self.tools.clock.sleep(LOOK_AGAIN_S)
                else:
                    self._met(toggle, run, progress)
            except Rejected as unfit:
                _refuse(toggle, run, str(unfit))
            except Conflict as lost:
                toggle.end(ToggleState.FAILED, str(lost))
            except Transient as silent:
                now = self.tools.clock.now_ms()
                toggle.silent_ms, toggle.reason = toggle.silent_ms or now, str(silent)
                unbegun = starting and run.record.state is RunState.APPROVED
                if unbegun or now - toggle.silent_ms >= self.ports.terms.settle_s * 1000:
                    toggle.end(ToggleState.FAILED, str(silent))
                return

    def leave(self, toggle: Toggle, why: str) -> None:
        """Journal that this process stops by itself, so that a person can go on without taking it over."""
        if toggle.run is not None and toggle.state is ToggleState.STARTED:
            give_up(toggle.run, why)

    def _met(self, toggle: Toggle, run: Run[CoordinationPorts], progress: Progress) -> None:
        """Say how a run ended, and turn one round that does not come to its end."""
        unsettled = f"group {toggle.group} did not settle in {toggle.to} mode"
        match progress:
            case Ended():
                reached = Mode.ZOOKEEPER if run.going_back else _leads_to(run.record)
                if reached is toggle.to:
                    toggle.end(ToggleState.DONE, f"settled in {toggle.to} mode")
                else:
                    said = f"{unsettled}: {_because(run)}; it was taken back to zookeeper mode"
                    toggle.end(ToggleState.FAILED, said)
            case Stopped(closing=closing) if closing is not None:
                toggle.end(ToggleState.FAILED, closing.reason)
            case Asks() | Stopped():
                why = _said(progress)
                try:
                    if not run.going_back and toggle.to is Mode.KAFKA:
                        begin_roll_back(run, _BACK, why)
                        return
                    failed = why
                    why = _because(run) if toggle.to is Mode.KAFKA else ""
                except (Rejected, Conflict, Transient) as closed:
                    failed = str(closed)
                both = f"{unsettled}: {why}; it could not be taken back ({failed})"
                toggle.end(ToggleState.FAILED, both if why else f"{unsettled}: {failed}")
                give_up(run, toggle.reason)
            case _:
                pass

    def _former(self, group: str, to: Mode) -> RunRecord | None:
        """Return the run to go on with: an open one of a scan; back also the latest one that acted, if it
        brought the group where it is and its rollback is open. None where a new one has to act."""
        ours = self._ours(group)
        if to is Mode.KAFKA:
            if ours is None and self.ports.side.groups.read(group).mode.requested is Mode.KAFKA:
                raise Rejected(
                    f"the mode node of group {group} holds kafka already; nothing is to be written"
                )
            return ours
        facts = facts_of(self.ports.side, group, MANUAL, Mode.ZOOKEEPER)
        if ours is None and facts.view.mode.requested is not Mode.KAFKA:
            raise Rejected(f"the mode node of group {group} does not ask for kafka: nothing to take back")
        judged = Judgement(findings=ask(RULES.phases[PhaseName.UNDO_TOGGLE].before, facts))
        if judged.verdict in {Verdict.FAIL, Verdict.ERROR}:
            raise Rejected(f"group {group} cannot be taken back: {judged.reasons[0]}")
        if ours is not None:
            return ours
        move = self.moves[Mode.ZOOKEEPER]
        earlier = self.tools.runs.of_target(move.target(self.ports, move.of(group)))
        latest = next((each for each in earlier if each.state not in NOTHING_DONE), None)
        moved = latest is not None and (latest.move, latest.state) == (move.name, RunState.MOVED)
        return latest if latest and moved and _leads_to(latest) is Mode.KAFKA else None

    def _ours(self, group: str) -> RunRecord | None:
        """Return the open run that a scan made and did not end. Raises `Rejected` for anybody else's."""
        move = self.moves[Mode.KAFKA]
        for record in self.tools.runs.in_the_way(move.target(self.ports, move.of(group))):
            held = self.tools.runs.held(record.run)
            made = record.move == move.name and record.origin.startswith(ORIGIN)
            if made and (held is None or held.stopped or held.holder.startswith(ORIGIN)):
                return record
            by = f", held by {held.holder}," if made and held is not None else ""
            raise Rejected(
                f"run {record.run} of {record.target} is {record.state}{by} and is in the way of group "
                f"{group}; go on with it: groupshift continue {record.run} --execute, or take it back: "
                f"groupshift roll-back {record.run} --execute"
            )
        return None

    def _claimed(self, record: RunRecord, to: Mode, options: RunOptions) -> Run[CoordinationPorts]:
        held = self.tools.runs.held(record.run)
        own = held is not None and held.holder.startswith(ORIGIN)
        return claim(self.moves[to], self.tools, self.ports, record, options, take_over=own)


def _refuse(toggle: Toggle, run: Run[CoordinationPorts], why: str) -> None:
    """End the run of a group that is not fit any more: skipped where nothing was changed."""
    try:
        changed = run.refresh().state is not RunState.APPROVED
        if not changed:
            reject(run, why)
        toggle.end(ToggleState.FAILED if changed else ToggleState.SKIPPED, why)
    except (Conflict, Transient) as failed:
        toggle.end(ToggleState.FAILED, f"{why}; {failed}")


def _goes_back(run: Run[CoordinationPorts]) -> bool:
    """Whether a run leads to zookeeper mode from here on. One that changed nothing is closed: it cannot."""
    if _leads_to(run.record) is Mode.ZOOKEEPER:
        return True
    try:
        return take_back(run, _BACK)
    except (Rejected, Conflict, Transient) as failed:
        give_up(run, str(failed))
        raise


def _leads_to(record: RunRecord) -> Mode | None:
    """The mode that the plan of a run leads to; None where it sets none."""
    acts = [each for each in plan_from(record.plan).steps if each.kind == SET_MODE]
    return Mode(acts[-1].args["to"]) if acts else None


def _because(run: Run[CoordinationPorts]) -> str:
    """Why a run goes back: what keeps the group from the mode that was wanted."""
    begun = run.rollbacks()
    said = str(begun[-1].body["because"]) if begun else ""
    return said or "an earlier scan was killed while it took the group back"


def _said(progress: Asks | Stopped) -> str:
    """What was met where a run cannot go on by itself."""
    if isinstance(progress, Stopped):
        return "; ".join(progress.checked.sentences) or progress.checked.outcome.value
    bad = [each.with_remedy for each in progress.question.findings if each.verdict is not Verdict.PASS]
    return "; ".join(bad) or progress.question.detail or "somebody would have to be asked"
