"""How long a scan of 5,000 groups takes on a real ensemble and broker, and whether its memory stays flat.

Each group has four members, registered below ``ids`` and (every second group) ``migration/ids``, a topic
of ten partitions with ten owner nodes and ten offsets in ZooKeeper, and offsets in Kafka; 50 topics are
shared by 100 groups each. The scan runs in a process of its own, as ``groupshift scan`` does it: listing,
reading both systems, all rules, and the journal.

* ``scan_s``: wall time of the process that scans 5,000 groups for the first time; ``again_s``: once more.
* ``rss_ratio``: peak resident memory of that process over 5,000 groups against 1,000.
* ``one_by_one_s`` (raw): only the ZooKeeper reads, as single pipelined requests of one kazoo client.

Run: make bench BENCH=scan-zookeeper
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition
from kazoo.client import KazooClient
from measuring import Aim, fresh_home, report

from groupshift.adapters.zookeeper.ensemble import ZookeeperGroups
from groupshift.adapters.zookeeper.session import ZookeeperConnection
from groupshift.domain.modes import ABSENT_MODE, Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.registration import Registration, encode_awareness, encode_registration
from groupshift.domain.znodes import GroupPaths
from groupshift_sandbox.artifacts import ALL, jars
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic, start_kafka
from groupshift_sandbox.zookeeper import ZookeeperOptions, start_zookeeper

GROUPS, SMALL, MEMBERS, PARTITIONS, TOPICS = 5_000, 1_000, 4, 10, 50
IN_FLIGHT = 50
THREADS = 8
WINDOW = 200


def nodes(group: str, number: int) -> Iterator[tuple[str, bytes, bool]]:
    """Path, data and whether it is ephemeral, parents first."""
    paths, topic = GroupPaths(group), f"topic-{number % TOPICS}"
    subscription = Registration(subscription=((topic, 1),), timestamp="1486000000000")
    members = [f"{group}_host{n}-1486000000000-{number:08x}" for n in range(MEMBERS)]
    aware = number % 2 == 0
    folders = [paths.root, paths.ids, paths.owners, paths.offsets]
    folders += [f"{paths.owners}/{topic}", f"{paths.offsets}/{topic}"]
    folders += [f"{paths.root}/migration", paths.migration_ids] if aware else []
    yield from ((folder, b"", False) for folder in folders)
    for member in members:
        yield paths.id_of(member), encode_registration(subscription), True
        if aware:
            said = encode_awareness(subscription, software="bench", mode=Mode.ZOOKEEPER, node=ABSENT_MODE)
            yield paths.migration_id_of(member), said, True
    for n in range(PARTITIONS):
        at = TopicPartition(topic, n)
        yield paths.owner_of(at), f"{members[n % MEMBERS]}-0".encode(), True
        yield paths.offset_of(at), b"0", False


def populate(client: KazooClient, first: int, last: int) -> None:
    """Create groups ``first`` to ``last`` - 1, one transaction each, many under way."""
    client.ensure_path("/consumers")
    waiting = []
    for number in range(first, last):
        transaction = client.transaction()
        for path, data, ephemeral in nodes(f"group-{number:05}", number):
            transaction.create(path, data, ephemeral=ephemeral)
        waiting.append(transaction.commit_async())
        if len(waiting) >= IN_FLIGHT:
            check(waiting.pop(0).get(timeout=60))
    for each in waiting:
        check(each.get(timeout=60))


def check(outcome: list[Any]) -> None:
    """Raise when a transaction failed."""
    failed = [each for each in outcome if isinstance(each, Exception)]
    if failed:
        raise failed[0]


def commit_to_kafka(bootstrap: str, first: int, last: int) -> None:
    """Committed offsets of every group in Kafka, too."""

    def commit(number: int) -> None:
        topic = f"topic-{number % TOPICS}"
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"group-{number:05}"})
        offsets = [KafkaPartition(topic, n, 0) for n in range(PARTITIONS)]
        consumer.commit(offsets=offsets, asynchronous=False)
        consumer.close()

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(commit, range(first, last)))


def write_settings(home: Home, zookeeper: str, bootstrap: str) -> Path:
    """A settings file with a fresh journal."""
    home.settings_file.write_text(
        f'[kafka]\nbootstrap_servers = "{bootstrap}"\n[zookeeper]\nhosts = "{zookeeper}"\n'
        f'[fleet]\ndriver = "manual"\n[journal]\nurl = "sqlite:///{home.journal}"\n'
        f'[evidence]\nroot = "{home.evidence}"\n'
    )
    return home.settings_file


SCAN = """
import json, resource, sys, time
sys.modules["hypothesis"] = None  # of tests alone: not there where users install, or kio would import it
began = time.monotonic()
from groupshift.bootstrap.moves import build_scans
from groupshift.settings import load
with build_scans(load(sys.argv[1])) as scans:
    found = scans.scan(lambda done, total: None)
