"""An audit as plain values: ``audit.json``, and figures of a stretch of time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groupshift.spark.audit import Audit, Window, lost_of, taken_in
from groupshift.spark.consumption import STILL_HELD_MS
from groupshift.spark.verdicts import finding_data

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
