"""Groups of every kind at a broker, converted back to classic, and what the verb says of the way down."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from groupshift.adapters.kafka.broker_views import LiveDowngradeViews
from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.snapshots import LiveGroupSnapshots
from groupshift.adapters.system import SystemClock
from groupshift.cli.main import main
from groupshift.domain.cluster import ClusterView
from groupshift.domain.group_protocol import Kind
from groupshift_sandbox.home import Home
from groupshift_sandbox.kraft import CONSUMER_PROTOCOL, KraftOptions, start_kraft
from groupshift_sandbox.layout import Cluster
from groupshift_sandbox.processes import marked, stop, wait_until
from support.classic_member import ClassicMember, assignment
from support.native_member import NativeMember

PATIENCE_S = 90.0


@contextmanager
def cluster_of(folder: Path, options: KraftOptions) -> Iterator[Cluster]:
    """A cluster with a home of its own; every process of it is ended."""
    home = Home(folder / "home").create()
    try:
        yield start_kraft(home, options)
    finally:
        for process in reversed(marked(home)):
            stop(process, 20.0)


QUIET = {
    "group.consumer.max.session.timeout.ms": "1800000",
    "group.consumer.session.timeout.ms": "1800000",
}
"""A native member that says nothing for half an hour is still one."""
SNAPSHOTS = {"metadata.log.max.snapshot.interval.ms": "5000"}


def new_392(readable_by: str, partitions: int, properties: Mapping[str, str] = {}) -> KraftOptions:
    """One node of 3.9.2 with its NEW coordinator, whose metadata an older release can read; ``partitions``
    are those of the offsets topic."""
    return KraftOptions(
        release="3.9.2",
        heap="320m",
        format_arguments=("--release-version", readable_by),
        properties={**CONSUMER_PROTOCOL, "offsets.topic.num.partitions": str(partitions), **properties},
    )


def offsets_of(bootstrap: str, groups: Sequence[str]) -> dict[tuple[str, int], int]:
    """Committed offsets by group and partition; every group must be readable."""
    snapshots = LiveGroupSnapshots(KafkaCluster(bootstrap, timeout_s=60.0), SystemClock(), patience_s=60.0)
    try:
        state = snapshots.take(groups)
    finally:
        snapshots.close()
    assert state.problems == []
    return {(row.group, row.partition): row.offset for row in state.offsets}


class Groups:
    """Members by their bare requests, at the one broker of a cluster."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._cluster = KafkaCluster(bootstrap, timeout_s=PATIENCE_S)
        self._views = LiveDowngradeViews(KafkaCluster(bootstrap, timeout_s=PATIENCE_S), SystemClock())
        self._topic = topic
        self.cluster = self._cluster

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()
        self._views.close()

    def look(self) -> ClusterView:
        """The cluster now."""
        return self._views.look()

    def native(self, group: str, partitions: int) -> NativeMember:
        """A native member that has all partitions."""
        member = NativeMember(self._coordinator(group), group, [self._topic])
        member.await_assigned(partitions, PATIENCE_S)
        return member

    def touch_classic(self, group: str) -> None:
        """One classic member joins and leaves, and commits nothing: an empty group is converted."""
        member = ClassicMember(self._coordinator(group), group, [self._topic])
        member.join()
        member.sync(assignment({self._topic: [0]}))
        member.leave()

    def classic(self, group: str, partitions: int) -> ClassicMember:
        """A classic member that has all partitions, and is one for half an hour without another word."""
        member = ClassicMember(
            self._coordinator(group), group, [self._topic], session=dt.timedelta(minutes=30)
        )
        member.join()
        member.sync(assignment({self._topic: range(partitions)}))
        return member

    def await_kinds(self, wanted: Mapping[str, Kind]) -> None:
        """Wait until these groups are listed so."""

        def there() -> bool:
            listed = {each.group: each.kind for node in self.look().brokers for each in node.groups}
            return all(listed.get(group) is kind for group, kind in wanted.items())

        wait_until(there, PATIENCE_S, f"groups are listed as {dict(wanted)}", every_s=0.2)

    def _coordinator(self, group: str):
        def known() -> int:
            nodes, _ = self._cluster.coordinators([group])
            return nodes.get(group, -1)

        wait_until(lambda: known() >= 0, PATIENCE_S, f"{group} has a coordinator", every_s=0.1)
        return self._cluster.broker(known())


@contextmanager
def groups_at(bootstrap: str, topic: str) -> Iterator[Groups]:
    """Closed at the end."""
    found = Groups(bootstrap, topic)
    try:
        yield found
    finally:
        found.close()


class Assessed:
    """Exit code and document of one call of the verb."""

    def __init__(self, bootstrap: str, capsys: pytest.CaptureFixture[str], to: str, *options: str) -> None:
        command = ["downgrade", "assess", "--to", to, "--bootstrap-servers", bootstrap, "--json"]
        capsys.readouterr()
        self.code = main([*command, "--timeout", "60", *options])
        self.document: dict[str, Any] = json.loads(capsys.readouterr().out)
        self.observed: dict[str, Any] = self.document["observed"]

    def said(self, rule: str) -> list[str]:
        """The sentences of a rule's findings that did not pass."""
        return [
            each["reason"]
            for each in self.document["findings"]
            if each["rule"] == rule and each["verdict"] != "pass"
        ]

    @property
    def failed(self) -> set[str]:
        """Numbers of the rules that failed or could not be measured."""
        return {each["rule"] for each in self.document["findings"] if each["verdict"] in {"fail", "error"}}

    @property
    def obstacles(self) -> set[str]:
        """Numbers of the rules for which no run may begin: no step answers them."""
        return set(self.document["obstacles"])

    @property
    def steps(self) -> list[tuple[str, str]]:
        """What is planned, of what."""
        return [(each["act"], each["subject"]) for each in self.observed["steps"]]
