"""Waves of toggles: start a few, wait until they have settled, go on; stop at the budget or the brake."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from groupshift.application import scan_toggle
from groupshift.application.environment import Environment
from groupshift.application.observe import LOOK_AGAIN_S
from groupshift.application.scan_toggle import Toggle
from groupshift.domain.modes import Mode
from groupshift.domain.scan_waves import Progress, WaveRules, check, next_wave
from groupshift.errors import Conflict, Fenced, Rejected, Transient
from groupshift.ports.ensemble import Brake
from groupshift.ports.scans import ScanRecord, Scans, ToggleRecord, ToggleState

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
        run = f"{scan_toggle.RUN}{self.record.number}-{self.env.clock.now_ms()}-{wave}"
        for name in names:
            if self.brake.pulled():
                break
            self._note(Toggle(group=name, to=to), wave)
            begun.append(scan_toggle.start(self.env, name, to, run))
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
            judged = scan_toggle.look(self.env, toggle)
        except Transient as silent:
            return str(silent)
        return "" if scan_toggle.settled(judged) else judged.reasons[0]

    def _finish(self, toggle: Toggle) -> Toggle:
        try:
            scan_toggle.finish(self.env, toggle)
        except (Conflict, Transient) as failed:
            return replace(toggle, state=ToggleState.FAILED, reason=str(failed))
        return replace(toggle, state=ToggleState.DONE, reason=f"settled in {toggle.to} mode")

    def _fail(self, toggle: Toggle, why: str) -> Toggle:
        because = f"group {toggle.group} did not settle in {toggle.to} mode within {self.settle_s} s: {why}"
        if toggle.to is Mode.KAFKA:
            because = f"{because}; {scan_toggle.take_back(self.env, toggle, because)}"
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
