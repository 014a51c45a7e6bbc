"""Runs in a real Airflow that are refused, rejected, expire, or fail a proof, on real servers.

One sandbox for all of them, in order: each run leaves the group as the next one needs it. Airflow submits its
Spark jobs to a Spark that was started once; one with a spark-submit of its own: `test_real_airflow`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from groupshift.adapters.drivers.process import ask
from groupshift.domain.modes import MemberKind
from groupshift.domain.run import RunState
from groupshift.errors import Rejected, Transient
from groupshift.ports.runs import EventKind
from groupshift_sandbox.processes import wait_until
from groupshift_sandbox.state import SandboxState
from support.real_airflow import CONF, GROUP, HEARTBEAT, Real, acts_of, first_on_path, kinds_of, real_airflow
from support.typed_again import typed_again
from support.warm_spark import warm_spark

pytestmark = pytest.mark.timeout(2000)  # longer than a run may take, with its sandbox's start


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    """A sandbox with Airflow."""
    with warm_spark(tmp_path_factory.mktemp("spark")) as submit:
        variables = {HEARTBEAT: "120", "PATH": first_on_path(submit.parent)}
        with real_airflow(tmp_path_factory.mktemp("sandbox"), variables) as found:
            yield found


def people(real: Real) -> list[tuple[str, MemberKind]]:
    """Both members by name, which says how often each place was filled, and what they are: a session may
    expire on a busy machine, and the same process then registers anew."""
    found: list[tuple[str, MemberKind]] = []

    def both() -> bool:
        found[:] = sorted((member.member_id, member.kind) for member in real.view().members)
        return len(found) == 2

    wait_until(both, 60.0, "both members are there", every_s=1.0)
    return found


def tell(real: Real, **request: str) -> None:
    """Ask the supervisor until it answers; a member that is gone by then was killed by a request before."""

    def answered() -> bool:
        try:
            ask(real.home.supervisor_socket, request)
        except Transient:
            return False
        except Rejected as refused:
            if "no living member" not in str(refused):
                raise
        return True

    wait_until(answered, 60.0, f"the supervisor answers {request}", every_s=0.5)


def test_a_missing_connection_is_refused_with_one_sentence(real: Real) -> None:
    """Nothing was planned, the run is red, the log says what to create."""
    state = real.run("migrate_coordination", "nowhere", {**CONF, "kafka_conn_id": "nowhere"}, {})
    assert state == "failed"
    log = real.said("migrate_coordination", "nowhere", "plan")
    assert "connection 'nowhere' does not exist; create it under Admin > Connections" in log
    assert real.attempts("migrate_coordination", "nowhere")["plan"] == 1


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
    assert "docs/reference/audit-rules.md for each kind" in said
    assert real.attempts("audit_offsets", "planted") == {"audit": 1, "verdict": 1}
    planted = kept / real.api.xcom("audit_offsets", "planted", "audit")
    assert json.loads((planted / "manifest.json").read_text())["weights"]["mismatch"] == 1


def test_a_rejected_plan_changes_nothing(real: Real) -> None:
    """Red with the name of who rejected; the group is as it was and can be planned anew."""
    before = people(real)
    conf = {**CONF, "until": "canary"}
    state = real.run("migrate_coordination", "rejected", conf, {"approve_plan": "Reject"})
    tasks = real.api.tasks("migrate_coordination", "rejected")
    assert (state, tasks["approve_plan"], tasks["canary.act"]) == ("failed", "failed", "upstream_failed")
    found = real.status()
    assert (found.state, acts_of(real.events())) == (RunState.REJECTED, [])
    assert "declined by admin" in found.reason
    assert people(real) == before


def test_an_expired_approval_changes_nothing(real: Real) -> None:
    """Nobody answers in time: as rejected, by nobody; the question showed plan, findings and hashes."""
    shown: list[str] = []

    def look(_: dict[str, str]) -> None:
        shown.extend(real.asked("migrate_coordination", "expired") if not shown else ())

    state = real.run("migrate_coordination", "expired", {**CONF, "gate_expiry_s": 30}, {}, look)
    found = real.status()
    assert (state, found.state, acts_of(real.events())) == ("failed", RunState.REJECTED, [])
    assert "declined by nobody (expired)" in found.reason
    with real.runs() as runs:
        plan_hash = runs.find(found.run).plan_hash
    (body,) = shown
    for part in (
        "If you approve",
        "replaces m1",
        "checks passed",
        plan_hash[:12],
        "no answer until",
    ):
        assert part in body


def test_a_failed_proof_rolls_back_by_itself_and_ends_red(real: Real) -> None:
    """Planted: a member killed whose driver was told not to restart it. Named, and taken back unasked."""
    planted: list[str] = []

    def plant(tasks: dict[str, str]) -> None:
        if tasks.get("canary.act") == "success" and not planted:
            tell(real, verb="hold", slot="m2")
            tell(real, verb="signal", slot="m2", signal="KILL")
            planted.append("m2")
        if tasks.get("going_back") == "success" and planted == ["m2"]:
            tell(real, verb="release", slot="m2")
            planted.append("released")

    conf = {**CONF, "until": "canary"}
    state = real.run("migrate_coordination", "planted", conf, {"approve_plan": "Approve"}, plant)
    tasks = real.api.tasks("migrate_coordination", "planted")
    assert planted == ["m2", "released"]
    assert (state, tasks["undo_members.judge_after"], tasks["verdict"]) == ("failed", "success", "failed")
    found = real.status()
    assert found.state == RunState.ROLLED_BACK
    assert "m2" in found.reason
    assert set(kinds_of(real.view())) == {MemberKind.ZOOKEEPER}


def taken_at_gate(real: Real) -> str:
    """A run waits at its first gate; somebody claims it on the command line."""
    claimed: list[str] = []

    def take(tasks: dict[str, str]) -> None:
        if tasks.get("approve_plan") == "awaiting_input" and not claimed:
            claimed.append(real.status().run)
            with real.runs() as runs:
                now = int(time.time() * 1000)
                runs.claim(claimed[0], "cli-over", now, anew=True, take_over=True)

    answers = {"approve_plan": "Approve"}
    state = real.run("migrate_coordination", "gated", {**CONF, "until": "canary"}, answers, take)
    tasks = real.api.tasks("migrate_coordination", "gated")
    assert (state, tasks["canary.act"], tasks["verdict"]) == ("failed", "upstream_failed", "failed")
    said = real.said("migrate_coordination", "gated", "approve_plan")
    assert f"run cli-over took run {claimed[0]} over" in said
    assert "cli-over has it: look there" in real.said("migrate_coordination", "gated", "verdict")
    return claimed[0]


def test_u01_a_run_that_is_taken_over_at_its_gate_ends_there(real: Real) -> None:
    """The answer at the gate is refused. While the canary waits and at all later phases:
    ``make matrix MATRIX=airflow_taken_over``."""
    run = taken_at_gate(real)
    assert (real.status().run, real.status().state) == (run, RunState.PLANNED)
    assert real.events()[-1].kind is EventKind.CLAIMED, "nothing of the first run reached the journal"
    typed_again(real.home, "roll-back", run, "--take-over", "--execute", "--yes")
    assert real.status().state == RunState.REJECTED
