"""``downgrade_coordinator`` in a real Airflow, on a real broker: every task is killed -9 once when it is
done, and one between writing a replacement down and making it; a person restarts the members of a live
native group, and the run ends as one that nobody disturbed. The DAG ``roll_back`` takes it back, as long as
no later run has changed the cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from groupshift.bootstrap.moves import journal
from groupshift.domain.group_protocol import Kind
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.run import RunState
from groupshift.engine.status import RunStatus, status_of
from groupshift.settings import load as load_settings
from groupshift_sandbox.cluster_file import load
from groupshift_sandbox.committing import commit
from groupshift_sandbox.down import down
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.layout import Cluster
from groupshift_sandbox.up import write_settings
from support.downgrade_story import QUIET, SNAPSHOTS, Groups, cluster_of, groups_at, new_392, offsets_of
from support.killed_tasks import Killing, killing_airflow, worked
from support.warm_spark import warm_spark

pytestmark = pytest.mark.timeout(9000)  # every task runs twice

DAG = "downgrade_coordinator"
TOPIC, PARTITIONS = "orders", 2
GROUPS = ["simple", "classic", "live"]
YES = {"approve_plan": "Approve", "undo.walk": "Approve"}
CONF = {"to": "3.5.2", "from": "3.9.2", "execute": True}
PATH = os.environ.get("PATH", "")


@dataclass(slots=True, kw_only=True)
class Downgraded:
    """The cluster, its groups and the Airflow; ``asked`` is what a person was told."""

    cluster: Cluster
    groups: Groups
    killing: Killing
    asked: list[str]

    def drive(self, run: str) -> str:
        """Trigger, do what a person is asked for, and wait; the state in which it ends."""
        real = self.killing.airflow
        member = self.groups.native("live", PARTITIONS)
        self.groups.await_kinds({"live": Kind.CONSUMER})

        def by_hand(_tasks: dict[str, str]) -> None:
            for question in real.api.questions(DAG, run):
                if question.task != "convert.walk":
                    continue
                if not self.asked:
                    member.leave()
                    self.groups.classic("live", PARTITIONS)
                    self.groups.await_kinds({"live": Kind.CLASSIC})
                self.asked.append(question.body)
                real.api.answer(question, "Done")

        return real.run(DAG, run, CONF, YES, by_hand)

    def run_of(self, dag: str, run: str) -> str:
        """Our run of this Airflow run."""
        return str(self.killing.airflow.api.xcom(dag, run, "plan"))

    def status(self, name: str) -> RunStatus:
        """A run as it is journaled."""
        with journal(load_settings(self.killing.airflow.home.settings_file)) as runs:
            return status_of(runs, name)

    def offsets(self) -> dict[tuple[str, int], int]:
        """Committed offsets of the groups now."""
        return offsets_of(self.cluster.bootstrap, GROUPS)

    @property
    def node(self) -> Any:
        """The broker as it was started last."""
        return load(self.cluster.home, "kraft").node(1)


@pytest.fixture(scope="module")
def downgraded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Downgraded]:
    """3.9.2 with its NEW coordinator, formatted so that 3.5 can read its metadata; a native member that says
    nothing for ten minutes is still one."""
    folder = tmp_path_factory.mktemp("downgraded")
    options = new_392("3.5", 3, {**SNAPSHOTS, **QUIET})
    home = Home(folder / "tool").create()
    with warm_spark(folder) as submit, cluster_of(folder, options) as cluster:
        try:
            create_topic(cluster.bootstrap, TOPIC, PARTITIONS)
            write_settings(home, "127.0.0.1:1", cluster.bootstrap)
            nodes = folder / "nodes.toml"
            place = f'home = "{cluster.home.root}"\ncluster = "kraft"\n'
            nodes.write_text(f'driver = "sandbox"\n[sandbox]\n{place}')
            first = os.pathsep.join((str(submit.parent), str(Path(sys.executable).parent), PATH))
            told = {"GROUPSHIFT_NODES": str(nodes), "GROUPSHIFT_TEST_HOOKS": "1", "PATH": first}
            with (
                groups_at(cluster.bootstrap, TOPIC) as groups,
                killing_airflow(home, cluster.bootstrap, told) as killing,
            ):
                yield Downgraded(cluster=cluster, groups=groups, killing=killing, asked=[])
        finally:
            down(home)


def test_brokers_go_to_352_with_every_task_killed_once(downgraded: Downgraded) -> None:
    """Every step is read back once, groups are equal after the node, and the node runs 3.5.2."""
    offsets = {
        group: {TopicPartition(TOPIC, p): (100 * n + p, "m") for p in range(PARTITIONS)}
        for n, group in enumerate(GROUPS)
    }
    commit(downgraded.groups.cluster, offsets)
    downgraded.groups.touch_classic("classic")
    before = downgraded.offsets()
    assert len(before) == len(GROUPS) * PARTITIONS
    downgraded.killing.arm("down")
    downgraded.killing.arm_step("down", "replace.walk", "replace 1.after_journal")
    ended = downgraded.drive("down")

    found = downgraded.status(downgraded.run_of(DAG, "down"))
    assert (ended, found.state, found.verdict) == ("success", RunState.MOVED, "pass"), found
    tasks = worked(downgraded.killing.airflow.api.tasks(DAG, "down"))
    assert tasks >= {"prepare.snapshot", "convert.walk", "features.wait", "replace.compare", "verdict"}
    assert downgraded.killing.killed("down") == tasks
    assert downgraded.killing.deaths("replace.walk") == 2
    assert "group live has members and is of type consumer" in downgraded.asked[0]
    assert all(each.done for each in found.steps)
    compared = [each.outcome for each in found.steps if "/compare " in each.step.key]
    assert compared == ["pass"] * 3, found.steps
    assert downgraded.node.release == "3.5.2"
    assert downgraded.offsets() == before
    with groups_at(downgraded.cluster.bootstrap, TOPIC) as groups:
        groups.await_kinds(dict.fromkeys(GROUPS, Kind.UNKNOWN))  # 3.5 lists them and tells no types


def test_the_dag_roll_back_takes_it_back_until_a_later_run_changed_the_cluster(
    downgraded: Downgraded,
) -> None:
    """Its tasks are killed, too; the node runs 3.9.2 again with all offsets. Behind the next downgrade the
    first one's rollback is a sentence, and nothing is changed."""
    real, first, before = downgraded.killing.airflow, downgraded.run_of(DAG, "down"), downgraded.offsets()
    back: dict[str, Any] = {"run": first, "to": "start", "execute": True, "zookeeper_conn_id": None}
    downgraded.killing.arm("back")
    assert real.run("roll_back", "back", back, YES) == "success"
    found = downgraded.status(first)
    assert (found.state, found.verdict) == (RunState.ROLLED_BACK, "pass"), found
    assert downgraded.killing.killed("back") == worked(real.api.tasks("roll_back", "back"))
    assert any("undo" in each for each in real.asked("roll_back", "back"))
    assert downgraded.node.release == "3.9.2"
    assert downgraded.node.properties["group.coordinator.rebalance.protocols"] != "classic"
    assert downgraded.offsets() == before

    assert real.run(DAG, "later", CONF, YES) == "success"
    later = downgraded.run_of(DAG, "later")
    assert downgraded.status(later).state == RunState.MOVED
    assert real.run("roll_back", "too-late", back, {}) == "failed"
    tasks = real.api.tasks("roll_back", "too-late")
    assert sorted(task for task, state in tasks.items() if state == "failed") == ["plan"]
    sentence = f"run {first} was followed by {later} on the same cluster"
    assert sentence in real.said("roll_back", "too-late", "plan")
    assert downgraded.status(first).state == RunState.ROLLED_BACK
    assert downgraded.node.release == "3.5.2"
    assert downgraded.offsets() == before
