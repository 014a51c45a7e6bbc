"""Requests to the brokers of one cluster through kafka-python's connections; kafka stays in this package.

kafka-python's admin client is not used: it keeps a group's coordinator for ever, gives errors of groups
as text, fails a whole answer for one partition and waits without a deadline. Its connections, protocol
messages and logins are what it is made of, and have none of this (docs/adr/0004).

Two faults of its broker connections are corrected here. kafka-python 3.0.12 does not close the socket of a
refused connection or failed TLS handshake (it waits for the garbage collector), and throws away what it
received together with the end of a connection. Brokers before 2.1 close right after refusing a login, so the
refusal would look like a lost connection.

`KafkaConnection` opens one `Session` when it is first needed and bounds its retries. Requests have the
newest version whose form all brokers since 0.11 share (Kafka's message definitions). `ends_of` reads log
starts and ends of partitions that many groups share; a partition that cannot be read spoils no other.
"""

from __future__ import annotations

import logging
import random
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from kafka.errors import (
    AuthorizationError,
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    SaslAuthenticationFailedError,
    StaleMetadata,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    UnsupportedSaslMechanismError,
    for_code,
)
from kafka.net.inet import KafkaNetSocket, create_connection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.scram import SaslMechanismScram
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetFetchRequest, OffsetSpec
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest, MetadataRequest

from groupshift.adapters.kafka.broker import BoundedScram, LoginRefused
from groupshift.adapters.kafka.cluster import client_settings, refused, silent, without_secrets
from groupshift.domain.addresses import kafka_servers
from groupshift.domain.group import LogEnd
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Rejected


class _Direct(KafkaNetSocket):  # type: ignore[misc]
    """Sockets of the "proxy" ``direct://``, which is none: they are closed when they do not connect."""

    SCHEMES = ("direct",)

    async def connect(
        self, net: Any, addrinfo: Any, socket_options: Sequence[Any] = (), timeout_at: float | None = None
    ) -> socket.socket:
        """Connect to one address; as the base class otherwise."""
        family, kind, protocol, _, address = addrinfo
        opened: socket.socket = self.socket(family, kind, protocol)
        connected = False
        try:
            opened.setblocking(False)
            for option in socket_options:
                opened.setsockopt(*option)
            await self.sock_connect(net, opened, address, timeout_at=timeout_at)
            connected = True
        finally:
            if not connected:
                opened.close()
        return opened


class BrokerConnections(KafkaConnectionManager):  # type: ignore[misc]
    """The connections to all brokers of one cluster."""

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        opened = await create_connection(
            self._net,
            node.host,
            node.port,
            self.config["socket_options"],
            proxy_url="direct://",
            timeout_at=timeout_at,
        )
        transport = self._over(opened, node.host)
        shaken = False
        try:
            await transport.handshake()
            shaken = True
        except OSError as failed:
            raise KafkaConnectionError(f"TLS handshake failed: {failed}") from None
        finally:
            if not shaken:
                transport.abort()
        return transport

    def _over(self, opened: socket.socket, host: str) -> Any:
        if self.ssl_enabled:
            context = self.config["ssl_context"]
            transport = KafkaSSLTransport(self._net, opened, host=host, ssl_context=context)
        else:
            transport = KafkaTCPTransport(self._net, opened, host=host)
        receive = transport._sock_recv  # noqa: SLF001 - the only place where it can be corrected

        def received() -> tuple[bytes, Exception | None]:
            data, ended = receive()
            return data, None if data else ended  # an end is found again by the next read

        transport._sock_recv = received  # noqa: SLF001
        return transport


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


_NEEDED = {
    GroupAuthorizationFailedError: "Describe the group",
    TopicAuthorizationFailedError: "Describe a topic",
    ClusterAuthorizationFailedError: "Describe the cluster",
}
"""The operation that an observer lacks where a broker answers with this error."""
_PAUSE_S = 0.1
_FIRST_SLICE_S = 1.0
"""The first attempt's share of the time, doubled for each further one: a broker that went away without
a word is asked again soon, a slow one is given more."""


