"""An offset-preserving link as files: the logs of a stopped source become those of the target.

Everything of a log comes over as it is: holes, markers, aborted records, the log start, and the leader
epochs of the source, which are foreign to the target: a Java consumer commits them there, and the next one
gets nothing, without a word, as long as the target's own epoch is lower (4.3.1).
The target's own id of the topic stays: a KRaft broker moves a log whose
``partition.metadata`` names another id (or none) out of its way at the start.

What is not copied: ``__transaction_state``, ``__consumer_offsets``, and the states of producers. With these,
the target gives a new idempotent producer an id that its log knows already, and refuses its first records as
out of order (4.3.1). Without them a transaction that was open on the source is forgotten.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from groupshift.adapters.kafka.requests import metadata
from groupshift.adapters.kafka.wire import id_text
from groupshift.errors import Broken, Rejected
from groupshift_sandbox.kafka import log_ends
from groupshift_sandbox.layout import Cluster
from groupshift_sandbox.readiness import connect_to
from groupshift_sandbox.replication.clusters import start_again, stop_cluster
from groupshift_sandbox.servers import running

_IDENTITY, _PRODUCERS = "partition.metadata", ".snapshot"
_LOG_STARTS, _HIGH_WATERMARKS = "log-start-offset-checkpoint", "replication-offset-checkpoint"
_CHECKPOINTS = (_LOG_STARTS, _HIGH_WATERMARKS, "recovery-point-offset-checkpoint")
_VERSION = "0"

Offsets = dict[str, int]
"""By the name of a log's folder (``orders-0``)."""


def copy_segments(source: Cluster, target: Cluster, topics: Sequence[str]) -> None:
    """Give the target the logs of these topics, which it has with as many partitions, and empty. It is
    stopped for that, and started again.

    Raises:
        Rejected: a node of the source runs, or a topic of the target is not there, smaller, or not empty.
        Broken: a log of the target does not end where the source's did.
        Transient: the target is not ready in time.
    """
    if alive := running(source):
        raise Rejected(f"{alive[0].name} runs; stop the source first, its files are not whole otherwise")
    logs = _logs(source, topics)
    ids = _topic_ids(target)
    for topic in topics:
        _require_empty(
            target, topic, [folder for name, folder in logs.items() if _topic_of(name) == topic], ids
        )
    stop_cluster(target)
    for node in target.brokers:
        for name, original in logs.items():
            copy = node.folder / name
            if copy.is_dir():
                _replace(original, copy, ids[_topic_of(name)])
                _carry_checkpoints(original, copy)
    start_again(target)
    _require_equal_ends(target, logs)


def _logs(cluster: Cluster, topics: Sequence[str]) -> Mapping[str, Path]:
    """The folder of one replica of each partition of the topics, by its name."""
    folders = (folder for node in cluster.brokers for folder in sorted(node.folder.iterdir()))
    return {each.name: each for each in folders if each.is_dir() and _topic_of(each.name) in topics}


def _topic_of(folder: str) -> str:
    return folder.rpartition("-")[0]


def _topic_ids(cluster: Cluster) -> Mapping[str, str]:
    """The ids of the cluster's topics as text; empty ones before 2.8."""
    with closing(connect_to(cluster.brokers[0].address)) as connection:
        topics = metadata(connection, None).topics
    return {str(each.name): id_text(getattr(each, "topic_id", None)) for each in topics}


def _require_empty(target: Cluster, topic: str, logs: Sequence[Path], ids: Mapping[str, str]) -> None:
    if topic not in ids or not logs:
        raise Rejected(
            f"topic {topic!r} is not on both clusters; create it on the target as it is on the source"
        )
    ends = log_ends(target.bootstrap, topic, len(logs))
    written = [f"{at.topic}-{at.partition}" for at, end in ends.items() if end]
    if written:
        raise Rejected(f"{written[0]} of the target has records; copy into a topic that was never written to")


def _replace(original: Path, copy: Path, topic_id: str) -> None:
    identity = copy / _IDENTITY
    for file in copy.iterdir():
        if file.name != _IDENTITY:
            file.unlink()
    for file in original.iterdir():
        if file.is_file() and file.name != _IDENTITY and file.suffix != _PRODUCERS:
            shutil.copy2(file, copy / file.name)
    if topic_id and not identity.exists():
        # a broker writes it with the first record of a log; without it the log would count as nobody's
        identity.write_text(f"version: 0\ntopic_id: {topic_id}")


def _carry_checkpoints(original: Path, copy: Path) -> None:
    """What the source's node has noted of the log, in the notes of the target's node."""
    for name in _CHECKPOINTS:
        file = copy.parent / name
        noted = read_checkpoint(original.parent / name)
        ours = {log: offset for log, offset in read_checkpoint(file).items() if log != copy.name}
        if original.name in noted:
            ours[copy.name] = noted[original.name]
        write_checkpoint(file, ours)


def read_checkpoint(file: Path) -> Offsets:
    """The offsets in a broker's checkpoint file: version, number of lines, and a line for each log."""
    lines = file.read_text().splitlines() if file.exists() else []
    parts = (line.split() for line in lines[2:])
    return {f"{topic}-{partition}": int(offset) for topic, partition, offset in parts}


def write_checkpoint(file: Path, offsets: Offsets) -> None:
    """Write what `read_checkpoint` reads."""
    lines = [f"{_topic_of(name)} {name.rpartition('-')[2]} {offset}" for name, offset in offsets.items()]
    file.write_text("\n".join([_VERSION, str(len(lines)), *lines, ""]))


def _require_equal_ends(target: Cluster, logs: Mapping[str, Path]) -> None:
    """A node that stopped cleanly has noted the log ends as high watermarks."""
    for topic in {_topic_of(name) for name in logs}:
        names = [name for name in logs if _topic_of(name) == topic]
        for at, end in log_ends(target.bootstrap, topic, len(names)).items():
            name = f"{at.topic}-{at.partition}"
            wanted = read_checkpoint(logs[name].parent / _HIGH_WATERMARKS).get(name, 0)
            if end != wanted:
                raise Broken(f"{name} of the target ends at {end}, and the source's ended at {wanted}")
