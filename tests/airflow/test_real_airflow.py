"""Runs of both DAGs in a real Airflow, on real ZooKeeper, Kafka, Scala members and Spark.

One sandbox for all of them, in order: each run leaves the group as the next one needs it. The task
process *and its supervisor* are killed -9 right after the canary's intent was journaled, in every run
that gets there: Airflow finds out by the missing heartbeat and runs the task again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from groupshift.adapters.fleet.process import ask
from groupshift.application.status import MigrationStatus
from groupshift.bootstrap import build
from groupshift.domain.coordination import MemberKind, Mode
from groupshift.domain.group import GroupView
from groupshift.domain.moves import MoveRequest
from groupshift.domain.phases import Phase
from groupshift.ports.journal import EventKind
from groupshift.sandbox.airflow_api import AirflowApi, Question
from groupshift.sandbox.down import down
from groupshift.sandbox.home import Home
from groupshift.sandbox.ledger import overlaps, read_ledgers
from groupshift.sandbox.state import SandboxState
from groupshift.sandbox.up import UpOptions, up
from groupshift.settings import load

pytestmark = pytest.mark.timeout(2000)  # longer than a run may take, with its sandbox's start

GROUP = "orders-app"
RUN_S = 1500.0
CONF = {"group": GROUP, "execute": True, "soak_s": 5, "canary_watch_s": 20}
KILL = {
    "GROUPSHIFT_TEST_HOOKS": "1",
    "GROUPSHIFT_CRASH_AT": "canary.after_journal",
    "GROUPSHIFT_CRASH_WHOM": "parent",
}
Watch = Callable[[dict[str, str]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Real:
    """The sandbox and its Airflow."""

    home: Home
    api: AirflowApi

    def run(
        self, dag: str, run: str, conf: dict[str, Any], answers: dict[str, str], watch: Watch = lambda _: None
    ) -> str:
        """Trigger and wait; gates get the answer for their task id, a gate without one is left alone."""
        self.api.trigger(dag, run, conf)
        states = ["queued"]
        for state in self.api.follow(dag, run, RUN_S):
            states.append(state)
            for question in self.api.questions(dag, run):
                if question.task in answers:
                    self.api.answer(question, answers[question.task])
            watch(self.api.tasks(dag, run))
        return states[-1]

    def view(self) -> GroupView:
        """The group now."""
        with build(load(self.home.settings_file)) as app:
            return app.assess(MoveRequest(group=GROUP)).view

    def migration(self) -> MigrationStatus:
        """The latest migration as journaled."""
        with build(load(self.home.settings_file)) as app:
            return app.status()[0]

    def asked(self, dag: str, run: str) -> list[str]:
        """What the questions of a run showed, whether somebody answered or not."""
        rows = self.api._request("GET", f"/api/v2/dags/{dag}/dagRuns/{run}/hitlDetails")["hitl_details"]
        return [str(row["body"]) for row in rows]

    def attempts(self, dag: str, run: str) -> dict[str, int]:
        """Tries by task id."""
        return {row["task_id"]: row["try_number"] for row in self.api.task_instances(dag, run)}

    def said(self, dag: str, run: str, task: str) -> str:
        """Everything the attempts of a task logged."""
        attempts = self.attempts(dag, run)[task]
        return "\n".join(self.api.logs(dag, run, task, number + 1) for number in range(attempts))


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    """A sandbox with Airflow whose tasks die once at the canary."""
    home = Home(Path(tmp_path_factory.mktemp("sandbox")).resolve())
    kept = dict(os.environ)
    os.environ.update(KILL)
    try:
        up(home, UpOptions(members=2, partitions=4), lambda _: None)
        api = AirflowApi(url=SandboxState(home).addresses()["airflow"])
        assert api.import_errors() == []
        yield Real(home=home, api=api)
    finally:
        os.environ.clear()
        os.environ.update(kept)
        down(home)


def _kinds(view: GroupView) -> list[MemberKind]:
    return [member.kind for member in view.members]


def _acts(found: MigrationStatus) -> list[str]:
    return [str(event.stage) for event in found.events if event.kind is EventKind.ACTED]


def test_a_missing_connection_is_refused_with_one_sentence(real: Real) -> None:
    """Nothing was planned, the run is red, the log says what to create."""
    state = real.run("migrate_coordination", "nowhere", {**CONF, "kafka_conn_id": "nowhere"}, {})
    assert state == "failed"
    log = real.said("migrate_coordination", "nowhere", "assess")
    assert "connection 'nowhere' does not exist; create it under Admin > Connections" in log
    assert real.attempts("migrate_coordination", "nowhere")["assess"] == 1


def test_an_audit_is_green_until_a_mismatch_is_planted_then_its_last_task_is_red(real: Real) -> None:
    """What old members leave out of Kafka is explained. An offset that only ZooKeeper has of a group in kafka
    mode is not: `audit` names it, `verdict` fails with a sentence, and both are kept."""
    kept = real.home.evidence / "audits"
    assert real.run("audit_offsets", "clean", {}, {}) == "success", real.said(
        "audit_offsets", "clean", "audit"
    )
    assert real.api.tasks("audit_offsets", "clean") == {"audit": "success", "verdict": "success"}
    assert "offsets agree; all differences:" in real.said("audit_offsets", "clean", "audit")
    clean = kept / real.api.xcom("audit_offsets", "clean", "audit")
    assert json.loads((clean / "manifest.json").read_text())["weights"]["mismatch"] == 0
    client = KazooClient(hosts=SandboxState(real.home).addresses()["zookeeper"])
    client.start(timeout=60)
    try:
        client.create("/consumers/planted/offsets/orders/0", b"3", makepath=True)
        client.create("/consumers/planted/migration/mode", b"kafka", makepath=True)
        state = real.run("audit_offsets", "planted", {"groups": ["planted", GROUP]}, {})
    finally:
        client.delete("/consumers/planted", recursive=True)
        client.stop()
        client.close()
    tasks = real.api.tasks("audit_offsets", "planted")
    assert (state, tasks) == ("failed", {"audit": "success", "verdict": "failed"})
    said = real.said("audit_offsets", "planted", "audit")
    assert "never committed: planted orders-0: coordinator None, log None, ZooKeeper 3" in said
    said = real.said("audit_offsets", "planted", "verdict")
    assert "committed offsets differ between their sources without an explanation" in said
    assert "docs/audit.md for each kind" in said
    assert real.attempts("audit_offsets", "planted") == {"audit": 1, "verdict": 1}
    planted = kept / real.api.xcom("audit_offsets", "planted", "audit")
    assert json.loads((planted / "manifest.json").read_text())["weights"]["mismatch"] == 1


def test_a_rejected_plan_changes_nothing(real: Real) -> None:
    """Red with the name of who rejected; the group is as it was and can be planned anew."""
    before = real.view()
    asked: list[Question] = []

    def look(_: dict[str, str]) -> None:
        asked.extend(real.api.questions("migrate_coordination", "rejected"))

    conf = {**CONF, "until": "canary"}
    state = real.run("migrate_coordination", "rejected", conf, {"approve_plan": "Reject"}, look)
    tasks = real.api.tasks("migrate_coordination", "rejected")
    assert (state, tasks["approve_plan"], tasks["canary.act"]) == ("failed", "failed", "upstream_failed")
    found = real.migration()
    assert (found.phase, _acts(found)) == (Phase.REJECTED, [])
    assert "rejected by admin" in found.reason
    assert real.view().members == before.members


def test_an_expired_approval_changes_nothing(real: Real) -> None:
    """Nobody answers in time: as rejected, by nobody; the question showed plan, findings and hashes."""
    state = real.run("migrate_coordination", "expired", {**CONF, "gate_expiry_s": 8}, {})
    found = real.migration()
    assert (state, found.phase, _acts(found)) == ("failed", Phase.REJECTED, [])
    assert "rejected by nobody (expired)" in found.reason
    (body,) = real.asked("migrate_coordination", "expired")
    for part in ("### Plan", "| 1 | canary |", "### Live findings", found.plan_hash, "fingerprint of group"):
        assert part in body


def test_a_failed_proof_rolls_back_by_itself_and_ends_red(real: Real) -> None:
    """Planted: a member killed whose driver was told not to restart it. Named, and taken back unasked."""
    planted: list[str] = []

    def plant(tasks: dict[str, str]) -> None:
        if tasks.get("canary.act") == "success" and not planted:
            ask(real.home.supervisor_socket, {"verb": "hold", "slot": "m2"})
            ask(real.home.supervisor_socket, {"verb": "signal", "slot": "m2", "signal": "KILL"})
            planted.append("m2")
        if tasks.get("canary.judge_after") == "failed" and planted == ["m2"]:
            ask(real.home.supervisor_socket, {"verb": "release", "slot": "m2"})
            planted.append("released")

    conf = {**CONF, "until": "canary"}
    state = real.run("migrate_coordination", "planted", conf, {"approve_plan": "Approve"}, plant)
    tasks = real.api.tasks("migrate_coordination", "planted")
    assert planted == ["m2", "released"]
    assert (state, tasks["undo_members.judge_after"], tasks["verdict"]) == ("failed", "success", "failed")
    found = real.migration()
    assert found.phase is Phase.ROLLED_BACK
    assert "m2" in found.reason
    assert set(_kinds(real.view())) == {MemberKind.OLD}


def test_an_approved_run_moves_the_group_although_its_task_was_killed(real: Real) -> None:
    """Task process and supervisor killed -9 in the canary's act: same end, no second act, green."""
    yes = {
        "approve_plan": "Approve",
        "approve_toggle": "Approve",
        "last_gate": "Keep the way back open",
    }
    state = real.run("migrate_coordination", "approved", CONF, yes)
    assert state == "success", real.migration().reason
    found, view = real.migration(), real.view()
    assert (found.phase, _acts(found)) == (Phase.MOVED, ["canary", "roll", "toggle"])
    assert (view.effective_mode, set(_kinds(view))) == (Mode.KAFKA, {MemberKind.AWARE})
    # A gate answered in the instant in which it parks is asked again by Airflow; an act must never be.
    attempts = real.attempts("migrate_coordination", "approved")
    acts = {task: tries for task, tries in attempts.items() if task.endswith(".act") and tries > 1}
    assert acts == {"canary.act": 2}
    resumed = [event.stage for event in found.events if event.kind is EventKind.RESUMED]
    assert [str(stage) for stage in resumed] == ["canary"]


def test_roll_back_after_the_toggle_restores_the_old_members(real: Real) -> None:
    """Mode back, members back, each proven; nobody was ever a second owner."""
    conf = {"migration": real.migration().migration, "to": "old_members", "execute": True}
    state = real.run("roll_back", "back", conf, {})
    assert state == "success", real.migration().reason
    found, view = real.migration(), real.view()
    assert found.phase is Phase.ROLLED_BACK
    assert (view.effective_mode, set(_kinds(view))) == (Mode.ZOOKEEPER, {MemberKind.OLD})
    assert overlaps(read_ledgers(real.home.ledgers, GROUP)) == []