print(json.dumps({
    "seconds": time.monotonic() - began,
    "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    "totals": dict(found.record.totals),
}))
"""


def scan(settings: Path) -> dict[str, Any]:
    """One scan in a fresh process: wall seconds, peak resident memory, totals."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", SCAN, str(settings)], capture_output=True, text=True, check=True, timeout=600
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**found, "seconds": time.monotonic() - began}


def one_by_one(zookeeper: str) -> float:
    """Seconds to read the ZooKeeper half of every group with single requests, all of a window pipelined."""
    reader = ZookeeperGroups(ZookeeperConnection(zookeeper, timeout_s=60), together=False)
    try:
        names = reader.groups()
        began = time.monotonic()
        for at in range(0, len(names), WINDOW):
            reader.window(names[at : at + WINDOW])
        return time.monotonic() - began
    finally:
        reader.close()


def measure(small: int, large: int) -> dict[str, Any]:
    """Populate, scan, populate the rest, scan twice."""
    with fresh_home() as home:
        home.create()
        zookeeper = start_zookeeper(home, ZookeeperOptions(heap="1g"))
        bootstrap = start_kafka(home, zookeeper).address
        for number in range(TOPICS):
            create_topic(bootstrap, f"topic-{number}", PARTITIONS)
        client = KazooClient(hosts=zookeeper, timeout=60)
        client.start(timeout=15)
        try:
            settings = write_settings(home, zookeeper, bootstrap)
            fill(client, bootstrap, 0, small)
            few = scan(settings)
            fill(client, bootstrap, small, large)
            home.journal.unlink()
            return {
                "few": few,
                "many": scan(settings),
                "again": scan(settings),
                "one_by_one_s": one_by_one(zookeeper),
            }
        finally:
            client.stop()
            client.close()


def fill(client: KazooClient, bootstrap: str, first: int, last: int) -> None:
    """Groups in both systems."""
    began = time.monotonic()
    populate(client, first, last)
    print(f"  {last - first} groups in ZooKeeper after {time.monotonic() - began:.1f} s", flush=True)
    commit_to_kafka(bootstrap, first, last)
    print(f"  their offsets in Kafka after {time.monotonic() - began:.1f} s", flush=True)


def main() -> int:
    """Measure, keep the raw figures; exit code 0 if every aim holds."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--groups", type=int, default=GROUPS, help="groups of the large scan")
    arguments.add_argument("--small", type=int, default=SMALL, help="groups of the small scan")
    options = arguments.parse_args()
    for artifact in ALL:
        jars(artifact)
    found = measure(options.small, options.groups)
    aims = [
        Aim(name="scan_s", value=found["many"]["seconds"], aim=30),
        Aim(name="again_s", value=found["again"]["seconds"], aim=30),
        Aim(name="rss_ratio", value=found["many"]["rss_mib"] / found["few"]["rss_mib"], aim=1.25),
    ]
    return report("scan-zookeeper", aims, found)


if __name__ == "__main__":
    sys.exit(main())
