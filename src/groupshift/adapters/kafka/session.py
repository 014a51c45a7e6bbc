"""Requests to the brokers of one cluster through kafka-python's connections; kafka stays in this package.

kafka-python's admin client is not used: it keeps a group's coordinator for ever, gives errors of groups
as text, fails a whole answer for one partition and waits without a deadline. Its connections, protocol
messages and logins are what it is made of, and have none of this (docs/adr/0004).
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from kafka.errors import (
    AuthorizationError,
    IllegalSaslStateError,
    KafkaError,
    KafkaTimeoutError,
    SaslAuthenticationFailedError,
    StaleMetadata,
    UnsupportedSaslMechanismError,
    for_code,
)
from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.scram import SaslMechanismScram
from kafka.net.selector import NetworkSelector
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest, MetadataRequest

from groupshift.adapters.kafka.raw.login import BoundedScram, LoginRefused
from groupshift.adapters.kafka.sockets import BrokerConnections

T = TypeVar("T")

REFUSED = (
    AuthorizationError,
    IllegalSaslStateError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
"""What a broker answers to wrong credentials; asking again would not help."""

_LARGEST_ANSWER = 100_000_000


class _BoundedMechanism(SaslMechanismScram):  # type: ignore[misc]
    """kafka-python's SCRAM with our client, which bounds what the broker may ask for."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        user, password = config["sasl_plain_username"], config["sasl_plain_password"]
        self._scram_client = BoundedScram(user, password, config["sasl_mechanism"])

    def receive(self, auth_bytes: bytes) -> Any:
        """Raises kafka-python's error of a login that failed."""
        try:
            return super().receive(auth_bytes)
        except LoginRefused as why:
            raise SaslAuthenticationFailedError(str(why)) from None


for _name in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
    register_sasl_mechanism(_name, _BoundedMechanism, overwrite=True)


class _NoRequests(logging.Filter):
    """Drops what is below WARNING: requests are logged there with the password in them."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= logging.WARNING


def quiet() -> None:
    """Let kafka-python say nothing of each attempt, since the outcome is said in one sentence.

    An application that set the level of the logger ``kafka`` keeps it; requests are never logged.
    """
    if logging.getLogger("kafka").level == logging.NOTSET:
        logging.getLogger("kafka").setLevel(logging.CRITICAL)
    for name in ("kafka.net.connection", "kafka.protocol.parser"):
        logger = logging.getLogger(name)
        if not any(isinstance(each, _NoRequests) for each in logger.filters):
            logger.addFilter(_NoRequests())


class Requests:
    """What one attempt may ask: every wait ends at its deadline."""

    def __init__(self, manager: Any, deadline: float) -> None:
        self._manager = manager
        self._deadline = deadline

    def send(self, request: Any, node_id: Any = None) -> Awaitable[Any]:
        """Send now and return what to await; without ``node_id`` to the least busy broker."""
        left_ms = max(1.0, (self._deadline - time.monotonic()) * 1000)
        node_id = self._manager.least_loaded_node() if node_id is None else node_id
        connection = self._manager.get_connection(node_id, timeout_ms=left_ms, refresh_metadata_on_err=False)
        answer: Awaitable[Any] = connection.send_request(request, request_timeout_ms=left_ms)
        return answer

    async def coordinator(self, group: str) -> Any:
        """Node id of the group's coordinator, asked for each time, for it moves with its broker."""
        request = FindCoordinatorRequest(key=group, key_type=CoordinatorType.GROUP.value, max_version=3)
        answer = await self.send(request)
        return self._manager.cluster.add_coordinator(
            answer, CoordinatorType.GROUP, group, synthesize_node_id=False
        )

    async def topics(self) -> Mapping[str, Mapping[int, int]]:
        """Every topic's partitions with the node ids of their leaders (-1: none now).

        All topics are asked for: naming one could create it. A broker that names none was just started
        and has not learned them yet (a group's coordinator exists only with its offsets topic): that is
        an error to be repeated, not the absence of every topic.
        """
        answer = await self.send(
            MetadataRequest(
                topics=MetadataRequest.ALL_TOPICS,
                allow_auto_topic_creation=False,
                min_version=1,
                max_version=8,
            )
        )
        found = {
            topic.name: {each.partition_index: each.leader_id for each in topic.partitions}
            for topic in answer.topics
        }
        self._manager.cluster.update_metadata(answer)
        if not found:
            raise StaleMetadata("the broker names no topic: it has just started, or this user may see none")
        return found

    def brokers(self) -> tuple[Any, ...]:
        """Node ids of all brokers, as of the last `topics`."""
        return tuple(broker.node_id for broker in self._manager.cluster.brokers())

    def met(self) -> tuple[str, ...]:
        """Every broker with its address; the release that its requests belong to, where it was asked."""
        return tuple(
            f"broker {broker.node_id} at {broker.host}:{broker.port}{self._release(broker.node_id)}"
            for broker in sorted(self._manager.cluster.brokers(), key=lambda each: str(each.node_id))
        )

    def _release(self, node_id: Any) -> str:
        connection = self._manager._conns.get(node_id)  # noqa: SLF001 - get_connection would open one
        version = connection.broker_version if connection is not None else None
        return f", speaks {'.'.join(map(str, version))}" if version else ""


