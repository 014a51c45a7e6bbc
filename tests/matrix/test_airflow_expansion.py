"""``expand_offsets_topic`` in a real Airflow, on a real broker: every task is killed -9 once when it is done,
and two between an act and the journal; a person approves, and the run ends as one that nobody disturbed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.application.expansion_run import statuses
from groupshift.bootstrap.clusters import cluster_runs
from groupshift.ports.journal import RunState
from groupshift.settings import load as load_settings
from groupshift_sandbox.down import down
from groupshift_sandbox.home import Home
from groupshift_sandbox.kraft import KraftCluster, KraftOptions
from groupshift_sandbox.up import write_settings
from support.downgrade_story import cluster_of
from support.expansion_story import TOPIC, answered, committed, logged, placed, wanted
from support.killed_tasks import Killing, killing_airflow
from support.placement_story import audited

pytestmark = pytest.mark.timeout(9000)  # every task runs twice

DAG, RUN, TO = "expand_offsets_topic", "expand", 8
CONF = {"to": TO, "execute": True}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[KraftCluster]:
    """One node of 4.3.1."""
    options = KraftOptions(heap="384m", properties={"offsets.topic.num.partitions": "5"})
    with cluster_of(tmp_path, options) as started:
        yield started


@pytest.fixture
def killing(cluster: KraftCluster, tmp_path: Path) -> Iterator[Killing]:
    """An Airflow whose tasks can be killed; brokers are restarted by the sandbox."""
    home = Home(tmp_path / "tool").create()
    try:
        write_settings(home, "127.0.0.1:1", cluster.bootstrap)
        nodes = tmp_path / "nodes.toml"
        place = f'home = "{cluster.home.root}"\ncluster = "kraft"\n'
        nodes.write_text(f'driver = "sandbox"\n[sandbox]\n{place}')
        told = {"GROUPSHIFT_NODES": str(nodes), "GROUPSHIFT_TEST_HOOKS": "1"}
        with killing_airflow(home, cluster.bootstrap, told) as found:
            yield found
    finally:
        down(home)


def test_the_topic_is_expanded_with_every_task_killed_once(cluster: KraftCluster, killing: Killing) -> None:
    """Every offset is there, in the bytes of the log; each step was read back once."""
    committed(cluster)
    with closing(KafkaCluster(cluster.bootstrap, timeout_s=60.0)) as raw:
        assert set(raw.leaders([TOPIC]).values()) == {1}
    killing.arm(RUN)
    killing.arm_step(RUN, "delete", "delete-groups.after_act")
    killing.arm_step(RUN, "brokers", "restart 1.after_act")
    state = killing.airflow.run(DAG, RUN, CONF, {"approve_plan": "Approve"})
    runs = cluster_runs(load_settings(killing.airflow.home.settings_file).journal.url)
    with closing(runs):
        (run,) = runs.recent(9)
        stands = [f"{each.step.key}: {each.stand} {each.result}" for each in statuses(runs, run)]
    assert (state, run.state) == ("success", RunState.DONE), "\n".join(stands)
    tasks = killing.airflow.api.tasks(DAG, RUN)
    assert set(tasks.values()) == {"success"}
    assert killing.killed(RUN) == set(tasks)
    assert [killing.deaths(task) for task in ("snapshot", "delete", "brokers")] == [1, 2, 2]
    assert answered(cluster) == wanted()
    assert logged(cluster) == placed(TO)
    assert audited(cluster).clean
