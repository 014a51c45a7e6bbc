"""What ``groupshift scan`` prints: tables for people, one JSON document for programs, what to do next."""

from __future__ import annotations

import heapq
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from rich.text import Text

from groupshift.cli.output import next_command, plain, verdict_text
from groupshift.cli.terminal import Console, Table, joined, styled
from groupshift.domain.foreign_text import command, json_text, visible
from groupshift.domain.modes import Mode
from groupshift.domain.plan import StageName
from groupshift.domain.verdict import Readiness
from groupshift.scan.ports import ToggleRecord, ToggleState
from groupshift.scan.scan import FleetScans, ScanReport
from groupshift.scan.state import Change, GroupState, Life, members_text, state_data
from groupshift.scan.waves import WaveReport, WaveRules, is_asked_for

_LIFE = {Life.ACTIVE: "green", Life.DEAD: "red", Life.UNUSED: "yellow"}
_IDLE = {
    Life.ACTIVE: "",
    Life.DEAD: "no members, old offsets: start its consumers, or remove the group",
    Life.UNUSED: "no members, no offsets: remove the group",
}
_READY = {Readiness.READY: "green", Readiness.NOT_READY: "red", Readiness.UNKNOWN: "magenta"}
_TOGGLE = {
    ToggleState.PLANNED: "cyan",
    ToggleState.STARTED: "blue",
    ToggleState.DONE: "green",
    ToggleState.FAILED: "red",
    ToggleState.SKIPPED: "yellow",
}
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


@dataclass(frozen=True, slots=True)
class ToggleLines:
    """One line a step of a toggle."""

    console: Console

    def __call__(self, toggle: ToggleRecord) -> None:
        """Print it; planned ones are in the table at the end."""
        if toggle.state is not ToggleState.PLANNED:
            reason = f": {toggle.reason}" if toggle.reason else ""
            line = f"wave {toggle.wave} {toggle.group} → {toggle.to}: {toggle.state}{reason}"
            self.console.line(styled(line, _TOGGLE[toggle.state]))


def idle_text(state: GroupState) -> str:
    """What a person may do about a group that nobody uses; nothing while somebody owns a partition of it."""
    if state.owned and state.life is not Life.ACTIVE:
        return "no members, but owner nodes of living sessions: find out who holds them"
    return _IDLE[state.life]


def rest_text(state: GroupState) -> str:
    """How long the group is at rest, in its largest unit: ``3 h``."""
    seconds = max(0, state.taken_at_ms - state.stable_since_ms) // 1000
    return next((f"{seconds // size} {unit}" for size, unit in _UNITS if seconds >= size), "0 s")


def _rank(state: GroupState) -> tuple[int, str]:
    """What a person should look at comes first."""
    if state.life is not Life.ACTIVE:
        rank = 3 if state.life is Life.DEAD else 4
    elif state.next is None:
        rank = 5
    else:
        rank = 2 if state.next.state is Readiness.READY else 1
    return (0 if state.problems else rank, state.group)


def show_groups(
    console: Console, states: Iterator[GroupState], patterns: tuple[str, ...], limit: int
) -> None:
    """The groups that need most attention, or those of the patterns with every rule."""
    wanted = (s for s in states if not patterns or is_asked_for(s.group, patterns))
    chosen = heapq.nsmallest(limit, wanted, key=_rank)
    table = Table(
        "groups",
        ("group", "life", "members", "mode", "at rest", "lag", "offsets zk/kafka", "next", "why not"),
        numbers=("lag",),
    )
    for state in chosen:
        table.add_row(*_row(state))
    console.print(table)
    if len(chosen) == limit:
        console.line(styled(f"the first {limit} by urgency; --limit shows more, --json all", "dim"))
    for state in chosen if patterns else ():
        _show_rules(console, state)


def _row(state: GroupState) -> tuple[str | Text, ...]:
    following = state.next
    said = following.findings[0] if following and following.findings else None
    why = state.problems[0] if state.problems else f"{said.rule}: {said.reason}" if said else idle_text(state)
    return (
        state.group,
        styled(state.life, _LIFE[state.life]),
        members_text(state),
        state.mode if state.life is Life.ACTIVE else "-",
        rest_text(state),
        "?" if state.lag is None else str(state.lag),
        f"{state.zookeeper_offsets}/{state.kafka_offsets} of {state.partitions}",
        joined(f"{following.stage}: ", styled(following.state, _READY[following.state]))
        if following
        else "-",
        why,
    )


def _show_rules(console: Console, state: GroupState) -> None:
    columns = ("stage", "readiness", "passed", "rule", "verdict", "reason", "hint")
    table = Table(f"group {visible(state.group)}, rule by rule", columns)
    for stage in state.readiness:
        first = (stage.stage.value, styled(stage.state, _READY[stage.state]), " ".join(stage.passed))
        if not stage.findings:
            table.add_row(*first, "", "", "", "")
        for number, said in enumerate(stage.findings):
            opening = ("", "", "") if number else first
            table.add_row(*opening, said.rule, verdict_text(said.verdict), said.reason, said.hint)
    console.print(table)
    for problem in state.problems:
        console.line(styled(problem, "red"))


