"""Which entries of an old member's log count as complaints."""

from __future__ import annotations

import pytest

from support.old_member_log import complaints

FINDER = "2026-11-22 08:36:14,101 WARN [g_s1-leader-finder-thread] kafka.client.ClientUtils$: "
ASKED = FINDER + "Fetching topic metadata with correlation id 2 for topics [Set(t)] from broker [B(0)] failed"
FETCHER = "2026-11-22 08:36:14,102 INFO [ConsumerFetcherThread-g_s1-0-0] kafka.consumer.SimpleConsumer: "
FETCHED = FETCHER + "Reconnect due to error:"
REBALANCER = (
    "2026-11-22 08:36:14,103 INFO [g_s1_watcher_executor] kafka.consumer.ZookeeperConsumerConnector: "
)
ATTEMPT = REBALANCER + "[g_s1], exception during rebalance "
CLOSED = "java.nio.channels.ClosedChannelException"
INTERRUPTED = "java.nio.channels.ClosedByInterruptException"
REFUSED = "java.net.ConnectException: Connection refused"
NO_NODE = (
    "org.I0Itec.zkclient.exception.ZkNoNodeException: org.apache.zookeeper.KeeperException$NoNodeException: "
    "KeeperErrorCode = NoNode for /consumers/g/"
)
TRACE = "\tat kafka.network.BlockingChannel.send(BlockingChannel.scala:122)"
DONE = REBALANCER + "[g_s1], end rebalancing consumer g_s1 try #0"
LEFT = ["/consumers/g/ids/g_m1"]


def log(*lines: str) -> str:
    """With a line before, and the stack trace and another line after."""
    return "\n".join((DONE, *lines, TRACE, DONE, ""))


@pytest.mark.parametrize(
    "lines",
    [
        (ASKED, INTERRUPTED),
        (ASKED, CLOSED),
        (FETCHED, CLOSED),
        (ATTEMPT, NO_NODE + "ids/g_m1", TRACE, f"Caused by: {NO_NODE}ids/g_m1"),
    ],
)
def test_what_a_rebalance_leaves_by_itself_is_no_complaint(lines) -> None:
    """An interrupted request, and a member that left while its registration was read."""
    assert complaints(log(*lines), LEFT) == []


@pytest.mark.parametrize(
    "lines",
    [
        (ASKED, REFUSED),
        (FETCHED, INTERRUPTED),
        (FETCHED, REFUSED),
        (ATTEMPT, NO_NODE + "ids/g_m2"),
        (ATTEMPT, NO_NODE + "owners/t/0"),
        (ATTEMPT, INTERRUPTED),
        (FINDER + "Failed to find leader for Set([t,0])", CLOSED),
        (FETCHER.replace("INFO", "WARN") + "Error in fetch kafka.api.FetchRequest", CLOSED),
        (REBALANCER + "[g_s1], can't rebalance after 4 retries",),
        (CLOSED,),
    ],
)
def test_everything_else_is_one(lines) -> None:
    """The whole entry is told, once."""
    found = complaints(log(*lines), LEFT)
    assert len(found) == 1
    assert lines[-1] in found[0]
    assert TRACE in found[0]
