"""What is read of a window of groups: both nodes of a migration-aware member, and each speaks for itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from groupshift.adapters.zookeeper import ensemble
from groupshift.adapters.zookeeper.ensemble import ZookeeperGroups
from groupshift.adapters.zookeeper.session import Answer, Ask, Data, Node, Refused, ZookeeperConnection
from groupshift.domain.modes import MemberKind
from support.znodes import znode

REGISTRATION = {"version": 1, "subscription": {"t": 1}, "pattern": "static", "timestamp": "1"}
AWARE = {**REGISTRATION, "fence": 1}
IDS, MIGRATION = "/consumers/g/ids", "/consumers/g/migration/ids"


class Tree:
    """Nodes by path, instead of a server; what is at or below ``closed`` may not be read."""

    def __init__(self, nodes: dict[str, bytes], persistent: str = "", closed: str = "-") -> None:
        self.nodes, self.persistent, self.closed = nodes, persistent, closed

    def call(self, work: Any) -> Any:
        """As `ZookeeperGroups` asks its servers."""
        return work(self.read)

    def read(self, asks: Sequence[Ask]) -> list[Answer]:
        """As `Read`."""
        return [self._answer(each) for each in asks]

    def _answer(self, ask: Ask) -> Answer:
        if ask.path.startswith(self.closed):
            return Refused(ask.path)
        return self._data(ask.path) if isinstance(ask, Data) else self._names(ask.path)

    def _data(self, path: str) -> Node | None:
        inner = any(each.startswith(f"{path}/") for each in self.nodes)
        if path not in self.nodes and not inner:
            return None
        owner = 0 if inner or path == self.persistent else 7
        return znode(path, self.nodes.get(path, b""), owner, czxid=1)

    def _names(self, path: str) -> tuple[str, ...] | None:
        below = {each.removeprefix(f"{path}/").split("/")[0] for each in self.nodes if f"{path}/" in each}
        return tuple(sorted(below)) or None


def observed(tree: Tree) -> Any:
    """The group of a window."""
    reader = ZookeeperGroups(ZookeeperConnection("127.0.0.1:1"))
    reader._call = tree.call
    ((side, _),) = reader.window(("g",))
    return side


def audited(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The group as an audit reads it."""
    reader = ZookeeperGroups(ZookeeperConnection("127.0.0.1:1"))
    monkeypatch.setattr(reader, "groups", lambda: ("g",))
    reader._call = tree.call
    return reader.read()["g"]


def member(migration: bytes) -> dict[str, bytes]:
    """One migration-aware member, whose registration is whole."""
    return {f"{IDS}/g_a": json.dumps(REGISTRATION).encode(), f"{MIGRATION}/g_a": migration}


@pytest.mark.parametrize("held", [b"", b"{", b'{"fence": 1}', b'{"pattern": "static"}'])
def test_a_malformed_migration_id_is_no_malformed_registration(held: bytes) -> None:
    """The registration is read, and it is whole: no old member stumbles over it, and what is wrong is said of
    the node that is wrong."""
    side = observed(Tree(member(held)))
    (found,) = side.members
    assert (found.kind, found.subscription) == (MemberKind.AWARE, (("t", 1),))
    assert not [each for each in side.problems if "registration" in each or "no old member" in each]
    assert all(each.startswith(f"migration id {MIGRATION}/g_a holds") for each in side.problems)


def test_both_nodes_are_said_where_both_are_malformed() -> None:
    """Each by its own path."""
    side = observed(Tree({f"{IDS}/g_a": b"[", f"{MIGRATION}/g_a": b"{"}))
    first, second = side.problems
    assert first.startswith(f"registration {IDS}/g_a holds '['")
    assert second.startswith(f"migration id {MIGRATION}/g_a holds '{{'")


def test_a_migration_id_that_no_living_member_made_does_not_hide_the_member() -> None:
    """Its session is that of the registration."""
    nodes = member(json.dumps(AWARE).encode())
    (found,) = observed(Tree(nodes, persistent=f"{MIGRATION}/g_a")).members
    assert found.session_id == 7


def test_a_group_that_breaks_its_reader_still_has_its_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody takes it for empty."""

    def breaking(_reading: object) -> None:
        raise ZeroDivisionError("not foreseen")

    monkeypatch.setattr(ensemble, "_view", breaking)
    side = observed(Tree({**member(json.dumps(AWARE).encode()), f"{IDS}/g_b": b"{}"}))
    kinds = {each.member_id: each.kind for each in side.members}
    assert kinds == {"g_a": MemberKind.AWARE, "g_b": MemberKind.ZOOKEEPER}
    assert "ZeroDivisionError" in side.problems[0]


@pytest.mark.parametrize("closed", ["/consumers/g/owners", f"{IDS}/g_a", f"{MIGRATION}/g_a"])
def test_what_no_offset_depends_on_keeps_no_audit_from_being_clean(closed: str, monkeypatch) -> None:
    """Owners, and what members say of themselves: an audit compares offsets, and counts members."""
    nodes = {"/consumers/g/owners/t/0": b"g_a-0", "/consumers/g/offsets/t/0": b"5"}
    tree = Tree({**member(json.dumps(AWARE).encode()), **nodes}, closed=closed)
    side = audited(tree, monkeypatch)
    assert (side.problems, side.members, side.aware, side.offsets) == ((), 1, 1, {("t", 0): 5})


@pytest.mark.parametrize("closed", [IDS, "/consumers/g/offsets/t/0"])
def test_what_an_audit_cannot_read_is_said_once(closed: str, monkeypatch) -> None:
    """However often it was asked for."""
    nodes = {"/consumers/g/offsets/t/0": b"5"}
    side = audited(Tree({**member(json.dumps(AWARE).encode()), **nodes}, closed=closed), monkeypatch)
    (problem,) = side.problems
    assert problem.startswith(f"{closed} may not be read")
