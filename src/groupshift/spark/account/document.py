"""The whole report of a migration: the sentence first, then the pictures, then everything else."""

from __future__ import annotations

from collections.abc import Iterator

from groupshift.application.account import Account
from groupshift.domain.foreign_text import shell
from groupshift.domain.modes import MemberKind
from groupshift.domain.ownership_history import KnownBy, hand_overs, lags
from groupshift.domain.plan import MoveName
from groupshift.domain.seal import Pack
from groupshift.spark import picture
from groupshift.spark.account import tables
from groupshift.spark.account.axis import Axis, axis_of, clock
from groupshift.spark.account.banner import banner
from groupshift.spark.account.headline import headline
from groupshift.spark.account.lag_picture import lag_picture
from groupshift.spark.account.owners_picture import left_out, owners_picture
from groupshift.spark.account.run_picture import run_picture
from groupshift.spark.html import (
    Markup,
    duration,
    facts,
    join,
    moment_utc,
    page,
    section,
    table,
    tag,
)

_MOST_PARTITIONS = 300
_MOST_MEMBERS = 60
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


def render(account: Account, sealed: tuple[tuple[str, object], ...] = ()) -> str:
    """The HTML document; it needs nothing besides itself. ``sealed`` are rows about the pack."""
    top, axis = headline(account), _axis(account)
    lead = f"Migration {account.status.migration}, planned {moment_utc(account.status.created_at_ms)}"
    sections = [
        banner(top, *_alarms(account)),
        _summary(account),
        _run(account, axis),
        tables.findings(account),
        _owners(account, axis),
        _consumption(account),
        tables.offsets(account),
        _lag(account, axis),
        tables.expectations(account),
        tables.evidence(account, sealed),
        tables.journal(account),
    ]
    shown = [part for part in sections if part]
    return page(f"Group {account.status.group}", top.verdict, lead, shown, word=top.word)


def _axis(account: Account) -> Axis:
    times = [event.at_ms for event in account.status.events if event.at_ms <= account.ended_ms]
    times += [sighting.at_ms for sighting in account.sightings]
    times += {tenure.start_ms for tenure in account.tenures}
    return axis_of([*times, account.status.created_at_ms])


def _alarms(account: Account) -> list[Markup]:
    return [tag("div", tag("strong", "Evidence: "), each, class_="alarm") for each in account.troubles]


def _summary(account: Account) -> Markup:
    kinds = list(account.members.values())
    first, last = (account.sightings[0], account.sightings[-1]) if account.sightings else (None, None)
    lost = {
        name: sum(each.counts.get(name, 0) for each in account.compared) for name in ("lost", "regressed")
    }
    pairs: list[tuple[str, object]] = [
        ("took", duration(account.ended_ms - account.status.created_at_ms)),
        ("partitions", len(last.owners) if last else None),
        ("members met", ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds))) or None),
        _now(account),
        ("offsets lost", lost["lost"]),
        ("offsets gone back", lost["regressed"]),
        ("hand-overs", sum(hand_overs(account.tenures).values()) if account.tenures else None),
        *_consumed(account),
    ]
    span = f"{clock(first.at_ms)} to {clock(last.at_ms)} UTC" if first and last else "never"
    return section("At a glance", facts([*pairs, ("seen", span)]))


def _consumed(account: Account) -> list[tuple[str, object]]:
    """What was lost, processed twice, or stood still: from the audit, else from the ledgers, else nothing."""
    audit, told = account.audit, account.delivered
    if audit:
        return [
            ("without owner at most", duration(audit.get("longest_unowned_ms"))),
            ("records lost", audit.get("lost")),
            ("delivered again", audit.get("duplicates")),
        ]
    if told:
        return [
            ("longest pause of a partition", duration(told.longest_pause_ms)),
            ("offsets passed over", told.passed_over),
            ("delivered again", told.again),
        ]
    return []


_SPOKEN = {MemberKind.PLAIN.value: "classic", MemberKind.NATIVE.value: "consumer"}
"""The rebalance protocol of members of a kind."""


def _now(account: Account) -> tuple[str, str]:
    """The mode, or, where the move has to do with none, the protocols of those who owned partitions last."""
    if account.plan.move is MoveName.COORDINATION:
        return "mode now", account.modes[-1][1] if account.modes else "zookeeper (never written)"
    last = account.sightings[-1].owners.values() if account.sightings else ()
    kinds = {account.members.get(owner, "") for owners in last for owner in owners}
    spoken = sorted({_SPOKEN[kind] for kind in kinds if kind in _SPOKEN})
    return "protocol now", " and ".join(spoken) or "nobody owned a partition"


def _run(account: Account, axis: Axis) -> Markup:
    key = tag(
        "ul",
        _key("stage", "measured"),
        _key("act", "acted, until it had settled"),
        _key("waiting", "waited for a person"),
        tag("li", badge_text("✓ ? ! ✕", "verdict: passed, inconclusive, could not be measured, failed")),
        class_="key",
    )
    return section("The run", run_picture(account, axis), key, tables.decisions(account))


def badge_text(signs: str, text: str) -> Markup:
    """Signs, and what they mean."""
    return join((tag("strong", signs), " ", text))


def _key(kind: str, text: str) -> Markup:
    box = tag("rect", width=18, height=12, rx=3, class_=kind)
    return tag("li", tag("svg", box, width=18, height=12, aria_hidden="true"), text)