class Session:
    """Connections, driven by the thread that calls `run`: there is no other, so none can be left behind.

    ``settings`` are kafka-python's; raises ValueError for an address that is none. Connects at the first
    `run`; a session that raised is closed by its owner and replaced by a new one.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        quiet()
        known = {
            **settings,
            "receive_message_max_bytes": _LARGEST_ANSWER,
            "slow_task_threshold_secs": 0,
        }
        self._net = NetworkSelector(**known)
        try:
            self._manager = BrokerConnections(self._net, **known)
        except ValueError:
            self._net.close()
            raise

    def run(self, work: Callable[[Requests], Awaitable[T]], deadline: float) -> T:
        """The result of ``work``. Raises what it raised, or `KafkaTimeoutError` at the deadline."""

        async def ready() -> T:
            requests = Requests(self._manager, deadline)
            if not requests.brokers():
                await self._meet(deadline)
            return await work(requests)

        future = self._manager.call_soon(ready)
        self._net.poll(timeout_ms=max(1.0, (deadline - time.monotonic()) * 1000), future=future)
        if not future.is_done:
            raise KafkaTimeoutError("no answer in time")
        if future.exception is not None:
            raise future.exception
        result: T = future.value
        return result

    async def _meet(self, deadline: float) -> None:
        """Learn the brokers from the first bootstrap server that answers.

        Not by the manager's own bootstrap, which tries again for ever after a refused login.
        """
        servers = self._manager.cluster.bootstrap_brokers()
        random.shuffle(servers)
        share = max(0.1, (deadline - time.monotonic()) / len(servers))
        for last, server in enumerate(servers, start=1 - len(servers)):
            try:
                await self._ask_brokers(server.node_id, share * 1000)
            except (KafkaError, OSError) as failed:
                if not last or isinstance(failed, REFUSED):
                    raise
            else:
                return

    async def _ask_brokers(self, node_id: Any, timeout_ms: float) -> None:
        connection = self._manager.get_connection(
            node_id, timeout_ms=timeout_ms, refresh_metadata_on_err=False
        )
        await connection
        request = MetadataRequest(topics=MetadataRequest.NO_TOPICS, min_version=1, max_version=8)
        answer = await connection.send_request(request, request_timeout_ms=timeout_ms)
        self._manager.cluster.update_metadata(answer)
        connection.close()

    def close(self) -> None:
        """Close every connection at once; answers under way are dropped."""
        self._manager.close()
        self._net.close()


def raise_for(code: int, what: str) -> None:
    """Raise the error that a broker's ``code`` stands for; 0 is none."""
    if code:
        raise for_code(code)(what)
