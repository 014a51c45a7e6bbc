"""A confluent-kafka consumer that writes what happens to it as JSON lines (`events` says which).

Run as a file by the interpreter of an environment that holds nothing but confluent-kafka: it imports nothing
of groupshift. After a fatal error it stays, silent, as an application that only reads records would. SIGTERM
closes the consumer; when that takes too long (librdkafka, whose broker is gone) the process ends with 75.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

_BATCH, _POLL_S = 500, 0.1
_CLOSE_LATE = 75
_INCREMENTAL = 0x020A0000
"""librdkafka 2.8.0 hands a native member its whole new assignment, and revokes nothing before; 2.16.1 hands
out what is added."""


class Teller:
    """Appends one JSON line an event."""

    def __init__(self, file: Path, member: str) -> None:
        self._out, self._member, self._lock = file.open("a", encoding="utf-8"), member, threading.Lock()

    def tell(self, event: str, **fields: Any) -> None:
        """Write it now: what happens next may be the end of the process."""
        line = {"at_ms": time.time_ns() // 1_000_000, "member": self._member, "event": event, **fields}
        with self._lock:
            self._out.write(json.dumps(line, separators=(",", ":")) + "\n")
            self._out.flush()

    def partitions(self, event: str, partitions: Iterable[TopicPartition], **fields: Any) -> None:
        """An event about partitions."""
        self.tell(event, partitions=[[each.topic, each.partition] for each in partitions], **fields)

    def error(self, error: KafkaError) -> None:
        """What librdkafka says, with whether it calls it fatal."""
        self.tell("error", code=error.code(), name=error.name(), fatal=error.fatal(), said=error.str())

    def committed(self, error: KafkaError | None, offsets: Sequence[TopicPartition]) -> None:
        """Offsets that were committed, or not."""
        failed = error or next((each.error for each in offsets if each.error), None)
        positions = [[each.topic, each.partition, each.offset] for each in offsets if each.offset >= 0]
        self.tell("committed", offsets=positions, code=failed.code() if failed else 0)

    def records(self, messages: Sequence[Message]) -> None:
        """A line for each run of consecutive offsets of a partition."""
        run: list[Any] = []
        for message in messages:
            at = [message.topic(), message.partition()]
            if run and (run[:2] != at or run[3] + 1 != message.offset()):
                self._run(run)
                run = []
            run = [*at, run[2] if run else message.offset(), message.offset()]
        if run:
            self._run(run)

    def _run(self, run: Sequence[Any]) -> None:
        topic, partition, first, last = run
        count = last - first + 1
        self.tell("records", topic=topic, partition=partition, first=first, last=last, count=count)


def common_arguments() -> argparse.ArgumentParser:
    """A parser of what every member is started with."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--member", required=True)
    parser.add_argument("--events", required=True, type=Path)
    parser.add_argument("--close-s", type=float, default=15.0)
    return parser


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = common_arguments()
    parser.add_argument("--topic", required=True, action="append")
    parser.add_argument("--commit", choices=("auto", "each", "none"), default="auto")
    parser.add_argument("--property", action="append", default=[], metavar="KEY=VALUE")
    return parser.parse_args(argv)


def _joined(arguments: argparse.Namespace, teller: Teller) -> Consumer:
    settings: dict[str, Any] = dict(each.split("=", 1) for each in arguments.property)
    settings |= {"enable.auto.commit": arguments.commit == "auto", "error_cb": teller.error}
    if arguments.commit == "auto":
        settings["on_commit"] = teller.committed
    consumer = Consumer(settings)
    whole = settings.get("group.protocol") == "consumer" and confluent_kafka.libversion()[1] < _INCREMENTAL
    held: list[TopicPartition] = []

    def assigned(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
        gone = [each for each in held if not _among(partitions, each)] if whole else []
        if gone:
            teller.partitions("revoked", gone)
        teller.partitions("assigned", partitions, member_id=consumer.memberid())
        held[:] = partitions

    def revoked(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
        teller.partitions("revoked", partitions)
        held[:] = [each for each in held if not _among(partitions, each)]

    consumer.subscribe(
        arguments.topic,
        on_assign=assigned,
        on_revoke=revoked,
        on_lost=lambda _consumer, partitions: teller.partitions("lost", partitions),
    )
    return consumer


def _among(partitions: Iterable[TopicPartition], wanted: TopicPartition) -> bool:
    return (wanted.topic, wanted.partition) in {(each.topic, each.partition) for each in partitions}


def _take(consumer: Consumer, teller: Teller, messages: Sequence[Message], *, commit: bool) -> None:
    for message in messages:
        if message.error():
            teller.error(message.error())
    records = [message for message in messages if not message.error()]
    teller.records(records)
    if records and commit:
        try:
            teller.committed(None, consumer.commit(asynchronous=False) or [])
        except KafkaException as failed:
            teller.committed(failed.args[0], [])


def main(argv: Sequence[str]) -> int:
    """Consume until SIGTERM."""
    arguments = _arguments(argv)
    teller, stopping = Teller(arguments.events, arguments.member), threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    client = f"confluent-kafka {confluent_kafka.__version__}"
    teller.tell("started", client=client, pid=os.getpid())
    consumer = _joined(arguments, teller)
    while not stopping.is_set():
        messages = consumer.consume(_BATCH, _POLL_S)
        _take(consumer, teller, messages, commit=arguments.commit == "each")
    late = threading.Timer(arguments.close_s, os._exit, (_CLOSE_LATE,))
    late.daemon = True
    late.start()
    consumer.close()
    late.cancel()
    teller.tell("closed", code=0)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
