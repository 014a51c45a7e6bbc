"""``groupshift consume``: one member of a group on the command line.

Needs the base dependencies only (no extra), so that a service team can try a consumer where it runs. It
writes one JSON line for each record: member, topic, partition, offset, and when it was delivered (epoch ms).
The audit of consumption reads such ledgers. With ``--state`` it exports mode, owned partitions and lag once a
second."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

from confluent_kafka import KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from groupshift.adapters.system import signalled
from groupshift.consumers import Blacklist, ConsumerStatus, MigratingConsumer, Whitelist, ZookeeperConsumer
from groupshift.consumers.plain import PlainConsumer
from groupshift.domain.foreign_json import decimal, shown
from groupshift.domain.foreign_text_quoting import visible
from groupshift.domain.group_protocol import Protocol as GroupProtocol
from groupshift.domain.partitions import grouped
from groupshift.domain.registration import consumer_id
from groupshift.errors import GroupshiftError, Rejected
from groupshift.foreign_files import made_anew

_POLL_S = 0.2
"""How long one call waits for records, in seconds."""
_BATCH = 500
"""How many records are written at once."""
_STATE_S = 0.5
"""How often the state file is replaced at most, in seconds."""
_PROTOCOLS = {"plain": GroupProtocol.CLASSIC, "native": GroupProtocol.CONSUMER}
"""The kinds of ordinary Kafka consumers, with their rebalance protocols."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A joined consumer; ``written`` is called with records that are in the ledger."""

    member: str
    source: MigratingConsumer | ZookeeperConsumer | PlainConsumer
    written: Callable[[Sequence[Message]], None] = lambda _records: None


