"""An expansion whose process is killed after every step, and a broker while it restarts, on three real
brokers of 3.9.2 with ZooKeeper (OLD) and of 4.3.1 (NEW): scenario 19 of the group coordinator, whole."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from groupshift_sandbox.layout import Cluster
from groupshift_sandbox.processes import is_running, known, wait_until
from support.expansion_story import (
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
from support.placement_story import audited

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
        assert (code, {group for group, _, _ in planned["about"]["movers"]}) == (0, moving(TO))
        begins = ["--to", str(TO)]
        for step in planned["steps"]:
            if (step["kind"], step["subject"]) == ("restart", "3"):
                code, _ = _killed_broker(
                    cluster, runs.process("continue", "--execute", "--yes"), and_the_run=True
                )
                assert code == -signal.SIGKILL
            point = "before_journal" if step["kind"] == "approve" else "after_act"
            runs.killed(f"{step['key']}.{point}", *begins)
            begins = []
        code, done = runs("continue", "--execute", "--yes")
        assert (code, done.get("state")) == (0, "finalised"), done

        def equal() -> None:
            assert answered(cluster) == wanted()
            assert logged(cluster) == placed(TO)

        equal()
        assert audited(bounced(cluster, equal)).clean


@pytest.mark.parametrize("kind", ["OLD", "NEW"])
def test_coordinator_19_a_broker_dies_and_the_run_lives(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run ends with the broker that does not run; the next one starts that again, and no offset lacks."""
    with home_in(tmp_path) as home:
        cluster = started(home, kind)
        committed(cluster)
        runs = runs_of(cluster, tmp_path, capsys)
        code, out = _killed_broker(
            cluster, runs.process("run", "--to", str(TO), "--execute", "--yes", "--json")
        )
        document = json.loads(out)
        stopped = document["stopped"]
        assert (code, document["ended"], stopped["waits"]) == (1, False, False)
        assert stopped["step"].endswith("restart 3")
        (said,) = stopped["said"]
        assert said.startswith("broker 3 does not run: ")
        assert "run it again: it is started again" in said
        found = known(cluster.home, cluster.node(3).name)
        assert found is not None
        assert not is_running(found), "nobody starts it before the next run"
        code, done = runs("continue", "--execute", "--yes")
        assert (code, done.get("state")) == (0, "finalised"), done
        assert (answered(cluster), logged(cluster)) == (wanted(), placed(TO))
        assert audited(cluster).clean


def _killed_broker(cluster: Cluster, argv: list[str], *, and_the_run: bool = False) -> tuple[int, str]:
    """Kill the new process of broker 3 while the run that restarts it waits for it, and then the run, if that
    is asked for; what the run ended with, and its output."""
    name = cluster.node(3).name
    before = known(cluster.home, name)
    assert before is not None
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:

        def again() -> bool:
            found = known(cluster.home, name)
            return found is not None and found.pid != before.pid and is_running(found)

        wait_until(again, 600.0, "broker 3 is started again", every_s=0.01)
        found = known(cluster.home, name)
        assert found is not None
        os.kill(found.pid, signal.SIGKILL)
        if and_the_run:
            process.kill()
        out, _ = process.communicate(timeout=300.0)
    return process.returncode, out
