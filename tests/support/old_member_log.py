"""What an old (Scala) member complains of in its log, without what a rebalance may leave there by itself.

A rebalance stops the threads that fetch by interrupting them. Where that meets a request, the member logs it
(0.10.2.2 and 1.1.1 alike, counted over 1,300 rebalances):

- the leader finder, in its request for metadata: a warning with ``ClosedByInterruptException``, or with
  ``ClosedChannelException`` when it was interrupted while it connected;
- the fetcher, in its fetch: a line about a reconnect with ``ClosedChannelException``.

And a rebalance that reads a registration in the moment its member leaves finds no node, and is done again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from datetime import datetime

_COMPLAINTS = ("Exception", "Error", "can't rebalance")
_BEGINNING = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ")
_CLOSED = "java.nio.channels.ClosedChannelException"
_INTERRUPTED = "java.nio.channels.ClosedByInterruptException"
_METADATA = re.compile(
    r"WARN \[\S+-leader-finder-thread\] kafka\.client\.ClientUtils\$: Fetching topic metadata .* failed"
)
_FETCH = re.compile(
    r"INFO \[ConsumerFetcherThread-\S+\] kafka\.consumer\.SimpleConsumer: Reconnect due to error:"
)
_ATTEMPT = re.compile(r"kafka\.consumer\.ZookeeperConsumerConnector: \[\S+\], exception during rebalance")
_NO_NODE = (
    "org.I0Itec.zkclient.exception.ZkNoNodeException: org.apache.zookeeper.KeeperException$NoNodeException: "
    "KeeperErrorCode = NoNode for "
)


def complaints(log: str, left: Collection[str] = ()) -> list[str]:
    """The entries (a line and the stack trace below it) that complain; ``left`` are the paths of the
    registrations of members that left meanwhile."""
    return [
        entry
        for entry in _entries(log)
        if any(each in entry for each in _COMPLAINTS) and not _harmless(entry, left)
    ]


def rebalances(log: str) -> list[int]:
    """When each attempt to rebalance began, in epoch milliseconds (the log has the local time)."""
    return [
        int(datetime.strptime(line[:23], "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp() * 1000)
        for line in log.splitlines()
        if "begin rebalancing consumer" in line
    ]


def _entries(log: str) -> Iterator[str]:
    lines: list[str] = []
    for line in log.splitlines():
        if _BEGINNING.match(line) and lines:
            yield "\n".join(lines)
            lines = []
        lines.append(line)
    if lines:
        yield "\n".join(lines)


def _harmless(entry: str, left: Collection[str]) -> bool:
    first, *trace = entry.splitlines()
    error = trace[0] if trace else ""
    if _METADATA.search(first):
        return error in (_CLOSED, _INTERRUPTED)
    if _FETCH.search(first):
        return error == _CLOSED
    return bool(_ATTEMPT.search(first)) and error in {_NO_NODE + path for path in left}
