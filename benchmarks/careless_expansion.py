"""What an expansion without care does to a group that goes on consuming: the experiment of KIP-895.

Two brokers of 3.9.2 with ZooKeeper, ``__consumer_offsets`` with 55 partitions and two replicas, a topic of
ten partitions and two replicas, a producer, and a group of two members (confluent-kafka) that commit four
times a second. The group is one whose coordinator is broker 2 by 55 partitions and broker 1 by 65. While it
consumes, ``__consumer_offsets`` gets 65 partitions; a while later broker 2 is restarted, and then broker 1.
Counted each second: FindCoordinator requests of the members (by librdkafka's statistics), commits that were
acknowledged and that failed. There is no aim: it is what happens without groupshift; the picture is drawn
beside the result, as an SVG file.

Run: make bench BENCH=careless-expansion
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from markupsafe import Markup
from measuring import fresh_home, report
from measuring.live_groups import producing
from measuring.live_member import LiveMember

from groupshift.domain.group_partition_and_count import partition_of
from groupshift.report.svg_and_time_axis import element
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.layout import Cluster, unchanged
from groupshift_sandbox.processes import wait_until
from groupshift_sandbox.readiness import leaders_of
from groupshift_sandbox.rolling import replace_node
from groupshift_sandbox.zookeeper import start_zookeeper
from groupshift_sandbox.zookeeper_mode import ZookeeperModeOptions, start_zookeeper_mode

BEFORE, AFTER = 55, 65
TOPIC, PARTITIONS, REPLICAS, OFFSETS = "test_topic", 10, 2, "__consumer_offsets"
RAISED = "65 partitions"
_WIDTH, _HEIGHT, _LEFT, _FOOT = 960, 150, 60, 34


@dataclass
class Told:
    """Counts by second since the start, and what was done when."""

    begun: float = field(default_factory=time.monotonic)
    counts: dict[str, Counter[int]] = field(
        default_factory=lambda: {name: Counter() for name in ("FindCoordinator", "committed", "failed")}
    )
    marks: list[tuple[float, str]] = field(default_factory=list)
    codes: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, name: str, number: int = 1) -> None:
        """Now."""
        with self.lock:
            self.counts[name][int(time.monotonic() - self.begun)] += number

    def mark(self, what: str) -> None:
        """It happens now."""
        self.marks.append((time.monotonic() - self.begun, what))


class Counting:
    """Counts what one member does."""

    def __init__(self, told: Told) -> None:
        self._told = told
        self._seen: dict[str, int] = {}

    def delivered(self, message: Message) -> None:
        """Not of interest here."""

    def tried(self, _offsets: Sequence[TopicPartition]) -> None:
        """Counted by its answer."""

    def committed(self, _offsets: Sequence[TopicPartition]) -> None:
        """One request, whatever is in it."""
        self._told.count("committed")

    def failed(self, name: str) -> None:
        """One request."""
        self._told.count("failed")
        self._told.codes[name] += 1

    def died(self, name: str) -> None:
        """Not seen with the classic protocol."""
        self._told.codes[name] += 1

    def statistics(self, text: str) -> None:
        """FindCoordinator requests since the last time."""
        for name, each in json.loads(text)["brokers"].items():  # one that is gone and back begins anew
            sent = each["req"].get("FindCoordinator", 0)
            before = self._seen.get(name, 0)
            self._told.count("FindCoordinator", sent - before if sent >= before else sent)
            self._seen[name] = sent


def member(cluster: Cluster, group: str, told: Told) -> LiveMember:
    """One consumer, counted."""
    counting = Counting(told)
    properties = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": group,
        "statistics.interval.ms": 500,
        "stats_cb": counting.statistics,
    }
    return LiveMember(properties, TOPIC, counting)


def chosen(cluster: Cluster) -> str:
    """A group that is coordinated by broker 2 and will be by broker 1. As in the KIP, its next partition is
    one of the first 55, whose leader is known."""
    leaders = leaders_of(cluster.brokers[0].address, OFFSETS)
    names = (f"consumer_group_{number}" for number in range(10_000))
    return next(
        name
        for name in names
        if leaders[partition_of(name, BEFORE)] == 2 and leaders.get(partition_of(name, AFTER)) == 1
    )


def expand(cluster: Cluster) -> None:
    """65 partitions, led and told by both brokers."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for each in admin.create_partitions([NewPartitions(OFFSETS, AFTER)]).values():
        each.result(60.0)
    wait_until(
        lambda: all(len(leaders_of(node.address, OFFSETS)) == AFTER for node in cluster.brokers),
        60.0,
        "both brokers tell 65 partitions",
    )


