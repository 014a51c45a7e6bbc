"""The simplest acceptance test of a downgrade: 3.9.2 NEW to 3.4.0
(docs/reference/coordinator-on-real-brokers.md §D).

The tool is given a copy of the log each time; in the end the very folder goes to 3.4.0 and all groups are
there.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.group_protocol import Kind
from groupshift.domain.partitions import TopicPartition
from groupshift_sandbox.committing import commit
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.layout import Cluster, to_release
from groupshift_sandbox.processes import wait_until
from groupshift_sandbox.rolling import replace_node
from support.downgrade_story import Assessed, Groups, cluster_of, groups_at, new_392, offsets_of
from support.native_member import NativeMember

pytestmark = pytest.mark.timeout(900)

TOPIC, PARTITIONS, LOG = "orders", 2, 5
OFFSETS = "__consumer_offsets"
TOUCHED = (1, 2)
"""The partitions of the offsets topic that hold newer records."""
COMPACTING = {
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.001",
    "delete.retention.ms": "100",
    "min.compaction.lag.ms": "0",
}


def named(prefix: str, homes: tuple[int, ...]) -> list[str]:
    """A name for each of these partitions of the offsets topic."""
    return [
        next(f"{prefix}-{n}" for n in range(999) if partition_of(f"{prefix}-{n}", LOG) == home)
        for home in homes
    ]


SIMPLE = [*named("beside", TOUCHED), *named("apart", (0, 3, 4))]
CLASSIC = named("classic", (0,))[0]
LIVE, EMPTY, CONVERTED = named("live", (1,))[0], named("left", (2,))[0], named("converted", (1,))[0]
NATIVES = (LIVE, EMPTY, CONVERTED)
LOST = sorted([*SIMPLE[:2], *NATIVES])


@pytest.fixture
def newest(tmp_path: Path) -> Iterator[Cluster]:
    """One node of 3.9.2 with its NEW coordinator, formatted so that 3.4 can read its metadata."""
    options = new_392("3.4", LOG, {"log.cleaner.backoff.ms": "500"})
    with cluster_of(tmp_path, options) as started:
        yield started


def commits(groups: Groups) -> None:
    """The same offsets for the nine groups, while they have no members."""
    commit(
        groups.cluster,
        {
            group: {TopicPartition(TOPIC, p): (10 * n + p, "") for p in range(PARTITIONS)}
            for n, group in enumerate([*SIMPLE, CLASSIC, *NATIVES])
        },
    )


def nine_groups(groups: Groups) -> NativeMember:
    """Five simple, one classic, one native and alive (its member), one native and left, one converted
    back."""
    commits(groups)
    groups.touch_classic(CLASSIC)
    for group in (EMPTY, CONVERTED):
        groups.native(group, PARTITIONS).leave()
    groups.touch_classic(CONVERTED)
    alive = groups.native(LIVE, PARTITIONS)
    groups.await_kinds(
        {CLASSIC: Kind.CLASSIC, CONVERTED: Kind.CLASSIC, EMPTY: Kind.CONSUMER, LIVE: Kind.CONSUMER}
    )
    return alive


def configured(bootstrap: str, operation: AlterConfigOpType) -> None:
    """Set or take back what makes the offsets topic compact at once."""
    entries = [
        ConfigEntry(name, value, incremental_operation=operation) for name, value in COMPACTING.items()
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    asked = admin.incremental_alter_configs(
        [ConfigResource(ResourceType.TOPIC, OFFSETS, incremental_configs=entries)], request_timeout=30.0
    )
    for each in asked.values():
        each.result(timeout=60.0)


class Copies:
    """Copies of the node's log, and what the verb says of each."""

    def __init__(self, cluster: Cluster, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._cluster, self._folder, self._capsys, self._made = cluster, folder, capsys, 0

    def assess(self, to: str = "3.4.0") -> Assessed:
        """A fresh copy of the offsets topic's files, assessed; copied again while the cleaner replaces
        some."""
        found: list[Assessed] = []

        def read() -> bool:
            self._made += 1
            copy = self._folder / str(self._made)
            try:
                for partition in range(LOG):
                    name = f"{OFFSETS}-{partition}"
                    shutil.copytree(self._cluster.nodes[0].folder / name, copy / name)
                found.append(
                    Assessed(
                        self._cluster.bootstrap, self._capsys, to, "--from", "3.9.2", "--segments", str(copy)
                    )
                )
            except (shutil.Error, OSError, ValueError):
                return False
            return True

        wait_until(read, 90.0, "a copy of the log that is whole", every_s=0.5)
        return found[0]


def raw_swap(cluster: Cluster) -> list[str]:
    """Groups without offsets at a 3.4.0 over that very folder; then 3.9.2 is started over it again."""
    every = [*SIMPLE, CLASSIC, *NATIVES]
    swapped, _ = replace_node(cluster, 1, to_release("3.4.0"))
    found = {group for group, _ in offsets_of(swapped.bootstrap, every)}
    replace_node(swapped, 1, to_release("3.9.2"))
    return sorted(set(every) - found)


def test_coordinator_31b_converting_is_not_enough_for_340_compacting_is(
    newest: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Raw: refused, the five named; converted only: still refused, the same five; compacted: open, and 9
    of 9 groups are found by a 3.4.0 over that folder. 3.4.1, and 3.9.2 with its OLD coordinator, need the
    conversion only. A 3.4.0 over the converted folder loses the five too."""
    bootstrap = newest.bootstrap
    create_topic(bootstrap, TOPIC, PARTITIONS)
    copies = Copies(newest, tmp_path / "copies", capsys)
    with groups_at(bootstrap, TOPIC) as groups:
        alive = nine_groups(groups)
        before = offsets_of(bootstrap, [*SIMPLE, CLASSIC, *NATIVES])
        assert len(before) == 9 * PARTITIONS
        raw = copies.assess()
        assert {"W07", "W16", "W17"} <= raw.failed
        assert (raw.code, raw.obstacles) == (0, set())  # the plan converts and compacts
        assert lost(raw) == LOST
        assert ("compact", OFFSETS) in raw.steps
        alive.leave()
        for group in (LIVE, EMPTY):
            groups.touch_classic(group)
        groups.await_kinds(dict.fromkeys(NATIVES, Kind.CLASSIC))
        converted = copies.assess()
        assert (converted.document["verdict"], converted.failed) == ("fail", {"W16", "W17", "H01"})
        assert ("compact", OFFSETS) in converted.steps
        assert lost(converted) == LOST
        assert raw_swap(newest) == LOST
        assert copies.assess("3.4.1").failed == set()
        flipped = copies.assess("3.9.2")
        assert (flipped.failed, flipped.observed["coordinator"]) == (set(), "old")
        configured(bootstrap, AlterConfigOpType.SET)
        opened: list[Assessed] = []

        def compacted() -> bool:
            commits(groups)
            opened[:] = [copies.assess()]
            return not opened[0].observed["log"]["new_types"]

        wait_until(compacted, 180.0, "no key of type 3 or above is left", every_s=1.0)
        configured(bootstrap, AlterConfigOpType.DELETE)
    assert (opened[0].code, opened[0].failed, opened[0].said("W16")) == (0, set(), [])
    assert ("compact", OFFSETS) not in opened[0].steps
    assert offsets_of(bootstrap, [*SIMPLE, CLASSIC, *NATIVES]) == before
    cluster, swapped = replace_node(newest, 1, to_release("3.4.0"))
    assert swapped.count("Error loading offsets") == 0
    assert offsets_of(cluster.bootstrap, [*SIMPLE, CLASSIC, *NATIVES]) == before


def lost(found: Assessed) -> list[str]:
    """Groups that rule W16 names."""
    (sentence,) = found.said("W16")
    names = sentence.partition(": ")[2].partition(";")[0]
    return sorted(name.strip("'") for name in names.split(", "))
