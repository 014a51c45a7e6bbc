"""What an expansion without care does to a cluster whose clients go on, and what a repair brings back.

Three brokers, once 4.3.1 (NEW) and once 3.9.2 with ZooKeeper (OLD); ``__consumer_offsets`` with 5 partitions;
300 groups that are away, each with ten offsets with epochs and metadata, and twelve groups with a running
member each that reads and commits four times a second (confluent-kafka; on NEW half of them by the consumer
protocol). The topic gets 8 partitions, and the brokers are restarted one after the other, the members
running. Measured: which groups two brokers own half-way (each broker is asked directly, by OffsetFetch,
which groups it serves); which offsets are lost then, and what members read again; after an operator committed
a third of the groups by hand, which of these stay invisible although they were acknowledged, at once and
after leaders moved twice; the result has the names of all these groups. Then ``groupshift repair placement
--execute`` (and on OLD the restarts that it asks for).

* ``unclean_NEW``, ``unclean_OLD``: rules of the audit that fail then. Must be 0.
* ``not_brought_back_NEW``, ``not_brought_back_OLD``: offsets that are not answered as they were committed
  last (epoch and metadata, too), and that the repair did not leave to a person. Must be 0.

Run: make bench BENCH=careless-clusters
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import Any

from confluent_kafka import Consumer
from measuring import Aim, fresh_home, report
from measuring.careless_cluster import (
    AFTER,
    BEFORE,
    PARTITIONS,
    TOPIC,
    Key,
    Said,
    answered,
    audited,
    by_key,
    committed,
    differing,
    expanded,
    groups_of,
    owners_of,
    restarted,
    rows,
    started,
)
from measuring.live_groups import LIVE, LIVE_PARTITIONS, LiveGroup, producing
from rich.console import Console
from rich.table import Table

from groupshift.cli.main import main as groupshift
from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.rows import OffsetRow
from groupshift.domain.verdict import Finding, Verdict
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.layout import Cluster
from groupshift_sandbox.processes import wait_until

LIVING, BY_HAND, LATER = 12, 3, 1_000
_TITLES = {
    "two_owners": "groups that two brokers own when one of three is restarted",
    "no_owner": "groups that no broker owns then",
    "groups_lost": "groups away that lost offsets, all restarted",
    "offsets_lost": "their offsets that are answered as -1",
    "live_moved": "running members of groups that move",
    "live_dead": "of these ended by a fatal error",
    "live_set_back": "of these that went back to the first record",
    "read_again": "records that members read again",
    "stale_at_once": "acknowledged commits of 1,000 by hand that are not answered",
    "stale_later": "the same after leaders moved twice",
    "restored": "offsets that the repair brought back",
    "overwritten_by_hand": "offsets named as overwritten: by hand",
    "overwritten": "the same: by a member that went on",
    "conflict": "offsets left to a person",
    "unclean": "rules of the audit that fail then",
    "not_brought_back": "offsets not answered as committed last, nor left to a person",
}


@contextmanager
def living(cluster: Cluster, kind: str) -> Iterator[list[LiveGroup]]:
    """Members that read and commit until the end."""
    names = [f"live-{number}" for number in range(LIVING)]
    with producing(cluster, LIVE, LIVE_PARTITIONS):
        found = [
            LiveGroup(cluster, name, native=kind == "NEW" and number % 2 == 1)
            for number, name in enumerate(names)
        ]
        wait_until(lambda: all(each.last for each in found), 120.0, "every member committed")
        try:
            yield found
        finally:
            for each in found:
                each.end()
            for each in found:
                each.join()


def careless(
    cluster: Cluster, kind: str, stretch_s: float
) -> tuple[Cluster, list[LiveGroup], dict[str, int], dict[str, Any]]:
    """Expand and restart while members run; what is found half-way and then, in figures and in names."""
    wanted = by_key(rows())
    with living(cluster, kind) as members:
        time.sleep(stretch_s)
        expanded(cluster)
        cluster = restarted(cluster, [3])
        time.sleep(stretch_s)
        owners = owners_of(cluster, [*groups_of(wanted), *(each.group for each in members)])
        cluster = restarted(cluster, [1, 2])
        time.sleep(stretch_s)
    lost = differing(wanted, answered(cluster, groups_of(wanted)))
    moved = [each for each in members if partition_of(each.group, BEFORE) != partition_of(each.group, AFTER)]
    names: dict[str, Any] = {
        "two_owners": {group: nodes for group, nodes in sorted(owners.items()) if len(nodes) > 1},
        "no_owner": sorted(group for group, nodes in owners.items() if not nodes),
        "groups_lost": groups_of(lost),
    }
    figures = {name: len(each) for name, each in names.items()} | {
        "offsets_lost": len(lost),
        "live_moved": len(moved),
        "live_dead": sum(each.dead for each in moved),
        "live_set_back": sum(each.set_back for each in moved),
        "read_again": sum(each.read_again for each in members),
    }
    return cluster, members, figures, names


def by_hand(cluster: Cluster) -> tuple[Cluster, dict[Key, Said], dict[str, list[Key]]]:
    """An operator commits a third of the groups anew, each a thousand further; every commit is acknowledged.
    Which of them are not answered then, and after leaders moved twice."""
    later = [
        OffsetRow(
            group=row.group, topic=row.topic, partition=row.partition, offset=row.offset + LATER,
            leader_epoch=row.leader_epoch, metadata=row.metadata,
        )
        for row in rows()
        if int(row.group.partition("-")[2]) % BY_HAND == 0
    ]  # fmt: skip
    committed(cluster, later)
    wanted = by_key(later)
    groups = groups_of(wanted)
    at_once = differing(wanted, answered(cluster, groups))
    cluster = restarted(cluster, [1])
    cluster = restarted(cluster, [2])
    stale = {"stale_at_once": at_once, "stale_later": differing(wanted, answered(cluster, groups))}
    return cluster, wanted, stale


def repaired(cluster: Cluster) -> tuple[Cluster, list[dict[str, Any]]]:
    """By the verb, until it restored everything; on OLD brokers are restarted afterwards."""
    documents: list[dict[str, Any]] = []

    def settled() -> bool:
        """Members that did not get away are named; the verb says: stop them, then run it again."""
        where = ("--bootstrap-servers", cluster.bootstrap, "--timeout", "60", "--json")
        with redirect_stdout(io.StringIO()) as told:
            groupshift(["repair", "placement", "--execute", *where])
        documents.append(json.loads(told.getvalue()))
        return not documents[-1]["not_restored"] and not documents[-1]["strays_left"]

    wait_until(settled, 120.0, "nothing is left to restore or to erase", every_s=2.0)
    if any(each["erased"] for each in documents):
        cluster = restarted(cluster, [1, 2, 3])
    return cluster, documents


def mended(
    cluster: Cluster, members: Iterable[LiveGroup], commanded: Mapping[Key, Said]
) -> tuple[dict[str, int], dict[str, Any]]:
    """What the repair did, and what is answered then."""
    cluster, documents = repaired(cluster)
    named = {
        (chosen["group"], chosen["topic"], int(chosen["partition"])): str(each["mend"])
        for each in documents[0]["repairs"]
        for chosen in [each["chosen"]]
    }
    wanted = by_key(rows()) | dict(commanded)
    living = {(each.group, LIVE, number): each for each in members for number in each.last}
    found = answered(cluster, {group for group, _, _ in (*wanted, *living)})
    gone = differing(wanted, found)
    gone += [key for key, member in living.items() if not member.may_be(key[2], found.get(key, (None,))[0])]
    unnamed = [key for key in gone if named.get(key) != "conflict"]
    mends = Counter(named.values())
    after = audited(cluster).judgement
    by_hand = sum(mend == "overwritten" and key in commanded for key, mend in named.items())
    return {
        "restored": sum(int(each["restored"] or 0) for each in documents),
        "overwritten_by_hand": by_hand,
        "overwritten": mends["overwritten"] - by_hand,
        "conflict": mends["conflict"],
        "not_brought_back": len(unnamed),
        "unclean": sum(_wrong(each) for each in after.findings),
    }, {
        "runs": len(documents),
        "gone": [{"key": key, "mend": named.get(key), "found": found.get(key)} for key in gone],
        "against": after.reasons,
    }


def _wrong(found: Finding) -> bool:
    """Warnings about residue and about the count of the configuration stay after an unprepared expansion."""
    warned = found.verdict is Verdict.INCONCLUSIVE and found.rule in {"X06", "X07", "X08"}
    return found.verdict is not Verdict.PASS and not warned


def measured(home: Home, kind: str, stretch_s: float) -> tuple[dict[str, int], dict[str, Any]]:
    """The whole story on one kind of coordinator."""
    cluster = started(home, kind)
    create_topic(cluster.bootstrap, TOPIC, PARTITIONS)
    create_topic(cluster.bootstrap, LIVE, LIVE_PARTITIONS)
    first = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "makes-the-topic", "log_level": 0})
    first.subscribe([TOPIC])
    wait_until(lambda: bool(first.poll(0.2)) or bool(first.assignment()), 60.0, "there is an offsets topic")
    first.close()
    committed(cluster, rows())
    cluster, members, told, names = careless(cluster, kind, stretch_s)
    cluster, commanded, stale = by_hand(cluster)
    told |= {name: len(keys) for name, keys in stale.items()}
    names |= {name: groups_of(keys) for name, keys in stale.items()}
    found, rest = mended(cluster, members, commanded)
    refused = Counter[str]()
    for each in members:
        refused += each.failures
    return told | found, rest | {"groups": names, "failed_commits": dict(refused)}


def main() -> int:
    """Measure both kinds and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stretch", type=float, default=8.0, help="seconds that members run at each phase")
    parser.add_argument("--kind", choices=("NEW", "OLD"), action="append", help="one of them only")
    given = parser.parse_args()
    figures: dict[str, dict[str, int]] = {}
    said: dict[str, Any] = {}
    for kind in given.kind or ("NEW", "OLD"):
        with fresh_home() as home:
            figures[kind], said[kind] = measured(home.create(), kind, given.stretch)
    table = Table("", *figures)
    for name, title in _TITLES.items():
        table.add_row(title, *(f"{each[name]:,}" for each in figures.values()))
    Console(width=110).print(table)
    aims = [
        Aim(name=f"{name}_{kind}", value=each[name], aim=0)
        for name in ("not_brought_back", "unclean")
        for kind, each in figures.items()
    ]
    return report("careless-clusters", aims, {"figures": figures, **said})


if __name__ == "__main__":
    sys.exit(main())
