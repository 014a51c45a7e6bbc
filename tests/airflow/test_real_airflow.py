"""Runs in a real Airflow, on real ZooKeeper, Kafka, Scala members and Spark: a whole move, and back.

The task process *and its supervisor* are killed -9 right after the canary's intent was journaled: Airflow
finds out by the missing heartbeat and runs the task again. What is refused or fails: `test_real_refusals`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.plan import Phase
from groupshift.ports.journal import EventKind
from groupshift_sandbox.ledger import read_ledgers
from support.late_stamps import second_owners
from support.real_airflow import CONF, GROUP, HEARTBEAT, Real, acts_of, kinds_of, real_airflow

pytestmark = pytest.mark.timeout(2000)  # longer than a run may take, with its sandbox's start

KILL = {
    "GROUPSHIFT_TEST_HOOKS": "1",
    "GROUPSHIFT_CRASH_AT": "canary.after_journal",
    "GROUPSHIFT_CRASH_WHOM": "parent",
    HEARTBEAT: "60",
}
SESSION = {"zookeeper.session.timeout.ms": "30000"}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    """A sandbox with Airflow whose tasks die once at the canary."""
    patient = dict.fromkeys((MemberKind.OLD, MemberKind.AWARE), SESSION)  # nobody is meant to lose one
    with real_airflow(tmp_path_factory.mktemp("sandbox"), KILL, patient) as found:
        yield found


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
    assert (found.phase, acts_of(found)) == (Phase.MOVED, ["canary", "roll", "toggle"])
    assert (view.effective_mode, set(kinds_of(view))) == (Mode.KAFKA, {MemberKind.AWARE})
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
    assert (view.effective_mode, set(kinds_of(view))) == (Mode.ZOOKEEPER, {MemberKind.OLD})
    old = {path.stem for path in real.home.configuration.glob("m*.properties")}
    told = read_ledgers(real.home.ledgers, GROUP)
    assert second_owners(told, {f"{GROUP}_{name}" for name in old}) == []
