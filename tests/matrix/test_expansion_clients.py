"""Clients after an expansion of three brokers: on 3.9.2 with ZooKeeper (OLD) those of the classic protocol,
on 4.3.1 (NEW) both. One broker: `tests/live/test_expansion_members.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupshift.domain.group_partition_and_count import partition_of
from groupshift_sandbox.client_members.commands import CLIENTS, GroupProtocol
from support.expansion_story import BEFORE, home_in, runs_of, started
from support.placement_story import audited
from support.resuming_members import Kind, one_of_each, read_to_the_end, resume

AFTER = 8
CLASSIC, NATIVE = GroupProtocol.CLASSIC, GroupProtocol.CONSUMER
NEWEST, JAVA = CLIENTS[0], "kafka-clients 4.3.1"
KINDS: dict[str, list[Kind]] = {
    "OLD": [(NEWEST, CLASSIC), (CLIENTS[1], CLASSIC), ("kafka-clients 3.9.2", CLASSIC), (JAVA, CLASSIC)],
    "NEW": [(NEWEST, CLASSIC), (NEWEST, NATIVE), (JAVA, CLASSIC), (JAVA, NATIVE)],
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["OLD", "NEW"])
def test_clients_resume_on_three_brokers(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """confluent-kafka and Java go on at the very next record: none lost, none read twice."""
    names = (f"billing-{number}" for number in range(1_000))
    moving = (each for each in names if partition_of(each, BEFORE) != partition_of(each, AFTER))
    with home_in(tmp_path) as home:
        cluster = started(home, kind)
        members = one_of_each(cluster, KINDS[kind], moving)
        read_to_the_end(cluster, members)
        runs = runs_of(cluster, tmp_path, capsys)
        _, planned = runs("run", "--to", str(AFTER))
        assert {group for group, _, _ in planned["about"]["movers"]} >= {each.group for each in members}
        code, done = runs("run", "--to", str(AFTER), "--execute", "--yes")
        assert code == 0, done
        assert audited(cluster).clean
        resume(cluster, members)
