"""The first program of docs/service-teams/migrate-a-consumer.md, in a fresh environment with the built
wheel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from groupshift_sandbox.processes import wait_until
from groupshift_sandbox.producer import NumberedProducer
from support.group_probe import PATIENCE_S, GroupProbe

ROOT = Path(__file__).resolve().parents[2]
RECORDS = 5


def first_program() -> str:
    """The Python block that the page marks as the first consumer."""
    page = (ROOT / "docs" / "service-teams" / "migrate-a-consumer.md").read_text()
    found = re.search(r"<!-- first-consumer -->\s*```python\n(.*?)```", page, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def service_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a service team: an empty environment into which the wheel was installed."""
    out = tmp_path_factory.mktemp("service")
    bin_folder = Path(sys.executable).parent
    environment = {**os.environ, "VIRTUAL_ENV": str(out / "venv")}
    for argv in (
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)],
        [str(bin_folder / "uv"), "venv", "--quiet", "--python", sys.executable, str(out / "venv")],
    ):
        subprocess.run(argv, cwd=ROOT, env=environment, check=True, capture_output=True)
    (wheel,) = out.glob("*.whl")
    install = [str(bin_folder / "uv"), "pip", "install", "--quiet", str(wheel)]
    subprocess.run(install, cwd=out, env=environment, check=True, capture_output=True)
    return out / "venv" / "bin" / "python"


def test_the_first_program_of_the_page_becomes_a_migration_aware_member(
    cluster, group, kazoo, topic, service_python, tmp_path
):
    """It appears below ids and migration/ids, prints its records, and brings two libraries only."""
    name, probe = topic(1), GroupProbe(kazoo, group)
    numbered = NumberedProducer(cluster.bootstrap, name, 1)
    for _ in range(RECORDS):
        numbered.send(0)
    numbered.flush()
    (tmp_path / "service.py").write_text(first_program())
    environment = {
        "GROUP": group,
        "ZOOKEEPER": cluster.zookeeper,
        "BROKERS": cluster.bootstrap,
        "TOPIC": name,
        "PATH": os.environ["PATH"],
    }
    output = tmp_path / "output"
    with output.open("w") as written:
        running = subprocess.Popen(
            [str(service_python), str(tmp_path / "service.py")],
            env=environment,
            stdout=written,
            stderr=written,
        )
    try:
        wait_until(lambda: _children(kazoo, probe.paths.migration_ids), PATIENCE_S, "below migration/ids")
        assert _children(kazoo, probe.paths.ids) == _children(kazoo, probe.paths.migration_ids)
        wait_until(lambda: len(output.read_text().splitlines()) == RECORDS, PATIENCE_S, "records printed")
        assert output.read_text().splitlines() == [f"{name} 0 {offset}" for offset in range(RECORDS)]
    finally:
        running.kill()
        running.wait(20)
    listed = subprocess.run(
        [
            str(service_python),
            "-c",
            "import importlib.metadata as m; print(*(d.name for d in m.distributions()))",
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    assert sorted(listed.stdout.split()) == ["confluent-kafka", "kafka-groupshift", "kazoo"]


def _children(kazoo, path):
    return kazoo.get_children(path) if kazoo.exists(path) else []
