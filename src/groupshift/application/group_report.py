"""The report of a move of one group: the sentence first, then the pictures, then everything else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from groupshift.application.account import Account, Compared
from groupshift.application.event_text import event_text
from groupshift.application.group_headline import headline
from groupshift.domain.foreign_text import shell
from groupshift.domain.modes import MemberKind
from groupshift.domain.ownership_history import KnownBy, hand_overs, lags
from groupshift.domain.plan import MoveName
from groupshift.domain.seal import Pack
from groupshift.domain.verdict import NOT_ASKED, Verdict, counted
from groupshift.ports.journal import Event, EventKind
from groupshift.report.page import (
    SIGNS,
    Alarm,
    Cell,
    Details,
    Facts,
    Key,
    Legend,
    Page,
    Part,
    Section,
    Table,
    Word,
    clock,
    code,
    duration,
    glance,
    moment_utc,
    refused,
    section,
    spoken,
    table,
)
from groupshift.report.page import (
    render as render_page,
)
from groupshift.report.pictures import MOST_OWNER_LANES, Bar, Dot, Lane, lag_curve, lanes, owners
from groupshift.report.runs import evidence
from groupshift.report.svg import Axis, axis_of, palette

_MOST_ROWS = 300
_MOST_MEMBERS = 60
_MOST_ALARMS = 20
_SHARP = {
    KnownBy.LOG: "Times are those of ZooKeeper's transaction log; red is time without an owner.",
    KnownBy.DELIVERIES: (
        "A bar runs from the first to the last record that a member delivered before another one did, by "
        "the members' own ledgers; what lies between two bars is time between deliveries, not without owner."
    ),
    KnownBy.SIGHTINGS: (
        "A bar runs from the first to the last look at the same owner; what happened between two looks was "
        "not seen, so nothing is drawn there. The audit of consumption knows the times to the millisecond."
    ),
}
_KEY = Key(
    [
        ("stage", "measured"),
        ("act", "acted, until it had settled"),
        ("waiting", "waited for a person"),
        ("✓ ? ! ✕", "verdict: passed, inconclusive, could not be measured, failed"),
    ]
)


def render(account: Account, sealed: Sequence[tuple[str, Cell]] = ()) -> str:
    """The HTML document; it needs nothing besides itself. ``sealed`` are rows about the pack."""
    axis, status = _axis(account), account.status
    page = Page(
        title=f"Group {status.group}",
        top=headline(account),
        lead=f"Migration {status.migration}, planned {moment_utc(status.created_at_ms)}",
        alarms=[Alarm(lead="Evidence:", text=each) for each in account.troubles],
        sections=[
            _summary(account),
            _run(account, axis),
            _findings(account),
            _owners(account, axis),
            _consumption(account) if account.audit else _unaudited(account),
            _offsets(account),
            _lag(account, axis),
            _expectations(account),
            evidence(account.files, sealed, "What was met, and what was approved"),
            _journal(account),
        ],
    )
    return render_page(page)


def sealed_rows(pack: Pack) -> tuple[tuple[str, Cell], ...]:
    """What a pack says of itself, for the report."""
    met = ((name, ", ".join(found)) for name, found in pack.versions.items())
    brokers = (("brokers met", "; ".join(pack.brokers)),) if pack.brokers else ()
    doubts = tuple(("doubted", each) for each in pack.doubts)
    return (("plan hash approved", pack.plan_hash), *met, *brokers, *doubts)


def _axis(account: Account) -> Axis:
    times = [event.at_ms for event in account.status.events if event.at_ms <= account.ended_ms]
    times += [sighting.at_ms for sighting in account.sightings]
    times += {tenure.start_ms for tenure in account.tenures}
    return axis_of([*times, account.status.created_at_ms])


def _summary(account: Account) -> Section:
    kinds, seen = list(account.members.values()), account.sightings
    return glance(
        ("took", duration(account.ended_ms - account.status.created_at_ms)),
        ("partitions", len(seen[-1].owners) if seen else None),
        ("members met", ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds))) or None),
        _now(account),
        ("offsets lost", sum(each.counts.get("lost", 0) for each in account.compared)),
        ("offsets gone back", sum(each.counts.get("regressed", 0) for each in account.compared)),
        ("hand-overs", sum(hand_overs(account.tenures).values()) if account.tenures else None),
        *_consumed(account),
        ("seen", f"{clock(seen[0].at_ms)} to {clock(seen[-1].at_ms)} UTC" if seen else "never"),
    )


def _consumed(account: Account) -> list[tuple[str, Cell]]:
    """What was lost, processed twice, or stood still: from the audit, else from the ledgers, else nothing."""
    audit, delivered = account.audit, account.delivered
    if audit:
        return [
            ("without owner at most", duration(audit.get("longest_unowned_ms"))),
            ("records lost", audit.get("lost")),
            ("delivered again", audit.get("duplicates")),
        ]
    if delivered:
        return [
            ("longest pause of a partition", duration(delivered.longest_pause_ms)),
            ("offsets passed over", delivered.passed_over),
            ("delivered again", delivered.again),
        ]
    return []


_SPOKEN = {MemberKind.PLAIN.value: "classic", MemberKind.NATIVE.value: "consumer"}
"""The rebalance protocol of members of a kind."""


def _now(account: Account) -> tuple[str, str]:
    """The mode, or, where the move has to do with none, the protocols of those who owned partitions last."""
    if account.plan.move is MoveName.COORDINATION:
        return "mode now", account.modes[-1][1] if account.modes else "zookeeper (never written)"
    last = account.sightings[-1].owners.values() if account.sightings else ()
    kinds = {account.members.get(owner, "") for owned in last for owner in owned}
    protocols = sorted({_SPOKEN[kind] for kind in kinds if kind in _SPOKEN})
    return "protocol now", " and ".join(protocols) or "nobody owned a partition"


def _run(account: Account, axis: Axis) -> Section:
    """The run as a picture, and who answered which gate; its numbers are those in the picture."""
    events = account.status.events
    stages = list(dict.fromkeys(event.stage for event in events if event.stage))
    own = {stage: [event for event in events if event.stage is stage] for stage in stages}
    shown = [_gates(events), *(_stage(str(stage), found) for stage, found in own.items())]
    said = f"{len(stages)} stages from {clock(axis.from_ms)} to {clock(axis.to_ms)} UTC: {', '.join(stages)}"
    picture = lanes("The run over time", said, shown, axis, name="run", modes=account.modes)
    decided = table(
        enumerate(account.approvals, 1),
        {
            "no.": lambda at: at[0],
            "gate": lambda at: at[1].gate,
            "stage": lambda at: at[1].stage.replace("_", " ") or None,
            "answer": lambda at: at[1].choice,
            "who": lambda at: at[1].who,
            "when": lambda at: moment_utc(at[1].at_ms),
        },
        numeric={"no."},
        caption="Answers at gates, in order",
    )
    who = Word("Who decided", tag="h2")
    return section("The run", picture, _KEY, who, decided if account.approvals else "No gate was answered.")


def _gates(events: Iterable[Event]) -> Lane:
    """Who took the run over when, how long each gate waited, and a number for each answer (see the table)."""
    shown: dict[str, int] = {}
    over: list[Bar] = []
    answers: list[Dot] = []
    for event in events:
        if event.kind is EventKind.CLAIMED:
            title = f"run {event.body.get('run', '')} took over at {clock(event.at_ms)}"
            over.append(Bar(from_ms=event.at_ms, to_ms=event.at_ms, title=title, look="claim"))
        elif event.kind is EventKind.GATE_SHOWN:
            shown.setdefault(str(event.body["gate"]), event.at_ms)
        elif event.kind is EventKind.GATE_ANSWERED:
            since = shown.pop(str(event.body["gate"]), event.at_ms)
            title = f"{event_text(event)}, after {duration(event.at_ms - since)}"
            over.append(Bar(from_ms=since, to_ms=event.at_ms, title=title, look="waiting"))
            look = f"gate {'no' if event.body['choice'] == 'reject' else 'yes'}"
            answers.append(Dot(at_ms=event.at_ms, sign=str(len(answers) + 1), title=title, look=look))
    return Lane(name="gates", over=over, dots=answers)


def _stage(name: str, own: Sequence[Event]) -> Lane:
    """A stage from its first to its last event, when it acted, and its verdicts."""
    begin, end = own[0].at_ms, own[-1].at_ms
    took = f"{name}: {clock(begin)} to {clock(end)}, {duration(end - begin)}"
    over = [Bar(from_ms=begin, to_ms=end, title=took, look="stage")]
    acts = [event.at_ms for event in own if event.kind in {EventKind.INTENDED, EventKind.ACTED}]
    settled = [
        event.at_ms for event in own if event.kind is EventKind.SNAPSHOT and event.body["moment"] == "after"
    ]
    if acts:
        until = settled[-1] if settled else end
        title = f"{name} acted; until its snapshot afterwards"
        over.append(Bar(from_ms=acts[0], to_ms=until, title=title, look="act"))
    return Lane(
        name=name.replace("_", " "),
        over=over,
        dots=[_verdict(event) for event in own if event.kind is EventKind.JUDGED],
    )


def _verdict(event: Event) -> Dot:
    verdict = Verdict(event.body["verdict"])
    return Dot(at_ms=event.at_ms, sign=SIGNS[verdict], title=event_text(event), look=f"dot {verdict}")


def _findings(account: Account) -> Section:
    """Every finding that did not pass, worst first; then all of them, stage by stage."""
    found = [(each, finding) for each in account.compared for finding in each.findings]
    bad = sorted(
        ((each, finding) for each, finding in found if finding.verdict is not Verdict.PASS),
        key=lambda pair: -pair[1].verdict.rank,
    )
    listed = table(
        found,
        {
            "stage": lambda pair: _where(pair[0]),
            "rule": lambda pair: pair[1].rule,
            "severity": lambda pair: spoken(pair[1].verdict) if pair[1].asked else NOT_ASKED,
            "what was found": lambda pair: pair[1].reason,
        },
    )
    return section(
        "Findings",
        f"{counted((f for _, f in found), 'findings')}." if found else "Nothing was judged yet.",
        *(
            Alarm(lead=f"{finding.rule}, {_where(each)}:", text=finding.reason, hint=finding.hint)
            for each, finding in bad[:_MOST_ALARMS]
        ),
        Details(f"All {len(found)} findings", [listed]) if found else None,
    )


def _where(each: Compared) -> str:
    return f"{each.moment} {each.stage}".replace("_", " ")


def _owners(account: Account, axis: Axis) -> Section:
    if not account.tenures:
        return section("Owners over time", "No owner was ever seen.")
    colours = palette(tenure.member for tenure in account.tenures)
    named = dict(list(colours.items())[:_MOST_MEMBERS])
    notes = [_SHARP[account.known_by]]
    if (more := len({each.partition for each in account.tenures}) - MOST_OWNER_LANES) > 0:
        notes.append(f"{more} partitions that changed hands least have no lane; the table has them.")
    if len(colours) > len(named):
        notes.append(f"{len(colours) - len(named)} further members are not named here.")
    return section(
        "Owners over time",
        " ".join(notes),
        Legend(named, account.members),
        owners(account.tenures, account.modes, axis, colours),
        Key([("unowned", "no owner")]) if account.known_by is KnownBy.LOG else None,
        _by_partition(account),
    )


def _by_partition(account: Account) -> Details:
    counts = hand_overs(account.tenures)
    gaps: dict[object, int] = {}
    owner: dict[object, str] = {}
    for each in sorted(account.tenures, key=lambda tenure: tenure.start_ms):
        gaps[each.partition] = max(gaps.get(each.partition, 0), each.unowned_ms or 0)
        owner[each.partition] = each.member
    sharp = account.known_by is KnownBy.LOG
    ordered = sorted(counts, key=lambda at: (-gaps[at], -counts[at], at))
    listed = table(
        ordered,
        {
            "partition": str,
            "hand-overs": lambda at: counts[at],
            "longest without owner": lambda at: duration(gaps[at]) if sharp else None,
            "last owner": lambda at: owner[at],
        },
        numeric={"hand-overs", "longest without owner"},
        most=_MOST_ROWS,
    )
    return Details(f"{len(counts)} partitions in figures", [listed])


def _consumption(account: Account) -> Section:
    audit = account.audit or {}
    names = ("deliveries", "lost", "duplicates", "unexplained", "overlaps")
    return section(
        "What was delivered",
        "Every record that the members delivered, held against ZooKeeper's transaction log; the whole audit "
        "is in consumption/report.html.",
        Facts(
            [
                *((name, audit.get(name)) for name in names),
                ("longest without owner", duration(audit.get("longest_unowned_ms"))),
            ]
        ),
    )


def _unaudited(account: Account) -> Section:
    """What the ledgers tell, and the command that makes the audit."""
    delivered = account.delivered
    source = shell(delivered.source) if delivered and delivered.source else "LEDGERS"
    command = (
        f"python -m groupshift.jobs.audit_consumption --group {shell(account.status.group)} "
        f"--ledgers {source} --zookeeper-log ZOOKEEPER_LOG --output {shell(account.audit_output)} "
        f"--from-ms {account.status.created_at_ms} --to-ms {account.ended_ms}"
    )
    note = (
        f"From the members' ledgers: {delivered.deliveries:,} deliveries. Whether an offset that was passed "
        "over held a record, and when a partition had no owner, an audit tells."
        if delivered
        else "What was lost or delivered again is not known: no ledgers were read and no audit was made."
    )
    named = " LEDGERS is the folder of the members' ledgers," if source == "LEDGERS" else ""
    how = f"To get it (ZOOKEEPER_LOG is the folder version-2 of a ZooKeeper server,{named} before report):"
    return section("What was delivered", note, how, code(command))


_BAD_CLASSES = ("lost", "regressed")
_CLASSES = ("lost", "extra", "regressed", "advanced", "metadata_only")


def _offsets(account: Account) -> Section:
    """How the committed offsets of each comparison differ, by class, and what was not allowed."""
    compared = [each for each in account.compared if each.counts]
    if not compared:
        return section("Committed offsets", "Nothing was compared yet.")

    def count(each: Compared, kind: str) -> Cell:
        number = each.counts.get(kind, 0)
        return refused(number) if kind in _BAD_CLASSES else number

    heads = ["compared", "verdict", *(kind.replace("_", " ") for kind in _CLASSES), "not allowed"]
    rows = [
        (
            _where(each),
            spoken(each.verdict),
            *(count(each, kind) for kind in _CLASSES),
            refused(each.refusals),
        )
        for each in compared
    ]
    note = (
        "Committed offsets of two snapshots, by class. A group that consumes advances; lost and regressed "
        "ones would be read again or skipped. Not allowed counts the rows of every table that the stage "
        "does not make."
    )
    listed = Table(
        heads=heads, rows=rows, numeric=heads[2:], caption="Differences of committed offsets by class"
    )
    return section("Committed offsets", note, listed, *(part for each in compared for part in _refused(each)))


def _refused(each: Compared) -> Iterator[Part]:
    """The first rows that the stage does not allow."""
    if each.refused:
        yield Word(f"Not allowed: {_where(each)}", tag="h3")
        yield table(
            each.refused,
            {"table": "table", "class": "class", "what": "subject", "before": "before", "after": "after"},
            numeric={"before", "after"},
        )
        if each.refusals > len(each.refused):
            yield f"And {each.refusals - len(each.refused)} more in differences.parquet."


def _lag(account: Account, axis: Axis) -> Section:
    measured = lags(account.sightings)
    if not measured:
        return section("Lag", "The lag was never measured.")
    figures = table(
        measured,
        {
            "when": lambda each: clock(each.at_ms),
            "at": "what",
            "records in all": "total",
            "most in one partition": "worst",
            "which": lambda each: str(each.worst_at),
        },
        numeric={"records in all", "most in one partition"},
        most=_MOST_ROWS,
    )
    return section(
        "Lag",
        "Records behind the log end, by the offsets of the store that counts in the mode of that moment.",
        lag_curve(measured, account.modes, axis),
        "Solid: all partitions together. Dashed: the one that lags most.",
        Details(f"{len(measured)} measurements in figures", [figures]),
    )


def _expectations(account: Account) -> Section | None:
    """What Great Expectations said of each snapshot; those that failed by name."""
    asked = [each for each in account.compared if each.expectations]
    if not asked:
        return None

    def failures(each: Compared, severity: str = "") -> list[Mapping[str, object]]:
        failed = [one for one in each.expectations if not one["success"]]
        return [one for one in failed if severity in {"", one["severity"]}]

    heads = ["comparison", "hold", "critical failed", "warning failed", "info failed"]
    rows = [
        (
            _where(each),
            f"{len(each.expectations) - len(failures(each))} of {len(each.expectations)}",
            *(refused(len(failures(each, severity))) for severity in ("critical", "warning", "info")),
        )
        for each in asked
    ]
    caption = "Expectations that hold, and failures by severity"
    failed = [(each, one) for each in asked for one in failures(each)]
    named = table(
        failed,
        {
            "comparison": lambda pair: _where(pair[0]),
            "snapshot": lambda pair: pair[1]["snapshot"],
            "table": lambda pair: pair[1]["table"],
            "expectation": lambda pair: pair[1]["sentence"],
            "severity": lambda pair: pair[1]["severity"],
            "found": lambda pair: pair[1]["detail"],
        },
    )
    note = "The rows themselves are in failing_rows.parquet of the comparison."
    return section(
        "Great Expectations",
        Table(heads=heads, rows=rows, numeric=heads[1:], caption=caption),
        *((named, note) if failed else ()),
    )


_QUIET = frozenset({EventKind.OBSERVED, EventKind.PROOF_REQUESTED, EventKind.SEALING})


def _journal(account: Account) -> Section:
    """Every event but single looks, in order."""
    listed = table(
        (event for event in account.status.events if event.kind not in _QUIET),
        {
            "no.": "seq",
            "when": lambda event: moment_utc(event.at_ms),
            "what": lambda event: event.kind.value.replace("_", " "),
            "stage": lambda event: event.stage.value.replace("_", " ") if event.stage else None,
            "said": event_text,
        },
        numeric={"no."},
    )
    return section("Journal", Details(f"All {len(account.status.events)} events of the journal", [listed]))
