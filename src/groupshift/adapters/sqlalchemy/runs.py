"""The one journal of runs, in the journal's database beside the tables of the scans."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy.exc import IntegrityError

from groupshift.adapters.sqlalchemy.database import Database, Transaction
from groupshift.domain.plain import from_plain
from groupshift.domain.run import StepRecord, Target, canonical, require_transition
from groupshift.errors import Conflict, Rejected
from groupshift.ports.run_claims import next_token, require_free, require_writer
from groupshift.ports.runs import (
    Claim,
    Entry,
    Event,
    EventKind,
    NewEvent,
    RunRecord,
)

VERSION = 1
"""The version of the schema that this release makes and reads."""


class SqlRuns:
    """`groupshift.ports.runs.Runs` over SQLAlchemy Core.

    Raises as `groupshift.adapters.sqlalchemy.database.Database`."""

    def __init__(self, url: str) -> None:
        self._database = Database(url, "runs", versions="run_schema", version=VERSION)

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def create(self, run: RunRecord) -> None:
        """See the port."""

        def work(transaction: Transaction) -> None:
            if run.state.is_open:
                _require_free(transaction, run)
            values = {**asdict(run), **_target(run.target), "state": run.state.value}
            transaction.execute("insert_run", {**values, "origin": run.origin or None})
            body = {"plan": run.plan_hash, "requester": run.requester}
            _add(transaction, run.run, NewEvent(kind=EventKind.PLANNED, body=body), at_ms=run.created_at_ms)

        try:
            self._database.write(work)
        except IntegrityError as error:
            raise Conflict(
                f"there is a run {run.run} already, or one of origin {run.origin!r}; see: groupshift status"
            ) from error

    def find(self, run: str) -> RunRecord:
        """See the port."""
        if not (records := self._runs("find_run", run=run)):
            raise _unknown(run)
        return records[0]

    def of_origin(self, origin: str) -> RunRecord | None:
        """See the port."""
        records = self._runs("find_of_origin", origin=origin) if origin else ()
        return records[0] if records else None

    def in_the_way(self, target: Target) -> tuple[RunRecord, ...]:
        """See the port."""
        return self._runs("in_the_way", **_target(target))

    def of_target(self, target: Target) -> tuple[RunRecord, ...]:
        """See the port."""
        return self._runs("list_of_target", **_target(target))

    def recent(
        self, limit: int, *, move: str = "", target: str = "", open_only: bool = False, previews: bool = True
    ) -> tuple[RunRecord, ...]:
        """See the port."""
        parameters = {"move": move, "target": target, "open_only": int(open_only), "previews": int(previews)}
        return self._runs(f"list_recent.{self._database.kind}", limit=limit, **parameters)

    def _runs(self, query: str, **values: object) -> tuple[RunRecord, ...]:
        return tuple(map(_run, self._database.rows(query, **values)))

    def claim(self, run: str, holder: str, at_ms: int, *, anew: bool, take_over: bool = False) -> int:
        """See the port."""

        def work(transaction: Transaction) -> int:
            record, latest = _locked(transaction, run, at_ms)
            if latest is not None and latest.holder == holder and not anew:
                return latest.token
            token = next_token(record, latest, holder, take_over=take_over)
            transaction.execute(
                "insert_claim", {"run": run, "token": token, "holder": holder, "at_ms": at_ms}
            )
            claimed = NewEvent(kind=EventKind.CLAIMED, body={"holder": holder})
            _add(transaction, run, claimed, at_ms=at_ms, token=token)
            return token

        return self._database.write(work)

    def held(self, run: str) -> Claim | None:
        """See the port."""
        return _claimed(self._database.rows("latest_claim", run=run))

    def append(self, entry: Entry) -> None:
        """See the port."""

        def work(transaction: Transaction) -> None:
            run, latest = _locked(transaction, entry.run, entry.at_ms)
            require_writer(run, entry, latest)
            if entry.state is not None:
                require_transition(run.run, run.state, entry.state)
                if entry.state.is_open and not run.state.is_open:
                    _require_free(transaction, run)
                transaction.execute("set_state", {"run": run.run, "state": entry.state.value})
            for step in entry.steps:
                texts = {"intent": canonical(dict(step.intent)), "result": canonical(dict(step.result))}
                about = {"run": run.run, "step": step.key, "state": step.state.value}
                transaction.execute(
                    "upsert_step", {**about, "token": step.token, "at_ms": step.at_ms, **texts}
                )
            for event in entry.events:
                _add(transaction, run.run, event, at_ms=entry.at_ms, token=entry.token or 0)

        self._database.write(work)

    def steps(self, run: str) -> Mapping[str, StepRecord]:
        """See the port."""
        rows = self._database.rows("list_steps", run=run)
        return {row["key"]: from_plain(StepRecord, _read(row, "intent", "result")) for row in rows}

    def events(self, run: str, *, after: int = 0) -> tuple[Event, ...]:
        """See the port."""
        rows = self._database.rows("list_events", run=run, after=after)
        events: list[Event] = []
        for row in rows:
            try:
                events.append(from_plain(Event, _read(row, "body")))
            except TypeError as wrong:
                said = f"event {row['seq']} of run {run} cannot be read ({wrong})"
                raise Rejected(f"{said}; use the release that wrote it") from None
        return tuple(events)


def _read(row: dict[str, Any], *texts: str) -> dict[str, Any]:
    """Return a row whose columns ``texts`` hold JSON."""
    return {**row, **{name: json.loads(row[name]) for name in texts}}


def _require_free(transaction: Transaction, run: RunRecord) -> None:
    """Raise `Conflict` when an open run is in the way, and let nobody open one until this is written."""
    if transaction.postgresql:
        transaction.execute("lock_cluster.postgresql", {"cluster": run.target.cluster})
    others = map(_run, transaction.rows("in_the_way", **_target(run.target)))
    require_free(run.target, (each for each in others if each.run != run.run))


def _locked(transaction: Transaction, run: str, at_ms: int) -> tuple[RunRecord, Claim | None]:
    """Return a run and its latest claim; nobody else writes it until this is written."""
    if transaction.execute("touch_run", {"run": run, "at_ms": at_ms}) != 1:
        raise _unknown(run)
    record = _run(transaction.rows("find_run", run=run)[0])
    return record, _claimed(transaction.rows("latest_claim", run=run))


def _add(transaction: Transaction, run: str, event: NewEvent, *, at_ms: int, token: int = 0) -> None:
    """Append an event to the history of a run; ``token`` 0: no claim wrote it."""
    values = {"run": run, "at_ms": at_ms, "token": token, "kind": event.kind.value, "step": event.step}
    transaction.execute("insert_event", {**values, "body": canonical(dict(event.body))})


def _claimed(rows: list[dict[str, Any]]) -> Claim | None:
    """Return the latest claim, of the rows that tell of it."""
    return Claim(stopped=rows[0].pop("last_word") == EventKind.STOPPED, **rows[0]) if rows else None


def _unknown(run: str) -> Rejected:
    return Rejected(f"run {run!r} is not in the journal; list them with: groupshift status")


def _target(target: Target) -> dict[str, str]:
    return {"kind": target.kind, "target": target.name, "within": target.within}


def _run(row: dict[str, Any]) -> RunRecord:
    target = {"kind": row.pop("target_kind"), "name": row["target"], "within": row.pop("within")}
    return from_plain(RunRecord, {**row, "target": target, "origin": row["origin"] or ""})
