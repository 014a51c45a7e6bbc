"""Runs one real Scala console consumer and writes the ledger of what it was delivered.

``python -m groupshift_sandbox.recorder --member G_m1-1 --group G --zookeeper HOSTS --ledger FILE
--state FILE -- java ...``: reads the consumer's standard output line by line; each line is a record value
of our producer, whose sequence is its offset. Forwards SIGTERM, drains what the consumer still prints,
and ends with the consumer's own exit code. ``--state`` is written once the member is registered.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from groupshift.errors import Broken
from groupshift_sandbox.processes import on_end
from groupshift_sandbox.state import write_document


def entry_of(line: str, member: str, at_ms: int) -> str | None:
    """The ledger line for one printed line; None for what is not a record (a log line, a blank).

    Raises `Broken` for a record that does not say where it is from."""
    if not line.startswith("{"):
        return None
    try:
        value = json.loads(line)
        entry = {
            "member": member,
            "topic": value["topic"],
            "partition": value["partition"],
            "offset": value["sequence"],
            "at_ms": at_ms,
        }
    except (ValueError, KeyError, TypeError) as error:
        raise Broken(f"record value {line.strip()!r} is not one of the sandbox's producer") from error
    return json.dumps(entry, separators=(",", ":")) + "\n"


def record(source: IO[str], ledger: IO[str], member: str) -> int:
    """Copy records from ``source`` to ``ledger`` until it ends, flushing each; returns how many."""
    count = 0
    for line in source:
        entry = entry_of(line, member, time.time_ns() // 1_000_000)
        if entry is not None:
            ledger.write(entry)
            ledger.flush()
            count += 1
    return count


def _announce(zookeeper: str, group: str, member: str, state: Path) -> None:
    """Write the state file when the member's registration is there; gives up silently with the process. A
    question whose answer is lost with ZooKeeper's restart is asked anew, by a client of its own."""
    registration, there = f"/consumers/{group}/ids/{member}", False
    while not there:
        client = KazooClient(hosts=zookeeper, timeout=10.0, read_only=False)
        try:
            client.start(timeout=5.0)
            while not there:
                there = client.exists_async(registration).get(timeout=5.0) is not None
                time.sleep(0.1)
        except (KazooException, client.handler.timeout_exception):
            time.sleep(0.1)
        finally:
            with suppress(KazooException):
                client.stop()
                client.close()
    at_ms = time.time_ns() // 1_000_000
    write_document(state, {"member": member, "pid": os.getpid(), "state": "running", "at_ms": at_ms})


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="groupshift-recorder", description=__doc__)
    parser.add_argument("--member", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--zookeeper", required=True)
    parser.add_argument("--ledger", required=True, type=Path)
    parser.add_argument("--state", required=True, type=Path)
    parser.add_argument("command", nargs="+")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Run the consumer to its end; returns its exit code (128 + signal number when it was killed)."""
    wanted = _arguments(argv)
    ending = threading.Event()
    consumer = subprocess.Popen(wanted.command, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)

    def end() -> None:
        ending.set()
        consumer.terminate()

    on_end(end)
    threading.Thread(
        target=_announce, args=(wanted.zookeeper, wanted.group, wanted.member, wanted.state), daemon=True
    ).start()
    if consumer.stdout is None:
        raise Broken("the consumer was started without a pipe")
    with wanted.ledger.open("a") as ledger:
        count = record(consumer.stdout, ledger, wanted.member)
    code = consumer.wait()
    sys.stderr.write(f"{wanted.member}: {count} records, consumer ended with {code}\n")
    if ending.is_set():
        return 0
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
