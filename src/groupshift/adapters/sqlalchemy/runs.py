"""The one journal of runs, in the journal's database beside the tables of the old ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from groupshift.adapters.sqlalchemy.database import Database, rows_of, statement_of
from groupshift.domain.modes import taken_over
from groupshift.domain.plain import from_plain
from groupshift.domain.run import (
    StepRecord,
    Target,
    canonical,
    member,
    require_transition,
)
from groupshift.errors import Conflict, Fenced, Rejected
from groupshift.ports.runs import UNHELD, Claim, Entry, Event, EventKind, NewEvent, RunRecord

VERSION = 1
"""The version of the schema that this release makes and reads."""
_POSTGRESQL = "postgresql"


_statement = partial(statement_of, "runs")


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
        try:
            self._database.write(lambda connection: _create(connection, run))
        except IntegrityError as error:
            raise Conflict(
                f"there is a run {run.run} already, or one of origin {run.origin!r}; see: groupshift status"
            ) from error

    def find(self, run: str) -> RunRecord:
        """See the port."""
        rows = self._database.rows(_statement("find_run"), run=run)
        if not rows:
            raise _unknown(run)
        return _run(rows[0])

    def of_origin(self, origin: str) -> RunRecord | None:
        """See the port."""
        rows = self._database.rows(_statement("find_of_origin"), origin=origin) if origin else []
        return _run(rows[0]) if rows else None

    def in_the_way(self, target: Target) -> tuple[RunRecord, ...]:
        """See the port."""
        return tuple(map(_run, self._database.rows(_statement("in_the_way"), **_target(target))))

    def of_target(self, target: Target) -> tuple[RunRecord, ...]:
        """See the port."""
        return tuple(map(_run, self._database.rows(_statement("list_of_target"), **_target(target))))

    def recent(
        self,
        limit: int,
        *,
        move: str = "",
        target: str = "",
        open_only: bool = False,
        previews: bool = True,
    ) -> tuple[RunRecord, ...]:
        """See the port."""
        name = "list_recent.postgresql" if self._database.postgresql else "list_recent.sqlite"
        asked = {"move": move, "target": target, "open_only": int(open_only), "previews": int(previews)}
        return tuple(map(_run, self._database.rows(_statement(name), limit=limit, **asked)))

    def claim(self, run: str, holder: str, at_ms: int, *, anew: bool, take_over: bool = False) -> int:
        """See the port."""
        claim = Claim(token=0, holder=holder, at_ms=at_ms)
        return self._database.write(
            lambda connection: _claim(connection, run, claim, anew=anew, take_over=take_over)
        )

    def held(self, run: str) -> Claim | None:
        """See the port."""
        rows = self._database.rows(_statement("latest_claim"), run=run)
        return _claimed(rows[0]) if rows else None

    def append(self, entry: Entry) -> None:
        """See the port."""
        self._database.write(lambda connection: _append(connection, entry))

    def steps(self, run: str) -> Mapping[str, StepRecord]:
        """See the port."""
        rows = self._database.rows(_statement("list_steps"), run=run)
        return {row["key"]: from_plain(StepRecord, _read(row, "intent", "result")) for row in rows}

    def events(self, run: str, *, step: str = "") -> tuple[Event, ...]:
        """See the port."""
        rows = self._database.rows(_statement("list_events"), run=run, step=step)
        for row in rows:
            member(EventKind, row["kind"], f"event {row['seq']} of run {run}")
        return tuple(from_plain(Event, _read(row, "body")) for row in rows)


def _read(row: dict[str, Any], *texts: str) -> dict[str, Any]:
    """A row whose columns ``texts`` hold JSON."""
    return {**row, **{name: json.loads(row[name]) for name in texts}}


def _create(connection: Connection, run: RunRecord) -> None:
    if run.state.is_open:
        _require_free(connection, run)
    values = {**asdict(run), **_target(run.target), "state": run.state.value, "origin": run.origin or None}
    connection.execute(_statement("insert_run"), values)
    planned = NewEvent(kind=EventKind.PLANNED, body={"plan": run.plan_hash, "requester": run.requester})
    _add(connection, run.run, (0, run.created_at_ms), planned)


def _require_free(connection: Connection, run: RunRecord) -> None:
    """Raise `Conflict` when an open run is in the way, and let nobody open one until this is written."""
    if connection.dialect.name == _POSTGRESQL:
        connection.execute(_statement("lock_cluster.postgresql"), {"cluster": run.target.cluster})
    for other in map(_run, rows_of(connection, _statement("in_the_way"), _target(run.target))):
        if other.run != run.run:
            raise Conflict(
                f"run {other.run} of {other.target} is {other.state} and excludes another one of "
                f"{run.target}: end it first, with: groupshift continue {other.run}, or: groupshift "
                f"roll-back {other.run}"
            )


def _claim(connection: Connection, run: str, asked: Claim, *, anew: bool, take_over: bool) -> int:
    _lock(connection, run, asked.at_ms)
    latest = _latest(connection, run)
    if latest is not None and latest.holder == asked.holder and not anew:
        return latest.token
    others = latest is not None and latest.holder != asked.holder and not (latest.stopped or take_over)
    if latest is not None and others and _found(connection, run).state.is_open:
        raise Fenced(
            f"{taken_over('run', latest.holder, latest.at_ms)}; to drive it from here all the same: "
            f"groupshift continue {run} --take-over"
        )
    token = latest.token + 1 if latest else 1
    values = {"run": run, "token": token, "holder": asked.holder, "at_ms": asked.at_ms}
    connection.execute(_statement("insert_claim"), values)
    event = NewEvent(kind=EventKind.CLAIMED, body={"holder": asked.holder})
    _add(connection, run, (token, asked.at_ms), event)
    return token


def _append(connection: Connection, entry: Entry) -> None:
    _lock(connection, entry.run, entry.at_ms)
    run = _found(connection, entry.run)
    _require_writer(connection, run, entry)
    if entry.state is not None:
        require_transition(run.run, run.state, entry.state)
        if entry.state.is_open and not run.state.is_open:
            _require_free(connection, run)
        connection.execute(_statement("set_state"), {"run": run.run, "state": entry.state.value})
    for step in entry.steps:
        told = {"intent": canonical(dict(step.intent)), "result": canonical(dict(step.result))}
        values = {"run": run.run, "state": step.state.value, "token": step.token, "at_ms": step.at_ms, **told}
        connection.execute(_statement("upsert_step"), {"step": step.key, **values})
    for event in entry.events:
        _add(connection, run.run, (entry.token or 0, entry.at_ms), event)


def _require_writer(connection: Connection, run: RunRecord, entry: Entry) -> None:
    latest = _latest(connection, run.run)
    if entry.token is not None and (latest is None or entry.token != latest.token):
        by = f"{taken_over('run', latest.holder, latest.at_ms)}; " if latest else ""
        raise Fenced(f"{by}token {entry.token} of run {run.run} is void: nothing more is done here")
    opens = entry.state is not None and entry.state.is_open
    if not run.state.is_open and entry.steps and not opens:
        raise Conflict(f"run {run.run} is {run.state}: its steps do not change any more")
    free = not run.state.is_open and all(each.kind in UNHELD for each in entry.events)
    if entry.token is None and (entry.state or not free):
        raise Conflict(f"run {run.run} is {run.state}: only who holds it writes that")


def _lock(connection: Connection, run: str, at_ms: int) -> None:
    if connection.execute(_statement("touch_run"), {"run": run, "at_ms": at_ms}).rowcount != 1:
        raise _unknown(run)


def _add(connection: Connection, run: str, by: tuple[int, int], event: NewEvent) -> None:
    token, at_ms = by
    values = {"run": run, "at_ms": at_ms, "token": token, "kind": event.kind.value, "step": event.step}
    connection.execute(_statement("insert_event"), {**values, "body": canonical(dict(event.body))})


def _latest(connection: Connection, run: str) -> Claim | None:
    rows = rows_of(connection, _statement("latest_claim"), {"run": run})
    return _claimed(rows[0]) if rows else None


def _claimed(row: dict[str, Any]) -> Claim:
    return Claim(stopped=row.pop("last_word") == EventKind.STOPPED, **row)


def _found(connection: Connection, run: str) -> RunRecord:
    return _run(rows_of(connection, _statement("find_run"), {"run": run})[0])


def _unknown(run: str) -> Rejected:
    return Rejected(f"run {run!r} is not in the journal; list them with: groupshift status")


def _target(target: Target) -> dict[str, str]:
    return {"kind": target.kind, "target": target.name, "within": target.within}


def _run(row: dict[str, Any]) -> RunRecord:
    target = {"kind": row.pop("target_kind"), "name": row["target"], "within": row.pop("within")}
    return from_plain(RunRecord, {**row, "target": target, "origin": row["origin"] or ""})
