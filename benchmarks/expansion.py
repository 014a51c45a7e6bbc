"""How fast an expansion of the offsets topic is planned, and how fast offsets are given back, against Kafka's
own command line on the same broker.

* ``plan_500k_s``: seconds from 500,000 groups as brokers list them to the plan: hashes, the groups that move,
  the cost of four counts, every rule. No broker, no log: what is measured is ours.
* ``commit_25k_s``: one KRaft broker 4.3.1; 1,000 groups x 25 offsets with metadata. Three steps of a run are
  driven by its engine, with a journal and the real ports: snapshot S of all groups, with the hashes of the
  log; the deletion; and ``restore``, which reads the log for what somebody else committed, commits in
  batches, reads each offset back from its coordinator, and holds all against the log. Timed are the first
  and the last of them. All must be equal. The log grows from round to round.
* ``cli_ratio``: the peer is ``kafka-consumer-groups.sh``, ``--export`` and then ``--from-file --execute``
  (class ConsumerGroupCommand of the jar kafka-tools 4.3.1), a group at a time as people do it: the time of 20
  of the same groups in the same run, times 50, over ours. It keeps neither metadata nor leader epochs.

Run: make bench BENCH=expansion
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from measuring import Aim, fresh_home, median, report

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.spark_submit.java import java_binary
from groupshift.bootstrap.moves import Place, journal, opened, tools_of
from groupshift.domain.cluster import (
    BrokerView,
    ClusterView,
    PlacementView,
    QuorumView,
    TopicView,
)
from groupshift.domain.group_partition_and_count import Answers, expected, partition_of, probe_names
from groupshift.domain.group_protocol import KafkaGroup, Kind
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.run import Plan, make_plan
from groupshift.domain.verdict import Judgement
from groupshift.engine.begin import begin, claim
from groupshift.engine.move import RunOptions, Tools
from groupshift.engine.progress import Paused
from groupshift.engine.run import drive
from groupshift.moves.expansion.facts import ExpansionRequest, PlacementFacts
from groupshift.moves.expansion.move import ExpansionMove
from groupshift.moves.expansion.ports import SNAPSHOT, ExpansionPorts
from groupshift.moves.expansion.rules import Placement, plan_expansion
from groupshift.ports.runs import RunRecord
from groupshift.settings import parse
from groupshift_sandbox.artifacts import SIMPLE_LOGGING, TOOLS, class_path
from groupshift_sandbox.committing import commit
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.kraft import start_kraft
from groupshift_testing.offset_brokers import MemoryPlacementViews

NAMES, COUNT, AFTER = 500_000, 50, 100
GROUPS, PARTITIONS, BY_THE_PEER = 1_000, 25, 20
TOPIC = "orders"
ALL = tuple(f"group-{number:04}" for number in range(GROUPS))
_DRIVEN = ("snapshot", "delete-groups", "restore")
_PHASES = {"snapshot": "snapshot", "delete-groups": "delete", "restore": "restore"}
_TIMED = ("snapshot", "restore")
_PLAN_S, _COMMIT_S, _RATIO = 5.0, 10.0, 20.0


def cluster_of(names: Sequence[str]) -> PlacementView:
    """Three brokers that count 50 and list these groups."""
    leaders = tuple(number % 3 + 1 for number in range(COUNT))
    probes = probe_names(leaders)
    groups = tuple(
        KafkaGroup(group=name, kind=Kind.CLASSIC, protocol_type="consumer", state="Empty") for name in names
    )
    brokers = tuple(BrokerView(node_id=node, groups=groups[node - 1 :: 3]) for node in (1, 2, 3))
    return PlacementView(
        cluster=ClusterView(
            cluster_id="made-up",
            taken_at_ms=0,
            brokers=brokers,
            quorum=QuorumView(leader=1, voters=(1, 2, 3), high_watermark=1),
            partitions=COUNT,
        ),
        topic=TopicView(leaders=leaders, replicas=(3,) * COUNT),
        answers=tuple(
            Answers(node_id=node, named={name: expected(name, COUNT, leaders) for name in probes})
            for node in (1, 2, 3)
        ),
    )


def planned(rounds: int) -> tuple[Aim, dict[str, Any]]:
    """Plan again and again, each time from names that nobody hashed yet."""
    seconds: list[float] = []
    found: Placement | None = None
    for number in range(rounds):
        view = cluster_of([f"team-{n % 997}.service-{number}-{n:06}" for n in range(NAMES)])
        begun = time.perf_counter()
        found = plan_expansion(MemoryPlacementViews(view), None, AFTER)
        seconds.append(time.perf_counter() - begun)
    assert found is not None
    assert len(found.facts.hashed.groups) == NAMES
    said = {"seconds": seconds, "moving": len(found.facts.movers), "groups": NAMES}
    return Aim(name="plan_500k_s", value=median(seconds), aim=_PLAN_S), said


def populate(bootstrap: str) -> None:
    """25 offsets with metadata for each of 1,000 groups, and records behind them: the peer sets none beyond
    the log's end."""
    create_topic(bootstrap, TOPIC, PARTITIONS)
    cluster = KafkaCluster(bootstrap, timeout_s=120.0)
    with closing(cluster):
        commit(
            cluster,
            {
                group: {TopicPartition(TOPIC, p): (0, f"meta {n}") for p in range(PARTITIONS)}
                for n, group in enumerate(ALL)
            },
            leader_epoch=0,
        )


