"""The ZooKeeper half of a group, read from a real server."""

from __future__ import annotations

import json
import logging
import threading
import uuid
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from groupshift.adapters.zookeeper import ensemble
from groupshift.adapters.zookeeper.ensemble import ZookeeperGroups
from groupshift.adapters.zookeeper.session import Children, Data, Session, ZookeeperConnection
from groupshift.domain.modes import MemberKind
from groupshift.domain.registration import Registration, encode_awareness, encode_registration
from groupshift.domain.rows import OffsetRow
from groupshift.errors import Rejected, Transient
from groupshift_sandbox.processes import free_port

REGISTRATION = Registration(subscription=(("orders", 1),), timestamp="1486000000000")
OLD = encode_registration(REGISTRATION)
AWARE = encode_awareness(REGISTRATION, software="0.1.0")


@pytest.fixture
def groups(cluster) -> Iterator[ZookeeperGroups]:
    """The adapter on the session's ZooKeeper."""
    made = ZookeeperGroups(ZookeeperConnection(cluster.zookeeper, timeout_s=60))
    yield made
    made.close()


def put(kazoo: KazooClient, path: str, data: bytes, *, ephemeral: bool = True) -> None:
    """A node as a member would make it."""
    kazoo.create(path, data, ephemeral=ephemeral, makepath=True)


def test_an_unknown_group_is_proven_absent(groups: ZookeeperGroups, group: str) -> None:
    """Its parent answered, so it does not exist."""
    side = groups.observe(group)
    assert not side.exists
    assert side.problems == ()


def test_old_and_aware_members_owners_and_offsets_are_read(
    groups: ZookeeperGroups, kazoo: KazooClient, group: str
) -> None:
    """With the session and the creation of each node, which evidence names."""
    root = f"/consumers/{group}"
    put(kazoo, f"{root}/ids/{group}_m1-1", OLD)
    put(kazoo, f"{root}/ids/{group}_m2-1", OLD)
    put(kazoo, f"{root}/migration/ids/{group}_m2-1", AWARE)
    put(kazoo, f"{root}/owners/orders/0", f"{group}_m1-1-0".encode())
    put(kazoo, f"{root}/offsets/orders/0", b"17", ephemeral=False)
    side = groups.observe(group)
    assert [(m.member_id, m.kind, m.fence) for m in side.members] == [
        (f"{group}_m1-1", MemberKind.ZOOKEEPER, None),
        (f"{group}_m2-1", MemberKind.AWARE, 1),
    ]
    session = kazoo.client_id[0]
    assert {member.session_id for member in side.members} == {session}
    (owner,) = side.owners
    assert (owner.member_id, owner.session_id) == (f"{group}_m1-1", session)
    assert owner.czxid == kazoo.exists(f"{root}/owners/orders/0").czxid
    assert side.zookeeper_offsets == (OffsetRow(group=group, topic="orders", partition=0, offset=17),)
    assert side.problems == ()


def test_a_group_without_members_exists(groups: ZookeeperGroups, kazoo: KazooClient, group: str) -> None:
    """What is left of it, its offsets, is read."""
    put(kazoo, f"/consumers/{group}/offsets/orders/0", b"3", ephemeral=False)
    side = groups.observe(group)
    assert (side.exists, side.members, len(side.zookeeper_offsets)) == (True, (), 1)


def test_every_malformed_node_is_named(groups: ZookeeperGroups, kazoo: KazooClient, group: str) -> None:
    """Registration, migration id, mode, owner and offset: one sentence each, with its path."""
    root = f"/consumers/{group}"
    bad = {
        f"{root}/ids/{group}_m1-1": b'{"version":1}',
        f"{root}/migration/ids/{group}_m1-1": b"nonsense",
        f"{root}/migration/mode": b"KAFKA",
        f"{root}/owners/orders/0": b"me",
        f"{root}/offsets/orders/0": b"many",
    }
    for path, data in bad.items():
        put(kazoo, path, data)
    view = groups.observe(group)
    problems = [*view.problems, *(each.problem for each in view.no_offsets)]
    assert len(problems) == len(bad)
    for path, data in bad.items():
        (said,) = [problem for problem in problems if f"{path} " in problem or f"{path}:" in problem]
        assert data.decode() in said


