"""``groupshift scan`` and ``groupshift brake``: a whole ensemble at a time.

A scan looks at every group once and keeps what it saw in the journal. With ``--toggle`` the groups that are
fully migrated and at rest go to kafka mode afterwards, in waves; ``--take-back`` sends named groups back. The
brake stops waves, whoever started them."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Annotated, Any

from rich.text import Text
from typer import Option

from groupshift.bootstrap.moves import build_scans
from groupshift.cli.options import Json, SettingsFile, option, settings
from groupshift.cli.output_and_next_command import Shown, tell, verdict_text
from groupshift.cli.terminal import Console, Table, joined, progress_bar, styled
from groupshift.domain.foreign_text_quoting import command, visible
from groupshift.domain.modes import Mode
from groupshift.domain.plan import PhaseName
from groupshift.domain.verdict import Readiness
from groupshift.engine.questions_and_approvers import utc
from groupshift.errors import Rejected
from groupshift.scan.group_state import GroupState, Life, members_text, state_data
from groupshift.scan.ports import ToggleRecord, ToggleState
from groupshift.scan.scan import FleetScans, ScanReport
from groupshift.scan.waves import WaveReport, WaveRules, is_asked_for

_RULES = WaveRules()
"""The limits of waves where none is given."""

_PATTERN = "A group or pattern (*, ?): shown rule by rule, or taken back."
_TO_KAFKA = "After the scan, switch stable, fully migrated groups to kafka mode."
_BACK = "After the scan, switch the groups of --group back to zookeeper mode."
Execute = Annotated[bool, Option("--execute", help="Toggle; without it the waves are only shown.")]


def scan(  # noqa: PLR0913 - the options of a verb
    *,
    group: Annotated[list[str] | None, option("--group", _PATTERN, "-g")] = None,
    last: Annotated[bool, Option("--last", help="Show the last scan again; nothing is read.")] = False,
    limit: Annotated[int, Option(help="Rows shown; the journal and --json hold all.", min=1)] = 40,
    toggle: Annotated[bool, Option("--toggle", help=_TO_KAFKA)] = False,
    take_back: Annotated[bool, Option("--take-back", help=_BACK)] = False,
    wave: Annotated[int, Option(help="Groups toggled at once.")] = _RULES.size,
    error_budget: Annotated[int, Option(help="Failures after which nothing is started.")] = _RULES.budget,
    stable_for: Annotated[int, Option(help="Seconds a group has to be at rest.")] = _RULES.stable_s,
    at_most: Annotated[int, Option(help="Groups toggled in this run; 0: all.")] = _RULES.limit,
    execute: Execute = False,
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """Look at every group of the ensemble; toggle those that are fit.

    Tells members, mode, rest, lag, readiness, and what has changed. Without --execute waves are only shown.
    Exit code 1: a group failed, or the waves were stopped."""
    if toggle and take_back:
        raise Rejected("--toggle and --take-back go opposite ways; name one of them")
    if take_back and not group:
        raise Rejected("--take-back needs --group: name the groups, or a pattern, that are to be taken back")
    rules = WaveRules(size=wave, budget=error_budget, stable_s=stable_for, limit=at_most)
    progress, patterns = Console(stderr=True), tuple(group or ())

    def show(toggle: ToggleRecord) -> None:
        """Tell of a toggle that has begun or ended; planned ones are in the table at the end."""
        if toggle.state is not ToggleState.PLANNED:
            reason = f": {toggle.reason}" if toggle.reason else ""
            line = f"wave {toggle.wave} {toggle.group} → {toggle.to}: {toggle.state}{reason}"
            progress.line(styled(line, _TOGGLE[toggle.state]))

    with build_scans(settings(settings_file)) as scans:
        with progress_bar(progress, "scanning") as bar:
            report = scans.last() if last else scans.scan(partial(bar, "scanning"))
        waves: WaveReport | None = None
        if toggle:
            waves = scans.toggle(report, rules, show, execute=execute)
        elif take_back:
            waves = scans.take_back(patterns, rules, show, execute=execute)
        data: dict[str, Any] = {"scan": report.record, "former": report.former, "waves": waves}
        if as_json:
            data["groups"] = [state_data(state) for state in scans.states()]
            data["changes"] = list(scans.changes(report.record.number))
        parts = _parts(scans, report, waves, patterns, limit)
        tell(data, parts, _next(scans, waves, patterns, rules), as_json=as_json)
    return 1 if waves and (waves.count(ToggleState.FAILED) or waves.stopped) else 0


def brake(
    *,
    pull: Annotated[str, option("--pull", "Pull it, and say why.")] = "",
    release: Annotated[bool, Option("--release", help="Release it; toggles may begin again.")] = False,
    execute: Execute = False,
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """Show, pull or release the brake of scans.

    While it is pulled, no scan starts another toggle. Pulling only stops, and acts at once. Releasing lets
    toggles begin again: it needs --execute."""
    if pull and release:
        raise Rejected("--pull and --release exclude each other; name one of them")
    with build_scans(settings(settings_file)) as scans:
        if pull:
            scans.brake.pull(pull)
        if release and execute:
            scans.brake.release()
        reason = scans.brake.pulled()
    following = "groupshift brake --release --execute" if reason else "groupshift scan --toggle"
    data = {"pulled": bool(reason), "reason": reason}
    tell(data, [brake_line(reason)], "" if as_json else following, as_json=as_json)
    return 0


def brake_line(reason: str) -> Shown:
    """Return whether the brake is pulled (``reason`` is empty: it is not), as a line."""
    return joined(styled("the brake is pulled", "red"), f": {reason}") if reason else "the brake is released"


_LIFE = {Life.ACTIVE: "green", Life.DEAD: "red", Life.UNUSED: "yellow"}
_IDLE = {
    Life.ACTIVE: "",
    Life.DEAD: "no members, old offsets: start its consumers, or remove the group",
    Life.UNUSED: "no members, no offsets: remove the group",
}
"""What a person may do about a group, by its life."""
_READY = {Readiness.READY: "green", Readiness.NOT_READY: "red", Readiness.UNKNOWN: "magenta"}
_TOGGLE = {
    ToggleState.PLANNED: "cyan",
    ToggleState.STARTED: "blue",
    ToggleState.DONE: "green",
    ToggleState.FAILED: "red",
    ToggleState.SKIPPED: "yellow",
}
"""The colour of each state of a toggle."""
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
"""Units of a rest, the largest first, with their seconds."""


def _parts(
    scans: FleetScans, report: ScanReport, waves: WaveReport | None, patterns: tuple[str, ...], limit: int
) -> Iterator[Shown]:
    """The groups, what became different since the last scan, totals, and every group of the waves."""
    yield from groups_parts(scans.states(), patterns, limit)
    record, totals, former = report.record, report.record.totals, report.former
    if former is None:
        yield "the first scan of this ensemble: nothing to compare it with yet"
    else:
        since = f"scan {former.number} ({'?' if former.ended_at_ms is None else utc(former.ended_at_ms)})"
        changes = islice(scans.changes(record.number), limit)
        rows = ((each.group, each.aspect, each.before, each.after) for each in changes)
        table = Table(f"different from {since}", ("group", "what", "was", "is"), rows)
        yield table or f"no difference from {since}"
    took = ((record.ended_at_ms or record.began_at_ms) - record.began_at_ms) / 1000
    lives = [joined(f"{totals[life]} ", styled(life, _LIFE[life])) for life in Life if totals.get(life)]
    yield joined(
        f"scan {record.number} of {record.ensemble}: {totals.get('groups', 0)} groups (",
        Text(", ").join(lives) if lives else "none",
        f"), {totals.get('changes', 0)} differences, {took:.1f} s",
    )
    if waves is None:
        return
    title = "waves" if waves.execute else "waves, planned only: nothing was changed"
    toggles = (
        (str(one.wave), one.group, one.to, styled(one.state, _TOGGLE[one.state]), one.reason)
        for one in waves.toggles
    )
    yield Table(title, ("wave", "group", "to", "state", "reason"), toggles) or "no group is fit to be toggled"
    if waves.stopped:
        yield styled(f"stopped: {waves.stopped}; {len(waves.left)} groups were not started", "red")


def idle_text(state: GroupState) -> str:
    """Return what a person may do about a group that nobody uses, empty for one that is used.

    Nothing is to be removed while somebody owns a partition of it."""
    if state.owned and state.life is not Life.ACTIVE:
        return "no members, but owner nodes of living sessions: find out who holds them"
    return _IDLE[state.life]


def _rank(state: GroupState) -> tuple[int, str]:
    """What a person should look at comes first: problems, then active groups that are not ready."""
    rank = {Life.DEAD: 3, Life.UNUSED: 4}.get(state.life, 5)
    if state.life is Life.ACTIVE and state.next is not None:
        rank = 2 if state.next.state is Readiness.READY else 1
    return (0 if state.problems else rank, state.group)


def groups_parts(states: Iterable[GroupState], patterns: tuple[str, ...], limit: int) -> Iterator[Shown]:
    """Yield the ``limit`` groups that need most attention, or those of the patterns with every rule.

    A group is at rest for so long in its largest unit, such as ``3 h``."""
    named = (each for each in states if not patterns or is_asked_for(each.group, patterns))
    chosen = heapq.nsmallest(limit, named, key=_rank)
    columns = ("group", "life", "members", "mode", "at rest", "lag", "offsets zk/kafka", "next", "why not")
    table = Table("groups", columns, numbers=("lag",))
    for state in chosen:
        rests_s = max(0, state.taken_at_ms - state.stable_since_ms) // 1000
        then, why, next_phase = state.next, idle_text(state), Text("-")
        if then and then.findings:
            why = f"{then.findings[0].rule}: {then.findings[0].reason}"
        if then:
            next_phase = joined(f"{then.phase}: ", styled(then.state, _READY[then.state]))
        table.add_row(
            state.group,
            styled(state.life, _LIFE[state.life]),
            members_text(state),
            state.mode if state.life is Life.ACTIVE else "-",
            next((f"{rests_s // size} {unit}" for size, unit in _UNITS if rests_s >= size), "0 s"),
            "?" if state.lag is None else str(state.lag),
            f"{state.zookeeper_offsets}/{state.kafka_offsets} of {state.partitions}",
            next_phase,
            state.problems[0] if state.problems else why,
        )
    yield table or ("no group has such a name" if patterns else "there is no group")
    if len(chosen) == limit:
        yield styled(f"the first {limit} by urgency; --limit shows more, --json all", "dim")
    for state in chosen if patterns else ():
        yield _rules_table(state) or f"group {visible(state.group)}: it has no phase left"
        yield from (styled(problem, "red") for problem in state.problems)


def _rules_table(state: GroupState) -> Table:
    """Each phase that a group has before it, with what its rules say."""
    columns = ("phase", "readiness", "passed", "rule", "verdict", "reason", "hint")
    table = Table(f"group {visible(state.group)}, rule by rule", columns)
    for phase in state.readiness:
        opening = (phase.phase.value, styled(phase.state, _READY[phase.state]), " ".join(phase.passed))
        if not phase.findings:
            table.add_row(*opening, "", "", "", "")
        for each in phase.findings:
            table.add_row(*opening, each.rule, verdict_text(each.verdict), each.reason, each.hint)
            opening = ("", Text(), "")
    return table


def _next(scans: FleetScans, waves: WaveReport | None, patterns: tuple[str, ...], rules: WaveRules) -> str:
    """The next command that makes sense, for the same groups and limits."""
    if waves is not None and waves.toggles and not waves.execute:
        way = "--toggle" if waves.to is Mode.KAFKA else "--take-back"
        return command("groupshift", "scan", way, *_repeated(patterns, rules), "--execute")
    if waves is not None and (waves.stopped or waves.count(ToggleState.FAILED)):
        failed = [each for each in waves.toggles if each.state is ToggleState.FAILED and each.run]
        return f"groupshift status {failed[0].run}" if failed else "groupshift brake"
    if waves is None and scans.fit(rules):
        return "groupshift scan --toggle"
    for state in scans.states():
        following = state.next
        if following and following.state is Readiness.READY and following.phase is PhaseName.CANARY:
            return command("groupshift", "coordination", "run", "--group", state.group)
        if following and following.state is not Readiness.READY:
            return command("groupshift", "scan", "--last", "--group", state.group)
    return "groupshift scan"


def _repeated(patterns: tuple[str, ...], rules: WaveRules) -> Iterator[str]:
    """The options that were given: without them the next command would act on more."""
    for pattern in patterns:
        yield from ("--group", pattern)
    options = {"--wave": "size", "--error-budget": "budget", "--stable-for": "stable_s", "--at-most": "limit"}
    for flag, name in options.items():
        if getattr(rules, name) != getattr(_RULES, name):
            yield from (flag, str(getattr(rules, name)))