class KafkaConnection:
    """Keeps one session between calls and opens nothing before the first.

    ``properties`` are librdkafka's security keys; their values never reach a log or a sentence.
    ``timeout_s`` bounds each `call` with all its retries.
    """

    def __init__(
        self, bootstrap_servers: str, *, properties: Mapping[str, str] | None = None, timeout_s: float = 7.0
    ) -> None:
        self._address = bootstrap_servers
        self._properties = dict(properties or {})
        self._timeout_s = timeout_s
        self._session: Session | None = None
        self._lock = threading.RLock()

    @property
    def address(self) -> str:
        """The bootstrap servers, for sentences to people."""
        return self._address

    @property
    def who(self) -> str:
        """The identity, for sentences to people."""
        user = self._properties.get("sasl.username")
        return f"user {user!r}" if user else "a connection without a user name"

    def call(self, work: Callable[[Requests], Awaitable[T]]) -> T:
        """Run ``work`` and return its result; repeat it after an error, until ``timeout_s``.

        ``work`` must be safe to repeat. Raises `Transient` when Kafka does not answer in time,
        `Rejected` when it refuses the credentials or a property is wrong.
        """
        with self._lock:
            deadline = time.monotonic() + self._timeout_s
            slice_s, cause = _FIRST_SLICE_S, ""
            while True:
                until = min(deadline, time.monotonic() + slice_s)
                slice_s *= 2
                try:
                    return self._connected().run(work, until)
                except (KafkaError, OSError) as failed:
                    self.close()
                    self._judge(failed)
                    if not cause or not isinstance(failed, KafkaTimeoutError):
                        cause = str(failed)
                    if time.monotonic() + _PAUSE_S >= deadline:
                        raise silent(self._address, self._timeout_s, self._without_secrets(cause)) from None
                    time.sleep(_PAUSE_S)
                except BaseException:
                    self.close()
                    raise

    def close(self) -> None:
        """Close the session; the next call opens a new one."""
        with self._lock:
            session, self._session = self._session, None
            if session is not None:
                session.close()

    def _connected(self) -> Session:
        if self._session is None:
            settings = client_settings(self._properties)
            servers = kafka_servers(
                self._address, "kafka.bootstrap_servers", self._properties.get("security.protocol", "")
            )
            self._session = Session({**settings, "bootstrap_servers": [str(each) for each in servers]})
        return self._session

    def _judge(self, failed: Exception) -> None:
        needed = next((said for kind, said in _NEEDED.items() if isinstance(failed, kind)), None)
        if needed:
            raise Rejected(
                f"Kafka at {self._address} does not allow {self.who} to {needed} "
                f"({self._without_secrets(str(failed))}): grant it, or correct [kafka.properties]"
            ) from None
        if isinstance(failed, REFUSED):
            raise refused(self._address, self._without_secrets(str(failed))) from None

    def _without_secrets(self, text: str) -> str:
        return without_secrets(text, self._properties)


_LEADER_NOT_AVAILABLE = 5


def describe(requests: Requests, group: str, coordinator: Any) -> Awaitable[Any]:
    """Ask for state and members."""
    request = DescribeGroupsRequest(groups=[group], include_authorized_operations=False, max_version=5)
    return requests.send(request, coordinator)


def described(group: str, answer: Any) -> Any:
    """The group in the coordinator's answer. Raises the error that it carries."""
    (found,) = [each for each in answer.groups if each.group_id == group]
    raise_for(found.error_code, f"group {group!r} is not described")
    return found


def fetch_offsets(
    requests: Requests, group: str, coordinator: Any, partitions: Sequence[TopicPartition] | None
) -> Awaitable[Any]:
    """Ask for committed offsets: of these partitions, or of all that have one."""
    topics = None
    if partitions is not None:
        topics = [
            OffsetFetchRequest.OffsetFetchRequestTopic(name=name, partition_indexes=numbers)
            for name, numbers in _by_topic(partitions).items()
        ]
    request = OffsetFetchRequest(
        group_id=group, topics=topics, require_stable=False, min_version=2, max_version=7
    )
    return requests.send(request, coordinator)


def fetched(group: str, answer: Any) -> Mapping[TopicPartition, Any]:
    """Offset, metadata and error code of each partition. Raises the error of the whole answer."""
    raise_for(answer.error_code, f"offsets of group {group!r} are not given")
    return {
        TopicPartition(topic.name, each.partition_index): each
        for topic in answer.topics
        for each in topic.partitions
    }


async def groups(requests: Requests) -> frozenset[str]:
    """The groups that any broker lists."""
    sent = [requests.send(ListGroupsRequest(max_version=3), node) for node in requests.brokers()]
    listed: set[str] = set()
    for waiting in sent:
        answer = await waiting
        raise_for(answer.error_code, "groups are not listed")
        listed |= {each.group_id for each in answer.groups}
    return frozenset(listed)


