"""A consumer's metrics: counters, one dictionary, Prometheus text over HTTP; its streams and status.

The names follow the JMX names of the old consumer and of KIP-125 (docs/reference/zookeeper-coordination.md
§8.8); unlike those, each carries client, group and consumer id, and they are gone when the consumer is
closed. HTTP is on 127.0.0.1 only.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any

from confluent_kafka import Message

from groupshift.consumers.threads import daemon
from groupshift.domain.modes import Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Rejected


def statistics(
    names: Mapping[str, str], status: ConsumerStatus, counters: Counters, *, assigned: int, queued: int
) -> dict[str, Any]:
    """One dictionary of plain values; docs/service-teams/configuration.md lists them.

    ``names`` are those of client, group and consumer (``client_id``, ``group_id``, ``consumer_id``);
    ``assigned`` counts partitions, ``queued`` records fetched and not handed out. Lag is in records by
    "topic-partition", times are in seconds, commits are counted by partition."""
    return {
        **names,
        "mode": None if status.mode is None else status.mode.value,
        "active_kafka_coordination_count": int(status.mode is Mode.KAFKA),
        "kafka_owned_partitions_count": assigned,
        "owned_partitions_count": len(status.owned),
        "owned_partitions_by_topic": dict(sorted(Counter(each.topic for each in status.owned).items())),
        "rebalances": counters.rebalances,
        "rebalance_seconds": counters.rebalance_s,
        "kafka_commits": counters.kafka_commits,
        "zookeeper_commits": counters.zookeeper_commits,
        "old_members_woken": counters.woken,
        "fetch_queue_size": queued,
        "lag": {str(each): behind for each, behind in sorted(status.lag.items())},
        "alarms": list(status.alarms),
    }


_SAMPLES = json.loads(files("groupshift").joinpath("consumers", "metrics.json").read_text("utf-8"))
"""Name, type and help of each."""


def prometheus(stats: Mapping[str, Any]) -> str:
    """The text format, version 0.0.4; ends with a line end. ``stats`` are those of `statistics`."""
    labels = {name: stats[name] for name in ("client_id", "group_id", "consumer_id")}
    labelled: dict[str, list[tuple[dict[str, str], int]]] = {
        "topic_owned_partitions_count": [
            ({"topic": topic}, count) for topic, count in stats["owned_partitions_by_topic"].items()
        ],
        "lag_records": [
            (dict(zip(("topic", "partition"), where.rsplit("-", 1), strict=True)), behind)
            for where, behind in stats["lag"].items()
        ],
        "alarms": [({}, len(stats["alarms"]))],
    }
    lines = []
    for name, kind, text in _SAMPLES:
        full = f"groupshift_consumer_{name}{'_total' if kind == 'counter' else ''}"
        lines += [f"# HELP {full} {text}", f"# TYPE {full} {kind}"]
        for more, value in labelled[name] if name in labelled else [({}, stats[name])]:
            written = ",".join(f'{key}="{_escaped(said)}"' for key, said in {**labels, **more}.items())
            lines.append(f"{full}{{{written}}} {value}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


class Counters:
    """Each counter has one writing thread: ``kafka_commits`` the membership's, the rest the reconciler's.

    Commits are counted by partition. A rebalance lasts from the first difference between what is held and
    what should be until there is none; ``rebalance_s`` is the sum in seconds."""

    def __init__(self) -> None:
        self.kafka_commits = 0
        self.zookeeper_commits = 0
        self.rebalances = 0
        self.rebalance_s = 0.0
        self.woken = 0
        self._since: float | None = None

    def differ(self, *, different: bool) -> None:
        """After each decision: whether something had to be given up, taken or started."""
        now = time.monotonic()
        if different and self._since is None:
            self._since = now
        elif not different and self._since is not None:
            self.rebalances += 1
            self.rebalance_s += now - self._since
            self._since = None


_HOST = "127.0.0.1"


class MetricsEndpoint:
    """Serves what ``text`` returns at ``/metrics``; ``port`` 0 takes a free one, and then says which.

    Raises `Rejected` when the port is taken."""

    def __init__(self, port: int, text: Callable[[], str]) -> None:
        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                known = self.path.partition("?")[0] == "/metrics"
                body = text().encode() if known else b""
                self.send_response(HTTPStatus.OK if known else HTTPStatus.NOT_FOUND)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """A scrape is not worth a line."""

        try:
            self._server = ThreadingHTTPServer((_HOST, port), Answer)
        except OSError as error:
            raise Rejected(f"metrics.port {port} cannot be opened ({error}); choose another or 0") from error
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = daemon("metrics", partial(self._server.serve_forever, 0.1))
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerStatus:
    """A consumer's state: ``mode`` in effect (None before the first decision), partitions owned, lag of
    those whose log end is known (records), and alarms for people (D11, F6)."""

    mode: Mode | None
    owned: frozenset[TopicPartition]
    lag: Mapping[TopicPartition, int]
    alarms: tuple[str, ...]


class Stream:
    """One stream of a consumer: the partitions its thread id owns, in every topic that has it."""

    def __init__(self, take: Callable[[int, int, float], list[Any]], number: int) -> None:
        self._take, self._number = take, number

    def poll(self, timeout: float = -1) -> Message | None:
        """The next record of this stream, or None after ``timeout`` seconds (negative: wait for ever).

        Raises `RuntimeError` when the consumer is closed."""
        records = self._take(self._number, 1, timeout)
        return records[0] if records else None

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """Up to ``num_messages`` records; returns as soon as there is at least one."""
        return self._take(self._number, num_messages, timeout)