def parser() -> argparse.ArgumentParser:
    """Return the command line of ``groupshift consume``."""
    made = argparse.ArgumentParser(
        prog="groupshift consume",
        description="Take part in a consumer group and write one JSON line per record delivered.",
        epilog="SIGTERM or Ctrl-C commits, gives the partitions up and leaves the group.",
    )
    made.add_argument("--kind", choices=("zookeeper", "migrating", *_PROTOCOLS), required=True)
    made.add_argument("--group", required=True)
    topics = made.add_mutually_exclusive_group(required=True)
    topics.add_argument("--topic", action="append", default=[], metavar="TOPIC[:STREAMS]")
    topics.add_argument("--whitelist", metavar="REGEX", help="every topic whose name matches")
    topics.add_argument("--blacklist", metavar="REGEX", help="every topic whose name does not match")
    made.add_argument("--streams", type=int, default=1, help="of a white- or blacklist")
    optional = "not needed for --kind plain or native"
    made.add_argument("--zookeeper", default="", metavar="HOSTS", help=optional)
    made.add_argument("--bootstrap", required=True, metavar="SERVERS")
    made.add_argument("--consumer-id", required=True, help="unique in the group, for example m1-2")
    made.add_argument("--property", action="append", default=[], metavar="KEY=VALUE")
    made.add_argument("--ledger", type=Path, help="write the records here instead of to stdout")
    made.add_argument("--state", type=Path, help="export mode, owned partitions and lag here")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Take part in the group until a signal comes; return the exit code of the command line.

    It is 0, or that of the family of the error that ended it (docs/reference/exit-codes.md); the error is one
    sentence on standard error."""
    arguments = parser().parse_args(argv)
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("kazoo").setLevel(logging.WARNING)
    try:
        return _consume(arguments)
    except GroupshiftError as error:
        print(f"groupshift consume: {visible(str(error))}", file=sys.stderr)
        return error.exit_code


def _consume(arguments: argparse.Namespace) -> int:
    """Deliver until a signal comes. Raises `Rejected` for a ledger that cannot be written."""
    with contextlib.ExitStack() as stack:
        stopping, output = threading.Event(), sys.stdout
        stack.enter_context(signalled(lambda *_: stopping.set(), signal.SIGTERM, signal.SIGINT))
        if arguments.ledger:
            try:
                output = stack.enter_context(arguments.ledger.open("a"))
            except (OSError, ValueError) as wrong:
                why = getattr(wrong, "strerror", wrong)
                raise Rejected(
                    f"--ledger {arguments.ledger} cannot be written ({why}): name a file in a folder of yours"
                ) from wrong
        run = _join(arguments)
        exporter = _Exporter(run, arguments.state)
        try:
            while not stopping.is_set():
                records = run.source.consume(_BATCH, _POLL_S)
                _write(run.member, records, output)
                run.written(records)
                exporter.export("running")
            exporter.export("closing", now=True)
        except GroupshiftError as error:
            exporter.export("failed", now=True, reason=str(error))
            raise
        finally:
            run.source.close()
        exporter.export("closed", now=True)
    return 0


def _write(member: str, records: Sequence[Message], output: TextIO) -> None:
    """One line per record, flushed, stamped when it was handed out."""
    now, lines = int(time.time() * 1000), []
    for record in records:
        if record.error() is not None:
            logging.getLogger(__name__).warning("%s", record.error())
            continue
        place = {"topic": record.topic(), "partition": record.partition(), "offset": record.offset()}
        entry = {"member": member, **place, "at_ms": now}
        lines.append(json.dumps(entry, separators=(",", ":")) + "\n")
    output.write("".join(lines))
    output.flush()


class _Exporter:
    """Replaces the state file, atomically and at least once a second."""

    def __init__(self, run: _Run, path: Path | None) -> None:
        self._run, self._path = run, path
        self._due = 0.0
        self._last: dict[str, Any] = {"mode": None, "owned": {}, "lag": {}}

    def export(self, state: str, *, now: bool = False, reason: str = "") -> None:
        """Write the state file when it is time, or ``now``.

        What cannot be described any more keeps its last value. A member that failed says why (``reason``),
        and owns nothing."""
        if self._path is None or (not now and time.monotonic() < self._due):
            return
        self._due = time.monotonic() + _STATE_S
        if state == "running":
            self._last = _described(self._run.source.status())
        elif state in {"closed", "failed"}:
            self._last = {**self._last, "owned": {}, "lag": {}}
        entry = {"member": self._run.member, "pid": os.getpid(), "state": state, **self._last}
        entry |= {"reason": reason} if reason else {}
        entry["at_ms"] = int(time.time() * 1000)
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        made_anew(draft)
        draft.write_text(json.dumps(entry, separators=(",", ":")))
        draft.replace(self._path)


def _described(status: ConsumerStatus) -> dict[str, Any]:
    """Mode, owned partitions, lag and alarms, as the state file has them."""
    lag = {str(each): behind for each, behind in sorted(status.lag.items())}
    return {
        "mode": status.mode,
        "owned": grouped(sorted(status.owned)),
        "lag": lag,
        "alarms": list(status.alarms),
    }


def _join(arguments: argparse.Namespace) -> _Run:
    """Make the consumer and subscribe it. Raises `Rejected` for what it cannot have."""
    topics = _subscription(arguments)
    config = {"bootstrap.servers": arguments.bootstrap, "group.id": arguments.group}
    for text in arguments.property:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise Rejected(f"--property {text!r}: write KEY=VALUE")
        config[key] = value
    if arguments.kind in _PROTOCOLS:
        if not isinstance(topics, Mapping):
            raise Rejected(f"--kind {arguments.kind} has no white- or blacklist: name topics with --topic")
        config["client.id"] = consumer_id(arguments.group, arguments.consumer_id)
        plain = PlainConsumer(config, topics, _PROTOCOLS[arguments.kind])
        return _Run(member=config["client.id"], source=plain)
    config |= {"zookeeper.connect": arguments.zookeeper, "consumer.id": arguments.consumer_id}
    kind = MigratingConsumer if arguments.kind == "migrating" else ZookeeperConsumer
    consumer = kind({"auto.offset.reset": "smallest", "auto.commit.interval.ms": 1000, **config})
    consumer.subscribe(topics)

    run = _Run(member=consumer.consumer_id, source=consumer)
    if str(config.get("enable.auto.offset.store", "true")).lower() == "true":
        return run

    def written(records: Sequence[Message]) -> None:
        """Only what is in the ledger may be committed."""
        ends = {(each.topic(), each.partition()): each.offset() + 1 for each in records if not each.error()}
        with contextlib.suppress(KafkaException):  # no longer assigned: whoever has it now goes on there
            consumer.store_offsets(offsets=[KafkaPartition(*each, at) for each, at in ends.items()])

    return replace(run, written=written)


def _subscription(arguments: argparse.Namespace) -> dict[str, int] | Whitelist | Blacklist:
    """Return the topics with their numbers of streams, or the filter of topics, that were asked for."""
    if arguments.whitelist is not None:
        return Whitelist(arguments.whitelist, arguments.streams)
    if arguments.blacklist is not None:
        return Blacklist(arguments.blacklist, arguments.streams)
    topics: dict[str, int] = {}
    for text in arguments.topic:
        name, _, streams = text.partition(":")
        try:
            topics[name] = decimal(streams or "1", "it", low=1)
        except Rejected:
            name = ""
        if not name:
            raise Rejected(f"--topic {shown(text)}: write NAME or NAME:STREAMS with 1 or more streams")
    return topics


if __name__ == "__main__":
    raise SystemExit(main())
