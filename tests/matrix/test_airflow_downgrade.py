"""``downgrade_coordinator`` in a real Airflow, on a real broker: every task is killed -9 once when it is
done, and one between writing a replacement down and making it; a person restarts the members of a live
native group, and the run ends as one that nobody disturbed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from groupshift.application.downgrade_run import statuses
from groupshift.application.run_engine import StepStatus
from groupshift.bootstrap.clusters import cluster_runs
from groupshift.domain.group_protocol import Kind
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.step import RunAct
from groupshift.ports.journal import ClusterRun, RunState
from groupshift.settings import load as load_settings
from groupshift_sandbox.cluster_file import load
from groupshift_sandbox.committing import commit
from groupshift_sandbox.down import down
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.kraft import KraftCluster
from groupshift_sandbox.up import write_settings
from support.downgrade_story import QUIET, SNAPSHOTS, Groups, cluster_of, groups_at, new_392, offsets_of
from support.killed_tasks import Killing, killing_airflow

pytestmark = pytest.mark.timeout(9000)  # every task runs twice

DAG, RUN = "downgrade_coordinator", "down"
TOPIC, PARTITIONS = "orders", 2
GROUPS = ["simple", "classic", "live"]
YES = {"approve_plan": "Approve"}
CONF = {"to": "3.5.2", "from": "3.9.2", "execute": True}


@dataclass(slots=True, kw_only=True)
class Downgraded:
    """The cluster, its groups and the Airflow; ``asked`` is what a person was told."""

    cluster: KraftCluster
    groups: Groups
    killing: Killing
    asked: list[str]

    def drive(self) -> str:
        """Trigger, do what a person is asked for, and wait; the state in which it ends."""
        real = self.killing.airflow
        member = self.groups.native("live", PARTITIONS)
        self.groups.await_kinds({"live": Kind.CONSUMER})

        def by_hand(_tasks: dict[str, str]) -> None:
            for question in real.api.questions(DAG, RUN):
                if question.task != "convert":
                    continue
                if not self.asked:
                    member.leave()
                    self.groups.classic("live", PARTITIONS)
                    self.groups.await_kinds({"live": Kind.CLASSIC})
                self.asked.append(question.body)
                real.api.answer(question, "Deployed")

        return real.run(DAG, RUN, CONF, YES, by_hand)

    def journaled(self) -> tuple[ClusterRun, tuple[StepStatus, ...]]:
        """The run of the downgrade, and how far its steps are."""
        runs = cluster_runs(load_settings(self.killing.airflow.home.settings_file).journal.url)
        try:
            (run,) = runs.recent(9)
            return run, statuses(runs, run)
        finally:
            runs.close()


@pytest.fixture
def downgraded(tmp_path: Path) -> Iterator[Downgraded]:
    """3.9.2 with its NEW coordinator, formatted so that 3.5 can read its metadata; a native member that says
    nothing for ten minutes is still one."""
    options = new_392("3.5", 3, {**SNAPSHOTS, **QUIET})
    home = Home(tmp_path / "tool").create()
    with cluster_of(tmp_path, options) as cluster:
        try:
            create_topic(cluster.bootstrap, TOPIC, PARTITIONS)
            write_settings(home, "127.0.0.1:1", cluster.bootstrap)
            nodes = tmp_path / "nodes.toml"
            place = f'home = "{cluster.home.root}"\ncluster = "kraft"\n'
            nodes.write_text(f'driver = "sandbox"\n[sandbox]\n{place}')
            told = {"GROUPSHIFT_NODES": str(nodes), "GROUPSHIFT_TEST_HOOKS": "1"}
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
    before = offsets_of(downgraded.cluster.bootstrap, GROUPS)
    assert len(before) == len(GROUPS) * PARTITIONS
    downgraded.killing.arm(RUN)
    downgraded.killing.arm_step(RUN, "brokers", "replace 1.after_journal")
    state = downgraded.drive()

    run, steps = downgraded.journaled()
    stands = [f"{each.step.key}: {each.stand} {each.result}" for each in steps]
    assert (state, run.state) == ("success", RunState.DONE), "\n".join(stands)
    tasks = downgraded.killing.airflow.api.tasks(DAG, RUN)
    assert set(tasks.values()) == {"success"}
    assert downgraded.killing.killed(RUN) == set(tasks)
    assert [downgraded.killing.deaths(task) for task in ("lower", "brokers")] == [1, 2]
    assert "group live has members and is of type consumer" in downgraded.asked[0]
    compared = [(each.result or {}).get("verdict") for each in steps if each.step.act is RunAct.COMPARE]
    assert compared == ["pass"] * 3, stands
    node = load(downgraded.cluster.home, "kraft").node(1)
    assert node.release == "3.5.2"
    assert offsets_of(downgraded.cluster.bootstrap, GROUPS) == before
    with groups_at(downgraded.cluster.bootstrap, TOPIC) as groups:
        groups.await_kinds(dict.fromkeys(GROUPS, Kind.UNKNOWN))  # 3.5 lists them and tells no types
