"""The mode port: compare-and-set of the mode node, on a real ZooKeeper and in memory (scenario 32)."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss

from groupshift.adapters.clock import SystemClock
from groupshift.adapters.memory.ports import MemoryModeSwitch
from groupshift.adapters.memory.world import World
from groupshift.adapters.zookeeper.connection import Session, ZookeeperConnection
from groupshift.adapters.zookeeper.mode import ZookeeperModeSwitch
from groupshift.domain.coordination import ABSENT_MODE, Mode, ModeNode
from groupshift.errors import Conflict, Rejected
from groupshift.ports.mode import ModeSwitch


@pytest.fixture
def connection(zookeeper: str) -> Iterator[ZookeeperConnection]:
    """A connection of this test's own."""
    made = ZookeeperConnection(zookeeper)
    yield made
    made.close()


@pytest.fixture
def real(connection: ZookeeperConnection) -> ModeSwitch:
    """The adapter on a real server."""
    return ZookeeperModeSwitch(connection)


@pytest.fixture(params=["zookeeper", "memory"])
def switch(request: pytest.FixtureRequest, group: str) -> ModeSwitch:
    """The adapter under test: every one that the port has."""
    if request.param == "zookeeper":
        return request.getfixturevalue("real")
    return MemoryModeSwitch(World(clock=SystemClock(), group=group))


@pytest.fixture
def group() -> str:
    """A group of this test's own."""
    return f"g{uuid.uuid4().hex[:8]}"


def test_an_absent_node_is_read_as_absent(switch: ModeSwitch, group: str) -> None:
    """No data, version and zxids -1, and the mode it means is ZooKeeper."""
    node = switch.read(group)
    assert node == ABSENT_MODE
    assert node.requested is Mode.ZOOKEEPER


def test_the_first_write_creates_the_node(switch: ModeSwitch, group: str) -> None:
    """With its parents; what is returned is what is read."""
    node = switch.compare_and_set(group, ABSENT_MODE, Mode.KAFKA)
    assert (node.data, node.version) == (b"kafka", 0)
    assert node.czxid == node.mzxid > 0
    assert switch.read(group) == node


def test_a_write_raises_the_version_and_changes_the_identity(switch: ModeSwitch, group: str) -> None:
    """Members publish the identity they act on, so every write must have another one."""
    first = switch.compare_and_set(group, ABSENT_MODE, Mode.KAFKA)
    second = switch.compare_and_set(group, first, Mode.ZOOKEEPER)
    assert (second.data, second.version, second.czxid) == (b"zookeeper", 1, first.czxid)
    assert second.identity != first.identity


def test_an_unchanged_value_is_never_written(switch: ModeSwitch, group: str) -> None:
    """Rewriting it would make every member rebalance (N7)."""
    node = switch.compare_and_set(group, ABSENT_MODE, Mode.KAFKA)
    assert switch.compare_and_set(group, node, Mode.KAFKA) == node
    assert switch.read(group) == node


def test_a_write_on_an_older_read_is_a_conflict(switch: ModeSwitch, group: str) -> None:
    """Whoever read before another's write looks again; the node stays as the other wrote it."""
    first = switch.compare_and_set(group, ABSENT_MODE, Mode.KAFKA)
    second = switch.compare_and_set(group, first, Mode.ZOOKEEPER)
    for stale in (ABSENT_MODE, first):
        with pytest.raises(Conflict, match=group):
            switch.compare_and_set(group, stale, Mode.KAFKA)
        with pytest.raises(Conflict):
            switch.delete(group, stale)
    assert switch.read(group) == second


def test_the_same_value_by_another_write_is_a_conflict(switch: ModeSwitch, group: str) -> None:
    """There and back again by someone else: the text is the same, the write is not."""
    first = switch.compare_and_set(group, ABSENT_MODE, Mode.KAFKA)
    switch.compare_and_set(group, switch.compare_and_set(group, first, Mode.ZOOKEEPER), Mode.KAFKA)
    with pytest.raises(Conflict):
        switch.compare_and_set(group, first, Mode.KAFKA)


def test_a_deleted_node_is_not_what_was_expected(switch: ModeSwitch, group: str) -> None:
    """Neither is one that was deleted and created again with the same version."""
    first = switch.compare_and_set(group, ABSENT_MODE, Mode.KAFKA)
    switch.delete(group, first)
    with pytest.raises(Conflict):
        switch.compare_and_set(group, first, Mode.ZOOKEEPER)
    switch.compare_and_set(group, ABSENT_MODE, Mode.KAFKA)
    with pytest.raises(Conflict):
        switch.compare_and_set(group, first, Mode.ZOOKEEPER)
    with pytest.raises(Conflict):
        switch.delete(group, first)


