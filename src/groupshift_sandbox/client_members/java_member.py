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
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from groupshift.errors import Broken
from groupshift_sandbox.client_members.confluent_member import Teller, common_arguments
from groupshift_sandbox.processes import on_end

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


class _Translation(Teller):
    """The events file of one member; both of the JVM's outputs lead to it."""

    thrown: tuple[str, str] | None = None

    def output(self, source: IO[str], member: str) -> None:
        """Translate the consumer's standard output to its end."""
        for line in source:
            for event in events_of(line, member):
                self.tell(**event)

    def errors(self, source: IO[str]) -> None:
        """Pass the log on, and keep the exception that came last."""
        for line in source:
            sys.stderr.write(line)
            self.thrown = thrown_in(line) or self.thrown


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = common_arguments()
    parser.add_argument("--client", required=True)
    parser.add_argument("command", nargs="+")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    """Run the consumer to its end; 0 when it was asked to end.

    What ends it otherwise is told from its log: the tool ends with 0 after an exception too (4.3.1)."""
    wanted = _arguments(argv)
    translation, pipe = _Translation(wanted.events, wanted.member), subprocess.PIPE
    consumer = subprocess.Popen(wanted.command, text=True, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)
    ending = threading.Event()

    def end() -> None:
        ending.set()
        consumer.terminate()
        late = threading.Timer(wanted.close_s, consumer.kill)
        late.daemon = True
        late.start()

    on_end(end)
    if consumer.stdout is None or consumer.stderr is None:
        raise Broken("the consumer was started without pipes")
    translation.tell("started", client=wanted.client, pid=os.getpid(), jvm=consumer.pid)
    errors = threading.Thread(target=translation.errors, args=(consumer.stderr,), daemon=True)
    errors.start()
    translation.output(consumer.stdout, wanted.member)
    code = consumer.wait()
    errors.join(5.0)
    failed = not ending.is_set()
    if translation.thrown and failed:
        translation.tell("error", code=-1, name=translation.thrown[0], fatal=True, said=translation.thrown[1])
    translation.tell("closed", code=code)
    return (abs(code) or 1) if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
