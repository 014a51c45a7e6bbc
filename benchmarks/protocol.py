"""How long a partition is unowned while a group changes its protocol: the tool against stop-all/start-all.

Five members of confluent-kafka 2.16.1 with the assignor range read six partitions that get 20 records/s each,
from one broker 4.3.1. Clients and broker have stock settings: a first join of an empty classic group is held
for 3 s, heartbeats come every 3 s and 5 s. There and back, again and again:

* ours: the engine of `groupshift protocol run` moves static members, one after the other. Only the evidence
  is compared in this process instead of by Spark, for which no member waits.
* dynamic: the same with members that have no instance id. Reported without an aim.
* the peer: SIGTERM to all members, wait for their end, start all with the other protocol. They are dynamic: a
  group of static ones is empty only when their sessions have ended, after 45 s.

A partition's figure of a move is its longest time without an owner, by what members told of what they were
given; `p95_unowned_s` is the 95th percentile of all of them.

Run: make bench BENCH=protocol
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from measuring import Aim, fresh_home, percentile, report
from measuring.protocol_group import KafkaGroup, protocol_group

from groupshift.domain.group_protocol import POLICY, Protocol
from groupshift_sandbox.kraft import KraftOptions, start_kraft

RELEASE = "4.3.1"
STOCK = {POLICY: "bidirectional", "group.initial.rebalance.delay.ms": "3000"}
OURS, DYNAMIC, PEER = "static", "dynamic", "stop-all"


def measure(root: Path, bootstrap: str, arm: str, rounds: int) -> dict[str, Any]:
    """One arm from nothing to figures: ``rounds`` moves each way."""
    with protocol_group(root, bootstrap, arm, static=arm == OURS) as group:
        took: list[float] = []
        for number in range(rounds):
            took += [_moved(group, arm, to) for to in (Protocol.CONSUMER, Protocol.CLASSIC)]
            print(f"  {arm}: {number + 1}/{rounds} each way, the last in {took[-1]:.1f} s", flush=True)
        return {**group.figures(), "took_s": took}


def _moved(group: KafkaGroup, arm: str, to: Protocol) -> float:
    return group.restart(to) if arm == PEER else group.move(to)


def p95(arm: Mapping[str, Any]) -> float:
    """Of the longest gap of each partition in each move, in seconds."""
    return percentile([gap for move in arm["unowned_s"] for gap in move], 0.95)


def aims(found: Mapping[str, Mapping[str, Any]]) -> list[Aim]:
    """The figures that are aimed at; nothing is asked of the dynamic arm but that it loses nothing."""
    ours = found[OURS]
    at_once = sum(each > 0 for each in ours["all_unowned_s"])
    values = (
        ("p95_unowned_s", p95(ours), 1.5),
        ("moves_all_unowned_at_once", at_once, 0),
        ("unowned_ratio", p95(ours) / p95(found[PEER]), 0.5),
        ("lost", sum(each["lost"] for each in found.values()), 0),
        ("overlaps", sum(each["overlaps"] for each in found.values()), 0),
    )
    return [Aim(name=name, value=value, aim=aim) for name, value, aim in values]


def main() -> int:
    """Measure; see `measuring.report`."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--moves", type=int, default=20, help="moves each way with static members")
    arguments.add_argument("--others", type=int, default=5, help="moves each way of the other two arms")
    options = arguments.parse_args()
    with fresh_home() as home:
        kafka = start_kraft(home.create(), KraftOptions(release=RELEASE, properties=STOCK))
        found = {
            arm: measure(home.root, kafka.bootstrap, arm, rounds)
            for arm, rounds in ((PEER, options.others), (OURS, options.moves), (DYNAMIC, options.others))
        }
    for arm, each in found.items():
        at_once = sum(gap > 0 for gap in each["all_unowned_s"])
        print(f"{arm}: p95 {p95(each):.3f} s, all partitions at once unowned in {at_once} of {each['moves']}")
    return report("protocol", aims(found), found)


if __name__ == "__main__":
    sys.exit(main())
