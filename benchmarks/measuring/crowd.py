"""Several `MigratingConsumer` members in one process, each with a thread and a ledger of its own.

``python benchmarks/measuring/crowd.py --group G --topic T --zookeeper Z --bootstrap B --first 1 --count 10
--ledgers DIR``; says ``ready`` when all have subscribed; SIGTERM ends it.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from pathlib import Path

from groupshift.consumers import MigratingConsumer

_ASSIGNOR = "coordination.migration.partition.assignment.strategy"


def read(consumer: MigratingConsumer, ledger: Path, ended: threading.Event) -> None:
    """Write every record down until the end."""
    with ledger.open("a") as output:
        while not ended.is_set():
            records = consumer.consume(500, 0.2)
            at_ms = time.time_ns() // 1_000_000
            for each in records:
                line = {
                    "member": consumer.consumer_id, "topic": each.topic(), "partition": each.partition(),
                    "offset": each.offset(), "at_ms": at_ms,
                }  # fmt: skip
                output.write(json.dumps(line, separators=(",", ":")) + "\n")
            output.flush()


def join(given: argparse.Namespace, number: int) -> MigratingConsumer:
    """One member, subscribed."""
    consumer = MigratingConsumer(
        {
            "group.id": given.group,
            "consumer.id": f"m{number:02d}",
            "zookeeper.connect": given.zookeeper,
            "bootstrap.servers": given.bootstrap,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 1000,
            "zookeeper.session.timeout.ms": 20_000,
            "session.timeout.ms": 30_000,
            _ASSIGNOR: "roundrobin",
        }
    )
    consumer.subscribe([given.topic])
    return consumer


def main() -> int:
    """Run until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("group", "topic", "zookeeper", "bootstrap"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--first", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--ledgers", type=Path, required=True)
    given = parser.parse_args()
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    consumers = [join(given, number) for number in range(given.first, given.first + given.count)]
    readers = [
        threading.Thread(target=read, args=(each, given.ledgers / f"{each.consumer_id}.jsonl", ended))
        for each in consumers
    ]
    for reader in readers:
        reader.start()
    print("ready", flush=True)
    ended.wait()
    for reader in readers:
        reader.join()
    for each in consumers:
        each.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