@pytest.mark.parametrize("comes", [True, False])
def test_a_view_never_shows_half_of_a_member(
    groups: ZookeeperGroups, kazoo: KazooClient, group: str, monkeypatch: pytest.MonkeyPatch, *, comes: bool
) -> None:
    """A member whose two nodes come or go in one transaction is aware in every view, or absent (D5).

    It does so between the two listings of the first attempt: only a second look tells."""
    root, name = f"/consumers/{group}", f"{group}_m1-1"
    both = {f"{root}/ids/{name}": OLD, f"{root}/migration/ids/{name}": AWARE}
    for path, data in both.items():
        put(kazoo, path, data)
        if comes:
            kazoo.delete(path)
    changed: list[str] = []
    original = ensemble.read_all

    def read_with_a_change_between(session: Session, asks, *, together: bool):
        listing = Children(f"{root}/migration/ids")
        if changed or listing not in asks:
            return original(session, asks, together=together)
        at = asks.index(listing)
        assert Children(f"{root}/ids") in asks[:at]
        first = original(session, asks[:at], together=together)
        changed.append(name)
        change = kazoo.transaction()
        for path, data in both.items():
            _ = change.create(path, data, ephemeral=True) if comes else change.delete(path)
        change.commit()
        return [*first, *original(session, asks[at:], together=together)]

    monkeypatch.setattr(ensemble, "read_all", read_with_a_change_between)
    side = groups.observe(group)
    here = (name,) if comes else ()
    assert changed == [name]
    assert (side.ids, side.migration_ids) == (here, here)
    assert [member.kind for member in side.members] == [MemberKind.AWARE for _ in here]


