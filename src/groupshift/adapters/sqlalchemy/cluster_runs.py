"""The journal of cluster runs in the journal's database."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sqlalchemy import Connection, RowMapping
from sqlalchemy.exc import IntegrityError

from groupshift.adapters.sqlalchemy.database import Database
from groupshift.adapters.sqlalchemy.statements import statement
from groupshift.domain.modes import taken_over
from groupshift.errors import Conflict, Fenced, Rejected
from groupshift.ports.journal import NEXT, SEEN_BY, ClusterRun, RunClaim, RunState, RunStepRecord, StepState


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
        return self._database.write(lambda connection: _claim(connection, run, holder, at_ms))

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


def _claim(connection: Connection, run: str, holder: str, at_ms: int) -> int:
    _lock(connection, run, at_ms)
    latest = _latest(connection, run)
    token = latest.token + 1 if latest else 1
    values = {"run": run, "token": token, "holder": holder, "at_ms": at_ms}
    connection.execute(statement("insert_cluster_claim"), values)
    return token


def _put(connection: Connection, run: str, record: RunStepRecord) -> None:
    _lock(connection, run, record.at_ms)
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
    _lock(connection, run, at_ms)
    found = _demand(connection, run, token)
    if state not in NEXT[found.state]:
        raise Conflict(f"run {run} is {found.state} and cannot become {state}")
    connection.execute(statement("set_cluster_run_state"), {"run": run, "state": state.value})


def _lock(connection: Connection, run: str, at_ms: int) -> None:
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
