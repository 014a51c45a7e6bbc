"""The report of an audit of consumption: ``audit.json``, and one HTML file.

The file has the figures, the rules, and the owners over time. `figures` sums up a stretch of time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groupshift.domain.verdict import Verdict
from groupshift.spark import picture, timeline
from groupshift.spark.checks import finding_data
from groupshift.spark.consumption import STILL_HELD_MS, Audit, Window, lost_of, taken_in
from groupshift.spark.html import Markup, badge, duration, facts, join, moment_utc, page, section, table, tag
from groupshift.spark.validation import rules_section

AUDIT_VERSION = 1


def _event(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "topic": row["topic"],
        "partition": row["partition"],
        "from": row["giver"],
        "to": row["member"],
        "known_by": row["known_by"],
        "released_by": row["released_by"],
        "released_ms": row["released_ms"],
        "taken_ms": row["start_ms"],
        "unowned_ms": row["unowned_ms"],
        "committed": row["committed"],
        "reached": row["reached"],
    }


def _range(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "topic": row["topic"],
        "partition": row["partition"],
        "from_offset": row["from_offset"],
        "to_offset": row["to_offset"],
        "records": row["records"],
        "at_ms": row["first_ms"],
        "hand_over": hand_over_name(row),
        "committed": row["committed"],
        "reached": row["reached"],
        "explained": row["objection"] is None,
        "objection": row["objection"],
    }


def hand_over_name(row: Mapping[str, Any]) -> str:
    """Who gave to whom: the last member that delivered, and the taker."""
    giver = row["last_deliverer"] or row["giver"]
    return f"{giver} → {row['member']}" if giver else f"to {row['member']}"


def figures(audit: Audit, from_ms: int, to_ms: int) -> dict[str, Any]:
    """The numbers of one stretch of time within the audit's window."""
    measured = audit.measured
    span = Window(from_ms=from_ms, to_ms=to_ms, tolerance_ms=0)
    taken = taken_in(measured.hand_overs, span)
    again = [row for row in measured.duplicates if span.holds(row["first_ms"])]
    return {
        "from_ms": from_ms,
        "to_ms": to_ms,
        "hand_overs": len(taken),
        "partitions": len({(row["topic"], row["partition"]) for row in taken}),
        "longest_unowned_ms": max((row["unowned_ms"] for row in taken), default=0),
        "duplicates": sum(row["records"] for row in again),
        "unexplained": sum(1 for row in again if row["objection"] is not None),
        "lost": lost_of([row for row in measured.lost if span.holds(row["at_ms"])]),
    }


