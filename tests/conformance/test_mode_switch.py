"""The mode port: compare-and-set of the mode node, on a real ZooKeeper and in memory (scenario 32)."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from kazoo.client import KazooClient

from groupshift.adapters.system import SystemClock
from groupshift.adapters.zookeeper.mode_brake_and_rights import ZookeeperModeSwitch
from groupshift.adapters.zookeeper.session import Guard, Session, ZookeeperConnection
from groupshift.domain.group import GroupView
from groupshift.domain.modes import ABSENT_MODE, Holder, MemberKind, Mode, ModeNode
from groupshift.domain.plan import WayBack
from groupshift.domain.run import SparkJob, StepState
from groupshift.engine.gates import answer
from groupshift.engine.progress import Asks, Moved, Waits
from groupshift.engine.questions_and_approvers import Answer, Question
from groupshift.engine.roll_back import begin_roll_back
from groupshift.engine.run import advance
from groupshift.errors import Conflict, Rejected
from groupshift.moves.coordination.facts import CoordinationPorts
from groupshift.ports.changes import ModeSwitch
from groupshift.ports.clock import CrashPoint
from groupshift.ports.group import GroupTerms
from groupshift_testing.world import MemoryModeSwitch, World
from support.coordination_runs import SHARED, CoordinationProcesses, make_coordination
from support.simulated_runs import At

TOGGLE = "toggle/set_mode"
"""The step that writes the mode, and, behind ``back``, the one that takes it back."""


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


def holder(token: int, run: str = "m") -> Holder:
    """A claim."""
    return Holder(run=run, token=token)


def test_only_the_last_holder_writes(switch: ModeSwitch, group: str) -> None:
    """A later claim fences the earlier one for good; the mode node stays as it was."""
    switch.take(group, holder(1))
    node = switch.compare_and_set(group, ABSENT_MODE, Mode.KAFKA, holder=holder(1))
    switch.take(group, holder(2))
    switch.take(group, holder(2))
    with pytest.raises(Conflict, match="claim 1 of run m"):
        switch.compare_and_set(group, node, Mode.ZOOKEEPER, holder=holder(1))
    with pytest.raises(Conflict, match="claim 1 of run m"):
        switch.delete(group, node, holder=holder(1))
    with pytest.raises(Conflict, match="claim 1 of run m"):
        switch.take(group, holder(1))
    assert switch.read(group) == node
    after = switch.compare_and_set(group, node, Mode.ZOOKEEPER, holder=holder(2))
    assert (after.data, after.version, after.czxid) == (b"zookeeper", 1, node.czxid)
    switch.delete(group, after, holder=holder(2))
    assert switch.read(group) == ABSENT_MODE


def test_the_next_run_takes_over(switch: ModeSwitch, group: str) -> None:
    """Tokens rise within one run; another one's first claim ends the former's."""
    switch.take(group, holder(7, "first"))
    switch.take(group, holder(1, "second"))
    with pytest.raises(Conflict, match=r"names claim 1 of run second|claim 1 of run second does"):
        switch.compare_and_set(group, ABSENT_MODE, Mode.KAFKA, holder=holder(7, "first"))
    assert switch.compare_and_set(group, ABSENT_MODE, Mode.KAFKA, holder=holder(1, "second")).version == 0


def test_whoever_never_took_the_fence_writes_nothing(switch: ModeSwitch, group: str) -> None:
    """An absent fence node is no permission."""
    with pytest.raises(Conflict, match=r"nobody|None"):
        switch.compare_and_set(group, ABSENT_MODE, Mode.KAFKA, holder=holder(1))
    assert switch.read(group) == ABSENT_MODE


@pytest.mark.parametrize("present", [False, True])
def test_a_claim_in_the_very_moment_of_the_write_wins(
    real: ModeSwitch, zookeeper: str, group: str, monkeypatch: pytest.MonkeyPatch, *, present: bool
) -> None:
    """Between the look at the fence and the write: one transaction holds both, so nothing is written."""
    real.take(group, holder(1))
    before = real.compare_and_set(group, ABSENT_MODE, Mode.ZOOKEEPER) if present else ABSENT_MODE
    other = ZookeeperConnection(zookeeper)
    original = Session.change

    def late(self: Session, *change: Any, guard: Guard | None = None, **options: Any) -> None:
        if guard is not None:
            ZookeeperModeSwitch(other).take(group, holder(2))
        original(self, *change, guard=guard, **options)

    monkeypatch.setattr(Session, "change", late)
    with pytest.raises(Conflict, match="changed in the same moment"):
        real.compare_and_set(group, before, Mode.KAFKA, holder=holder(1))
    assert real.read(group) == before
    other.close()


def test_a_foreign_fence_node_is_taken_over(real: ModeSwitch, zookeeper: str, group: str) -> None:
    """Whatever somebody wrote there, a claim replaces it; what no claim wrote permits nothing."""
    operator = KazooClient(hosts=zookeeper)
    operator.start(timeout=60)
    operator.create(f"/consumers/{group}/migration/fence", b"mine!", makepath=True)
    with pytest.raises(Conflict, match="names nobody"):
        real.compare_and_set(group, ABSENT_MODE, Mode.KAFKA, holder=holder(1))
    real.take(group, holder(1))
    data, stat = operator.get(f"/consumers/{group}/migration/fence")
    assert (data, stat.ephemeralOwner) == (b'{"run":"m","token":1}', 0)
    operator.stop()
    operator.close()


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


@dataclass
class Tool(CoordinationProcesses):
    """One installation of groupshift: its own journal, the same group in the same ZooKeeper.

    Its group reader shows the simulated members with the mode node of the real server."""

    switch: ZookeeperModeSwitch | None = None
    name: str = ""
    voids: int = 0
    asked_changes: list[str] = field(default_factory=list)

    def read(self, group: str) -> GroupView:
        """`groupshift.ports.cluster.GroupReader`."""
        assert self.switch is not None
        return replace(self.world.read(group), mode=self.switch.read(group))

    def ports(self) -> CoordinationPorts:
        """See `Processes`."""
        found = CoordinationProcesses.ports(self)
        return replace(found, side=replace(found.side, groups=self, mode=self.switch))

    def act(self, meanwhile: Callable[[], object] | None = None) -> bool:
        """A new process drives the run until it wrote the mode; ``meanwhile`` happens between its intent and
        its act. False: somebody would have to approve anew what changed."""
        at = At({f"{TOGGLE} {CrashPoint.AFTER_JOURNAL.value}": meanwhile} if meanwhile else {})
        run = self.claim(self.name, at, take_over=True)
        while not any(
            each.state is StepState.ACTED and each.token == run.token
            for key, each in run.records.items()
            if key.endswith(f" {TOGGLE}") and key.startswith("back ") is run.going_back
        ):
            match advance(run):
                case Moved(work=SparkJob() as job):
                    self.submit(job)
                case Waits():
                    self.clock.sleep(1)
                case Asks(question=question):
                    given = self.decide(question)
                    if given is None:
                        return False
                    answer(run, question.gate, given)
                case Moved():
                    pass
                case other:
                    raise AssertionError(other)
        return True

    def decide(self, question: Question) -> Answer | None:
        """Approve what was not approved before; not what became void, until somebody counts it."""
        self.asked_changes += question.changes
        if question.changes and self.voids == 0:
            return None
        return CoordinationProcesses.decide(self, question)


@pytest.fixture
def tools(zookeeper: str, group: str) -> Iterator[tuple[Tool, Tool]]:
    """Two installations: the first is about to toggle to kafka, the second about to take back to zookeeper a
    toggle of its own; an operator has emptied the mode node."""
    connections = [ZookeeperConnection(zookeeper) for _ in range(2)]
    made = []
    for connection in connections:
        found = make_coordination(MemberKind.AWARE)
        shared = {name: getattr(found, name) for name in SHARED}
        tool = Tool(**shared, switch=ZookeeperModeSwitch(connection), terms=GroupTerms(patience_s=1))
        tool.world.group = group
        tool.clock.sleep(len(made))  # else both would give their runs one name
        tool.name = tool.begin()
        made.append(tool)
    there, back = made
    assert back.act()
    begin_roll_back(back.claim(back.name, take_over=True), WayBack.ZOOKEEPER_MODE)
    operator = KazooClient(hosts=zookeeper)
    operator.start(timeout=60)
    operator.set(f"/consumers/{group}/migration/mode", b"")
    operator.stop()
    operator.close()
    yield there, back
    for connection in connections:
        connection.close()


@pytest.mark.parametrize("loser", ["kafka", "zookeeper"])
def test_scenario_32_mode_cas(tools: tuple[Tool, Tool], group: str, loser: str) -> None:
    """Two tools set kafka and zookeeper at once: the one that comes second fails with a version
    conflict, and asks its preconditions again before it writes; a toggle needs a new approval too."""
    there, back = tools
    assert there.switch is not None
    if loser == "kafka":
        with pytest.raises(Conflict, match="changed by someone else"):
            there.act(back.act)
        assert there.switch.read(group).data == b"zookeeper"
        assert not there.act(), "the mode node is another one than was approved"
        assert any("mode node" in each for each in there.asked_changes), there.asked_changes
        there.voids = 1
        there.clock.on_sleep.clear()
        kafka, there.world.kafka = there.world.kafka, {}
        with pytest.raises(Rejected, match="C12: no offset in Kafka"):
            there.act()
        there.world.kafka = kafka
        assert there.act()
    else:
        with pytest.raises(Conflict, match="changed by someone else"):
            back.act(there.act)
        assert there.switch.read(group).data == b"kafka"
        back.world.strangers = ("kc-1",)
        with pytest.raises(Rejected, match="C16: plain Kafka members kc-1"):
            back.act()
        back.world.strangers = ()
        assert back.act()
    node = there.switch.read(group)
    assert (node.data, node.version) == (loser.encode(), 3), "written once by each, after the operator"
