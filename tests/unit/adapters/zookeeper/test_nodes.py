"""Znodes become members, owners and offsets, or sentences."""

from __future__ import annotations

import pytest

from groupshift.adapters.zookeeper.nodes import member_of, mode_problems, offset_of, owner_of
from groupshift.adapters.zookeeper.session import Node
from groupshift.domain.group import Owner
from groupshift.domain.modes import MemberKind, Mode, ModeNode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import OffsetRow
from support.znodes import znode

STATIC = (
    b'{"version":1,"subscription":{"orders":2,"clicks":1},"pattern":"static","timestamp":"1486000000000"}'
)
AWARE = STATIC[:-1] + b',"fence":1,"software":"0.1.0","mode":"kafka","mode_czxid":"10","mode_mzxid":"12"}'


def node(path: str, data: bytes, owner: int = 7) -> Node:
    """A znode of group g."""
    return znode(f"/consumers/g/{path}", data, owner)


def test_a_registration_without_a_migration_id_is_an_old_member() -> None:
    """Its host is read from a generated id, its session from the node."""
    member, problems = member_of(node("ids/g_box.a-1486000000000-ab12cd34", STATIC), None)
    assert problems == ()
    assert (member.kind, member.host, member.session_id) == (MemberKind.ZOOKEEPER, "box.a", 7)
    assert member.subscription == (("clicks", 1), ("orders", 2))
    assert (member.fence, member.mode, member.acting_on) == (None, None, None)


def test_a_migration_id_tells_what_the_member_acts_on() -> None:
    """Fence, mode, the very write of the mode node and the software version (F6)."""
    member, problems = member_of(node("ids/g_m1-1", STATIC), node("migration/ids/g_m1-1", AWARE))
    assert problems == ()
    assert (member.kind, member.fence, member.mode, member.acting_on, member.version) == (
        MemberKind.AWARE,
        1,
        Mode.KAFKA,
        "10:12",
        "0.1.0",
    )


def test_only_the_first_entry_of_a_wildcard_counts() -> None:
    """As every Scala reader does (§1.2)."""
    data = b'{"version":1,"subscription":{"z.*":2,"a.*":1},"pattern":"white_list","timestamp":"1"}'
    member, _ = member_of(node("ids/g_m1-1", data), None)
    assert (member.pattern, member.subscription) == ("white_list", (("z.*", 2),))


@pytest.mark.parametrize(
    "data", [b"", b"not json", b"[]", b'{"pattern":"static"}', b'{"subscription":{"t":0},"pattern":"static"}']
)
def test_a_malformed_registration_is_a_member_and_a_sentence(data: bytes) -> None:
    """The member counts (its peers stumble over it); the sentence names path, content and remedy."""
    member, (problem,) = member_of(node("ids/g_m1-1", data), None)
    assert (member.member_id, member.subscription) == ("g_m1-1", ())
    assert "/consumers/g/ids/g_m1-1" in problem
    assert repr(data.decode()) in problem
    assert "restart that member" in problem


def test_a_malformed_migration_id_is_a_sentence() -> None:
    """The member stays aware without a fence, which every precondition then refuses."""
    member, (problem,) = member_of(node("ids/g_m1-1", STATIC), node("migration/ids/g_m1-1", b"{"))
    assert (member.kind, member.fence) == (MemberKind.AWARE, None)
    assert "/consumers/g/migration/ids/g_m1-1" in problem
    assert "'{'" in problem


def test_a_persistent_registration_is_a_sentence() -> None:
    """Nobody's session holds it, so it would never go away."""
    _, (problem,) = member_of(node("ids/g_m1-1", STATIC, owner=0), None)
    assert "is persistent" in problem


def test_an_owner_node_names_thread_and_session() -> None:
    """The member id is what precedes the last dash."""
    owner = owner_of(node("owners/orders/3", b"g_m1-1-0"))
    assert owner == Owner(partition=TopicPartition("orders", 3), thread_id="g_m1-1-0", czxid=5, session_id=7)
    assert owner.member_id == "g_m1-1"


@pytest.mark.parametrize(
    ("path", "data", "owner", "said"),
    [
        ("owners/orders/3", b"nobody", 7, "'nobody', which is no thread id"),
        ("owners/orders/3", b"", 7, "which is no thread id"),
        ("owners/orders/three", b"g_m1-1-0", 7, "no partition number"),
        ("owners/orders/3", b"g_m1-1-0", 0, "is persistent"),
    ],
)
def test_a_malformed_owner_node_is_a_sentence(path: str, data: bytes, owner: int, said: str) -> None:
    """It names the path and the remedy."""
    problem = owner_of(node(path, data, owner))
    assert isinstance(problem, str)
    assert f"/consumers/g/{path}" in problem
    assert said in problem


def test_an_offset_node_is_decimal() -> None:
    """The next offset to read."""
    assert offset_of(node("offsets/orders/3", b"120", 0)) == OffsetRow(
        group="g", topic="orders", partition=3, offset=120
    )


@pytest.mark.parametrize("data", [b"", b"-1", b"1_000", b" 12", b"12\n", b"twelve", b"\xff"])
def test_an_offset_that_is_not_decimal_is_a_sentence(data: bytes) -> None:
    """What Python's int() would take and Java's parser would not, too."""
    from groupshift.domain.group import NoOffset

    found = offset_of(node("offsets/orders/3", data, 0))
    assert isinstance(found, NoOffset)
    assert found.partition == TopicPartition("orders", 3)
    assert "/consumers/g/offsets/orders/3" in found.problem
    assert "set it to the next offset" in found.problem


@pytest.mark.parametrize("data", [b"KAFKA", b"kafka\n", b"zookeper"])
def test_a_malformed_mode_node_is_a_sentence(data: bytes) -> None:
    """Members take it for zookeeper; the sentence says what it must hold."""
    (problem,) = mode_problems("/consumers/g/migration/mode", ModeNode(data=data, version=0))
    assert "/consumers/g/migration/mode" in problem
    assert "exactly kafka or zookeeper" in problem


@pytest.mark.parametrize("data", [None, b"", b"kafka", b"zookeeper"])
def test_a_proper_or_absent_mode_node_is_none(data: bytes | None) -> None:
    """Nothing to say."""
    assert mode_problems("/consumers/g/migration/mode", ModeNode(data=data)) == ()
