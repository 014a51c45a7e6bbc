"""``expand_offsets_topic`` in a real Airflow, on a real broker: every task is killed -9 once when it is done,
and two between an act and the journal; a person approves, and the run ends as one that nobody disturbed. The
DAG ``roll_back`` takes a run back before its point of no return, and says one sentence after it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from groupshift.bootstrap.moves import journal
from groupshift.domain.run import RunState
from groupshift.engine.status import RunStatus, status_of
from groupshift.settings import load as load_settings
from groupshift_sandbox.down import down
from groupshift_sandbox.home import Home
from groupshift_sandbox.kraft import KraftOptions
from groupshift_sandbox.layout import Cluster
from groupshift_sandbox.up import write_settings
from support.downgrade_story import cluster_of
from support.expansion_story import answered, committed, logged, placed, wanted
from support.killed_tasks import Killing, killing_airflow, worked
from support.placement_story import audited
from support.warm_spark import warm_spark

pytestmark = pytest.mark.timeout(9000)  # every task runs twice

DAG, BACK, BEFORE, TO = "expand_offsets_topic", "roll_back", 5, 8
CONF = {"to": TO, "execute": True}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """One node of 4.3.1; every group has its offsets."""
    options = KraftOptions(heap="384m", properties={"offsets.topic.num.partitions": str(BEFORE)})
    with cluster_of(tmp_path, options) as started:
        committed(started)
        yield started


@pytest.fixture
def killing(cluster: Cluster, tmp_path: Path) -> Iterator[Killing]:
    """An Airflow whose tasks can be killed; brokers are restarted by the sandbox."""
    home = Home(tmp_path / "tool").create()
    try:
        with warm_spark(tmp_path) as submit:
            write_settings(home, "127.0.0.1:1", cluster.bootstrap)
            nodes = tmp_path / "nodes.toml"
            place = f'home = "{cluster.home.root}"\ncluster = "kraft"\n'
            nodes.write_text(f'driver = "sandbox"\n[sandbox]\n{place}')
            path = os.pathsep.join(
                (str(submit.parent), str(Path(sys.executable).parent), os.environ.get("PATH", ""))
            )
            told = {"GROUPSHIFT_NODES": str(nodes), "GROUPSHIFT_TEST_HOOKS": "1", "PATH": path}
            with killing_airflow(home, cluster.bootstrap, told) as found:
                yield found
    finally:
        down(home)


def status(killing: Killing, run: str = "") -> RunStatus:
    """A run as it is journaled, by default the latest one."""
    with journal(load_settings(killing.airflow.home.settings_file)) as runs:
        return status_of(runs, run or runs.recent(1)[0].run)


def test_the_topic_is_expanded_with_every_task_killed_once(cluster: Cluster, killing: Killing) -> None:
    """Every offset is there, in the bytes of the log; each step was read back once. It is watched, and cannot
    be taken back: a sentence, and nothing else."""
    real, run = killing.airflow, "expand"
    killing.arm(run)
    killing.arm_step(run, "delete.walk", "delete-groups.after_act")
    killing.arm_step(run, "restart.walk", "restart 1.after_act")
    ended = real.run(DAG, run, CONF, {"approve_plan": "Approve"})
    found = status(killing)
    assert (ended, found.state) == ("success", RunState.FINALISED), found
    assert killing.killed(run) == worked(killing.airflow.api.tasks(DAG, run))
    assert [killing.deaths(task) for task in ("snapshot.act", "delete.walk", "restart.walk")] == [1, 2, 2]
    assert answered(cluster) == wanted()
    assert logged(cluster) == placed(TO)
    assert audited(cluster).clean
    assert real.run("watch_offsets_topic", "watch", {}, {}) == "success"
    assert real.run(BACK, "late", {"run": found.run, "execute": True}, {}) == "failed"
    assert f"run {found.run} is finalised: there is no rollback any more" in real.said(BACK, "late", "plan")
    assert (status(killing).state, logged(cluster)) == (RunState.FINALISED, placed(TO))


def test_a_run_is_rolled_back_before_its_point_of_no_return(cluster: Cluster, killing: Killing) -> None:
    """The process of the command line dies when groups are deleted, and ``roll_back`` gives them back. One
    that dies when partitions are made is refused by it, and ended by ``expand_offsets_topic``."""
    real = killing.airflow
    _killed(killing, "create-partitions.before_journal")
    deleted = status(killing)
    assert answered(cluster) != wanted(), "groups that move are deleted"
    back = {"run": deleted.run, "execute": True, "take_over": True}
    assert real.run(BACK, "back", back, {"undo.walk": "Approve"}) == "success", real.said(
        BACK, "back", "verdict"
    )
    assert status(killing, deleted.run).state == RunState.ROLLED_BACK
    assert (answered(cluster), logged(cluster)) == (wanted(), placed(BEFORE))
    assert audited(cluster).clean

    _killed(killing, "restart 1.after_act")
    begun = status(killing)
    refused = {"run": begun.run, "execute": True, "take_over": True}
    assert real.run(BACK, "late", refused, {}) == "failed"
    said = real.said(BACK, "late", "plan")
    assert f"run {begun.run} made step 10 restart/restart 1, which cannot be undone" in said, said
    assert status(killing).state == RunState.RUNNING, "nothing but a sentence"
    forward = {**CONF, "take_over": True}
    assert real.run(DAG, "forward", forward, {}) == "success", real.said(DAG, "forward", "verdict")
    assert status(killing, begun.run).state == RunState.FINALISED
    assert (answered(cluster), logged(cluster)) == (wanted(), placed(TO))


def _killed(killing: Killing, at: str) -> None:
    """Begin a run on the command line, which dies at this point of a step."""
    home = killing.airflow.home
    place = ("--settings", str(home.settings_file), "--nodes", str(home.root.parent / "nodes.toml"))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "groupshift.cli.main", "expansion", "run"),
            *("--to", str(TO), "--execute", "--yes", *place, "--timeout", "60"),
        ],
        env={**os.environ, "GROUPSHIFT_TEST_HOOKS": "1", "GROUPSHIFT_CRASH_AT_STEP": at},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
