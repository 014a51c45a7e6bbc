"""An expansion whose process is killed after every step, and a broker while it restarts, on three real
brokers of 3.9.2 with ZooKeeper (OLD) and of 4.3.1 (NEW): scenario 19 of the specification, whole."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from expansion_story import (
    answered,
    bounced,
    committed,
    home_in,
    logged,
    moving,
    placed,
    runs_of,
    started,
    wanted,
)
from groupshift.sandbox.layout import Cluster
from groupshift.sandbox.processes import is_running, known, wait_until
from placement_story import audited

pytestmark = pytest.mark.timeout(1_800)

TO = 8


@pytest.mark.parametrize("kind", ["OLD", "NEW"])
def test_coordinator_19_killed_after_every_step(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each process dies after the act of the step that it came to; before broker 3 is up again it is killed,
    too. Then a process that is left alone brings the run to its end: every offset is there."""
    with home_in(tmp_path) as home:
        cluster = started(home, kind)
        committed(cluster)
        runs = runs_of(cluster, tmp_path, capsys)
        code, planned = runs("run", "--to", str(TO))
        assert (code, {each["group"] for each in planned["plan"]["movers"]}) == (0, moving(TO))
        for step in planned["plan"]["steps"]:
            if (step["act"], step["subject"]) == ("restart", "3"):
                _killed_broker(cluster, runs.command("run", "--execute", "--yes"))
            runs.killed(f"{step['key']}.after_act", "--to", str(TO))
        code, done = runs("run", "--execute", "--yes")
        assert (code, done["outcome"]["ended"]) == (0, "done")

        def equal() -> None:
            assert answered(cluster) == wanted()
            assert logged(cluster) == placed(TO)

        equal()
        assert audited(bounced(cluster, equal)).clean


def _killed_broker(cluster: Cluster, argv: list[str]) -> None:
    """Kill the new process of broker 3 while the run that restarts it waits for it, and then the run."""
    name = cluster.node(3).name
    before = known(cluster.home, name)
    assert before is not None
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:

        def again() -> bool:
            found = known(cluster.home, name)
            return found is not None and found.pid != before.pid and is_running(found)

        wait_until(again, 120.0, "broker 3 is started again", every_s=0.01)
        found = known(cluster.home, name)
        assert found is not None
        os.kill(found.pid, signal.SIGKILL)
        process.kill()