async def log_ends(requests: Requests, partitions: Sequence[TopicPartition]) -> tuple[LogEnd, ...]:
    """Log start and end of each partition, from its leader."""
    topics = await requests.topics()
    led: dict[int, list[TopicPartition]] = defaultdict(list)
    for at in partitions:
        if at.partition not in topics.get(at.topic, {}):
            raise UnknownTopicOrPartitionError(str(at))
        leader = topics[at.topic][at.partition]
        raise_for(_LEADER_NOT_AVAILABLE if leader < 0 else 0, str(at))
        led[leader].append(at)
    sent = [
        (spec, requests.send(list_offsets(led[leader], spec), leader))
        for leader in led
        for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST)
    ]
    found: dict[Any, dict[TopicPartition, int]] = defaultdict(dict)
    for spec, waiting in sent:
        found[spec] |= _offsets(await waiting)
    starts, ends = found[OffsetSpec.EARLIEST], found[OffsetSpec.LATEST]
    return tuple(LogEnd(partition=at, start=starts[at], end=ends[at]) for at in sorted(partitions))


def list_offsets(partitions: Sequence[TopicPartition], spec: Any) -> Any:
    """The question for log starts or ends (``spec``) of partitions that one broker leads."""
    topic, partition = (
        ListOffsetsRequest.ListOffsetsTopic,
        ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition,
    )
    topics = [
        topic(name=name, partitions=[partition(partition_index=number, timestamp=spec) for number in numbers])
        for name, numbers in _by_topic(partitions).items()
    ]
    return ListOffsetsRequest(isolation_level=0, topics=topics, min_version=1, max_version=5)


def _offsets(answer: Any) -> dict[TopicPartition, int]:
    found = {}
    for topic in answer.topics:
        for each in topic.partitions:
            at = TopicPartition(topic.name, each.partition_index)
            raise_for(each.error_code or (_LEADER_NOT_AVAILABLE if each.offset < 0 else 0), str(at))
            found[at] = each.offset
    return found


def _by_topic(partitions: Sequence[TopicPartition]) -> Mapping[str, list[int]]:
    numbers: dict[str, list[int]] = defaultdict(list)
    for at in partitions:
        numbers[at.topic].append(at.partition)
    return numbers


_NO_EPOCH = -1


async def ends_of(
    requests: Requests, partitions: Sequence[TopicPartition], leaders: Mapping[str, Mapping[int, int]]
) -> tuple[dict[TopicPartition, LogEnd], list[str]]:
    """Start and end by partition, and a sentence about each partition without an answer of its leader."""
    led: dict[int, list[TopicPartition]] = defaultdict(list)
    failed: dict[TopicPartition, int] = {}
    for at in partitions:
        leader = leaders.get(at.topic, {}).get(at.partition, -1)
        if leader < 0:
            failed[at] = _LEADER_NOT_AVAILABLE
        else:
            led[leader].append(at)
    sent = [
        (spec, requests.send(list_offsets(asked, spec), leader))
        for leader, asked in led.items()
        for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST)
    ]
    found: dict[Any, dict[TopicPartition, int]] = defaultdict(dict)
    epochs: dict[TopicPartition, int] = {}
    for spec, waiting in sent:
        for at, offset, epoch, code in _each(await waiting):
            if code or offset < 0:
                failed[at] = code or _LEADER_NOT_AVAILABLE
            else:
                found[spec][at] = offset
                epochs[at] = max(epoch, epochs.get(at, _NO_EPOCH))
    starts, ends = found[OffsetSpec.EARLIEST], found[OffsetSpec.LATEST]
    known = {
        at: LogEnd(partition=at, start=starts[at], end=ends[at], leader_epoch=epochs[at])
        for at in starts
        if at in ends
    }
    return known, [_sentence(at, code) for at, code in sorted(failed.items())]


def _each(answer: Any) -> list[tuple[TopicPartition, int, int, int]]:
    """Partition, offset, leader epoch (brokers before 2.1 tell none) and error code."""
    return [
        (TopicPartition(topic.name, each.partition_index), each.offset, _epoch(each), each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    ]


def _epoch(answer: Any) -> int:
    found = getattr(answer, "leader_epoch", None)
    return _NO_EPOCH if found is None else int(found)


def _sentence(at: TopicPartition, code: int) -> str:
    return (
        f"the log end of {at} cannot be read ({for_code(code).__name__}): its lag is unknown; "
        "check the partition's leader"
    )