def to_data(audit: Audit, stages: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
    """``audit.json`` as plain values; `stages` maps names to (from, to) in epoch milliseconds."""
    measured = audit.measured
    return {
        "version": AUDIT_VERSION,
        "group": audit.group,
        "verdict": audit.verdict.value,
        "window": {"from_ms": audit.window.from_ms, "to_ms": audit.window.to_ms},
        "tolerance_ms": {"old": audit.window.tolerance_ms, "aware": 0, "plain": 0},
        "deliveries": sum(row["deliveries"] for row in measured.partitions),
        "lost": audit.lost_records,
        "duplicates": audit.duplicate_records,
        "overlaps": audit.overlaps,
        "unexplained": sum(1 for row in measured.duplicates if row["objection"] is not None),
        "longest_unowned_ms": audit.longest_unowned_ms,
        "findings": [finding_data(result) for result in audit.results],
        "lost_ranges": [dict(row) for row in measured.lost],
        "not_proven_ranges": [dict(row) for row in measured.unproven],
        "empty_ranges": [dict(row) for row in measured.empty],
        "duplicate_ranges": [_range(row) for row in measured.duplicates],
        "hand_overs": [_event(row) for row in measured.hand_overs if row["giver"] is not None],
        "partitions": [dict(row) for row in measured.partitions],
        "members": [dict(row) for row in measured.members],
        "stages": {name: figures(audit, *span) for name, span in stages.items()},
        "torn_ledgers": list(audit.torn),
        "still_held": sum(1 for row in measured.hand_overs if row["end_ms"] >= STILL_HELD_MS),
        "report": "report.html",
    }


FIRST = 10

_LANES = (
    "One lane a partition, coloured by owner; red is time without an owner, pale red the time between "
    "deliveries next to a plain consumer."
)
_HOW = """\
Old and migration-aware members hold an owner node in ZooKeeper while a partition is theirs: each of their
deliveries must lie between the creation and the deletion of that node, by the server's own log, whose clock
has a resolution of 1 ms.

Deliveries of old members are stamped by a recorder that reads their output, so a stamp may come up to
{tolerance} ms after the node is gone. Members of groupshift stamp what they deliver themselves: no tolerance.

Plain Kafka consumers have no owner node. Their tenure is the time from the first to the last delivery of a
run, and they are judged by it: no other member delivers within, and nobody goes on where it stopped itself
after another has delivered.

A record delivered again is explained when it lies between the offset committed at the hand-over and the last
record delivered before it. In Kafka mode the znode follows the Kafka offset, so it is the lower bound too.
"""


def render(audit: Audit, stages: Mapping[str, tuple[int, int]]) -> str:
    """The whole HTML document."""
    lead = f"Group {audit.group}: every record its members delivered, against ZooKeeper's transaction log."
    sections = [
        _summary(audit),
        rules_section(audit.results),
        _picture(audit),
        _stages(audit, stages),
        _partitions(audit),
        _lost(audit),
        _duplicates(audit),
        _members(audit),
        _how(audit),
    ]
    return page("Audit of consumption", audit.verdict, lead, [part for part in sections if part])


def _summary(audit: Audit) -> Markup:
    taken = taken_in(audit.measured.hand_overs, audit.window)
    pairs = [
        ("deliveries", sum(row["deliveries"] for row in audit.measured.partitions)),
        ("partitions", len(audit.measured.partitions)),
        ("members", len(audit.measured.members)),
        ("hand-overs", len(taken)),
        ("lost", audit.lost_records),
        ("delivered again", audit.duplicate_records),
        ("not explained", sum(1 for row in audit.measured.duplicates if row["objection"] is not None)),
        ("overlaps", audit.overlaps),
        ("longest without owner", duration(audit.longest_unowned_ms)),
    ]
    return section("At a glance", facts(pairs))


def _scale(audit: Audit) -> timeline.Scale:
    times = [row["first_ms"] for row in audit.measured.members] + [
        row["last_ms"] for row in audit.measured.members
    ]
    starts = [row["start_ms"] for row in audit.measured.hand_overs]
    begin = max(audit.window.from_ms, min([*times, *starts], default=0))
    end = min(audit.window.to_ms, max([*times, *starts], default=begin) + 500)
    return timeline.Scale(from_ms=begin, to_ms=max(end, begin + 1))


def _picture(audit: Audit) -> Markup:
    colours = picture.palette([row["member"] for row in audit.measured.hand_overs])
    kinds = {row["member"]: row["kind"] for row in audit.measured.hand_overs}
    modes = [(one.at_ms, one.text or "deleted") for one in audit.log.history.mode_writes]
    if not audit.measured.hand_overs:
        return section("Owners over time", tag("p", "No member ever owned a partition.", class_="note"))
    return section(
        "Owners over time",
        tag("p", _LANES, class_="note"),
        picture.legend(colours, kinds),
        timeline.owners_over_time(audit.measured.hand_overs, modes, _scale(audit), colours),
    )


def _stages(audit: Audit, stages: Mapping[str, tuple[int, int]]) -> Markup:
    if not stages:
        return Markup()
    rows = []
    for name, span in stages.items():
        found = figures(audit, *span)
        rows.append(
            (
                name,
                duration(span[1] - span[0]),
                found["hand_overs"],
                found["partitions"],
                duration(found["longest_unowned_ms"]),
                found["duplicates"],
                found["unexplained"],
                found["lost"],
            )
        )
    heads = [
        "stage",
        "time",
        "hand-overs",
        "partitions",
        "longest without owner",
        "again",
        "not explained",
        "lost",
    ]
    return section("Stage by stage", table(heads, rows, numeric=heads[1:]))


def _partitions(audit: Audit) -> Markup:
    heads = [
        "partition",
        "first",
        "last",
        "deliveries",
        "lost",
        "again",
        "hand-overs",
        "longest without owner",
        "at",
    ]
    rows = [
        (
            f"{row['topic']}-{row['partition']}",
            row["first_offset"],
            row["last_offset"],
            row["deliveries"],
            row["lost"],
            row["duplicates"],
            row["hand_overs"],
            duration(row["longest_unowned_ms"]),
            moment_utc(row["longest_unowned_at_ms"]) if row["longest_unowned_ms"] else None,
        )
        for row in audit.measured.partitions
    ]
    return section("Partition by partition", table(heads, rows, numeric=heads[1:]))


def _more(shown: int, total: int) -> Markup:
    text = f"The first {shown} of {total}; all are in audit.json."
    return tag("p", text, class_="note") if total > shown else Markup()


def _lost(audit: Audit) -> Markup:
    if not audit.measured.lost:
        return Markup()
    rows = [
        (f"{row['topic']}-{row['partition']}", row["from_offset"], row["to_offset"], row["reason"])
        for row in audit.measured.lost[:FIRST]
    ]
    heads = ["partition", "from", "to", "why"]
    return section("Lost", table(heads, rows, numeric=["from", "to"]), _more(FIRST, len(audit.measured.lost)))


def _duplicates(audit: Audit) -> Markup:
    if not audit.measured.duplicates:
        return section("Delivered again", tag("p", "No record was delivered twice.", class_="note"))
    ordered = sorted(audit.measured.duplicates, key=lambda row: (row["objection"] is None, -row["records"]))
    rows = [
        (
            f"{row['topic']}-{row['partition']}",
            row["from_offset"],
            row["to_offset"],
            row["records"],
            hand_over_name(row),
            f"{row['committed']} … {row['reached']}",
            badge(Verdict.FAIL) if row["objection"] else badge(Verdict.PASS),
            row["objection"] or "at the hand-over",
        )
        for row in ordered[:FIRST]
    ]
    heads = ["partition", "from", "to", "records", "hand-over", "committed … reached", "", "explanation"]
    listed = table(heads, rows, numeric=["from", "to", "records", "committed … reached"])
    return section("Delivered again", listed, _more(FIRST, len(ordered)))


def _members(audit: Audit) -> Markup:
    heads = ["member", "kind", "deliveries", "partitions", "first delivery", "last delivery", "latest stamp"]
    rows = [
        (
            row["member"],
            row["kind"],
            row["deliveries"],
            row["partitions"],
            moment_utc(row["first_ms"]),
            moment_utc(row["last_ms"]),
            duration(row["latest_stamp_ms"]) if row["latest_stamp_ms"] else None,
        )
        for row in audit.measured.members
    ]
    return section("Member by member", table(heads, rows, numeric=heads[2:]))


def _how(audit: Audit) -> Markup:
    sentences = _HOW.format(tolerance=audit.window.tolerance_ms).split("\n\n")
    log = f"Log: {audit.log.files} files, {audit.log.transactions} transactions."
    torn = f" Incomplete last lines left out: {', '.join(audit.torn)}." if audit.torn else ""
    return section(
        "How this was judged", join(tag("p", text, class_="note") for text in (*sentences, log + torn))
    )