def _owners(account: Account, axis: Axis) -> Markup:
    if not account.tenures:
        return section("Owners over time", tag("p", "No owner was ever seen.", class_="note"))
    members = [tenure.member for tenure in account.tenures]
    colours = picture.palette(members)
    notes = [_SHARP[account.known_by]]
    if more := left_out(account.tenures):
        notes.append(f"{more} partitions that changed hands least have no lane; the table has them.")
    shown = dict(list(colours.items())[:_MOST_MEMBERS])
    if len(colours) > len(shown):
        notes.append(f"{len(colours) - len(shown)} further members are not named here.")
    return section(
        "Owners over time",
        tag("p", " ".join(notes), class_="note"),
        picture.legend(shown, account.members),
        owners_picture(account.tenures, account.modes, axis, colours),
        tag("ul", _key("unowned", "no owner"), class_="key") if account.known_by is KnownBy.LOG else "",
        _by_partition(account),
    )


def _by_partition(account: Account) -> Markup:
    counts = hand_overs(account.tenures)
    gaps: dict[object, int] = {}
    owner: dict[object, str] = {}
    for each in sorted(account.tenures, key=lambda tenure: tenure.start_ms):
        gaps[each.partition] = max(gaps.get(each.partition, 0), each.unowned_ms or 0)
        owner[each.partition] = each.member
    sharp = account.known_by is KnownBy.LOG
    ordered = sorted(counts, key=lambda at: (-gaps[at], -counts[at], at))
    rows = (
        (str(at), counts[at], duration(gaps[at]) if sharp else None, owner[at])
        for at in ordered[:_MOST_PARTITIONS]
    )
    heads = ["partition", "hand-overs", "longest without owner", "last owner"]
    more = len(counts) - _MOST_PARTITIONS
    note = tag("p", f"And {more} more.", class_="note") if more > 0 else ""
    summary = tag("summary", f"{len(counts)} partitions in figures")
    return tag("details", summary, table(heads, rows, numeric=heads[1:3]), note)


def _consumption(account: Account) -> Markup:
    if not account.audit:
        return _unaudited(account)
    audit = account.audit
    pairs = [
        (name.replace("_", " "), audit.get(name))
        for name in ("deliveries", "lost", "duplicates", "unexplained", "overlaps")
    ]
    note = (
        "Every record that the members delivered, held against ZooKeeper's transaction log; the whole audit "
        "is in consumption/report.html."
    )
    return section(
        "What was delivered",
        tag("p", note, class_="note"),
        facts([*pairs, ("longest without owner", duration(audit.get("longest_unowned_ms")))]),
    )


def _unaudited(account: Account) -> Markup:
    """What the ledgers tell, and the command that makes the audit."""
    told = account.delivered
    source = shell(told.source) if told and told.source else "LEDGERS"
    command = (
        f"python -m groupshift.jobs.audit_consumption --group {shell(account.status.group)} "
        f"--ledgers {source} --zookeeper-log ZOOKEEPER_LOG --output {shell(account.audit_output)} "
        f"--from-ms {account.status.created_at_ms} --to-ms {account.ended_ms}"
    )
    note = (
        f"From the members' ledgers: {told.deliveries:,} deliveries. Whether an offset that was passed over "
        "held a record, and when a partition had no owner, an audit tells."
        if told
        else "What was lost or delivered again is not known: no ledgers were read and no audit was made."
    )
    named = " LEDGERS is the folder of the members' ledgers," if source == "LEDGERS" else ""
    how = f"To get it (ZOOKEEPER_LOG is the folder version-2 of a ZooKeeper server,{named} before report):"
    return section(
        "What was delivered",
        tag("p", note, class_="note"),
        tag("p", how, class_="note"),
        tag("p", tag("code", command)),
    )


def _lag(account: Account, axis: Axis) -> Markup:
    measured = lags(account.sightings)
    if not measured:
        return section("Lag", tag("p", "The lag was never measured.", class_="note"))
    rows = list(_lag_rows(account))
    heads = ["when", "at", "records in all", "most in one partition", "which"]
    note = "Records behind the log end, by the offsets of the store that counts in the mode of that moment."
    key = tag("p", "Solid: all partitions together. Dashed: the one that lags most.", class_="note")
    summary = tag("summary", f"{len(measured)} measurements in figures")
    figures = tag("details", summary, table(heads, rows, numeric=heads[2:4]))
    return section(
        "Lag", tag("p", note, class_="note"), lag_picture(measured, account.modes, axis), key, figures
    )


def _lag_rows(account: Account) -> Iterator[tuple[object, ...]]:
    for each in lags(account.sightings)[:_MOST_PARTITIONS]:
        yield clock(each.at_ms), each.what, each.total, each.worst, str(each.worst_at)


def sealed_rows(pack: Pack) -> tuple[tuple[str, object], ...]:
    """What a pack says of itself, for the report."""
    met = ((name, ", ".join(found)) for name, found in pack.versions.items())
    brokers = (("brokers met", "; ".join(pack.brokers)),) if pack.brokers else ()
    doubts = tuple(("doubted", each) for each in pack.doubts)
    return (("plan hash approved", pack.plan_hash), *met, *brokers, *doubts)
