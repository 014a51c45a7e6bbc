"""The account of a migration: everything its report shows, read from journal, evidence and ledgers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from groupshift.application.environment import Environment
from groupshift.application.leftovers import left_behind
from groupshift.application.pack import Held, approvals, held
from groupshift.application.proof import VERDICT_FILE, folder
from groupshift.application.records import Migration, findings_from, load
from groupshift.application.status import MigrationStatus, status
from groupshift.domain.canary import NEVER, Look
from groupshift.domain.evidence import Moment, Row, Store
from groupshift.domain.leftover import Leftover
from groupshift.domain.ownership_history import KnownBy, Position, Sighting, Tenure, audited, seen
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.plan import Phase, Plan
from groupshift.domain.seal import REPORT, Approval, StoredFile, values_of
from groupshift.domain.verdict import Finding, Verdict
from groupshift.errors import Broken, GroupshiftError
from groupshift.ports.evidence import Delivered
from groupshift.ports.journal import Event, EventKind

CONSUMPTION, AUDIT_FILE, DIFFERENCES = "consumption", "audit.json", "differences.parquet"
SHOWN_DIFFERENCES = 10
"""How many differences of a comparison that its stage does not allow an account holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One comparison of two snapshots and its judgement: ``counts`` of offset differences by class,
    ``refused`` the first rows that the stage does not allow and ``refusals`` how many there are,
    ``expectations`` as the Spark job wrote them."""

    stage: str
    moment: Moment
    verdict: Verdict
    judged_at_ms: int
    findings: tuple[Finding, ...]
    counts: Mapping[str, int]
    refused: tuple[Row, ...] = ()
    refusals: int = 0
    expectations: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """``modes`` are writes of the mode node (epoch ms, text); ``members`` maps every member met to its
    kind; ``audit`` is ``audit.json`` of the consumption audit, if one was made; ``troubles`` are sentences
    about evidence that could not be read; ``leftover`` is what a rollback left in Kafka;
    ``delivered`` is what ledgers say where no audit was made, ``audit_output`` where one belongs."""

    status: MigrationStatus
    plan: Plan
    approvals: tuple[Approval, ...]
    modes: tuple[tuple[int, str], ...]
    sightings: tuple[Sighting, ...]
    tenures: tuple[Tenure, ...]
    known_by: KnownBy
    members: Mapping[str, str]
    compared: tuple[Compared, ...]
    audit: Mapping[str, Any] | None
    files: tuple[StoredFile, ...]
    troubles: tuple[str, ...] = ()
    leftover: Leftover | None = None
    delivered: Delivered | None = None
    audit_output: str = ""

    @property
    def ended_ms(self) -> int:
        """When something happened last (epoch ms); sealing or auditing is nothing that happens."""
        return _ended(self.status.events, self.status.created_at_ms)


def account(env: Environment, migration: str) -> Account:
    """See `App.account`."""
    found = load(env, migration)
    (now,) = status(env, migration)
    reading = _Reading(env=env, migration=migration, held=held(env, found))
    tables = dict(_snapshots(env, found, reading.troubles))
    sightings = tuple(sorted((*_snapshot_sightings(tables), *_looks(found)), key=lambda each: each.at_ms))
    audit = reading.json(CONSUMPTION, AUDIT_FILE)
    tenures, known_by = _tenures(env, found, sightings, audit)
    return Account(
        status=now,
        plan=found.plan,
        approvals=approvals(found.events),
        modes=tuple(_modes(found)),
        sightings=sightings,
        tenures=tenures,
        known_by=known_by,
        members=_members(tables, found),
        compared=tuple(_compared(reading, now)),
        audit=audit,
        files=tuple(file for path, file in sorted(reading.held.there.items()) if path != REPORT),
        delivered=None if audit else _delivered(env, found, reading.troubles),
        audit_output=env.evidence.path(migration, CONSUMPTION),
        troubles=tuple(reading.troubles),
        leftover=left_behind(env, found) if found.phase is Phase.ROLLED_BACK else None,
    )


@dataclass(slots=True)
class _Reading:
    """Files of the evidence that were derived: what is not as it was journaled is said, not shown."""

    env: Environment
    migration: str
    held: Held
    troubles: list[str] = field(default_factory=list)

    def json(self, *parts: str) -> dict[str, Any] | None:
        """A JSON object; None where there is none, it is not one, or it cannot be relied on."""
        if self._doubted(parts):
            return None
        try:
            data = values_of(self.env.evidence.read_text(self.migration, *parts) or "null")
        except ValueError:
            return None
        except GroupshiftError as unsound:
            self.troubles.append(str(unsound))
            return None
        return data if isinstance(data, dict) else None

    def refused(self, *parts: str) -> tuple[Row, ...]:
        """The rows of a comparison's differences that its stage does not allow; none as for `json`."""
        if self._doubted(parts):
            return ()
        try:
            rows = self.env.evidence.rows(self.migration, *parts) or ()
            return tuple(row for row in rows if not row["allowed"])
        except (GroupshiftError, KeyError) as unsound:
            self.troubles.append(str(unsound))
            return ()

    def _doubted(self, parts: tuple[str, ...]) -> bool:
        why = self.held.doubts.get("/".join(parts))
        if why is not None:
            self.troubles.append(f"evidence {why}; it is not shown")
        return why is not None


def _delivered(env: Environment, found: Migration, troubles: list[str]) -> Delivered | None:
    """From the ledgers that this deployment knows; a sentence where they cannot be read."""
    from_ms = found.record.created_at_ms
    try:
        return env.ledger.delivered(found.record.group, from_ms, _ended(found.events, from_ms))
    except Broken as unsound:
        troubles.append(str(unsound))
        return None


