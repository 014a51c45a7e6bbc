"""The journals of migrations and of cluster runs in a database: SQLite by default, PostgreSQL for a team.

Implements `groupshift.ports.journal.Journal` and `groupshift.ports.journal.ClusterRuns`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, RowMapping
from sqlalchemy.exc import IntegrityError

from groupshift.adapters.sqlalchemy.database import Database, statement
from groupshift.domain.modes import taken_over
from groupshift.domain.plan import Phase, StageName, check_transition
from groupshift.errors import Conflict, Fenced, Rejected
from groupshift.ports.journal import (
    NEXT,
    SEEN_BY,
    ClusterRun,
    Entry,
    Event,
    EventKind,
    MigrationRecord,
    RunClaim,
    RunState,
    RunStepRecord,
    StepRecord,
    StepState,
)


class SqlJournal:
    """`groupshift.ports.journal.Journal` over SQLAlchemy Core.

    Raises as `groupshift.adapters.sqlalchemy.database.Database`."""

    def __init__(self, url: str) -> None:
        self._database = Database(url)

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def create(self, record: MigrationRecord) -> None:
        """See the port."""
        values = {
            "migration": record.migration,
            "group_id": record.group,
            "run": record.run,
            "phase": record.phase.value,
            "plan_hash": record.plan_hash,
            "plan": record.plan,
            "request": record.request,
            "created_at_ms": record.created_at_ms,
            "updated_at_ms": record.updated_at_ms,
        }
        try:
            self._database.write(lambda connection: connection.execute(statement("insert_migration"), values))
        except IntegrityError as error:
            raise Conflict(
                f"group {record.group} has an open migration or run {record.run} has planned one already; "
                "see: groupshift status"
            ) from error

    def find(self, migration: str) -> MigrationRecord:
        """See the port."""
        known = migration == migration.encode(errors="replace").decode()  # else a database would fail at it
        rows = self._database.rows("find_migration", migration=migration) if known else []
        if not rows:
            raise Rejected(
                f"migration {migration!r} is not in the journal; list them with: groupshift status"
            )
        return _record(rows[0])

    def of_run(self, run: str) -> MigrationRecord | None:
        """See the port."""
        rows = self._database.rows("find_by_run", run=run) if run else []
        return _record(rows[0]) if rows else None

    def open_of(self, group: str) -> MigrationRecord | None:
        """See the port."""
        rows = self._database.rows("find_open", group_id=group)
        return _record(rows[0]) if rows else None

    def of_group(self, group: str) -> tuple[MigrationRecord, ...]:
        """See the port."""
        return tuple(_record(row) for row in self._database.rows("list_of_group", group_id=group))

    def recent(self, limit: int) -> tuple[MigrationRecord, ...]:
        """See the port."""
        return tuple(_record(row) for row in self._database.rows("list_recent", limit=limit))

    def claim(self, migration: str, run: str, at_ms: int) -> int:
        """See the port."""
        return self._database.write(lambda connection: _claim(connection, migration, run, at_ms))

    def append(self, entry: Entry) -> None:
        """See the port."""
        try:
            self._database.write(lambda connection: _append(connection, entry))
        except IntegrityError as error:
            raise Conflict(
                f"migration {entry.migration} cannot become {entry.phase}: another migration of its group "
                "is open; see: groupshift status"
            ) from error

    def steps(self, migration: str) -> Mapping[StageName, StepRecord]:
        """See the port."""
        return {
            StageName(row["stage"]): StepRecord(
                stage=StageName(row["stage"]),
                state=StepState(row["state"]),
                intent=json.loads(row["intent"]),
                result=json.loads(row["result"]),
            )
            for row in self._database.rows("list_steps", migration=migration)
        }

    def events(self, migration: str) -> tuple[Event, ...]:
        """See the port."""
        return tuple(
            Event(
                seq=int(row["seq"]),
                at_ms=int(row["at_ms"]),
                token=int(row["token"]),
                kind=EventKind(row["kind"]),
                stage=StageName(row["stage"]) if row["stage"] else None,
                body=json.loads(row["body"]),
            )
            for row in self._database.rows("list_events", migration=migration)
        )

    def claims(self, migration: str) -> Mapping[int, str]:
        """See the port."""
        rows = self._database.rows("list_claims", migration=migration)
        return {int(row["token"]): str(row["run"]) for row in rows}


def _claim(connection: Connection, migration: str, run: str, at_ms: int) -> int:
    _lock(connection, migration, at_ms)
    latest = connection.execute(statement("latest_claim"), {"migration": migration}).mappings().first()
    if latest is not None and latest["run"] == run:
        return int(latest["token"])
    token = int(latest["token"]) + 1 if latest is not None else 1
    values = {"migration": migration, "token": token, "run": run, "at_ms": at_ms}
    connection.execute(statement("insert_claim"), values)
    _insert_event(connection, migration, (at_ms, token, EventKind.CLAIMED, None, json.dumps({"run": run})))
    return token


def _append(connection: Connection, entry: Entry) -> None:
    _lock(connection, entry.migration, entry.at_ms)
    _demand_token(connection, entry)
    _move_phase(connection, entry)
    _put_step(connection, entry)
    stage = entry.stage.value if entry.stage else None
    what = (entry.at_ms, entry.token or 0, entry.kind, stage, _dump(entry.body))
    _insert_event(connection, entry.migration, what)


def _lock(connection: Connection, migration: str, at_ms: int) -> None:
    touched = connection.execute(statement("touch_migration"), {"migration": migration, "at_ms": at_ms})
    if touched.rowcount != 1:
        raise Rejected(f"migration {migration!r} is not in the journal; list them with: groupshift status")


def _demand_token(connection: Connection, entry: Entry) -> None:
    if entry.token is None:
        return
    latest = connection.execute(statement("latest_claim"), {"migration": entry.migration}).mappings().first()
    if latest is None or latest["token"] != entry.token:
        by, at_ms = (str(latest["run"]), int(latest["at_ms"])) if latest is not None else ("nobody", 0)
        raise Fenced(
            f"{taken_over('migration', by, at_ms)}; token {entry.token} of migration {entry.migration} is "
            "void, and this run may not act any more"
        )


def _move_phase(connection: Connection, entry: Entry) -> None:
    if entry.phase is None:
        return
    values = {"migration": entry.migration, "phase": entry.phase.value}
    row = connection.execute(statement("find_migration"), {"migration": entry.migration}).mappings().one()
    check_transition(entry.migration, Phase(row["phase"]), entry.phase)
    connection.execute(statement("set_phase"), values)


def _put_step(connection: Connection, entry: Entry) -> None:
    if entry.step is None:
        return
    values = {
        "migration": entry.migration,
        "stage": entry.step.stage.value,
        "state": entry.step.state.value,
        "intent": _dump(entry.step.intent),
        "result": _dump(entry.step.result),
    }
    connection.execute(statement("upsert_step"), values)


def _insert_event(
    connection: Connection, migration: str, what: tuple[int, int, EventKind, str | None, str]
) -> None:
    at_ms, token, kind, stage, body = what
    values = {"migration": migration, "at_ms": at_ms, "token": token, "kind": kind.value}
    connection.execute(statement("insert_event"), {**values, "stage": stage, "body": body})


def _dump(data: Mapping[str, Any]) -> str:
    return json.dumps(data, sort_keys=True)


def _record(row: RowMapping) -> MigrationRecord:
    return MigrationRecord(
        migration=str(row["migration"]),
        group=str(row["group_id"]),
        run=str(row["run"]),
        phase=Phase(row["phase"]),
        plan_hash=str(row["plan_hash"]),
        plan=str(row["plan"]),
        request=str(row["request"]),
        created_at_ms=int(row["created_at_ms"]),
        updated_at_ms=int(row["updated_at_ms"]),
    )


class SqlClusterRuns:
    """`groupshift.ports.journal.ClusterRuns` over SQLAlchemy Core.

    Raises as `groupshift.adapters.sqlalchemy.database.Database`."""

    def __init__(self, url: str) -> None:
        self._database = Database(url)

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def create(self, run: ClusterRun) -> None:
        """See the port."""
        values = {
            "run": run.run,
            "cluster_id": run.cluster_id,
            "state": run.state.value,
            "plan_hash": run.plan_hash,
            "plan": run.plan,
            "created_at_ms": run.created_at_ms,
            "updated_at_ms": run.updated_at_ms,
        }
        try:
            self._database.write(
                lambda connection: connection.execute(statement("insert_cluster_run"), values)
            )
        except IntegrityError as error:
            raise Conflict(f"cluster {run.cluster_id} has an open run; see: {SEEN_BY}") from error

    def find(self, run: str) -> ClusterRun:
        """See the port."""
        rows = self._database.rows("find_cluster_run", run=run)
        if not rows:
            raise Rejected(f"run {run!r} is not in the journal; list them with: {SEEN_BY}")
        return _run(rows[0])

    def open_of(self, cluster_id: str) -> ClusterRun | None:
        """See the port."""
        rows = self._database.rows("find_open_cluster_run", cluster_id=cluster_id)
        return _run(rows[0]) if rows else None

    def recent(self, limit: int, *, move: str = "") -> tuple[ClusterRun, ...]:
        """See the port."""
        like = f"{move}-%" if move else "%"
        return tuple(_run(row) for row in self._database.rows("list_cluster_runs", limit=limit, like=like))

    def claim(self, run: str, holder: str, at_ms: int) -> int:
        """See the port."""
        return self._database.write(lambda connection: _claim_run(connection, run, holder, at_ms))

    def held(self, run: str) -> RunClaim | None:
        """See the port."""
        rows = self._database.rows("latest_cluster_claim", run=run)
        return _claimed(rows[0]) if rows else None

    def put(self, run: str, record: RunStepRecord) -> None:
        """See the port."""
        self._database.write(lambda connection: _put(connection, run, record))

    def steps(self, run: str) -> Mapping[str, RunStepRecord]:
        """See the port."""
        return {
            str(row["step"]): RunStepRecord(
                step=str(row["step"]),
                state=StepState(row["state"]),
                token=int(row["token"]),
                at_ms=int(row["at_ms"]),
                intent=json.loads(row["intent"]),
                result=json.loads(row["result"]),
            )
            for row in self._database.rows("list_cluster_steps", run=run)
        }

    def move(self, run: str, token: int, state: RunState, at_ms: int) -> None:
        """See the port."""
        self._database.write(lambda connection: _move(connection, run, (token, at_ms), state))


def _claim_run(connection: Connection, run: str, holder: str, at_ms: int) -> int:
    _lock_run(connection, run, at_ms)
    latest = _latest(connection, run)
    token = latest.token + 1 if latest else 1
    values = {"run": run, "token": token, "holder": holder, "at_ms": at_ms}
    connection.execute(statement("insert_cluster_claim"), values)
    return token


def _put(connection: Connection, run: str, record: RunStepRecord) -> None:
    _lock_run(connection, run, record.at_ms)
    _demand(connection, run, record.token)
    values = {
        "run": run,
        "step": record.step,
        "state": record.state.value,
        "token": record.token,
        "at_ms": record.at_ms,
        "intent": json.dumps(dict(record.intent), sort_keys=True),
        "result": json.dumps(dict(record.result), sort_keys=True),
    }
    connection.execute(statement("upsert_cluster_step"), values)


def _move(connection: Connection, run: str, by: tuple[int, int], state: RunState) -> None:
    token, at_ms = by
    _lock_run(connection, run, at_ms)
    found = _demand(connection, run, token)
    if state not in NEXT[found.state]:
        raise Conflict(f"run {run} is {found.state} and cannot become {state}")
    connection.execute(statement("set_cluster_run_state"), {"run": run, "state": state.value})


def _lock_run(connection: Connection, run: str, at_ms: int) -> None:
    touched = connection.execute(statement("touch_cluster_run"), {"run": run, "at_ms": at_ms})
    if touched.rowcount != 1:
        raise Rejected(f"run {run!r} is not in the journal; list them with: {SEEN_BY}")


def _latest(connection: Connection, run: str) -> RunClaim | None:
    row = connection.execute(statement("latest_cluster_claim"), {"run": run}).mappings().first()
    return None if row is None else _claimed(row)


def _claimed(row: RowMapping) -> RunClaim:
    return RunClaim(token=int(row["token"]), holder=str(row["holder"]), at_ms=int(row["at_ms"]))


def _demand(connection: Connection, run: str, token: int) -> ClusterRun:
    latest = _latest(connection, run)
    if latest is None or token != latest.token:
        by = f"{taken_over('run', latest.holder, latest.at_ms)}; " if latest else ""
        raise Fenced(f"{by}token {token} of run {run} is void: this process may not act any more")
    found = _run(connection.execute(statement("find_cluster_run"), {"run": run}).mappings().one())
    if not found.open:
        raise Conflict(f"run {run} is {found.state}: nothing of it may change any more")
    return found


def _run(row: RowMapping) -> ClusterRun:
    return ClusterRun(
        run=str(row["run"]),
        cluster_id=str(row["cluster_id"]),
        state=RunState(row["state"]),
        plan_hash=str(row["plan_hash"]),
        plan=str(row["plan"]),
        created_at_ms=int(row["created_at_ms"]),
        updated_at_ms=int(row["updated_at_ms"]),
    )
