"""A real Airflow moves an ordinary old group there and back: leftovers of a live topic, a deleted topic and a
partition that is gone; a compacted topic that a transactional producer writes, with aborted transactions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from groupshift.domain.modes import MemberKind
from groupshift.domain.run import RunState
from groupshift.settings import load
from groupshift_sandbox.airflow_api import AirflowApi
from groupshift_sandbox.processes import wait_until
from groupshift_sandbox.up import start_airflow
from support.coordination_app import coordination_app
from support.field_sandbox import PARTITIONS, Field, field_sandbox, prove_there_and_back, ready
from support.real_airflow import CONF, HEARTBEAT, Real

pytestmark = pytest.mark.timeout(2400)  # longer than both runs may take, with the sandbox's start

SESSION = {"zookeeper.session.timeout.ms": "30000"}


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Field, Real]]:
    """The sandbox and its Airflow; nobody is meant to lose a session."""
    patient = dict.fromkeys((MemberKind.ZOOKEEPER, MemberKind.AWARE), SESSION)
    with field_sandbox(tmp_path_factory.mktemp("field"), patient) as found:
        hosts = load(found.home.settings_file).zookeeper.hosts
        api = AirflowApi(url=start_airflow(found.home, hosts, found.bootstrap, {HEARTBEAT: "120"}))
        assert api.import_errors() == []
        yield found, Real(home=found.home, api=api)


def test_f01_f02_leftovers_transactions_and_compaction_go_there_and_back_in_airflow(
    old: tuple[Field, Real], tmp_path: Path
) -> None:
    """`migrate_coordination` and `roll_back`: both green, every verdict pass, nothing lost."""
    field, real = old
    with coordination_app(field.settings) as app:
        ready(app)
        field.write_transactions_when_aware()
        yes = {
            "approve_plan": "Approve",
            "approve_toggle": "Approve",
        }
        assert real.run("migrate_coordination", "field", CONF, yes) == "success", real.status()
        moved = real.status()
        assert moved.state == RunState.MOVED
        wait_until(lambda: field.writer.aborted > PARTITIONS, 60.0, "transactions were aborted")
        field.write_plain_records()
        conf = {"run": moved.run, "to": "old_members", "execute": True}
        assert real.run("roll_back", "field-back", conf, {}) == "success", real.status()
        prove_there_and_back(field, app, moved.run, tmp_path)