def _ended(events: Sequence[Event], otherwise: int) -> int:
    about_evidence = {EventKind.SEALING, EventKind.SEALED, EventKind.AUDITED}
    return max((event.at_ms for event in events if event.kind not in about_evidence), default=otherwise)


_Tables = Mapping[str, Sequence[Row]]


def _snapshots(
    env: Environment, found: Migration, troubles: list[str]
) -> Iterator[tuple[tuple[str, Moment], _Tables]]:
    """Every snapshot that is whole; a sentence about each that is not."""
    for stage, moment, _ in found.snapshots():
        try:
            yield (stage.value, moment), env.evidence.read(found.id, stage.value, moment)
        except GroupshiftError as unsound:
            troubles.append(str(unsound))


def _snapshot_sightings(tables: Mapping[tuple[str, Moment], _Tables]) -> Iterator[Sighting]:
    for (stage, moment), of in tables.items():
        owners: dict[TopicPartition, tuple[str, ...]] = {_at(row): () for row in of["log_ends"]}
        for row in of["owners"]:
            owners[_at(row)] = (*owners.get(_at(row), ()), str(row["member_id"]))
        for group in of["group"]:
            yield Sighting(
                at_ms=int(group["taken_at_ms"] or 0),
                what=f"snapshot {moment} {stage}",
                owners=owners,
                positions=_positions(of, str(group["effective_mode"])),
            )


def _positions(of: _Tables, mode: str) -> dict[TopicPartition, Position]:
    """Log ends with the offset of the store that counts in this mode."""
    store = Store.KAFKA if mode == Store.KAFKA.value else Store.ZOOKEEPER
    offsets = {_at(row): row["offset"] for row in of["offsets"] if row["store"] == store.value}
    return {
        at: Position(committed=None if offsets.get(at) is None else int(offsets[at] or 0), end=end)
        for at, end in ((_at(row), int(row["log_end"] or 0)) for row in of["log_ends"])
    }


def _looks(found: Migration) -> Iterator[Sighting]:
    for event in found.events:
        if event.kind is EventKind.OBSERVED:
            look = Look.from_data(event.body)
            free = (name.rpartition("-") for name in look.unowned)
            owners = {TopicPartition(topic, int(number)): () for topic, _, number in free}
            yield Sighting(
                at_ms=look.at_ms,
                what="look at the canary",
                owners={**owners, **{held.at: (held.member_id,) for held in look.held}},
                positions={
                    held.at: Position(
                        committed=None if held.znode == NEVER else held.znode, end=max(held.end, 0)
                    )
                    for held in look.held
                },
            )


def _at(row: Row) -> TopicPartition:
    return TopicPartition(str(row["topic"]), int(row["partition"] or 0))


def _tenures(
    env: Environment, found: Migration, sightings: Sequence[Sighting], audit: Mapping[str, Any] | None
) -> tuple[tuple[Tenure, ...], KnownBy]:
    """From the sharpest source that there is; what that one is silent about is as it was seen."""
    from_ms = found.record.created_at_ms
    to_ms = _ended(found.events, from_ms)
    if audit and audit.get("hand_overs"):
        sharp = audited(audit["hand_overs"], from_ms, to_ms)
        if sharp:
            return (*sharp, *_besides(sharp, sightings)), KnownBy.LOG
    delivered = tuple(env.ledger.tenures(found.record.group, from_ms, to_ms))
    if delivered:
        return (*delivered, *_besides(delivered, sightings)), KnownBy.DELIVERIES
    return seen(sightings), KnownBy.SIGHTINGS


def _besides(known: Sequence[Tenure], sightings: Sequence[Sighting]) -> Iterator[Tenure]:
    """Partitions that never changed hands, or of which nothing was delivered."""
    told = {tenure.partition for tenure in known}
    return (tenure for tenure in seen(sightings) if tenure.partition not in told)


def _modes(found: Migration) -> Iterator[tuple[int, str]]:
    """Acts that wrote the mode node."""
    for event in found.events:
        if event.kind is EventKind.ACTED and isinstance(event.body.get("node"), Mapping):
            yield event.at_ms, str(event.body["node"]["data"])


def _members(tables: Mapping[tuple[str, Moment], _Tables], found: Migration) -> dict[str, str]:
    kinds = {str(row["member_id"]): str(row["kind"]) for of in tables.values() for row in of["members"]}
    for event in found.events:
        if event.kind is EventKind.OBSERVED:
            kinds |= dict.fromkeys(map(str, event.body["canary"]), "aware")
    return kinds


def _compared(reading: _Reading, now: MigrationStatus) -> Iterator[Compared]:
    last = {
        (event.stage, event.body["moment"]): event for event in now.events if event.kind is EventKind.JUDGED
    }
    for progress in now.stages:
        name = progress.stage.name
        for each in progress.validations:
            judged = last[name, each.moment.value]
            where = (name.value, folder(each.moment))
            data = reading.json(*where, VERDICT_FILE) or {}
            refused = reading.refused(*where, DIFFERENCES)
            yield Compared(
                stage=name.value,
                moment=each.moment,
                verdict=each.verdict,
                judged_at_ms=each.judged_at_ms,
                findings=findings_from(judged.body["findings"]),
                counts={str(key): int(value) for key, value in data.get("counts", {}).items()},
                refused=refused[:SHOWN_DIFFERENCES],
                refusals=len(refused),
                expectations=tuple(data.get("expectations", ())),
            )
