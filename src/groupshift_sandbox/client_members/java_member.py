"""Runs Kafka's own VerifiableConsumer and writes what happens to it as the other members do (`events`).

``python -m groupshift_sandbox.client_members.java_member --member m1 --client 'kafka-clients 4.3.1' --events
FILE -- java …``: translates the JSON lines that it prints. The times are those of the consumer's own clock at
the event. SIGTERM is passed on; a JVM that does not end in time is killed by its process id.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, Any

from groupshift.errors import Broken

_THROWN = re.compile(r"(?:^Exception in thread .*? |^)((?:[a-z]\w*\.)+([A-Z]\w*(?:Exception|Error)).*)")
Event = dict[str, Any]


def events_of(line: str, member: str) -> Iterator[Event]:
    """The events of one printed line; none for a line that is not one of the consumer's."""
    if not line.startswith("{"):
        return
    event = json.loads(line)
    base = {"at_ms": int(event["timestamp"]), "member": member}
    name = event["name"]
    if name in ("partitions_assigned", "partitions_revoked"):
        partitions = [[each["topic"], each["partition"]] for each in event["partitions"]]
        yield {**base, "event": name.removeprefix("partitions_"), "partitions": partitions}
    elif name == "records_consumed":
        yield from ({**base, "event": "records", **_run(each)} for each in event["partitions"])
    elif name == "offsets_committed":
        offsets = [[each["topic"], each["partition"], each["offset"]] for each in event["offsets"]]
        failed = {} if event["success"] else {"said": event.get("error", "")}
        yield {
            **base,
            "event": "committed",
            "offsets": offsets,
            "code": 0 if event["success"] else -1,
            **failed,
        }


def _run(batch: Mapping[str, Any]) -> Event:
    return {
        "topic": batch["topic"],
        "partition": batch["partition"],
        "first": batch["minOffset"],
        "last": batch["maxOffset"],
        "count": batch["count"],
    }


def thrown_in(line: str) -> tuple[str, str] | None:
    """Class and text of an exception that ends the consumer, as the JVM prints it; None for other lines."""
    match = _THROWN.match(line)
    return None if match is None else (match.group(2), match.group(1).strip())


class _Translation:
    """The events file of one member; both of the JVM's outputs lead to it."""

    def __init__(self, file: Path, member: str) -> None:
        self._out, self._member, self._lock = file.open("a", encoding="utf-8"), member, threading.Lock()
        self.thrown: tuple[str, str] | None = None

    def tell(self, event: str, **fields: Any) -> None:
        """An event that happens now."""
        self._write({"at_ms": time.time_ns() // 1_000_000, "member": self._member, "event": event, **fields})

    def output(self, source: IO[str]) -> None:
        """Translate the consumer's standard output to its end."""
        for line in source:
            for event in events_of(line, self._member):
                self._write(event)

    def errors(self, source: IO[str]) -> None:
        """Pass the log on, and keep the exception that came last."""
        for line in source:
            sys.stderr.write(line)
            self.thrown = thrown_in(line) or self.thrown

    def _write(self, event: Event) -> None:
        with self._lock:
            self._out.write(json.dumps(event, separators=(",", ":")) + "\n")
            self._out.flush()


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="groupshift-java-member", description=__doc__)
    parser.add_argument("--member", required=True)
    parser.add_argument("--client", required=True)
    parser.add_argument("--events", required=True, type=Path)
    parser.add_argument("--close-s", type=float, default=15.0)
    parser.add_argument("command", nargs="+")
    return parser.parse_args(argv)


def _started(argv: Sequence[str]) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, text=True, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)


def _ended_by_signals(consumer: subprocess.Popen[str], close_s: float) -> threading.Event:
    """SIGTERM and SIGINT end the consumer, which is killed when it has not closed in time; the event says
    that one came."""
    ending = threading.Event()

    def forward(_number: int, _frame: FrameType | None) -> None:
        ending.set()
        consumer.terminate()
        late = threading.Timer(close_s, consumer.kill)
        late.daemon = True
        late.start()

    signal.signal(signal.SIGTERM, forward)
    signal.signal(signal.SIGINT, forward)
    return ending


def main(argv: Sequence[str]) -> int:
    """Run the consumer to its end; 0 when it was asked to end.

    What ends it otherwise is told from its log: the tool ends with 0 after an exception too (4.3.1)."""
    wanted = _arguments(argv)
    translation, consumer = _Translation(wanted.events, wanted.member), _started(wanted.command)
    ending = _ended_by_signals(consumer, wanted.close_s)
    if consumer.stdout is None or consumer.stderr is None:
        raise Broken("the consumer was started without pipes")
    translation.tell("started", client=wanted.client, pid=os.getpid(), jvm=consumer.pid)
    errors = threading.Thread(target=translation.errors, args=(consumer.stderr,), daemon=True)
    errors.start()
    translation.output(consumer.stdout)
    code = consumer.wait()
    errors.join(5.0)
    failed = not ending.is_set()
    if translation.thrown and failed:
        translation.tell("error", code=-1, name=translation.thrown[0], fatal=True, said=translation.thrown[1])
    translation.tell("closed", code=code)
    return (abs(code) or 1) if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
