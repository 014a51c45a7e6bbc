"""The real old Scala consumer, as the console consumer of kafka_2.11 runs it.

What the two releases need (tried on 1.1.1 and 0.10.2.2): every property in a ``--consumer.config`` file,
``group.id`` too, else 0.10.2 makes up a group. Starting at the smallest offset (``--from-beginning``, and
in 1.1 also ``auto.offset.reset=smallest``) is refused once the group has any offset in ZooKeeper, so these
members always run with ``largest`` and a new group gets its first offsets from `seed_offsets`. Only
``--delete-consumer-offsets`` or a made-up group would delete the group's nodes: never used here.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kazoo.exceptions import NodeExistsError
from kazoo.retry import KazooRetry

from groupshift.adapters.zookeeper.login import ANYBODY, ZookeeperLogin, make_client
from groupshift.errors import Rejected
from groupshift_sandbox.artifacts import LOGGING, SCALA_CONSUMERS, class_path
from groupshift_sandbox.home import Home
from groupshift_sandbox.jvm import java_argv, write_properties
from groupshift_sandbox.processes import Command

RELEASES = tuple(SCALA_CONSUMERS)
_ANSWER_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalaMember:
    """One old member; its id is ``<group>_<consumer_id>``. ``properties`` override the defaults below;
    ``java`` are options of its JVM."""

    release: str
    group: str
    consumer_id: str
    topics: Sequence[str]
    zookeeper: str
    properties: Mapping[str, str] = field(default_factory=dict)
    java: Sequence[str] = ()

    @property
    def member_id(self) -> str:
        """The ``<cid>``."""
        return f"{self.group}_{self.consumer_id}"


def command(home: Home, member: ScalaMember, file_name: str | None = None) -> Command:
    """How to run this member under its recorder: a `Command` named ``file_name`` as its files are
    (by default the consumer id).

    Writes the properties file. Raises `Rejected` for a release without the old consumer."""
    if member.release not in SCALA_CONSUMERS:
        raise Rejected(f"Scala consumer release {member.release!r} is unknown; choose one of {RELEASES}")
    name = file_name or member.consumer_id
    own = {
        "group.id": member.group,
        "zookeeper.connect": member.zookeeper,
        "consumer.id": member.consumer_id,
        "offsets.storage": "zookeeper",
        "dual.commit.enabled": "false",
        "auto.commit.enable": "true",
        "auto.commit.interval.ms": "1000",
        "zookeeper.connection.timeout.ms": "60000",  # a member ends where it gets no first connection
    }
    properties = write_properties(home, name, {**own, **member.properties})
    consumer = SCALA_CONSUMERS[member.release]
    path = class_path(consumer) if member.release.startswith("0.") else class_path(LOGGING, consumer)
    chosen = ["--topic", member.topics[0]]
    if len(member.topics) > 1:
        chosen = ["--whitelist", "|".join(topic.replace(".", "[.]") for topic in member.topics)]
    argv = [
        sys.executable, "-m", "groupshift_sandbox.recorder",
        "--member", member.member_id, "--group", member.group, "--zookeeper", member.zookeeper,
        "--ledger", str(home.ledgers / f"{name}.jsonl"),
        "--state", str(home.members / f"{name}.json"), "--",
        *java_argv(
            home, "kafka.tools.ConsoleConsumer", "--zookeeper", member.zookeeper, *chosen,
            "--consumer.config", properties,
            classes=path, heap="96m", options=member.java, release=member.release,
        ),
    ]  # fmt: skip
    return Command(name=name, argv=argv)


def seed_offsets(
    zookeeper: str, group: str, topic: str, partitions: int, *, login: ZookeeperLogin = ANYBODY
) -> None:
    """Give a new group an offset of 0 for every partition without one, as if it had started at the
    beginning: see above why 0.10.2 needs it. Existing offsets are left alone."""
    client = make_client(zookeeper, 10.0, login)
    client.start(timeout=_ANSWER_S)
    patiently = KazooRetry(max_tries=-1, max_delay=1.0, deadline=_ANSWER_S)
    try:
        for partition in range(partitions):
            try:
                path = f"/consumers/{group}/offsets/{topic}/{partition}"
                patiently(client.create, path, b"0", makepath=True)
            except NodeExistsError:
                continue
    finally:
        client.stop()
        client.close()
