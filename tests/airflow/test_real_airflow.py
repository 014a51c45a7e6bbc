"""Runs in a real Airflow, on real ZooKeeper, Kafka, Scala members and Spark: a whole move, and back.

The task process *and its supervisor* are killed -9 right after the canary's intent was journaled, and again
right after the intent to undo it: Airflow finds out by the missing heartbeat and runs the task again. The
first comparison has a spark-submit of its own, all later ones go to a Spark that was started once. What is
refused or fails: `test_real_refusals`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.run import RunState
from groupshift.ports.runs import EventKind
from groupshift_sandbox.ledger import read_ledgers
from groupshift_sandbox.state import SandboxState
from support.late_stamps import second_owners
from support.real_airflow import CONF, GROUP, HEARTBEAT, Real, acts_of, first_on_path, kinds_of, real_airflow
from support.warm_spark import warm_spark

pytestmark = pytest.mark.timeout(2000)  # longer than a run may take, with its sandbox's start

KILL = {
    "GROUPSHIFT_TEST_HOOKS": "1",
    "GROUPSHIFT_CRASH_AT_STEP": "canary/replace_members.after_journal",
    "GROUPSHIFT_CRASH_WHOM": "parent",
    HEARTBEAT: "60",
}
SESSION = {"zookeeper.session.timeout.ms": "30000"}
KILLED = "canary/replace_members"


@pytest.fixture(scope="module")
def submit_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Airflow looks for spark-submit first; there is none yet."""
    return tmp_path_factory.mktemp("path")


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A spark-submit that hands its job to a Spark that runs already."""
    with warm_spark(tmp_path_factory.mktemp("spark")) as submit:
        yield submit


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory, submit_folder: Path) -> Iterator[Real]:
    """A sandbox with Airflow whose tasks die once at the canary, and once where it is undone."""
    patient = dict.fromkeys((MemberKind.ZOOKEEPER, MemberKind.AWARE), SESSION)  # nobody is meant to lose one
    variables = {**KILL, "PATH": first_on_path(submit_folder)}
    with real_airflow(tmp_path_factory.mktemp("sandbox"), variables, patient) as found:
        yield found


def resumed(real: Real) -> list[str]:
    """The acts that were cut off, and what was done about them."""
    events = real.events()
    return [each.step.rpartition(" ")[2] for each in events if each.kind is EventKind.RESUMED]


def twice(real: Real, dag: str, run: str) -> dict[str, int]:
    """The acts that were tried more than once. A gate that is answered in the instant in which it parks is
    asked again by Airflow; an act must never be."""
    attempts = real.attempts(dag, run)
    return {task: tries for task, tries in attempts.items() if task.endswith(".act") and tries > 1}


def test_an_approved_run_moves_the_group_although_its_task_was_killed(
    real: Real, submit_folder: Path, warm: Path
) -> None:
    """Task process and supervisor killed -9 in the canary's act: same end, no second act, green."""
    found_first = submit_folder / warm.name

    def warm_up(tasks: dict[str, str]) -> None:
        if tasks.get("canary.compare_before") == "success" and not found_first.exists():
            found_first.symlink_to(warm)

    yes = {"approve_plan": "Approve", "approve_toggle": "Approve"}
    state = real.run("migrate_coordination", "approved", CONF, yes, warm_up)
    assert state == "success", real.status()
    view = real.view()
    assert (real.status().state, acts_of(real.events())) == (RunState.MOVED, ["canary", "roll", "toggle"])
    assert (view.effective_mode, set(kinds_of(view))) == (Mode.KAFKA, {MemberKind.AWARE})
    assert twice(real, "migrate_coordination", "approved") == {"canary.act": 2}
    assert KILLED in resumed(real)
    tasks = real.api.tasks("migrate_coordination", "approved")
    compared = [task for task in tasks if task.rpartition(".")[2] in {"compare_before", "compare_after"}]
    jobs = {
        task: real.api.xcom("migrate_coordination", "approved", task, "spark_job")
        for task in compared
        if tasks[task] == "success"
    }
    assert len(jobs) == 8, "canary, roll, toggle and soak: a Spark task before and after each"
    assert len({str(job["output"]) for job in jobs.values()}) == 8
    assert found_first.exists(), "all but the first went to the Spark that runs already"


def test_roll_back_after_the_toggle_restores_the_old_members(real: Real) -> None:
    """Mode back, members back, each proven; nobody was ever a second owner."""
    conf = {"run": real.status().run, "to": "old_members", "execute": True}
    state = real.run("roll_back", "back", conf, {})
    assert state == "success", real.status()
    view = real.view()
    assert real.status().state == RunState.ROLLED_BACK
    assert (view.effective_mode, set(kinds_of(view))) == (Mode.ZOOKEEPER, {MemberKind.ZOOKEEPER})
    assert twice(real, "roll_back", "back") == {"undo_members.act": 2}
    old = {path.stem for path in real.home.configuration.glob("m*.properties")}
    told = read_ledgers(real.home.ledgers, GROUP)
    assert second_owners(told, {f"{GROUP}_{name}" for name in old}) == []


def test_the_scheduler_of_the_sandbox_has_loaded_what_its_tasks_use(real: Real) -> None:
    """Before it forks them: the last library of the list (`groupshift_sandbox.airflow`) is in its memory."""
    scheduler = SandboxState(real.home).processes()["airflow-scheduler"]
    assert "/pyarrow/_parquet" in Path(f"/proc/{scheduler['pid']}/maps").read_text()
