"""The parts of a page that runs of one group share.

They are figures, pictures of the run, of owners and of the lag over one time axis, every finding, what was
delivered (from the audit of consumption or the members' ledgers), and the committed offsets by class. A move
adds the figure of what it changes: `mode_now` or `protocol_now`. The words for the one who is woken at three
are `sentence` and `to_do`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from groupshift.domain.foreign_text_quoting import shell
from groupshift.domain.modes import MemberKind
from groupshift.domain.ownership_history import KnownBy, hand_overs, lags
from groupshift.domain.run import APPROVE, RunState, Step, findings_from
from groupshift.domain.verdict import NOT_ASKED, Verdict, counted
from groupshift.engine.move import worst_verdict
from groupshift.ports.runs import Event, EventKind
from groupshift.report.group_history import GroupHistory
from groupshift.report.page import (
    SIGNS,
    Alarm,
    Cell,
    Details,
    Key,
    Legend,
    Part,
    Section,
    Table,
    Word,
    clock,
    code,
    duration,
    glance,
    refused,
    section,
    spoken,
    table,
)
from groupshift.report.pictures import MOST_OWNER_LANES, Bar, Dot, Lane, lag_curve, lanes, owners
from groupshift.report.run_history import event_text, run_to_do
from groupshift.report.svg_and_time_axis import Axis, axis_of, palette

_MOST_ROWS = 300
"""Rows of a table, members of a legend, and findings above the table of all of them."""
_MOST_MEMBERS = 60
_MOST_ALARMS = 20
_MOST_REFUSED = 10
_AUDITED = (
    "Every record that the members delivered was held against ZooKeeper's transaction log; the figures are "
    "above, and the whole audit is in consumption/report.html."
)
_SHARP = {
    KnownBy.LOG: "Times are those of ZooKeeper's transaction log; red is time without an owner.",
    KnownBy.DELIVERIES: "A bar is from the first to the last record that a member delivered.",
    KnownBy.OBSERVATIONS: (
        "A bar is from the first to the last look at the same owner; what happened between two looks was "
        "not seen. The audit of consumption knows the times to the millisecond."
    ),
}
"""What the bars of owners over time mean, by how sharp their times are."""
_KEY = Key(
    [
        ("phase", "measured"),
        ("act", "acted, until it had settled"),
        ("waiting", "waited for a person"),
        ("✓ ? ! ✕", "verdict: passed, inconclusive, could not be measured, failed"),
    ]
)
"""What the looks of the picture of a run mean."""


def sections_of_group(group: GroupHistory, *now: tuple[str, Cell]) -> list[Section]:
    """Return the parts of the page before those that every run has: figures, pictures over one time axis,
    findings, what was delivered, and what became of the committed offsets.

    ``now`` are figures of the move, such as `mode_now`."""
    history = group.history
    times = [event.at_ms for event in history.events if event.at_ms <= history.ended_ms]
    times += [observation.at_ms for observation in group.observations]
    times += {interval.start_ms for interval in group.intervals}
    axis = axis_of([*times, history.record.created_at_ms])
    return [
        _summary(group, now),
        _run(group, axis),
        _findings(group),
        _owners(group, axis),
        section("What was delivered", _AUDITED) if group.audit else _unaudited(group),
        _offsets(group),
        _lag(group, axis),
    ]


def _summary(group: GroupHistory, now: Sequence[tuple[str, Cell]]) -> Section:
    """The figures. What was lost, processed twice, or stood still is from the audit, else from the ledgers;
    without either nothing is said of it."""
    kinds, looks = list(group.members.values()), group.observations
    audit, delivered, consumed = group.audit, group.delivered, list[tuple[str, Cell]]()
    if audit:
        consumed = [
            ("without owner at most", duration(audit.get("longest_unowned_ms"))),
            ("records lost", audit.get("lost")),
            ("delivered again", audit.get("duplicates")),
            *((name, audit.get(name)) for name in ("deliveries", "unexplained", "overlaps")),
        ]
    elif delivered:
        consumed = [
            ("longest pause of a partition", duration(delivered.longest_pause_ms)),
            ("offsets passed over", delivered.passed_over),
            ("delivered again", delivered.again),
        ]
    return glance(
        ("took", duration(group.history.ended_ms - group.history.record.created_at_ms)),
        ("partitions", len(looks[-1].owners) if looks else None),
        ("members met", ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds))) or None),
        *now,
        ("offsets lost", group.differing("lost")),
        ("offsets gone back", group.differing("regressed")),
        ("hand-overs", sum(hand_overs(group.intervals).values()) if group.intervals else None),
        *consumed,
        (
            "seen",
            f"{clock(looks[0].at_ms)} to {clock(looks[-1].at_ms)} UTC" if looks else "never",
        ),
    )


def mode_now(group: GroupHistory) -> tuple[str, Cell]:
    """Return a figure: the mode that was written last."""
    return "mode now", group.modes[-1][1] if group.modes else "zookeeper (never written)"


_SPOKEN = {MemberKind.PLAIN.value: "classic", MemberKind.NATIVE.value: "consumer"}
"""The rebalance protocol of members of a kind."""


def protocol_now(group: GroupHistory) -> tuple[str, Cell]:
    """Return a figure: the rebalance protocols of those who owned partitions last (KIP-848)."""
    last = group.observations[-1].owners.values() if group.observations else ()
    kinds = {group.members.get(owner, "") for owned in last for owner in owned}
    protocols = sorted({_SPOKEN[kind] for kind in kinds if kind in _SPOKEN})
    return "protocol now", " and ".join(protocols) or "nobody owned a partition"


def proven(group: GroupHistory) -> str:
    """Return a sentence: how much was compared, and what became of the committed offsets."""
    findings = [finding for each in group.compared for finding in each.findings]
    lost, back, became = group.differing("lost"), group.differing("regressed"), ""
    if lost or back:
        became = f"; {lost} committed offsets were lost and {back} went back"
    elif any(each.counts for each in group.compared):
        became = "; no committed offset was lost or went back"
    return f"{counted(findings, f'findings of {len(group.compared)} judgements')}{became}."


def _run(group: GroupHistory, axis: Axis) -> Section:
    """The run as a picture, with a lane for each phase; its numbers are answers at gates, in the order of the
    table of who decided."""
    steps = {each.step.key: each.step for each in group.history.steps}
    phases: dict[str, list[Event]] = {}
    for event in group.history.events:
        step = steps.get(event.step)
        if step is not None and step.kind != APPROVE:
            phases.setdefault(step.phase.replace("_", " "), []).append(event)
    shown = [_gates(group.history.events), *(_phase(name, own, steps) for name, own in phases.items())]
    span = f"from {clock(axis.from_ms)} to {clock(axis.to_ms)} UTC"
    said = f"{len(phases)} phases {span}: {', '.join(phases)}"
    picture = lanes("The run over time", said, shown, axis, name="run", modes=group.modes)
    return section("The run", picture, _KEY)


def _gates(events: Iterable[Event]) -> Lane:
    """Who took the run over when, how long each gate waited, and a number for each answer."""
    shown: dict[str, int] = {}
    over: list[Bar] = []
    answers: list[Dot] = []
    holder = ""
    for event in events:
        if event.kind is EventKind.CLAIMED and event.body.get("holder", "") != holder:
            holder = str(event.body.get("holder", ""))
            title = f"{holder} took over at {clock(event.at_ms)}"
            over.append(Bar(from_ms=event.at_ms, to_ms=event.at_ms, title=title, look="claim"))
        elif event.kind is EventKind.GATE_SHOWN:
            shown.setdefault(event.step, event.at_ms)
        elif event.kind is EventKind.GATE_ANSWERED:
            since = shown.pop(event.step, event.at_ms)
            waited = f"{event_text(event)}, after {duration(event.at_ms - since)}"
            title = f"{event.step.partition(' ')[2]}: {waited}"
            over.append(Bar(from_ms=since, to_ms=event.at_ms, title=title, look="waiting"))
            look = f"gate {'no' if event.body['choice'] == 'reject' else 'yes'}"
            answers.append(Dot(at_ms=event.at_ms, sign=str(len(answers) + 1), title=title, look=look))
    return Lane(name="gates", over=over, dots=answers)


_MEASURES = frozenset({"snapshot", "compare", "judge", "rehearse"})
"""Kinds of steps that only measure: a phase acts in all others."""


def _phase(name: str, own: Sequence[Event], steps: Mapping[str, Step]) -> Lane:
    """A phase from its first to its last event, when it acted, and its verdicts."""
    begin, end = own[0].at_ms, own[-1].at_ms
    took = f"{name}: {clock(begin)} to {clock(end)}, {duration(end - begin)}"
    over = [Bar(from_ms=begin, to_ms=end, title=took, look="phase")]
    if acts := [event.at_ms for event in own if steps[event.step].kind not in _MEASURES]:
        over.append(Bar(from_ms=acts[0], to_ms=acts[-1], title=f"{name} acted, and settled", look="act"))
    dots = []
    for event in own:
        if event.kind is EventKind.JUDGED and event.body["findings"]:
            verdict = worst_verdict(findings_from(event.body["findings"]))
            title = f"{event.step.partition(' ')[2]}: {event_text(event)}"
            dots.append(Dot(at_ms=event.at_ms, sign=SIGNS[verdict], title=title, look=f"dot {verdict}"))
    return Lane(name=name, over=over, dots=dots)


def _findings(group: GroupHistory) -> Section:
    """Every finding that did not pass, worst first; then all of them, phase by phase."""
    placed = [(each.where, finding) for each in group.compared for finding in each.findings]
    bad = [(where, finding) for where, finding in placed if finding.verdict is not Verdict.PASS]
    bad.sort(key=lambda pair: -pair[1].verdict.rank)
    if not placed:
        return section("Findings", "Nothing was judged yet.")
    rows = [(at, e.rule, spoken(e.verdict) if e.applies else NOT_ASKED, e.reason) for at, e in placed]
    listed = Table(heads=("phase", "rule", "severity", "what was found"), rows=rows)
    alarms = [Alarm(lead=f"{e.rule}, {at}:", text=e.reason, hint=e.hint) for at, e in bad[:_MOST_ALARMS]]
    summary = f"{counted((finding for _, finding in placed), 'findings')}."
    return section("Findings", summary, *alarms, Details(f"All {len(placed)} findings", [listed]))


def _owners(group: GroupHistory, axis: Axis) -> Section:
    """Who owned which partition when, and the same in figures."""
    if not group.intervals:
        return section("Owners over time", "No owner was ever seen.")
    colours = palette(interval.member for interval in group.intervals)
    named = dict(list(colours.items())[:_MOST_MEMBERS])
    gaps: dict[object, int] = {}
    owner: dict[object, str] = {}
    for each in sorted(group.intervals, key=lambda interval: interval.start_ms):
        gaps[each.partition] = max(gaps.get(each.partition, 0), each.unowned_ms or 0)
        owner[each.partition] = each.member
    notes, sharp = [_SHARP[group.known_by]], group.known_by is KnownBy.LOG
    if (more := len(gaps) - MOST_OWNER_LANES) > 0:
        notes.append(f"{more} partitions that changed hands least have no lane; the table has them.")
    if len(colours) > len(named):
        notes.append(f"{len(colours) - len(named)} further members are not named here.")
    counts = hand_overs(group.intervals)
    rows = [
        (str(at), counts[at], duration(gaps[at]) if sharp else None, owner[at])
        for at in sorted(counts, key=lambda at: (-gaps[at], -counts[at], at))
    ]
    heads = ("partition", "hand-overs", "longest without owner", "last owner")
    rest = f"The first {_MOST_ROWS:,} of {len(rows):,}." if len(rows) > _MOST_ROWS else ""
    listed = Table(heads=heads, rows=rows[:_MOST_ROWS], numeric=heads[1:3], rest=rest)
    return section(
        "Owners over time",
        " ".join(notes),
        Legend(named, group.members),
        owners(group.intervals, group.modes, axis, colours),
        Key([("unowned", "no owner")]) if sharp else None,
        Details(f"{len(counts)} partitions in figures", [listed]),
    )


def _unaudited(group: GroupHistory) -> Section:
    """What the ledgers tell, the command that makes the audit, and the one that takes it up into the
    evidence. Whether an offset that was passed over held a record, only the audit knows (U16)."""
    delivered = group.delivered
    source = shell(delivered.source) if delivered and delivered.source else "LEDGERS"
    command = (
        f"python -m groupshift.jobs.audit_consumption --group {shell(group.group)} "
        f"--ledgers {source} --zookeeper-log ZOOKEEPER_LOG --output {shell(group.audit_output)} "
        f"--from-ms {group.history.record.created_at_ms} --to-ms {group.history.ended_ms}"
    )
    note = "What was lost or delivered again is not known: no ledgers were read and no audit was made."
    if delivered:
        more = "What an offset that was passed over held, and when a partition had no owner, an audit tells."
        note = f"From the members' ledgers: {delivered.deliveries:,} deliveries. {more}"
    run = shell(group.history.record.run)
    taken_up = f"Then take it up into the evidence: groupshift report {run} --audit"
    named = " LEDGERS is the folder of the members' ledgers," if source == "LEDGERS" else ""
    how = f"To get it (ZOOKEEPER_LOG is the folder version-2 of a ZooKeeper server,{named} before report):"
    return section("What was delivered", note, how, code(command), taken_up)


_BAD_CLASSES = ("lost", "regressed")
"""Classes of differences that lose or repeat records."""
_CLASSES = ("lost", "extra", "regressed", "advanced", "metadata_only")


def _offsets(group: GroupHistory) -> Section:
    """How the committed offsets of each comparison differ, by class, and the first rows of each that its
    phase does not allow."""
    if not (compared := [each for each in group.compared if each.counts]):
        return section("Committed offsets", "Nothing was compared yet.")
    rows: list[list[Cell]] = []
    for each in compared:
        counts = {kind: each.counts.get(kind, 0) for kind in _CLASSES}
        cells = (refused(many) if kind in _BAD_CLASSES else many for kind, many in counts.items())
        rows.append([each.where, spoken(each.verdict), *cells, refused(len(each.refused))])
    heads = ["compared", "verdict", *(kind.replace("_", " ") for kind in _CLASSES), "not allowed"]
    note = (
        "Committed offsets of two snapshots, by class. A group that consumes advances; lost and regressed "
        "ones would be read again or skipped. Not allowed counts the rows of every table that the phase "
        "does not make."
    )
    caption = "Differences of committed offsets by class"
    parts: list[Part] = [note, Table(heads=heads, rows=rows, numeric=heads[2:], caption=caption)]
    columns = {"table": "table", "class": "class", "what": "subject", "before": "before", "after": "after"}
    for each in compared:
        if each.refused:
            parts.append(Word(f"Not allowed: {each.where}", tag="h3"))
            whole, numeric = "; differences.parquet has all", {"before", "after"}
            parts.append(table(each.refused, columns, numeric=numeric, most=_MOST_REFUSED, whole=whole))
    return section("Committed offsets", *parts)


def _lag(group: GroupHistory, axis: Axis) -> Section:
    """Records behind the log end, as a picture: each measurement is a dot that tells its figures."""
    measured = lags(group.observations)
    if not measured:
        return section("Lag", "The lag was never measured.")
    return section(
        "Lag",
        "Records behind the log end, by the offsets of the store that counts in the mode of that moment.",
        lag_curve(measured, group.modes, axis),
        "Solid: all partitions together. Dashed: the one that lags most.",
    )


def sentence(group: GroupHistory, reached: str) -> str:
    """Return what became of the group, for a person who was just woken up; ``reached`` says where a run that
    moved it has led to."""
    history, status = group.history, group.history.status
    name, reason, state = f"Group {group.group}", status.reason.removesuffix("."), history.state
    why = (history.trouble or history.waiting or reason).removesuffix(".")
    passed = status.verdict == Verdict.PASS
    match state:
        case RunState.MOVED | RunState.FINALISED if passed:
            gone = "; the mode node is gone, so there is no rollback" if state is RunState.FINALISED else ""
            return f"{name} was moved: {reached}{gone}. {proven(group)}"
        case RunState.ROLLED_BACK if passed:
            return f"{name} is back where it came from ({reason}). {proven(group)}"
        case RunState.ROLLED_BACK:
            cause = reason.removeprefix("rolled back: ")
            return f"{name} was taken back, and that is proven. The reason: {cause}."
        case RunState.ROLLING_BACK:
            return f"{name} is being rolled back, and that is not proven yet: {why or 'under way'}."
        case RunState.RUNNING | RunState.MOVED:
            begun = [each.step.phase.replace("_", " ") for each in history.there if each.begun]
            now = f"phase {begun[-1]} was begun last" if begun else "no phase has begun"
            return f"{name} is {state.replace('running', 'under way')}: {why or now}."
        case _:
            return f"{name}: {why or state.value}. Nothing was changed."


def to_do(group: GroupHistory, again: str) -> tuple[tuple[str, str], ...]:
    """Return what to do now: (words, command or empty), the first thing first.

    ``again`` is what a verb of the move is given for this group, such as
    ``coordination VERB --group orders``. What a rollback left in Kafka is named by the sentence of its end;
    the command that removes it is the one that the run ended with."""
    history, following = group.history, group.history.status.following
    passed = history.status.verdict == Verdict.PASS
    once = "" if passed else ", once the findings below are understood"
    ready = (f"To try again{once}:", f"groupshift {again.replace('VERB', 'assess')}")
    left = ("Members and ZooKeeper are as they were. To remove what stays in Kafka:", following)
    if not following or following.startswith("groupshift report "):
        left = ("Nothing has to be done now: the group is as it was.", "")
    over = [left, ready]
    if history.state is RunState.FINALISED:
        over = [("Nothing has to be done: the move is over.", "")]
    elif history.state is RunState.MOVED:
        stays = "Nothing has to be done now. The rollback stays open."
        stopped = "A person stopped it here. The group consumes; decide whether it stays."
        over = [(stays if passed else stopped, ""), history.take_back]
    return run_to_do(history, over, f"groupshift {again.replace('VERB', 'run')}")
