"""What one attempt makes of the brokers' answers."""

from __future__ import annotations

import logging
import time
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import StaleMetadata
from kafka.future import Future

from groupshift.adapters.kafka.kafka_python import Requests, quiet


def requests(*topics: SimpleNamespace) -> Requests:
    """Against a broker that answers with these topics."""
    answer = SimpleNamespace(topics=topics)
    connection = SimpleNamespace(send_request=lambda *_, **__: Future().success(answer))
    manager: Any = SimpleNamespace(
        least_loaded_node=lambda: 0,
        get_connection=lambda *_, **__: connection,
        cluster=SimpleNamespace(update_metadata=lambda _: None),
    )
    return Requests(manager, time.monotonic() + 60)


def result(coroutine: Any) -> Any:
    """What a coroutine returns that waits for nothing."""
    with pytest.raises(StopIteration) as ended:
        coroutine.send(None)
    return ended.value.value


def test_partitions_are_told_with_their_leaders() -> None:
    """Also one that has none now."""
    parts = [
        SimpleNamespace(partition_index=number, leader_id=leader) for number, leader in ((0, 7), (1, -1))
    ]
    answered = requests(SimpleNamespace(name="orders", partitions=parts))
    assert result(answered.topics()) == {"orders": {0: 7, 1: -1}}


def test_a_broker_that_names_no_topic_is_not_believed() -> None:
    """It has just started: every topic would seem to be gone."""
    with pytest.raises(StaleMetadata):
        requests().topics().send(None)


@pytest.mark.parametrize("name", ["kafka.net.connection", "kafka.protocol.parser"])
def test_requests_are_not_logged_whatever_the_level(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """A login is a request, and the password is in its bytes; warnings go through."""
    quiet()
    caplog.set_level(logging.DEBUG, logger="kafka")
    caplog.set_level(logging.DEBUG, logger=name)
    logging.getLogger(name).debug("Send: wonder-land-1")
    logging.getLogger(name).warning("closed")
    assert caplog.messages == ["closed"]