def test_deleting_what_is_absent_is_fine(switch: ModeSwitch, group: str) -> None:
    """A finalise repeated after a crash finds its work done, whatever it had expected."""
    switch.delete(group, ABSENT_MODE)
    node = switch.compare_and_set(group, ABSENT_MODE, Mode.ZOOKEEPER)
    switch.delete(group, node)
    assert switch.read(group) == ABSENT_MODE
    switch.delete(group, ABSENT_MODE)
    switch.delete(group, node)
    assert switch.read(group) == ABSENT_MODE


def test_of_two_tools_at_once_exactly_one_writes(zookeeper: str, group: str) -> None:
    """One value is in the node, and the other tool was told of the conflict (scenario 32)."""
    tools = [ZookeeperConnection(zookeeper) for _ in range(2)]
    switches = [ZookeeperModeSwitch(tool) for tool in tools]
    expected = switches[0].compare_and_set(group, ABSENT_MODE, Mode.KAFKA)
    for number in range(20):
        barrier, outcomes = threading.Barrier(2), [None, None]
        to = Mode.ZOOKEEPER if number % 2 == 0 else Mode.KAFKA

        def write(tool: int, *, to=to, barrier=barrier, outcomes=outcomes, expected=expected) -> None:
            barrier.wait()
            try:
                outcomes[tool] = switches[tool].compare_and_set(group, expected, to)
            except Conflict as conflict:
                outcomes[tool] = conflict

        threads = [threading.Thread(target=write, args=(tool,)) for tool in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=30)
        written = [outcome for outcome in outcomes if isinstance(outcome, ModeNode)]
        assert len(written) == 1, outcomes
        assert switches[1].read(group) == written[0]
        expected = written[0]
    for tool in tools:
        tool.close()


def test_a_node_that_someone_else_made_is_seen(real: ModeSwitch, zookeeper: str, group: str) -> None:
    """The bytes as they are, also malformed ones; a write repairs them."""
    operator = KazooClient(hosts=zookeeper)
    operator.start(timeout=15)
    operator.create(f"/consumers/{group}/migration/mode", b"kafka\n", makepath=True)
    operator.stop()
    operator.close()
    node = real.read(group)
    assert (node.data, node.malformed, node.requested) == (b"kafka\n", True, Mode.ZOOKEEPER)
    assert real.compare_and_set(group, node, Mode.ZOOKEEPER).data == b"zookeeper"


@pytest.mark.parametrize("name", ["", "a/b", ".."])
def test_a_name_that_is_no_path_element_is_refused(real: ModeSwitch, name: str) -> None:
    """Before anything is asked of ZooKeeper."""
    with pytest.raises(Rejected, match="cannot be a consumer group"):
        real.read(name)


def lose_the_answer(monkeypatch: pytest.MonkeyPatch, method: str) -> list[str]:
    """The next request of this kind reaches the server, but its answer is lost with the connection."""
    done: list[str] = []
    original = getattr(Session, method)

    def losing(self: Session, *arguments: object) -> None:
        original(self, *arguments)
        done.append(method)
        if len(done) == 1:
            raise ConnectionLoss

    monkeypatch.setattr(Session, method, losing)
    return done


@pytest.mark.parametrize("method", ["create", "set"])
def test_a_write_whose_answer_was_lost_is_found_and_not_repeated(
    real: ModeSwitch, group: str, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """The tool looks before it writes again: one write, no conflict with itself."""
    before = ABSENT_MODE
    if method == "set":
        before = real.compare_and_set(group, ABSENT_MODE, Mode.ZOOKEEPER)
    done = lose_the_answer(monkeypatch, method)
    node = real.compare_and_set(group, before, Mode.KAFKA)
    assert (node.data, node.version, done) == (b"kafka", before.version + 1, [method])


def test_a_deletion_whose_answer_was_lost_is_found(
    real: ModeSwitch, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node is gone, which is what was asked for."""
    node = real.compare_and_set(group, ABSENT_MODE, Mode.ZOOKEEPER)
    done = lose_the_answer(monkeypatch, "delete")
    real.delete(group, node)
    assert (real.read(group), done) == (ABSENT_MODE, ["delete"])