def test_a_group_that_is_never_at_rest_is_said_to_be_so(
    groups: ZookeeperGroups, kazoo: KazooClient, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a bound, with what to do."""
    put(kazoo, f"/consumers/{group}/ids/{group}_m0", OLD)
    original = ensemble.read_all

    def read_with_a_newcomer(session: Session, asks, *, together: bool):
        put(kazoo, f"/consumers/{group}/ids/{group}_{uuid.uuid4().hex}", OLD)
        return original(session, asks, together=together)

    monkeypatch.setattr(ensemble, "read_all", read_with_a_newcomer)
    with pytest.raises(Transient, match="came and went during each of 25 listings"):
        groups.observe(group)


def test_a_newcomer_after_the_second_look_does_not_keep_a_wide_group_from_being_read(
    groups: ZookeeperGroups, kazoo: KazooClient, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Owners and offsets of 3,000 partitions take long, and members may come every time they are read."""
    root, wide = f"/consumers/{group}", 3000
    put(kazoo, f"{root}/ids/{group}_m0", OLD)
    kazoo.ensure_path(f"{root}/owners/orders")
    kazoo.ensure_path(f"{root}/offsets/orders")
    made = [kazoo.create_async(f"{root}/offsets/orders/{n}", str(n).encode()) for n in range(wide)]
    made += [
        kazoo.create_async(f"{root}/owners/orders/{n}", f"{group}_m0-0".encode(), ephemeral=True)
        for n in range(wide)
    ]
    for each in made:
        each.get(timeout=60)
    newcomers: list[str] = []
    original = ensemble.read_all

    def read_with_a_newcomer(session: Session, asks, *, together: bool):
        if Data(f"{root}/offsets/orders/0") in asks:
            newcomers.append(f"{group}_{uuid.uuid4().hex}")
            put(kazoo, f"{root}/ids/{newcomers[-1]}", OLD)
            kazoo.delete(f"{root}/offsets/orders/1")
        return original(session, asks, together=together)

    monkeypatch.setattr(ensemble, "read_all", read_with_a_newcomer)
    side = groups.observe(group)
    assert len(newcomers) == 1
    assert side.ids == (f"{group}_m0",)
    assert {each.partition.partition for each in side.owners} == set(range(wide))
    assert {each.partition: each.offset for each in side.zookeeper_offsets} == {
        n: n for n in range(wide) if n != 1
    }


def test_one_node_that_may_not_be_read_is_refused_to_the_reader_of_one_group(
    groups: ZookeeperGroups, kazoo: KazooClient, group: str
) -> None:
    """An offset that may not be read is no offset that is not there."""
    acl = [make_digest_acl("alice", "wonder-land-1", all=True)]
    root = f"/consumers/{group}"
    put(kazoo, f"{root}/offsets/orders/0", b"1", ephemeral=False)
    assert [each.offset for each in groups.observe(group).zookeeper_offsets] == [1]
    kazoo.create(f"{root}/offsets/orders/1", b"2", acl=acl)
    with pytest.raises(Rejected, match=r"refuses .*NoAuthError.*ACL of the group"):
        groups.observe(group)


def test_a_group_that_is_only_its_root_exists(
    groups: ZookeeperGroups, kazoo: KazooClient, group: str
) -> None:
    """And holds nothing; below a chroot, too, where a group that is not there is proven absent."""
    kazoo.create(f"/consumers/{group}", b"")
    side = groups.observe(group)
    assert (side.exists, side.ids_pzxid, side.problems, side.no_offsets) == (True, -1, (), ())
    with pytest.raises(Rejected, match="cannot be a consumer group in ZooKeeper"):
        groups.observe("a/b")


def test_a_group_below_a_chroot_is_read(cluster, kazoo: KazooClient, group: str) -> None:
    """And one that is beside it in the ensemble is not there."""
    put(kazoo, f"/{group}/consumers/{group}/offsets/orders/0", b"5", ephemeral=False)
    below = ZookeeperGroups(ZookeeperConnection(cluster.zookeeper, chroot=f"/{group}", timeout_s=60))
    kazoo.ensure_path(f"/consumers/{group}-beside")
    try:
        assert [each.offset for each in below.observe(group).zookeeper_offsets] == [5]
        assert not below.observe(f"{group}-beside").exists
    finally:
        below.close()


@pytest.mark.parametrize("together", [True, False], ids=["multiread", "one-by-one"])
def test_a_window_takes_three_rounds_and_only_a_group_that_changed_is_read_again(
    cluster, kazoo: KazooClient, group: str, monkeypatch: pytest.MonkeyPatch, *, together: bool
) -> None:
    """However many groups there are; a member that comes while members are read is seen with its offsets."""
    groups = [f"{group}-{number}" for number in range(4)]
    for each in groups:
        put(kazoo, f"/consumers/{each}/ids/{each}_m0", OLD)
        put(kazoo, f"/consumers/{each}/offsets/orders/0", b"3", ephemeral=False)
    changed, late = f"/consumers/{groups[2]}", f"{groups[2]}_m1"
    original, rounds = ensemble.read_all, list[set[str]]()

    def read_with_a_newcomer(session: Session, asks, *, together: bool):
        rounds.append({ask.path.split("/")[2] for ask in asks})
        if len(rounds) == 2:  # the directories are read again in it
            put(kazoo, f"{changed}/ids/{late}", OLD)
            kazoo.set(f"{changed}/offsets/orders/0", b"4")
        return original(session, asks, together=together)

    monkeypatch.setattr(ensemble, "read_all", read_with_a_newcomer)
    reader = ZookeeperGroups(ZookeeperConnection(cluster.zookeeper, timeout_s=60), together=together)
    try:
        sides = [side for side, _ in reader.window([*groups, "a/b"])]
    finally:
        reader.close()
    assert rounds == [{*groups}] * 3 + [{groups[2]}] * 2
    assert [side.exists for side in sides] == [True] * 4 + [False]
    assert sides[2].ids == (f"{groups[2]}_m0", late)
    assert [offset.offset for side in sides for offset in side.zookeeper_offsets] == [3, 3, 4, 3]


def test_reading_goes_on_after_the_session_was_lost(cluster, group: str) -> None:
    """A sensor that looks again after an expiry gets an answer, on a new session."""
    connection = ZookeeperConnection(cluster.zookeeper, timeout_s=60)
    groups = ZookeeperGroups(connection)
    groups.observe(group)
    client = connection._client
    thief = KazooClient(hosts=cluster.zookeeper, client_id=client.client_id)
    thief.start(timeout=60)
    thief.stop()
    thief.close()
    assert not groups.observe(group).exists
    groups.close()


def test_calls_from_several_threads_do_not_disturb_each_other(
    groups: ZookeeperGroups, kazoo: KazooClient, group: str
) -> None:
    """One connection serves a web page and a command at once."""
    put(kazoo, f"/consumers/{group}/ids/{group}_m1-1", OLD)
    seen: list[tuple[str, ...]] = []
    threads = [threading.Thread(target=lambda: seen.append(groups.observe(group).ids)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert seen == [(f"{group}_m1-1",)] * 8


def test_a_server_that_is_not_there_is_transient_and_named() -> None:
    """Address, setting and remedy in one sentence, after a bounded time."""
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(Transient) as caught:
        ZookeeperGroups(ZookeeperConnection(address, timeout_s=1.0)).observe("g")
    assert address in str(caught.value)
    assert "[zookeeper] hosts" in str(caught.value)


def test_a_chroot_without_a_kafka_cluster_is_rejected(cluster) -> None:
    """Absence is believed only of a ZooKeeper that holds a cluster."""
    groups = ZookeeperGroups(ZookeeperConnection(cluster.zookeeper, chroot="/elsewhere"))
    with pytest.raises(Rejected, match=r"/elsewhere holds no Kafka cluster.*correct hosts and chroot"):
        groups.observe("g")
    groups.close()


def test_credentials_open_protected_nodes_and_wrong_ones_are_rejected(
    cluster, kazoo: KazooClient, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The sentence names the user; the password is in no sentence and in no log, even at DEBUG."""
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger="groupshift.zookeeper")
    acl = [make_digest_acl("alice", "wonder-land-1", all=True)]
    kazoo.create(f"/consumers/{group}", b"")
    kazoo.create(f"/consumers/{group}/ids", b"", acl=acl)

    def observe(password: str):
        groups = ZookeeperGroups(
            ZookeeperConnection(cluster.zookeeper, username="alice", password=password, timeout_s=60)
        )
        try:
            return groups.observe(group)
        finally:
            groups.close()

    assert observe("wonder-land-1").exists
    with pytest.raises(
        Rejected, match=r"refuses user 'alice'.*username and password of \[zookeeper\]"
    ) as caught:
        observe("looking-glass-2")
    assert "Connecting to" in caplog.text
    for secret in ("wonder-land-1", "looking-glass-2"):
        assert secret not in caplog.text
        assert secret not in str(caught.value)


def test_a_registration_written_by_an_old_reader_style_number_is_read(
    groups: ZookeeperGroups, kazoo: KazooClient, group: str
) -> None:
    """Timestamps as string, number or not at all are the same member to us (scenario 6)."""
    for number, stamp in enumerate(("1486000000000", 1486000000000, None)):
        fields = {"version": 1, "subscription": {"orders": 1}, "pattern": "static", "timestamp": stamp}
        put(kazoo, f"/consumers/{group}/ids/{group}_m{number}", json.dumps(fields).encode())
    side = groups.observe(group)
    assert (len(side.members), side.problems) == (3, ())