class Round(ExpansionMove):
    """A run that takes every group away and gives it back where it was: what the broker uses stays, so that
    it can be done again. The audit at its end is what nobody does."""

    def look(self, ports: ExpansionPorts, request: ExpansionRequest) -> Placement:  # noqa: ARG002
        """See `Move`: the brokers only."""
        view = ports.views.look()
        facts = PlacementFacts(view=view, to=view.count)
        return Placement(facts=facts, judgement=Judgement(findings=()))

    def plan(self, request: ExpansionRequest, facts: Placement) -> Plan:
        """See `Move`."""
        whole, count = super().plan(request, facts), facts.facts.view.count
        homes = {group: partition_of(group, count) for group in ALL}
        movers = [[group, home, home] for group, home in homes.items()]
        kept = [each for each in whole.steps if each.kind in {*_DRIVEN, "audit"}]
        return make_plan(kept, {**whole.about, "movers": movers})


def driven(at: tuple[Round, Tools, Any], run: RunRecord, kind: str) -> float:
    """Seconds of the one step of this kind, as a process does it that goes on with the run."""
    move, tools, ports = at
    phases = frozenset({_PHASES[kind]})
    options = RunOptions(who="benchmark", holder="benchmark", phases=phases)
    begun = time.perf_counter()
    progress = drive(claim(move, tools, ports, tools.runs.find(run.run), options))
    took = time.perf_counter() - begun
    assert isinstance(progress, Paused), f"{kind}: {progress}"
    return took


def ours(home: Home, bootstrap: str, number: int) -> dict[str, float]:
    """Seconds of each step; what is restored was read back."""
    settings = parse(
        {
            "kafka": {"bootstrap_servers": bootstrap},
            "journal": {"url": f"sqlite:///{home.root / f'journal-{number}.db'}"},
            "evidence": {"root": str(home.root / "evidence")},
            "fleet": {"driver": "manual"},
        }
    )
    move, request = Round(), ExpansionRequest(to=AFTER)
    with (
        journal(settings) as runs,
        opened(move, Place(settings=settings, timeout_s=60.0), request) as ports,
    ):
        tools = tools_of(runs, settings)
        options = RunOptions(who="benchmark", holder="benchmark")
        run = begin(move, tools, ports, request, options, execute=True)
        took = {kind: driven((move, tools, ports), run, kind) for kind in _DRIVEN}
        records = runs.steps(run.run)
    (result,) = (each.result for key, each in records.items() if key.endswith(f"restore {SNAPSHOT}"))
    assert (result["equal"], result["left"]) == (GROUPS * PARTITIONS, 0), f"restored: {result}"
    return took


def command(bootstrap: str, *arguments: str) -> str:
    """One process of the peer."""
    argv = [
        java_binary(), "-cp", class_path(SIMPLE_LOGGING, TOOLS),
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        "--bootstrap-server", bootstrap, *arguments,
    ]  # fmt: skip
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def theirs(home: Home, bootstrap: str) -> float:
    """Seconds in which the peer exports 20 groups and sets them from the file, one after the other."""
    begun = time.perf_counter()
    for number in range(BY_THE_PEER):
        group, file = ALL[number], home.root / f"offsets-{number}.csv"
        chosen = ("--reset-offsets", "--group", group)
        file.write_text(command(bootstrap, *chosen, "--all-topics", "--to-current", "--export", "--dry-run"))
        lines = [line for line in file.read_text().splitlines() if line.startswith(TOPIC)]
        assert len(lines) == PARTITIONS, f"{len(lines)} lines exported of {group}"
        file.write_text("\n".join(lines) + "\n")
        command(bootstrap, *chosen, "--from-file", str(file), "--execute")
    return time.perf_counter() - begun


def restored(home: Home, rounds: int) -> tuple[list[Aim], dict[str, Any]]:
    """Ours again and again, the peer once in between."""
    bootstrap = start_kraft(home.create()).bootstrap
    populate(bootstrap)
    found = [ours(home, bootstrap, number) for number in range(rounds)]
    peer = theirs(home, bootstrap)
    found += [ours(home, bootstrap, rounds + number) for number in range(rounds)]
    seconds = [sum(each[kind] for kind in _TIMED) for each in found]
    whole = peer * GROUPS / BY_THE_PEER
    aims = [
        Aim(name="commit_25k_s", value=median(seconds), aim=_COMMIT_S),
        Aim(name="cli_ratio", value=whole / median(seconds), aim=_RATIO, at_least=True),
    ]
    steps = {kind: [each[kind] for each in found] for kind in _DRIVEN}
    return aims, {"seconds": seconds, "steps": steps, "peer_20_groups_s": peer}


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    aim, plans = planned(rounds)
    with fresh_home() as home:
        aims, commits = restored(home, rounds)
    return report("expansion", [aim, *aims], {"plan": plans, "commit": commits})


if __name__ == "__main__":
    sys.exit(main())
