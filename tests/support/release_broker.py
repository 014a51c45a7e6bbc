"""A real broker of each release whose coordinator's log is compared: how it starts, and its dump tool."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from groupshift.adapters.spark_submit.java import java_binary
from groupshift.errors import Broken
from groupshift_sandbox.artifacts import (
    BROKERS,
    LOGGING,
    SIMPLE_LOGGING,
    TOOLS,
    ZOOKEEPER_ERA,
    class_path,
)
from groupshift_sandbox.home import Home
from groupshift_sandbox.jvm import write_logging
from groupshift_sandbox.kafka import KafkaOptions, start_kafka
from groupshift_sandbox.kraft import CONSUMER_PROTOCOL, KraftOptions, start_kraft
from groupshift_sandbox.processes import marked, stop
from groupshift_sandbox.servers import broker_class_path
from groupshift_sandbox.zookeeper import start_zookeeper

TOPIC = "__consumer_offsets"
PARTITIONS = 3
_DUMP_S = 240.0

_COMMON = {
    "offsets.topic.num.partitions": str(PARTITIONS),
    "offsets.retention.check.interval.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "group.max.session.timeout.ms": "1800000",
    "delete.topic.enable": "true",
}
_PATIENT = {
    f"group.{kind}.{name}": "300000"
    for kind in ("consumer", "share", "streams")
    for name in ("session.timeout.ms", "max.session.timeout.ms")
}
"""A member that was paused by a busy machine is still a member."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """``name`` is the version, with the coordinator where a release has both; ``kinds`` are the groups that
    it can have besides classic ones; ``missing`` says why it has not the others."""

    name: str
    zookeeper: bool = False
    kinds: frozenset[str] = frozenset()
    missing: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    format_arguments: Sequence[str] = ()

    @property
    def version(self) -> str:
        """As the jar names it."""
        return self.name.partition(" ")[0]

    @property
    def early_share(self) -> bool:
        """Whether its share groups are those before 4.1, of early access."""
        return "share" in self.kinds and self.numbers < (4, 1)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The version, to be compared."""
        return tuple(int(part) for part in self.version.split("."))


_CLASSIC_ONLY = "the coordinator knows classic groups only"
_NO_TRANSACTIONS = "there are no transactions before 0.11"
_NO_STREAMS = "streams groups came with 4.1"
_OLD = {"consumer": _CLASSIC_ONLY, "share": _CLASSIC_ONLY, "streams": _CLASSIC_ONLY}
_UNDESCRIBED = "early access: the broker fails at a group's second member, and to describe any"
_EARLY_SHARE = {
    "group.coordinator.rebalance.protocols": "classic,consumer,share",
    "group.share.enable": "true",
    "unstable.api.versions.enable": "true",
}
_ALL = frozenset({"transactions", "consumer", "share", "streams"})
_TRANSACTIONS = frozenset({"transactions"})
_PREVIEW = ("--feature", "share.version=1", "--feature", "streams.version=1")

RELEASES = {
    release.name: release
    for release in (
        Release(name="0.10.2.2", zookeeper=True, missing={"transactions": _NO_TRANSACTIONS, **_OLD}),
        Release(name="1.1.1", zookeeper=True, kinds=_TRANSACTIONS, missing=_OLD),
        Release(name="2.4.1", zookeeper=True, kinds=_TRANSACTIONS, missing=_OLD),
        Release(name="3.4.0", kinds=_TRANSACTIONS, missing=_OLD),
        Release(name="3.9.2 OLD", kinds=_TRANSACTIONS, missing=_OLD),
        Release(
            name="3.9.2 NEW",
            kinds=_TRANSACTIONS | {"consumer"},
            missing={"share": _UNDESCRIBED, "streams": _NO_STREAMS},
            properties=CONSUMER_PROTOCOL,
        ),
        Release(
            name="4.0.2",
            kinds=_TRANSACTIONS | {"consumer", "share"},
            missing={"streams": _NO_STREAMS},
            properties=_EARLY_SHARE,
        ),
        Release(
            name="4.1.2",
            kinds=_ALL,
            properties={"unstable.feature.versions.enable": "true", "unstable.api.versions.enable": "true"},
            format_arguments=_PREVIEW,
        ),
        Release(name="4.3.1", kinds=_ALL),
        Release(name="4.4.0", kinds=_ALL),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseBroker:
    """A running broker and the folder of its logs."""

    release: Release
    home: Home
    bootstrap: str
    logs: Path

    def segments(self) -> list[Path]:
        """The segment files of the coordinator's log, by partition."""
        return sorted(path for n in range(PARTITIONS) for path in (self.logs / f"{TOPIC}-{n}").glob("*.log"))


@contextmanager
def broker_of(home: Home, release: Release) -> Iterator[ReleaseBroker]:
    """Start it, with a ZooKeeper of its own where it needs one; end both."""
    try:
        if release.zookeeper:
            options = KafkaOptions(
                release=ZOOKEEPER_ERA[release.version], properties=_COMMON | release.properties
            )
            address = start_kafka(home, start_zookeeper(home), options).address
            yield ReleaseBroker(release=release, home=home, bootstrap=address, logs=home.kafka)
        else:
            cluster = start_kraft(
                home,
                KraftOptions(
                    release=release.version,
                    format_arguments=release.format_arguments,
                    properties={**_COMMON, **_PATIENT, **release.properties},
                ),
            )
            (node,) = cluster.nodes
            yield ReleaseBroker(release=release, home=home, bootstrap=cluster.bootstrap, logs=node.folder)
    finally:
        for process in reversed(marked(home)):
            stop(process, 20.0)


def dumped(home: Home, release: Release, files: Sequence[Path]) -> str:
    """What the dump tool of the release (4.3.1's for 4.4.0) prints of these segment files."""
    main = "kafka.tools.DumpLogSegments"
    if release.zookeeper:
        path = broker_class_path(release.version)
    elif release.numbers >= (4, 2):
        path, main = class_path(SIMPLE_LOGGING, TOOLS), "org.apache.kafka.tools.DumpLogSegments"
    else:
        binding = SIMPLE_LOGGING if release.numbers >= (4,) else LOGGING
        path = class_path(binding, BROKERS[release.version])
    argv = [
        java_binary(), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-Dfile.encoding=UTF-8",
        f"-Dlog4j.configuration=file:{write_logging(home)}", "-Dstdout.encoding=UTF-8", "-cp", path, main,
        "--offsets-decoder", "--files", ",".join(str(each) for each in files),
    ]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, timeout=_DUMP_S, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise Broken(
            f"the dump tool of {release.name} failed: {done.stderr.decode(errors='replace')[-2000:]}"
        )
    return done.stdout.decode()
