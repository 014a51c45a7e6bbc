"""What is known of a group over the time of one run, as its page shows it.

The journal tells of modes, judgements and looks at a canary, the evidence of snapshots, comparisons and an
audit, the ledgers of what the members delivered. No server is asked. Evidence that is not as it was journaled
is left out (`groupshift.report.kept_evidence`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from groupshift.domain.canary import Look
from groupshift.domain.evidence import Moment, Row, Store, at_of
from groupshift.domain.old_members import NEVER
from groupshift.domain.ownership_history import (
    KnownBy,
    Observation,
    OwnershipInterval,
    Position,
    audited,
    intervals_from,
)
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.plain import from_plain
from groupshift.domain.run import JUDGE, findings_from
from groupshift.domain.seal import AUDITED
from groupshift.domain.verdict import Finding, Verdict
from groupshift.engine.group import VERDICT_FILE
from groupshift.engine.handlers import JOB
from groupshift.engine.move import worst_verdict
from groupshift.engine.status import StepStatus
from groupshift.ports.evidence import Delivered
from groupshift.ports.runs import Event, EventKind
from groupshift.report.kept_evidence import Kept
from groupshift.report.run_history import History

AUDIT_FILE, DIFFERENCES = "audit.json", "differences.parquet"
"""Files that an audit of consumption and a comparison leave."""
_Tables = Mapping[str, Sequence[Row]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One comparison of two snapshots and its judgement: ``counts`` of offset differences by class,
    ``refused`` the rows that the phase does not allow."""

    phase: str
    moment: str
    verdict: Verdict
    findings: tuple[Finding, ...]
    counts: Mapping[str, int]
    refused: tuple[Row, ...] = ()

    @property
    def where(self) -> str:
        """The moment and the phase, in words, such as ``after toggle``."""
        return f"{self.moment} {self.phase}".replace("_", " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHistory:
    """A group during one run.

    ``modes`` are writes of the mode node (epoch ms, text); ``members`` maps every member met to its
    kind; ``audit`` is ``audit.json`` of the consumption audit, if one was made; ``delivered`` is what ledgers
    say where no audit was made, ``audit_output`` where one belongs."""

    history: History
    group: str
    modes: tuple[tuple[int, str], ...]
    observations: tuple[Observation, ...]
    intervals: tuple[OwnershipInterval, ...]
    known_by: KnownBy
    members: Mapping[str, str]
    compared: tuple[Compared, ...]
    audit: Mapping[str, Any] | None = None
    delivered: Delivered | None = None
    audit_output: str = ""

    def differing(self, class_: str) -> int:
        """Return how many committed offsets differ so (``lost``, ``regressed`` …), in all comparisons."""
        return sum(each.counts.get(class_, 0) for each in self.compared)


def group_history_of(history: History, kept: Kept | None) -> GroupHistory:
    """Return what is known of the group of a run.

    Its snapshots and comparisons count as far as they are those that were journaled; the others are left out,
    and ``kept`` says why. An audit of consumption counts more than the members' ledgers."""
    group, span = history.record.target.name, (history.record.created_at_ms, history.ended_ms)
    tables: dict[str, _Tables] = {}
    for each in history.steps:
        stored = each.result.get("stored")
        if each.step.kind == "snapshot" and stored and kept is not None:
            snapshot = kept.tables(str(stored[0]), Moment(stored[1]))
            tables |= {each.step.subject: snapshot} if snapshot is not None else {}
    looks = [
        from_plain(Look, event.body)
        for event in history.events
        if event.kind is EventKind.NOTED and {"held", "canary"} <= event.body.keys()
    ]
    unordered = (*_snapshot_observations(tables), *map(_observed, looks))
    observations = tuple(sorted(unordered, key=lambda each: each.at_ms))
    audit = kept.json(f"{AUDITED}{AUDIT_FILE}") if kept else None
    intervals, known_by = _intervals(group, span, kept, observations, audit)
    members = {str(row["member_id"]): str(row["kind"]) for of in tables.values() for row in of["members"]}
    return GroupHistory(
        history=history,
        group=group,
        modes=tuple(
            (event.at_ms, str(event.body["node"]["data"]))
            for event in history.events
            if event.kind is EventKind.ACTED and isinstance(event.body.get("node"), Mapping)
        ),
        observations=observations,
        intervals=intervals,
        known_by=known_by,
        members=members | {member: "aware" for look in looks for member in look.canary},
        compared=tuple(_compared(history, kept)),
        audit=audit,
        delivered=kept.ledgers(lambda ledger: ledger.delivered(group, *span)) if kept and not audit else None,
        audit_output=kept.evidence.path(history.record.run, AUDITED.rstrip("/")) if kept else "EVIDENCE",
    )


def _snapshot_observations(tables: Mapping[str, _Tables]) -> Iterator[Observation]:
    """Owners and log ends of each snapshot, with the offsets of the store that counts in its mode."""
    for name, of in tables.items():
        owners: dict[TopicPartition, tuple[str, ...]] = {at_of(row): () for row in of["log_ends"]}
        for row in of["owners"]:
            owners[at_of(row)] = (*owners.get(at_of(row), ()), str(row["member_id"]))
        for group in of["group"]:
            store = Store.KAFKA if group["effective_mode"] == Store.KAFKA.value else Store.ZOOKEEPER
            offsets = {at_of(row): row["offset"] for row in of["offsets"] if row["store"] == store.value}
            known = {at: int(offset) for at, offset in offsets.items() if offset is not None}
            yield Observation(
                at_ms=int(group["taken_at_ms"] or 0),
                what=f"snapshot {name}".replace("_", " "),
                owners=owners,
                positions={
                    at_of(row): Position(committed=known.get(at_of(row)), end=int(row["log_end"] or 0))
                    for row in of["log_ends"]
                },
            )


def _observed(look: Look) -> Observation:
    """A look at a canary."""
    free = (name.rpartition("-") for name in look.unowned)
    owners = {TopicPartition(topic, int(number)): () for topic, _, number in free}
    return Observation(
        at_ms=look.at_ms,
        what="look at the canary",
        owners={**owners, **{held.at: (held.member_id,) for held in look.held}},
        positions={
            held.at: Position(committed=None if held.znode == NEVER else held.znode, end=max(held.end, 0))
            for held in look.held
        },
    )


def _intervals(
    group: str,
    span: tuple[int, int],
    kept: Kept | None,
    observations: Sequence[Observation],
    audit: Mapping[str, Any] | None,
) -> tuple[tuple[OwnershipInterval, ...], KnownBy]:
    """From the sharpest source that there is; what that one is silent about (partitions that never changed
    hands, or of which nothing was delivered) is as it was seen. ``span`` is from and to (epoch ms)."""
    known, known_by = audited((audit or {}).get("hand_overs") or (), *span), KnownBy.LOG
    if not known and kept:
        known = kept.ledgers(lambda ledger: tuple(ledger.intervals(group, *span))) or ()
        known_by = KnownBy.DELIVERIES
    if not known:
        return intervals_from(observations), KnownBy.OBSERVATIONS
    known_partitions = {interval.partition for interval in known}
    return (
        *known,
        *(each for each in intervals_from(observations) if each.partition not in known_partitions),
    ), known_by


def _compared(history: History, kept: Kept | None) -> Iterator[Compared]:
    """Each judgement with the comparison that it judges: the last one before it in the same plan."""
    judged: dict[str, Event] = {e.step: e for e in history.events if e.kind is EventKind.JUDGED and e.step}
    for each in history.steps:
        event = judged.get(each.step.key)
        if each.step.kind != JUDGE or event is None:
            continue
        folder = _folder(history, each)
        data = (kept.json(f"{folder}/{VERDICT_FILE}") if kept and folder else None) or {}
        rows = kept.rows(f"{folder}/{DIFFERENCES}") if kept and folder else ()
        findings = findings_from(event.body["findings"])
        yield Compared(
            phase=each.step.phase,
            moment=str(each.step.args.get("moment", each.step.subject)),
            verdict=worst_verdict(findings),
            findings=findings,
            counts={str(key): int(value) for key, value in data.get("counts", {}).items()},
            refused=tuple(row for row in rows if not row.get("allowed", True)),
        )


def _folder(history: History, judge: StepStatus) -> str:
    """The folder of the comparison that a judge judges; empty where there is none. Keys of the second
    rollback begin with ``back 2/``: a judge of a rollback judges what was compared in the same one."""
    names, key = set(judge.step.args.get("compares", ())), judge.step.key
    plan = history.there if judge in history.there else history.back
    own = [
        str(each.result[JOB]["output"]).rpartition("/")[2]
        for each in plan
        if each.step.name in names and JOB in each.result
        if not each.step.key.startswith("back ") or each.step.key.partition("/")[0] == key.partition("/")[0]
    ]
    return own[-1] if own else ""