def measured(cluster: Cluster, stretch_s: float) -> tuple[Told, dict[str, Any]]:
    """The whole story."""
    create_topic(cluster.bootstrap, TOPIC, PARTITIONS, replicas=REPLICAS)
    first = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "makes-the-topic", "log_level": 0})
    first.subscribe([TOPIC])
    wait_until(lambda: bool(first.poll(0.2)) or bool(first.assignment()), 60.0, "there is an offsets topic")
    first.close()
    group = chosen(cluster)
    told = Told()
    with producing(cluster, TOPIC, PARTITIONS):
        members = [member(cluster, group, told) for _ in range(2)]
        time.sleep(stretch_s)
        told.mark(RAISED)
        expand(cluster)
        time.sleep(stretch_s)
        told.mark("broker 2 stops")
        cluster, _ = replace_node(cluster, 2, unchanged)
        told.mark("broker 2 is back")
        time.sleep(2 * stretch_s)
        told.mark("broker 1 stops")
        cluster, _ = replace_node(cluster, 1, unchanged)
        told.mark("broker 1 is back")
        time.sleep(stretch_s)
        for each in members:
            each.end()
        for each in members:
            each.join()
    return told, {"group": group}


def rates(told: Told) -> dict[str, dict[str, float]]:
    """Mean a second of each count, by stretch."""
    times = {what: at for at, what in told.marks}
    stretches = {
        "all count 55": (2.0, times[RAISED]),
        "65 partitions, all count 55": (times[RAISED], times["broker 2 stops"]),
        "broker 2 restarts": (times["broker 2 stops"], times["broker 2 is back"]),
        "broker 2 counts 65": (times["broker 2 is back"], times["broker 1 stops"]),
        "broker 1 restarts": (times["broker 1 stops"], times["broker 1 is back"]),
        "all count 65": (times["broker 1 is back"] + 2.0, max(told.counts["committed"], default=0)),
    }
    return {
        stretch: {
            name: round(
                sum(number for second, number in found.items() if since <= second < until)
                / max(1.0, until - since),
                2,
            )
            for name, found in told.counts.items()
        }
        for stretch, (since, until) in stretches.items()
    }


def drawn(told: Told) -> str:
    """The two graphs: FindCoordinator requests, and commits that failed beside those that did not."""
    last = max(max(found, default=0) for found in told.counts.values()) + 1
    graphs = [
        ("FindCoordinator requests a second", [("FindCoordinator", "hsl(212 55% 50%)")]),
        ("commits a second: acknowledged, failed", [("committed", "hsl(150 55% 40%)"), ("failed", "#c22")]),
    ]
    parts: list[Markup] = []
    for place, (title, lines) in enumerate(graphs):
        floor = (place + 1) * (_HEIGHT + _FOOT) - 14
        top = max((max(told.counts[name].values(), default=0) for name, _ in lines), default=0) or 1
        parts += [
            element("text", f"{title} (highest: {top})", x=_LEFT, y=floor - _HEIGHT - 4),
            element("line", x1=_LEFT, y1=floor, x2=_WIDTH, y2=floor, stroke="#888"),
            *(_line(told.counts[name], shade, last, (floor, top)) for name, shade in lines),
            *_marks(told.marks, last, floor),
        ]
    height = 2 * (_HEIGHT + _FOOT)
    return str(
        element(
            "svg",
            *parts,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 -14 {_WIDTH} {height + 20}",
            style="font:12px sans-serif;background:#fff",
        )
    )


def _x(second: float, last: int) -> float:
    return round(_LEFT + second / last * (_WIDTH - _LEFT), 1)


def _line(found: Mapping[int, int], shade: str, last: int, scale: tuple[int, int]) -> Markup:
    floor, top = scale
    points = " ".join(
        f"{_x(second, last)},{round(floor - found.get(second, 0) / top * (_HEIGHT - 24), 1)}"
        for second in range(last)
    )
    return element("polyline", points=points, fill="none", stroke=shade, **{"stroke-width": 1.6})


def _marks(marks: Sequence[tuple[float, str]], last: int, floor: int) -> Iterator[Markup]:
    for at, what in marks:
        x = _x(at, last)
        yield element(
            "line", x1=x, y1=floor - _HEIGHT + 8, x2=x, y2=floor, stroke="#aaa", **{"stroke-dasharray": 3}
        )
        left = not what.endswith("is back")
        anchor = {"text-anchor": "end" if left else "start", "font-size": 10}
        yield element("text", what, x=x - 2 if left else x + 2, y=floor + 12, **anchor)


def main() -> int:
    """Measure, draw and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stretch", type=float, default=15.0, help="seconds of each stretch")
    parser.add_argument("--picture", type=Path, default=Path("docs/images/careless-expansion.svg"))
    given = parser.parse_args()
    five = {"offsets.topic.num.partitions": str(BEFORE), "offsets.topic.replication.factor": "2"}
    with fresh_home() as home:
        home.create()
        options = ZookeeperModeOptions(nodes=2, heap="384m", properties=five)
        told, said = measured(start_zookeeper_mode(home, start_zookeeper(home), options), given.stretch)
    given.picture.write_text(drawn(told))
    found = rates(told)
    said |= {
        "rates": found,
        "marks": told.marks,
        "codes": dict(told.codes),
        "by_second": {name: dict(sorted(each.items())) for name, each in told.counts.items()},
    }
    return report("careless-expansion", [], said)


if __name__ == "__main__":
    sys.exit(main())
