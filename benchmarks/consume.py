"""What coordination costs a consumer that only consumes: `MigratingConsumer` against tuned confluent-kafka.

One broker, one topic of six partitions, 200-byte records. Every contender reads the whole topic from its
start, alone in a group of its own and in a process of its own, with its own default settings; rounds of all
contenders follow each other, so that a slow minute of the machine hits all alike.

* `batch`: ``consume(500)``; `poll`: ``poll()``, each by `confluent_kafka.Consumer` and by
  `MigratingConsumer` in zookeeper and in kafka mode. Throughput is records over the time from the first
  record to the last.
* The peer is `tuned`: confluent-kafka with two of the settings that our fetching client has
  (docs/service-teams/configuration.md). By default librdkafka waits 1 s before it fetches again once its
  queue was full, and runs dry meanwhile: `plain` is that, shown once before the rounds.
* A ratio is ours over the peer's, within one round; what counts is the median over the rounds, of the
  worse mode; the lowest and the highest are printed. `memory_ratio` compares the highest resident set size of
  the processes that read by batch.

Run: make bench BENCH=consume
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, Producer
from kazoo.client import KazooClient
from measuring import Aim, fresh_home, median, report

from groupshift.consumers import MigratingConsumer
from groupshift.domain.modes import Mode
from groupshift.domain.znodes import GroupPaths
from groupshift_sandbox.artifacts import ALL, jars
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import KafkaOptions, create_topic, start_kafka
from groupshift_sandbox.zookeeper import start_zookeeper

TOPIC, PARTITIONS, SIZE, BATCH = "numbers", 6, 200, 500
PEER = "tuned"
TUNED = {"fetch.wait.max.ms": 50, "fetch.queue.backoff.ms": 20}
OURS = (Mode.ZOOKEEPER.value, Mode.KAFKA.value)
WAYS, KINDS = ("batch", "poll"), (PEER, *OURS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """Addresses."""

    zookeeper: str
    bootstrap: str


def fill(bootstrap: str, records: int) -> None:
    """Write ``records`` of `SIZE` random-looking bytes, spread evenly."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "acks": 1})
    value = bytes(range(200))[:SIZE]
    for number in range(records):
        while True:
            try:
                producer.produce(TOPIC, value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def make(kind: str, group: str, servers: Servers) -> Any:
    """A consumer of ``kind`` that reads the topic from its start."""
    common = {"group.id": group, "bootstrap.servers": servers.bootstrap, "auto.offset.reset": "earliest"}
    if kind not in OURS:
        plain = Consumer(common | (TUNED if kind == PEER else {}))
        plain.subscribe([TOPIC])
        return plain
    ours = MigratingConsumer({**common, "zookeeper.connect": servers.zookeeper})
    ours.subscribe([TOPIC])
    return ours


def prepare(kind: str, group: str, servers: Servers) -> None:
    """Write the mode node before the member joins."""
    if kind not in OURS:
        return
    client = KazooClient(servers.zookeeper)
    client.start()
    client.create(GroupPaths(group).mode, kind.encode(), makepath=True)
    client.stop()
    client.close()


def read(consumer: Any, way: str, records: int) -> float:
    """Seconds from the first record to the last."""
    count, first = 0, 0.0
    if way == "batch":
        while count < records:
            got = len(consumer.consume(BATCH, 1.0))
            first = first or (time.perf_counter() if got else 0.0)
            count += got
    else:
        while count < records:
            if consumer.poll(1.0) is not None:
                first = first or time.perf_counter()
                count += 1
    return time.perf_counter() - first


def contender(kind: str, way: str, records: int, servers: Servers) -> None:
    """One process: read all, print one line of JSON."""
    group = f"{kind}-{way}-{time.time_ns()}"
    prepare(kind, group, servers)
    consumer = make(kind, group, servers)
    seconds = read(consumer, way, records)
    if kind in OURS and consumer.status().mode != kind:
        raise SystemExit(f"{kind}: the member ended in mode {consumer.status().mode}")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    consumer.close()
    print(json.dumps({"records_per_s": records / seconds, "memory_kib": memory}))


def one(kind: str, way: str, records: int, servers: Servers) -> dict[str, Any]:
    """Run a contender as a process of its own."""
    command = [sys.executable, __file__, "--contender", kind, way, "--records", str(records)]
    command += ["--zookeeper", servers.zookeeper, "--bootstrap", servers.bootstrap]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(f"  {way:6} {kind:10} {figures['records_per_s']:12,.0f} records/s", flush=True)
    return figures


def measure(home: Home, records: int, rounds: int) -> list[dict[str, Any]]:
    """All rounds; each is {way: {kind: figures}}."""
    zookeeper = start_zookeeper(home.create())
    servers = Servers(
        zookeeper=zookeeper, bootstrap=start_kafka(home, zookeeper, KafkaOptions(heap="1g")).address
    )
    create_topic(servers.bootstrap, TOPIC, PARTITIONS)
    print(f"  writing {records:,} records", flush=True)
    fill(servers.bootstrap, records)
    for way in WAYS:
        one("plain", way, records, servers)  # warms the page cache
    found = []
    for number in range(rounds):
        kinds = KINDS if number % 2 == 0 else KINDS[::-1]
        found.append({way: {kind: one(kind, way, records, servers) for kind in kinds} for way in WAYS})
    return found


def ratios(rounds: list[dict[str, Any]], way: str, figure: str) -> dict[str, list[float]]:
    """Ours over the peer's, round by round, of each mode; prints median and spread."""
    by_mode = {kind: [each[way][kind][figure] / each[way][PEER][figure] for each in rounds] for kind in OURS}
    for kind, values in by_mode.items():
        spread = f"{median(values):.3f} ({min(values):.3f} to {max(values):.3f})"
        print(f"  {way:6} {kind:10} {figure:14} over {PEER}: {spread} in {len(values)} rounds")
    return by_mode


def aims(rounds: list[dict[str, Any]]) -> list[Aim]:
    """Medians of the ratios, of the worse mode."""
    speed = {way: min(map(median, ratios(rounds, way, "records_per_s").values())) for way in WAYS}
    memory = max(map(median, ratios(rounds, "batch", "memory_kib").values()))
    return [
        Aim(name="batch_ratio", value=speed["batch"], aim=0.88, at_least=True),
        Aim(name="poll_ratio", value=speed["poll"], aim=0.85, at_least=True),
        Aim(name="memory_ratio", value=memory, aim=1.2),
    ]


def main() -> int:
    """Measure; see `measuring.report`."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--records", type=int, default=5_000_000, help="records in the topic")
    arguments.add_argument("--rounds", type=int, default=9)
    arguments.add_argument("--contender", nargs=2, metavar=("KIND", "WAY"), help=argparse.SUPPRESS)
    arguments.add_argument("--zookeeper", help=argparse.SUPPRESS)
    arguments.add_argument("--bootstrap", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.contender:
        servers = Servers(zookeeper=options.zookeeper, bootstrap=options.bootstrap)
        kind, way = options.contender
        contender(kind, way, options.records, servers)
        return 0
    for artifact in ALL:
        jars(artifact)
    with fresh_home() as home:
        rounds = measure(home, options.records, options.rounds)
    return report("consume", aims(rounds), rounds)


if __name__ == "__main__":
    sys.exit(main())
