"""The audit of a group's consumption: what was lost, delivered twice, or delivered by the wrong member."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from groupshift.domain.verdict import Verdict, worst
from groupshift.spark.checks import statement
from groupshift.spark.consumption import STILL_HELD_MS, Log
from groupshift.spark.verdicts import Offence, Ruled, finding_data, ruled

AUDIT_VERSION = 1

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What counts: events from ``from_ms`` to ``to_ms`` (epoch). ``tolerance_ms`` is how late the stamp
    of a delivery by an old member may be: it is taken by a recorder behind a pipe."""

    from_ms: int
    to_ms: int
    tolerance_ms: int

    def holds(self, at_ms: int | None) -> bool:
        """True when `at_ms` lies within."""
        return at_ms is not None and self.from_ms <= at_ms <= self.to_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """All findings and the rows behind them; times are epoch milliseconds."""

    group: str
    window: Window
    log: Log
    torn: tuple[str, ...]
    results: tuple[Ruled, ...]
    lost: Rows
    duplicates: Rows
    hand_overs: Rows
    partitions: Rows
    members: Rows
    overlaps: int

    @property
    def verdict(self) -> Verdict:
        """The worst of all findings."""
        return worst(result.finding.verdict for result in self.results)

    @property
    def lost_records(self) -> int:
        """Number of offsets delivered to nobody."""
        return sum(row["to_offset"] - row["from_offset"] + 1 for row in self.lost)

    @property
    def duplicate_records(self) -> int:
        """Number of deliveries beyond the first of their record."""
        return sum(row["records"] for row in self.duplicates)

    @property
    def longest_unowned_ms(self) -> int:
        """The longest time any partition was without owner between two tenures."""
        return max((row["longest_unowned_ms"] for row in self.partitions), default=0)


def _query(spark: SparkSession, text: str, window: Window) -> list[dict[str, Any]]:
    given = {"from_ms": window.from_ms, "to_ms": window.to_ms - window.tolerance_ms}
    arguments = {name: value for name, value in given.items() if f":{name}" in text}
    frame = spark.sql(text, args=arguments) if arguments else spark.sql(text)
    return [row.asDict() for row in frame.collect()]


def _check(spark: SparkSession, name: str, window: Window) -> list[dict[str, Any]]:
    return _query(spark, statement("checks/consumption", name), window)


def _offences(rows: Rows) -> list[Offence]:
    return [Offence(topic=row["topic"], partition=row["partition"], reason=row["reason"]) for row in rows]


def _sentences(sentences: Sequence[str]) -> list[Offence]:
    return [Offence(topic=None, partition=None, reason=sentence) for sentence in sentences]


def _partition_rows(
    spark: SparkSession, duplicates: Rows, hand_overs: Rows, lost: Rows
) -> list[dict[str, Any]]:
    totals = spark.sql(
        "SELECT topic, partition, count(*) AS deliveries, min(offset) AS first_offset,"
        " max(offset) AS last_offset FROM deliveries GROUP BY topic, partition ORDER BY topic, partition"
    ).collect()

    def of(rows: Rows, total: Any) -> list[Mapping[str, Any]]:
        return [
            row for row in rows if (row["topic"], row["partition"]) == (total["topic"], total["partition"])
        ]

    result = []
    for total in totals:
        changes = [row for row in of(hand_overs, total) if row["giver"] is not None]
        worst_gap = max(changes, key=lambda row: row["unowned_ms"], default=None)
        result.append(
            {
                **total.asDict(),
                "lost": sum(row["to_offset"] - row["from_offset"] + 1 for row in of(lost, total)),
                "duplicates": sum(row["records"] for row in of(duplicates, total)),
                "hand_overs": len(changes),
                "longest_unowned_ms": worst_gap["unowned_ms"] if worst_gap else 0,
                "longest_unowned_at_ms": worst_gap["released_ms"] if worst_gap else None,
            }
        )
    return result


def _member_rows(spark: SparkSession) -> list[dict[str, Any]]:
    rows = spark.sql(
        "SELECT member, kind, count(*) AS deliveries, count(DISTINCT topic, partition) AS partitions,"
        " min(at_ms) AS first_ms, max(at_ms) AS last_ms, coalesce(max(late_ms), 0) AS latest_stamp_ms"
        " FROM located GROUP BY member, kind ORDER BY first_ms, member"
    ).collect()
    return [row.asDict() for row in rows]