def show_changes(console: Console, report: ScanReport, changes: Iterator[Change], limit: int) -> None:
    """What became different since the last scan."""
    if report.former is None:
        console.print("the first scan of this ensemble: nothing to compare it with yet")
        return
    since = _clock(report.former.ended_at_ms)
    shown = list(islice(changes, limit))
    if not shown:
        console.print(f"no difference from scan {report.former.number} ({since})")
        return
    table = Table(f"different from scan {report.former.number} ({since})", ("group", "what", "was", "is"))
    for each in shown:
        table.add_row(each.group, each.aspect, each.before, each.after)
    console.print(table)


def show_totals(console: Console, report: ScanReport) -> None:
    """One line of counts."""
    record, totals = report.record, report.record.totals
    took = ((record.ended_at_ms or record.began_at_ms) - record.began_at_ms) / 1000
    lives = [joined(f"{totals[life]} ", styled(life, _LIFE[life])) for life in Life if totals.get(life)]
    console.line(
        f"scan {record.number} of {record.ensemble}: {totals.get('groups', 0)} groups (",
        Text(", ").join(lives) if lives else "none",
        f"), {totals.get('changes', 0)} differences, {took:.1f} s",
    )


def show_waves(console: Console, waves: WaveReport) -> None:
    """Every group of the waves, and why the rest was left."""
    title = "waves" if waves.execute else "waves, planned only: nothing was changed"
    table = Table(title, ("wave", "group", "to", "state", "reason"))
    for each in waves.toggles:
        state = styled(each.state, _TOGGLE[each.state])
        table.add_row(str(each.wave), each.group, each.to, state, each.reason)
    console.print(table if waves.toggles else "no group is fit to be toggled")
    if waves.stopped:
        left = f"{len(waves.left)} groups were not started"
        console.line(styled(f"stopped: {waves.stopped}; {left}", "red"))


def show_next(
    console: Console,
    waves: WaveReport | None,
    fit: tuple[str, ...],
    states: Iterator[GroupState],
    asked: tuple[tuple[str, ...], WaveRules],
) -> None:
    """The next command that makes sense; ``asked`` are the groups and limits of the waves."""
    next_command(console, _next(waves, fit, states, asked))


def _next(
    waves: WaveReport | None,
    fit: tuple[str, ...],
    states: Iterable[GroupState],
    asked: tuple[tuple[str, ...], WaveRules],
) -> str:
    if waves is not None and waves.toggles and not waves.execute:
        way = "--toggle" if waves.to is Mode.KAFKA else "--take-back"
        return command("groupshift", "scan", way, *_repeated(*asked), "--execute")
    if waves is not None and (waves.stopped or waves.count(ToggleState.FAILED)):
        failed = [each for each in waves.toggles if each.state is ToggleState.FAILED and each.run]
        return f"groupshift status {failed[0].run}" if failed else "groupshift brake"
    if fit and waves is None:
        return "groupshift scan --toggle"
    for state in states:
        following = state.next
        if following and following.state is Readiness.READY and following.stage is StageName.CANARY:
            return command("groupshift", "coordination", "run", "--group", state.group)
        if following and following.state is not Readiness.READY:
            return command("groupshift", "scan", "--last", "--group", state.group)
    return "groupshift scan"


def _repeated(patterns: tuple[str, ...], rules: WaveRules) -> Iterator[str]:
    """The options that were given: without them the next command would act on more."""
    for pattern in patterns:
        yield from ("--group", pattern)
    usual = WaveRules()
    for option, given, default in (
        ("--wave", rules.size, usual.size),
        ("--error-budget", rules.budget, usual.budget),
        ("--stable-for", rules.stable_s, usual.stable_s),
        ("--at-most", rules.limit, usual.limit),
    ):
        if given != default:
            yield from (option, str(given))


def show_brake(console: Console, reason: str) -> None:
    """Whether it is pulled."""
    if reason:
        console.line(styled("the brake is pulled", "red"), f": {reason}")
        next_command(console, "groupshift brake --release --execute")
    else:
        console.print("the brake is released")
        next_command(console, "groupshift scan --toggle")


def print_document(data: dict[str, Any]) -> None:
    """One JSON document on standard output."""
    print(json_text(json.dumps(data, indent=2, ensure_ascii=False)))


def print_json(scans: FleetScans, report: ScanReport, waves: WaveReport | None) -> None:
    """One JSON document with every group, written piece by piece: it is never held as a whole."""
    out = sys.stdout
    out.write('{"scan": ' + json.dumps(plain(report.record)))
    out.write(', "former": ' + json.dumps(plain(report.former)))
    _write_list("groups", (state_data(state) for state in scans.states()))
    _write_list("changes", (plain(each) for each in scans.changes(report.record.number)))
    out.write(', "waves": ' + json.dumps(plain(waves)) + "}\n")


def _write_list(name: str, values: Iterator[Any]) -> None:
    sys.stdout.write(f', "{name}": [')
    for number, value in enumerate(values):
        sys.stdout.write((",\n" if number else "\n") + json_text(json.dumps(value, ensure_ascii=False)))
    sys.stdout.write("]")


def _clock(at_ms: int | None) -> str:
    return (
        "?"
        if at_ms is None
        else datetime.fromtimestamp(at_ms / 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    )
