"""Members that a fatal -150 leaves silent: the tool's own member ends, and the watch names them.

The seconds until each was noticed are printed (pytest -s, or the report of a failure)."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Thread

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.requests import FeatureChange, update_features
from groupshift.bootstrap.connect import broker_side
from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.group_protocol import Kind
from groupshift.domain.verdict import Finding, Verdict
from groupshift.errors import Broken, Transient
from groupshift.moves.protocol.liveness import MemberWatch, look_at
from groupshift.settings import parse
from groupshift_sandbox.client_members.commands import CLIENTS, ClientMember, Commit, GroupProtocol
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.kraft import KraftOptions, start_kraft
from groupshift_sandbox.layout import Cluster, unchanged
from groupshift_sandbox.processes import is_running, marked, stop, wait_until
from groupshift_sandbox.rolling import replace_node
from support.client_processes import ClientProcess, client_processes, produce
from support.downgrade_story import Assessed
from support.protocol_story import PARTITIONS, story

pytestmark = pytest.mark.timeout(900)  # the fixtures count too
DEADLINE_S = 90.0
FATAL = -150


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A 4.3.1 of this file's own: one test takes its feature back."""
    home = Home(tmp_path_factory.mktemp("silent")).create()
    try:
        yield start_kraft(home, KraftOptions(heap="320m"))
    finally:
        for process in reversed(marked(home)):
            stop(process, 10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A command of the tool: what it prints on either stream goes to files."""

    process: subprocess.Popen[bytes]
    output: Path
    errors: Path

    def lines(self) -> list[dict]:
        """The JSON objects that it printed so far, one a line."""
        return [
            json.loads(line)
            for line in self.output.read_text().splitlines(keepends=True)
            if line[-1:] == "\n"
        ]


@contextmanager
def children(folder: Path) -> Iterator[Callable[[str, Sequence[str]], Child]]:
    """A function that starts a module with arguments; whatever still runs is killed afterwards."""
    begun: list[Child] = []

    def run(module: str, arguments: Sequence[str]) -> Child:
        output, errors = (folder / f"{len(begun)}.{name}" for name in ("out", "err"))
        with output.open("wb") as out, errors.open("wb") as err:
            process = subprocess.Popen([sys.executable, "-m", module, *arguments], stdout=out, stderr=err)
        begun.append(Child(process=process, output=output, errors=errors))
        return begun[-1]

    try:
        yield run
    finally:
        for each in begun:
            each.process.kill()
            each.process.wait(DEADLINE_S)


class Scene:
    """One stock native member, whose program only reads records, and one of the tool's, in one group."""

    def __init__(self, own: Cluster, folder: Path, run: Callable[[str, Sequence[str]], Child]) -> None:
        self._own, self._run, self._folder = own, run, folder

    def join(self, start: Callable[[ClientMember], ClientProcess], group: str, topic: str) -> None:
        """Start both."""
        self.names = (f"{group}-stock", f"{group}_tool")
        self.stock = start(
            ClientMember(
                client=CLIENTS[0],
                group=group,
                name=self.names[0],
                topic=topic,
                bootstrap=self._own.bootstrap,
                protocol=GroupProtocol.CONSUMER,
            )
        )
        self._state = self._folder / "tool.json"
        usual = ["--kind", "native", "--group", group, "--topic", topic, "--bootstrap", self._own.bootstrap]
        files = ["--ledger", str(self._folder / "ledger"), "--state", str(self._state)]
        self.tool = self._run("groupshift.cli.consume", [*usual, "--consumer-id", "tool", *files])

    def watch(self, group: str, names: Sequence[str]) -> Watching:
        """Watch until something is noticed; returns after the first look."""
        watch = Watching(self._own.bootstrap, group, names)
        wait_until(lambda: watch.looks > 0, DEADLINE_S, f"a first look at {group}", every_s=0.1)
        return watch

    def await_owners(self) -> None:
        """Wait until each has a partition."""
        self.stock.await_told("assigned", when=lambda told: told.fields["partitions"])
        wait_until(
            lambda: self._state.exists() and bool(self._told()["owned"]),
            DEADLINE_S,
            "the tool's member owns a partition",
            every_s=0.1,
        )

    def check_stock_is_silent(self) -> int:
        """It got one error, which claims not to be fatal, and its process lives; when, in epoch ms."""
        error = self.stock.await_told("error", when=lambda told: told.fields["code"] == FATAL)
        assert error.fields["fatal"] is False
        assert is_running(self.stock.process)
        return error.at_ms

    def check_tool_ended(self) -> int:
        """The tool's own member says why, in its state file and on standard error; when, in epoch ms."""
        assert self.tool.process.wait(DEADLINE_S) == Broken.exit_code
        told = self._told()
        assert (told["state"], told["owned"]) == ("failed", {})
        assert "was put out for good: Fatal error" in told["reason"]
        assert f"groupshift consume: {told['reason']}\n" in self.tool.errors.read_text()
        return int(told["at_ms"])

    def _told(self) -> dict:
        return json.loads(self._state.read_text())


class Watching:
    """Looks at the members of a group each second, as ``groupshift watch`` does of a run that is over, until
    a rule speaks or four minutes are over."""

    def __init__(self, bootstrap: str, group: str, names: Sequence[str]) -> None:
        self.looks, self.at_ms = 0, 0
        self.found: tuple[Finding, ...] = ()
        settings = parse(
            {
                "kafka": {"bootstrap_servers": bootstrap},
                "fleet": {"driver": "manual"},
                "journal": {"url": "sqlite://"},
                "evidence": {"root": "unused"},
            }
        )
        self._open = ExitStack()
        self._side = self._open.enter_context(broker_side(settings))
        self._group, self._members = group, MemberWatch(expected=Counter(names))
        self.thread = Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self) -> None:
        end = time.monotonic() + 240
        try:
            while not self.found and time.monotonic() < end:
                self._look()
                time.sleep(1.0)
        finally:
            self._open.close()

    def _look(self) -> None:
        try:
            seen = look_at(self._side.groups.read(self._group))
        except Transient:
            return
        assert seen is not None
        self._members = self._members.after(seen)
        self.at_ms, self.looks = seen.at_ms, self.looks + 1
        self.found = tuple(each for each in self._members.findings() if each.verdict is not Verdict.PASS)