def run(spark: SparkSession, group: str, log: Log, torn: tuple[str, ...], window: Window) -> Audit:
    """Audit the registered views (see `groupshift.spark.consumption`)."""
    lost = _check(spark, "lost", window)
    everything = _query(spark, "SELECT * FROM duplicates ORDER BY topic, partition, from_offset", window)
    duplicates = [row for row in everything if window.holds(row["first_ms"])]
    tenures = _query(spark, "SELECT * FROM hand_overs ORDER BY topic, partition, number", window)
    hand_overs = [
        row for row in tenures if window.from_ms <= row["end_ms"] and row["start_ms"] <= window.to_ms
    ]
    outside = _check(spark, "outside_ownership", window)
    owners, plain = _check(spark, "owner_overlap", window), _check(spark, "plain_overlap", window)
    members = _member_rows(spark)
    partitions = _partition_rows(
        spark, duplicates, [r for r in hand_overs if window.holds(r["start_ms"])], lost
    )
    unexplained = [
        row for row in _check(spark, "unexplained_duplicates", window) if window.holds(row["first_ms"])
    ]
    results = (
        ruled("A01", _log_holds(log), _sentences(log.problems), verdict=Verdict.INCONCLUSIVE, hint=_LOG_HINT),
        _delivered(partitions, members),
        ruled(
            "A03",
            "no offset is missing between the first and the last delivered",
            _offences(lost),
            hint=_LOST,
        ),
        ruled("A04", _duplicates_hold(duplicates), _offences(unexplained), hint=_DUPLICATES),
        ruled("A05", _inside_holds(members, window), _offences(outside), hint=_OUTSIDE),
        ruled("A06", "owner intervals of a partition never overlap", _offences(owners), hint=_LOG_HINT),
        ruled("A07", _plain_holds(members), _offences(plain), hint=_OUTSIDE),
    )
    return Audit(
        group=group,
        window=window,
        log=log,
        torn=torn,
        results=results,
        lost=lost,
        duplicates=duplicates,
        hand_overs=hand_overs,
        partitions=partitions,
        members=members,
        overlaps=len(owners) + len(plain) + sum(row["overlapping"] for row in outside),
    )


_LOG_HINT = "give every log file of the ZooKeeper server since the group began"
_LOST = "find out who committed past these offsets; the records are still in the log of the partition"
_DUPLICATES = "the former owner was not stopped, or the taker did not start at the committed offset"
_OUTSIDE = "a member delivered a partition that was not its own: a fence did not hold"


def _log_holds(log: Log) -> str:
    return f"ZooKeeper's log is whole: {log.transactions} transactions in {log.files} files"


def _delivered(partitions: Rows, members: Rows) -> Ruled:
    found = [] if partitions else _sentences(["the ledgers hold no delivery: nothing can be proven"])
    total = sum(row["deliveries"] for row in partitions)
    holds = f"{total} deliveries of {len(partitions)} partitions by {len(members)} members"
    return ruled("A02", holds, found, verdict=Verdict.ERROR, hint="look at the members' ledgers")


def _duplicates_hold(duplicates: Rows) -> str:
    if not duplicates:
        return "no record was delivered twice"
    records = sum(row["records"] for row in duplicates)
    return (
        f"all {len(duplicates)} ranges delivered again ({records} records) are explained by their hand-over"
    )


def _inside_holds(members: Rows, window: Window) -> str:
    late = max((row["latest_stamp_ms"] for row in members), default=0)
    grace = (
        f"; the latest stamp behind a pipe came {late} ms after (allowed: {window.tolerance_ms} ms)"
        if late
        else ""
    )
    return f"every delivery of a member with owner nodes lies within its ownership{grace}"


def _plain_holds(members: Rows) -> str:
    plain = sum(1 for row in members if row["kind"] == "plain")
    return (
        f"{plain} plain consumers never overlapped another member" if plain else "there was no plain consumer"
    )


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
    span = Window(from_ms=from_ms, to_ms=to_ms, tolerance_ms=0)
    taken = [row for row in audit.hand_overs if row["giver"] is not None and span.holds(row["start_ms"])]
    again = [row for row in audit.duplicates if span.holds(row["first_ms"])]
    return {
        "from_ms": from_ms,
        "to_ms": to_ms,
        "hand_overs": len(taken),
        "partitions": len({(row["topic"], row["partition"]) for row in taken}),
        "longest_unowned_ms": max((row["unowned_ms"] for row in taken), default=0),
        "duplicates": sum(row["records"] for row in again),
        "unexplained": sum(1 for row in again if row["objection"] is not None),
        "lost": sum(
            row["to_offset"] - row["from_offset"] + 1 for row in audit.lost if span.holds(row["at_ms"])
        ),
    }


def to_data(audit: Audit, stages: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
    """``audit.json`` as plain values; `stages` maps names to (from, to) in epoch milliseconds."""
    return {
        "version": AUDIT_VERSION,
        "group": audit.group,
        "verdict": audit.verdict.value,
        "window": {"from_ms": audit.window.from_ms, "to_ms": audit.window.to_ms},
        "tolerance_ms": {"old": audit.window.tolerance_ms, "aware": 0, "plain": 0},
        "deliveries": sum(row["deliveries"] for row in audit.partitions),
        "lost": audit.lost_records,
        "duplicates": audit.duplicate_records,
        "overlaps": audit.overlaps,
        "unexplained": sum(1 for row in audit.duplicates if row["objection"] is not None),
        "longest_unowned_ms": audit.longest_unowned_ms,
        "findings": [finding_data(result) for result in audit.results],
        "lost_ranges": [dict(row) for row in audit.lost],
        "duplicate_ranges": [_range(row) for row in audit.duplicates],
        "hand_overs": [_event(row) for row in audit.hand_overs if row["giver"] is not None],
        "partitions": [dict(row) for row in audit.partitions],
        "members": [dict(row) for row in audit.members],
        "stages": {name: figures(audit, *span) for name, span in stages.items()},
        "torn_ledgers": list(audit.torn),
        "still_held": sum(1 for row in audit.hand_overs if row["end_ms"] >= STILL_HELD_MS),
        "report": "report.html",
    }
