"""Records written by a scenario itself, and the judgement of what became of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from groupshift.domain.ownership import History, history
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.txnlog import merge, parse
from groupshift.sandbox.chaos.judgement import Judged, Pause, Ran, judge
from groupshift.sandbox.home import Home
from groupshift.sandbox.ledger import read_ledgers
from groupshift.sandbox.producer import NumberedProducer


def write(bootstrap: str, topic: str, partitions: int, count: int) -> None:
    """Append ``count`` numbered records to each partition of a topic that nobody else writes to."""
    numbered = NumberedProducer(bootstrap, topic, partitions)
    for partition in range(partitions):
        for _ in range(count):
            numbered.send(partition)
    numbered.flush()


def group_history(home: Home, group: str) -> History:
    """Owner-node intervals and offset writes of a group by zxid, from ZooKeeper's own log."""
    logs = sorted((home.zookeeper / "version-2").glob("log.*"))
    return history(merge(parse(path.read_bytes(), path.name) for path in logs), group)


def judged(
    home: Home,
    group: str,
    ends: Mapping[TopicPartition, int],
    *,
    old: Collection[str],
    pauses: Sequence[Pause] = (),
) -> Judged:
    """What was lost of the records below ``ends``, and what was delivered by members that did not own the
    partition at that time; ``old`` are the ids of the Scala members."""
    return judge(
        Ran(
            history=group_history(home, group),
            deliveries=read_ledgers(home.ledgers, group),
            ends=ends,
            old=old,
            pauses=pauses,
            calm_ms=0,
        )
    )
