"""Nodes that strangers write into a real ZooKeeper: other clients, and hostile bytes."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from groupshift.adapters.zookeeper.ensemble import ZookeeperGroups
from groupshift.adapters.zookeeper.session import ZookeeperConnection
from groupshift.cli.main import main
from groupshift.consumers.zookeeper_nodes import Observer
from groupshift.domain.registration import Registration, encode_registration

REGISTRATION = encode_registration(Registration(subscription=(("orders", 1),), timestamp="1486000000000"))
DELETING = ("delete", "remove", "rmr")


@pytest.fixture
def kazoo_of_another(cluster) -> Iterator[KazooClient]:
    """The session of a client that is none of ours."""
    client = KazooClient(cluster.zookeeper)
    client.start(timeout=60)
    yield client
    client.stop()
    client.close()


@pytest.fixture
def settings(cluster, tmp_path: Path) -> str:
    """A settings file of the session's servers."""
    file = tmp_path / "groupshift.toml"
    file.write_text(
        f'[zookeeper]\nhosts = "{cluster.zookeeper}"\n[kafka]\nbootstrap_servers = "{cluster.bootstrap}"\n'
        f'[fleet]\ndriver = "manual"\n[journal]\nurl = "sqlite:///{tmp_path}/journal.db"\n'
        f'[evidence]\nroot = "{tmp_path}/evidence"\nledgers = "{tmp_path}/ledgers"\n'
    )
    return str(file)


def test_f04_a_group_with_a_pykafka_member_is_refused_by_name(
    kazoo: KazooClient,
    kazoo_of_another: KazooClient,
    group: str,
    topic: Callable[[int], str],
    settings: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its nodes as pykafka makes them, beside those of an old member: no verb says to delete any."""
    name, root = topic(2), f"/consumers/{group}"
    old = encode_registration(Registration(subscription=((name, 1),), timestamp="1486000000000"))
    kazoo.create(f"{root}/ids/{group}_m1-1", old, ephemeral=True, makepath=True)
    kazoo.create(f"{root}/owners/{name}/1", f"{group}_m1-1-0".encode(), ephemeral=True, makepath=True)
    kazoo.create(f"{root}/offsets/{name}/1", b"0", makepath=True)
    other = f"box-1:{uuid.uuid4()}"
    kazoo_of_another.create(f"{root}/ids/{other}", name.encode(), ephemeral=True, makepath=True)
    kazoo_of_another.create(f"{root}/owners/{name}/0-0", other.encode(), ephemeral=True, makepath=True)

    said: dict[str, str] = {}
    for verb, code in (
        (["coordination", "assess", "--group", group, "--json"], 1),
        (["coordination", "assess", "--group", group], 1),
        (["coordination", "plan", "--group", group], None),
        (["scan", "--group", group, "--json"], 0),
        (["scan", "--group", group], 0),
        (["audit", "--groups", group, "--json"], None),
        (["audit", "--groups", group], None),
        (["status"], None),
    ):
        ended = main([*verb, "--settings", settings])
        captured = capsys.readouterr()
        assert code is None or ended == code, (verb, ended, captured)
        told = captured.out
        if verb[0] == "scan" and "--json" in verb:  # it holds the groups of other tests, too
            told = json.dumps([each for each in json.loads(told)["groups"] if each["group"] == group])
        said[" ".join(verb)] = " ".join((told + captured.err).split())
    for called, text in said.items():
        assert not [word for word in DELETING if word in text.lower()], (called, text)
    for verb in ("coordination assess", "scan"):
        for expected in ("this looks like pykafka", "its session lives", "the group cannot be moved", other):
            assert expected in said[f"{verb} --group {group} --json"], (expected, said)


def test_s03_hostile_nodes_are_problems_of_their_group(
    kazoo: KazooClient, cluster, group: str, topic: Callable[[int], str]
) -> None:
    """The scan and the audit read the neighbour as ever, and a member's view says what is wrong."""
    name, root, neighbour = topic(2), f"/consumers/{group}", f"{group}-neighbour"
    hostile = {
        f"{root}/ids/evil": b"[" * 1200,
        f"{root}/ids/{group}_regex": b'{"subscription":{"(a+)+\\\\1b":1},"pattern":"white_list"}',
        f"{root}/ids/{group}_streams": b'{"subscription":{"orders":30000000},"pattern":"static"}',
        f"{root}/ids/{group}_path": b'{"subscription":{"../..":1},"pattern":"static"}',
        f"{root}/owners/{name}/{'9' * 5000}": b"x",
        f"{root}/owners/{name}/0": b"",
        f"{root}/offsets/{name}/0": b"9" * 5000,
        f"{root}/migration/mode": b"[" * 1200,
        f"{root}/migration/fence": b"[" * 1200,
        f"/consumers/{neighbour}/ids/{neighbour}_m1": REGISTRATION,
    }
    for path, data in hostile.items():
        kazoo.create(path, data, ephemeral="/ids/" in path or "/owners/" in path, makepath=True)
    connection = ZookeeperConnection(cluster.zookeeper, timeout_s=60)
    try:
        (bad, _), (good, _) = ZookeeperGroups(connection).window((group, neighbour))
        nodes = ZookeeperGroups(connection).read((group, neighbour))
    finally:
        connection.close()
    assert good.problems == ()
    said = [*bad.problems, *(each.problem for each in bad.no_offsets)]
    assert [member.subscription for member in good.members] == [(("orders", 1),)]
    assert nodes[neighbour].problems == ()
    assert any(f"{root}/offsets/{name}/0" in problem for problem in nodes[group].problems)
    for path in [each for each in hostile if neighbour not in each and "_regex" not in each]:
        if not path.endswith("/fence"):
            assert any(path in problem for problem in said), path

    view = Observer(kazoo, group, f"{group}_observer", hidden=()).observe(None, (name,))
    for member in ("evil", f"{group}_regex", f"{group}_streams", f"{group}_path"):
        assert any(f"{root}/ids/{member}" in problem for problem in view.problems), (member, view.problems)
    assert view.partitions[name] == (0, 1)
