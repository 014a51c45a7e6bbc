"""The report of an audit of consumption: ``audit.json``, and one HTML file.

The file has the figures, the rules, and the owners over time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

from groupshift.domain.verdict import Verdict
from groupshift.report.page import (
    Columns,
    Headline,
    Legend,
    Page,
    Section,
    badge,
    duration,
    glance,
    moment_utc,
    section,
    table,
)
from groupshift.report.page import (
    render as render_page,
)
from groupshift.report.pictures import Bar, Lane, lanes
from groupshift.report.svg_and_time_axis import Axis, axis_of, palette
from groupshift.spark.checks import finding_data
from groupshift.spark.consumption import STILL_HELD_MS, Audit
from groupshift.spark.validation_report import rules_section

AUDIT_VERSION = 1


def hand_over_name(row: Mapping[str, Any]) -> str:
    """Who gave to whom: the last member that delivered, and the taker."""
    giver = row["last_deliverer"] or row["giver"]
    return f"{giver} → {row['member']}" if giver else f"to {row['member']}"


def to_data(audit: Audit) -> dict[str, Any]:
    """``audit.json`` as plain values: times are epoch milliseconds, ``unowned_ms`` is a duration, and both
    offsets of a range are inclusive."""
    measured = audit.measured
    again = [
        {
            **row,
            "at_ms": row["first_ms"],
            "hand_over": hand_over_name(row),
            "explained": row["objection"] is None,
        }
        for row in measured.duplicates
    ]
    taken = [
        {**row, "from": row["giver"], "to": row["member"], "taken_ms": row["start_ms"]}
        for row in measured.hand_overs
        if row["giver"] is not None
    ]
    return {
        "version": AUDIT_VERSION,
        "group": audit.group,
        "verdict": audit.verdict.value,
        "window": {"from_ms": audit.window.from_ms, "to_ms": audit.window.to_ms},
        "tolerance_ms": {"old": audit.window.tolerance_ms, "aware": 0, "plain": 0},
        **audit.totals,
        "findings": [finding_data(result) for result in audit.results],
        "lost_ranges": measured.lost,
        "not_proven_ranges": measured.unproven,
        "empty_ranges": measured.empty,
        "duplicate_ranges": again,
        "hand_overs": taken,
        "partitions": measured.partitions,
        "members": measured.members,
        "torn_ledgers": list(audit.torn),
        "still_held": sum(1 for row in measured.hand_overs if row["end_ms"] >= STILL_HELD_MS),
        "report": "report.html",
    }


FIRST = 10
"""Rows that a table shows."""
_WHOLE = "; all are in audit.json"
_MOST_LANES = 120

_LANES = (
    "One lane a partition, coloured by owner; red is time without an owner, pale red the time between "
    "deliveries next to a plain consumer."
)
_HOW = files("groupshift").joinpath("spark", "how_consumption_is_judged.txt").read_text("utf-8")
Row = Mapping[str, Any]


def render(audit: Audit) -> str:
    """The whole HTML document."""
    measured, log = audit.measured, audit.log
    again = sorted(measured.duplicates, key=lambda row: (row["objection"] is None, -row["records"]))
    how = [" ".join(each.split()) for each in _HOW.format(tolerance=audit.window.tolerance_ms).split("\n\n")]
    how.append(f"Log: {log.files} files, {log.transactions} transactions.")
    if audit.torn:
        how[-1] += f" Incomplete last lines left out: {', '.join(audit.torn)}."
    page = Page(
        title="Audit of consumption",
        top=Headline(verdict=audit.verdict),
        lead=f"Group {audit.group}: every record its members delivered, against ZooKeeper's transaction log.",
        sections=[
            _summary(audit),
            rules_section(audit.results),
            _picture(audit),
            _listed("Partition by partition", measured.partitions, _PARTITIONS),
            _listed("Lost", measured.lost, _LOST, most=FIRST) if measured.lost else None,
            _listed("Delivered again", again, _AGAIN, most=FIRST)
            if again
            else section("Delivered again", "No record was delivered twice."),
            _listed("Member by member", measured.members, _MEMBERS),
            section("How this was judged", *how),
        ],
    )
    return render_page(page)


def _summary(audit: Audit) -> Section:
    """The figures at a glance, of the whole window."""
    totals, measured, window = audit.totals, audit.measured, audit.window
    within = (row for row in measured.hand_overs if window.from_ms <= row["start_ms"] <= window.to_ms)
    return glance(
        ("deliveries", totals["deliveries"]),
        ("partitions", len(measured.partitions)),
        ("members", len(measured.members)),
        ("hand-overs", sum(row["giver"] is not None for row in within)),
        ("lost", totals["lost"]),
        ("delivered again", totals["duplicates"]),
        ("not explained", totals["unexplained"]),
        ("overlaps", totals["overlaps"]),
        ("longest without owner", duration(totals["longest_unowned_ms"])),
    )


def _picture(audit: Audit) -> Section:
    """Owners over time, a lane for each partition; of more than `_MOST_LANES` the first are drawn. The axis
    shows when something was delivered and owned within the window; waits are cut out."""
    title, taken = "Owners over time", audit.measured.hand_overs
    if not taken:
        return section(title, "No member ever owned a partition.")
    members, window = audit.measured.members, audit.window
    times = [row["first_ms"] for row in members] + [row["last_ms"] for row in members]
    times += [row["start_ms"] for row in taken]
    begin = max(window.from_ms, min(times))
    end = max(min(window.to_ms, max(times) + 500), begin + 1)
    within = (at_ms for row in taken for at_ms in (row["start_ms"], row["end_ms"]) if begin < at_ms < end)
    axis, colours = axis_of([begin, end, *within]), palette(row["member"] for row in taken)
    shown = _partition_lanes(taken, axis, colours)
    said = f"{len(shown)} partitions and {len(colours)} members; the tables below say the same in figures."
    modes = [(one.at_ms, one.text or "deleted") for one in audit.log.history.mode_writes]
    return section(
        title,
        _LANES,
        Legend(colours, {row["member"]: row["kind"] for row in taken}),
        lanes(title, said, shown[:_MOST_LANES], axis, name="owners", modes=modes),
    )


def _partition_lanes(rows: Iterable[Row], axis: Axis, colours: Mapping[str, str]) -> list[Lane]:
    """A lane for each partition, with the time without owner before a tenure (pale next to a plain consumer),
    and the tenure; owners at the same time lie over each other, and each is drawn."""
    of: dict[str, list[Bar]] = {}
    for row in sorted(rows, key=lambda row: (row["topic"], row["partition"], row["start_ms"])):
        at, start, end, gap = _at(row), row["start_ms"], row["end_ms"], row["unowned_ms"]
        bars = of.setdefault(at, [])
        if gap and row["released_ms"] >= axis.from_ms:
            look = "silent" if "plain" in {row["kind"], row["giver_kind"]} else "unowned"
            title = f"{at} had no owner for {duration(gap)} until {moment_utc(start)}"
            bars.append(Bar(from_ms=row["released_ms"], to_ms=start, title=title, look=look))
        until = moment_utc(end) if end <= axis.to_ms else "the end"
        title = (
            f"{at}: {row['member']} ({row['kind']}) from {moment_utc(start)} to {until}, "
            f"{row['records']} records; known by {row['known_by']}"
        )
        bars.append(Bar(from_ms=start, to_ms=end, title=title, fill=colours.get(row["member"], "#888")))
    return [Lane(name=at, over=bars) for at, bars in of.items()]


def _at(row: Row) -> str:
    """The partition as Kafka names it."""
    return f"{row['topic']}-{row['partition']}"


_TEXTS = frozenset({"partition", "why", "hand-over", "", "explanation", "member", "kind"})
"""Columns that hold no number."""
_PARTITIONS: Columns[Row] = {
    "partition": _at,
    "first": "first_offset",
    "last": "last_offset",
    "deliveries": "deliveries",
    "lost": "lost",
    "again": "duplicates",
    "hand-overs": "hand_overs",
    "longest without owner": lambda row: duration(row["longest_unowned_ms"]),
    "at": lambda row: moment_utc(row["longest_unowned_at_ms"]) if row["longest_unowned_ms"] else None,
}
_LOST: Columns[Row] = {"partition": _at, "from": "from_offset", "to": "to_offset", "why": "reason"}
_AGAIN: Columns[Row] = {
    "partition": _at,
    "from": "from_offset",
    "to": "to_offset",
    "records": "records",
    "hand-over": hand_over_name,
    "committed … reached": lambda row: f"{row['committed']} … {row['reached']}",
    "": lambda row: badge(Verdict.FAIL if row["objection"] else Verdict.PASS),
    "explanation": lambda row: row["objection"] or "at the hand-over",
}
_MEMBERS: Columns[Row] = {
    "member": "member",
    "kind": "kind",
    "deliveries": "deliveries",
    "partitions": "partitions",
    "first delivery": lambda row: moment_utc(row["first_ms"]),
    "last delivery": lambda row: moment_utc(row["last_ms"]),
    "latest stamp": lambda row: duration(row["latest_stamp_ms"]) if row["latest_stamp_ms"] else None,
}


def _listed(title: str, rows: Iterable[Row], columns: Columns[Row], *, most: int = 0) -> Section:
    """These rows as a table; of more than ``most`` the first."""
    return section(title, table(rows, columns, numeric=columns.keys() - _TEXTS, most=most, whole=_WHOLE))
