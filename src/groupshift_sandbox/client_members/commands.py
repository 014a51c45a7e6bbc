"""How a member of each client and release is started."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import confluent_kafka

from groupshift.errors import Rejected
from groupshift_sandbox.artifacts import JAVA_CLIENTS, LOGGING, SIMPLE_LOGGING, class_path
from groupshift_sandbox.client_members.environments import interpreter_with
from groupshift_sandbox.home import Home
from groupshift_sandbox.jvm import java_argv, write_properties, writes_log4j
from groupshift_sandbox.processes import Command

_OURS = confluent_kafka.__version__
_CONFLUENT = "confluent-kafka"
_JAVA = "kafka-clients"
CLIENTS = (
    f"{_CONFLUENT} {_OURS}",
    f"{_CONFLUENT} 2.8.0",
    *(f"{_JAVA} {release}" for release in JAVA_CLIENTS),
)
"""What members can be. 2.8.0 is the one confluent-kafka that joins a 3.9 broker as a native member; later
ones never do, and say nothing (docs/reference/coordinator-on-real-brokers.md §A 7)."""

_JAVA_ASSIGNORS = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


class GroupProtocol(StrEnum):
    """``group.protocol``."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Commit(StrEnum):
    """When a member commits: by interval, after each batch before the next, or never (not with Java)."""

    AUTO = "auto"
    EACH = "each"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMember:
    """``client`` is one of `CLIENTS`; ``name`` is unique in the sandbox; ``assignor`` is the strategy by its
    short name (classic; the client's default when empty) or the remote assignor (consumer); ``properties``
    are the client's own and win."""

    client: str
    group: str
    name: str
    topic: str
    bootstrap: str
    protocol: GroupProtocol = GroupProtocol.CLASSIC
    assignor: str = ""
    instance_id: str = ""
    commit: Commit = Commit.AUTO
    commit_interval_ms: int = 500
    close_s: float = 15.0
    properties: Mapping[str, str] = field(default_factory=dict)


def events_file(home: Home, member: ClientMember) -> Path:
    """Where the member writes its events."""
    return home.members / f"{member.name}.events.jsonl"


def command(home: Home, member: ClientMember) -> Command:
    """How to run this member. Fetches what its client needs; raises `Rejected` for an unknown client, or a
    commit that it cannot do, else as `interpreter_with` and `artifacts.jars`."""
    if member.client not in CLIENTS:
        raise Rejected(f"client {member.client!r} is not known here; choose one of {', '.join(CLIENTS)}")
    product, release = member.client.split()
    common = ["--member", member.name, "--events", str(events_file(home, member))]
    common += ["--close-s", f"{member.close_s:g}"]
    argv = (
        _confluent(member, release, common) if product == _CONFLUENT else _java(home, member, release, common)
    )
    return Command(name=member.name, argv=argv)


def _confluent(member: ClientMember, release: str, common: Sequence[str]) -> list[str]:
    python = sys.executable if release == _OURS else str(interpreter_with(release))
    program = Path(__file__).with_name("confluent_member.py")
    argv = [python, "-I", str(program), *common, "--topic", member.topic, "--commit", member.commit]
    for key, value in _librdkafka_properties(member).items():
        argv += ["--property", f"{key}={value}"]
    return argv


def _librdkafka_properties(member: ClientMember) -> dict[str, str]:
    chosen = {
        "bootstrap.servers": member.bootstrap,
        "group.id": member.group,
        "client.id": member.name,
        "group.protocol": member.protocol.value,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": str(member.commit_interval_ms),
    }
    native = member.protocol is GroupProtocol.CONSUMER
    if member.assignor:
        chosen["group.remote.assignor" if native else "partition.assignment.strategy"] = member.assignor
    if member.instance_id:
        chosen["group.instance.id"] = member.instance_id
    return {**chosen, **member.properties}


def _java(home: Home, member: ClientMember, release: str, common: Sequence[str]) -> list[str]:
    if member.commit is Commit.NONE:
        raise Rejected(f"member {member.name!r}: a {member.client} here always commits; choose auto or each")
    settings = {
        "client.id": member.name,
        "auto.commit.interval.ms": str(member.commit_interval_ms),
        **member.properties,
    }
    binding = LOGGING if writes_log4j(release) else SIMPLE_LOGGING
    return [
        sys.executable, "-m", "groupshift_sandbox.client_members.java_member",
        "--client", member.client, *common, "--",
        *java_argv(
            home, "org.apache.kafka.tools.VerifiableConsumer",
            "--bootstrap-server", member.bootstrap, "--topic", member.topic, "--group-id", member.group,
            "--reset-policy", "earliest", "--consumer.config", write_properties(home, member.name, settings),
            *_java_choices(member),
            classes=class_path(binding, *JAVA_CLIENTS[release]), heap="96m", release=release,
        ),
    ]  # fmt: skip


def _java_choices(member: ClientMember) -> list[str]:
    chosen = ["--group-protocol", member.protocol.value]
    if member.assignor and member.protocol is GroupProtocol.CONSUMER:
        chosen += ["--group-remote-assignor", member.assignor]
    elif member.assignor:
        name = _JAVA_ASSIGNORS.get(member.assignor)
        if name is None:
            raise Rejected(
                f"member {member.name!r}: {member.client} has no assignor {member.assignor!r}; choose "
                f"one of {', '.join(_JAVA_ASSIGNORS)}"
            )
        chosen += ["--assignment-strategy", f"org.apache.kafka.clients.consumer.{name}"]
    if member.instance_id:
        chosen += ["--group-instance-id", member.instance_id]
    return [*chosen, "--enable-autocommit"] if member.commit is Commit.AUTO else chosen