def noticed(watch: Watching, rule: str) -> tuple[int, str]:
    """When the rule spoke, in epoch ms, and what it said, once the watch has ended."""
    watch.thread.join(DEADLINE_S)
    reasons = [each.reason for each in watch.found if each.rule == rule]
    assert reasons, watch.found
    return watch.at_ms, "; ".join(reasons)


@contextmanager
def scene(own: Cluster, folder: Path) -> Iterator[tuple[Scene, Callable[[ClientMember], ClientProcess]]]:
    """A scene, and what starts stock members; all ends with it."""
    with children(folder) as run, client_processes(own.home) as start:
        yield Scene(own, folder, run), start


@contextmanager
def feature_off(bootstrap: str) -> Iterator[None]:
    """group.version at 0 inside the block."""
    cluster = KafkaCluster(bootstrap, timeout_s=DEADLINE_S)
    (broker,) = cluster.attempt(cluster.brokers)
    connection = cluster.broker(broker.node_id)
    update_features(connection, {"group.version": 0}, change=FeatureChange.SAFE_DOWNGRADE)
    try:
        yield
    finally:
        update_features(connection, {"group.version": 1})
        cluster.close()


def test_coordinator_29_the_feature_is_lowered_under_native_members(
    own: Cluster, group: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """group.version goes to 0 under two native members: both meet 35, and the stock one stays, silent. The
    preflight of a downgrade had refused it and named the group."""
    topic = f"served-{group}"
    create_topic(own.bootstrap, topic, PARTITIONS)
    with scene(own, tmp_path) as (seen, start):
        seen.join(start, group, topic)
        seen.await_owners()
        refused = Assessed(own.bootstrap, capsys, "3.9.2", "--from", "4.3.1")
        assert (refused.document["verdict"], {"W07", "W11"} <= refused.failed) == ("fail", True)
        assert any(repr(group) in said and "with members" in said for said in refused.said("W07"))
        watch = seen.watch(group, seen.names)
        with feature_off(own.bootstrap):
            silent_ms, ended_ms = seen.check_stock_is_silent(), seen.check_tool_ended()
            at_ms, reason = noticed(watch, "PM03")
        assert seen.stock.told()[-1].event != "closed"
    assert "feature group.version is finalised at 0" in reason
    assert all(name in reason for name in seen.names)
    print(f"35: watch {at_ms - silent_ms} ms after the stock member's -150; the tool's own at {ended_ms}")


def test_members_that_the_coordinator_does_not_take(own: Cluster, tmp_path: Path) -> None:
    """A classic member with user data in its assignment keeps the group classic (69, KAFKA-18134)."""
    with story(own.bootstrap) as told, scene(own, tmp_path) as (seen, start):
        group = told.classic(user_data=b"sticky").group
        watch = seen.watch(group, [f"{group}-stock"])
        seen.join(start, group, told.topic)
        silent_ms, ended_ms = seen.check_stock_is_silent(), seen.check_tool_ended()
        at_ms, reason = noticed(watch, "PM01")
        assert told.look(group).kind is Kind.CLASSIC
    assert reason == f"{group}-stock is not in group {group}, for 5 s or more"
    print(f"69: watch {at_ms - silent_ms} ms after the stock member's -150; the tool's own at {ended_ms}")


def test_a_member_that_commits_nothing_while_its_log_grows(own: Cluster, group: str, tmp_path: Path) -> None:
    """It is a member, sends heartbeats and takes records: only its offsets tell that nothing comes of it."""
    topic = f"still-{group}"
    create_topic(own.bootstrap, topic, 1)
    with scene(own, tmp_path) as (seen, start):
        still = start(
            ClientMember(
                client=CLIENTS[0],
                group=group,
                name=f"{group}-still",
                topic=topic,
                bootstrap=own.bootstrap,
                protocol=GroupProtocol.CONSUMER,
                commit=Commit.NONE,
            )
        )
        still.await_told("assigned", when=lambda told: told.fields["partitions"])
        watch = seen.watch(group, [still.member.name])
        wait_until(lambda: _grown(own.bootstrap, topic, watch), DEADLINE_S, "the watch to end", every_s=0.5)
        _, reason = noticed(watch, "PM04")
        assert is_running(still.process)
    assert reason.startswith(
        f"{group}-still holds {topic}-0, and nothing was committed there for 8 s or more"
    )


def _grown(bootstrap: str, topic: str, watch: Watching) -> bool:
    """One more record; whether the watch is over."""
    produce(bootstrap, topic, 1, 1)
    return not watch.thread.is_alive()


def test_members_of_a_group_that_moved_to_another_partition(own: Cluster, tmp_path: Path) -> None:
    """More offsets partitions and a restart: the group's new coordinator does not know it (69, KIP-895)."""
    names = (f"moved-{number}" for number in count())
    group = next(name for name in names if partition_of(name, 10) != partition_of(name, 20))
    topic = "moved"
    create_topic(own.bootstrap, topic, PARTITIONS)
    with scene(own, tmp_path) as (seen, start):
        seen.join(start, group, topic)
        seen.await_owners()
        watch = seen.watch(group, seen.names)
        admin = AdminClient({"bootstrap.servers": own.bootstrap})
        pending = admin.create_partitions([NewPartitions("__consumer_offsets", 20)])
        pending["__consumer_offsets"].result(timeout=DEADLINE_S)
        replace_node(own, 1, unchanged)
        silent_ms, ended_ms = seen.check_stock_is_silent(), seen.check_tool_ended()
        at_ms, reason = noticed(watch, "PM05")
    assert f"group {group} is listed by broker 1, and its coordinator (broker 1) does not know it" in reason
    assert all(name in reason for name in seen.names)
    print(f"moved: watch {at_ms - silent_ms} ms after the stock member's -150; the tool's own at {ended_ms}")
