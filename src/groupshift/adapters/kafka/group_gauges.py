"""Counts of the groups of each broker by the metrics it publishes: by JMX, the port
`groupshift.ports.cluster.CoordinatorGauges`.

JMX is Java's own serialised objects over RMI; no library of Python speaks it (those that say so start Java
with a jar of theirs, or talk to a Jolokia agent in the broker). So Kafka's `org.apache.kafka.tools.JmxTool`
runs once a read: 0.5 to 1.5 s. Names of metrics: KIP-848, KIP-915, and what brokers 3.9.2 to 4.4.0 publish
(docs/reference/protocol-answers.md).
"""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterator, Mapping

from groupshift.domain.addresses import one_server
from groupshift.domain.group_gauges import GaugedBroker
from groupshift.domain.group_protocol import Kind
from groupshift.errors import Rejected, Transient

_NAMES = (
    "kafka.server:type=app-info,id=*",
    "kafka.server:type=group-coordinator-metrics,protocol=*",
    "kafka.server:type=group-coordinator-metrics,state=*",
    "kafka.coordinator.group:type=GroupMetadataManager,*",
)
_LINE = re.compile(r"[\w.]+:(?P<keys>[^:]+):(?P<attribute>[\w-]+)=(?P<value>.*)")
_GROUPS = "NumGroups"
_COUNT = "-group-count"
_TAIL = 300


Gauge = tuple[Mapping[str, str], str, str]
"""One attribute of one MBean: the keys, the attribute's name, and its value as printed."""


class JmxToolGauges:
    """``java`` is the program, ``class_path`` one that has kafka-tools. Works where JMX asks for no login."""

    def __init__(self, java: str, class_path: str, *, timeout_s: float = 30.0) -> None:
        self._java, self._class_path, self._timeout_s = java, class_path, timeout_s

    def read(self, address: str) -> GaugedBroker:
        """See the port."""
        where = one_server(address, "--jmx")
        if not self._class_path:
            raise Rejected(
                "no KAFKA_HOME: JmxTool is a class of Kafka's; name a Kafka distribution's folder with it"
            )
        try:  # the tool tries for ten seconds, with a page of text a try; a closed port is told at once
            socket.create_connection((where.host, where.port), timeout=min(self._timeout_s, 10.0)).close()
        except OSError as why:
            raise Transient(
                f"nobody answers at {address} ({why}): start the broker with JMX open there"
            ) from why
        argv = [
            self._java, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx96m", "-cp", self._class_path,
            "org.apache.kafka.tools.JmxTool", "--jmx-url", f"service:jmx:rmi:///jndi/rmi://{where}/jmxrmi",
            *(part for name in _NAMES for part in ("--object-name", name)),
            "--one-time", "--report-format", "properties",
        ]  # fmt: skip
        try:
            done = subprocess.run(
                argv,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self._timeout_s,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except FileNotFoundError as missing:
            raise Rejected(
                f"Java is not at {self._java!r}: install a Java runtime, or set JAVA_HOME"
            ) from missing
        except subprocess.TimeoutExpired as late:
            raise Transient(f"JMX at {where} does not answer in {self._timeout_s:g} s") from late
        if values := list(gauges(done.stdout)):
            return broker(address, values)
        raise _without_answer(address, done.stderr)


def gauges(said: str) -> Iterator[Gauge]:
    """The attributes in what the tool prints as properties; its line with the time is none."""
    for line in said.splitlines():
        if match := _LINE.fullmatch(line.strip()):
            pairs = (pair.partition("=") for pair in match["keys"].split(","))
            yield {key: value for key, _, value in pairs}, match["attribute"], match["value"]


def broker(address: str, values: list[Gauge]) -> GaugedBroker:
    """What these attributes say together. Raises `Rejected` when they are not those of a broker."""
    types, states, partitions = dict[Kind, int](), dict[tuple[Kind, str], int](), dict[str, int]()
    try:
        ((node, release),) = (
            (keys["id"], value) for keys, attribute, value in values if attribute == "Version"
        )
        for keys, attribute, value in values:
            kind, counts = attribute.removesuffix(_COUNT), attribute.endswith(_COUNT)
            if attribute == "Value" and keys["name"].startswith(_GROUPS):
                states[Kind.CLASSIC, keys["name"].removeprefix(_GROUPS)] = _number(value)
            elif attribute == "group-count" and keys.get("protocol") in set(Kind):
                types[Kind(keys["protocol"])] = _number(value)
            elif counts and "state" in keys and kind in set(Kind):
                states[Kind(kind), keys["state"]] = _number(value)
            elif attribute == "num-partitions":
                partitions[keys["state"]] = _number(value)
        groups = states.pop((Kind.CLASSIC, ""))
        return GaugedBroker(
            address=address,
            node_id=int(node),
            release=release,
            types=types or {Kind.CLASSIC: groups},
            states=states,
            partitions=partitions if types else {},
        )
    except (KeyError, ValueError, OverflowError):  # what stands there answers with other names and numbers
        raise Rejected(f"JMX at {address} is of no Kafka broker: name the JMX port of a broker") from None


def _number(value: str) -> int:
    """The value of a count. Raises ValueError, OverflowError for what is none."""
    return int(float(value))


def _without_answer(address: str, trouble: str) -> Rejected | Transient:
    """What the tool's complaints mean; nothing of them is quoted but the last line that says something."""
    lines = [line.strip() for line in trouble.splitlines() if line.strip() and not line.startswith("\tat ")]
    telling = [line for line in lines if "xception" in line or "Could not" in line or "Error" in line]
    words = (telling or lines or ["it says nothing"])[-1][-_TAIL:]
    if "Could not connect" in trouble and "java.lang.SecurityException" not in trouble:
        return Transient(f"JMX at {address} does not answer: {words}")
    return Rejected(
        f"JMX at {address} tells nothing of a broker ({words}): name the JMX port of a broker that asks for "
        "no login, and with KAFKA_HOME the folder of a Kafka since 3.5"
    )
