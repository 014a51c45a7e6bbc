"""One connection to each broker of a cluster, made when it is first needed; metadata and coordinators.

`access_of` says how to connect by librdkafka's security keys, which `[kafka.properties]` is written in.
Messages about a Kafka that refuses or does not answer quote no secret.
"""

from __future__ import annotations

import json
import random
import re
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial, wraps
from importlib.resources import files
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from kio.schema.errors import ErrorCode

from groupshift.adapters.kafka.connection_and_login import MECHANISMS, Access, BrokerConnection, LoginRefused
from groupshift.adapters.kafka.requests import coordinators_told, metadata, replicas_lacking
from groupshift.adapters.kafka.wire import (
    BrokerError,
    Malformed,
    UnsupportedByBroker,
    by_partition,
    id_text,
    raise_for,
)
from groupshift.domain.addresses import PROTOCOLS, joined, kafka_servers, login_problem
from groupshift.domain.commit_places import TopicNow
from groupshift.domain.foreign_text_quoting import struck_out
from groupshift.domain.partitions import TopicPartition, grouped
from groupshift.domain.rows import BrokerRow
from groupshift.errors import Rejected, Transient

_FILE: Final = files("groupshift").joinpath("adapters", "kafka", "login_keys.json")
KEYS: Final = frozenset[str](json.loads(_FILE.read_text("utf-8")))
"""Every key that says how to connect and log in."""


def access_of(properties: Mapping[str, str], timeout_s: float = 7.0) -> Access:
    """How to connect with these librdkafka ``properties``; ``timeout_s`` bounds each wait.

    Raises `Rejected` for a key without equivalent, a value that is none of its choices, a missing user name
    or password, a login or certificates that the protocol does not use, and files that cannot be loaded; no
    sentence quotes a secret.
    """
    if unknown := sorted(set(properties) - KEYS):
        raise _unusable(f"{unknown[0]!r} means nothing to an observer; known are {', '.join(sorted(KEYS))}")
    if without_effect := login_problem(properties):
        raise _unusable(without_effect)
    protocol = _choice("security.protocol", properties.get("security.protocol") or "PLAINTEXT", PROTOCOLS)
    access = Access(client_id=properties.get("client.id", "groupshift"), timeout_s=timeout_s)
    if protocol.startswith("SASL"):
        mechanism = properties.get("sasl.mechanism") or properties.get("sasl.mechanisms") or ""
        access.mechanism = _choice("sasl.mechanism", mechanism, MECHANISMS)
        for key in ("sasl.username", "sasl.password"):
            if not properties.get(key):
                raise _unusable(f"{key} is missing; {mechanism} needs sasl.username and sasl.password")
        access.user, access.password = properties["sasl.username"], properties["sasl.password"]
    if protocol.endswith("SSL"):
        access.tls = _tls(properties)
    return access


def _unusable(why: str) -> Rejected:
    return Rejected(f"a property of [kafka.properties] cannot be used: {why}")


def _choice(key: str, value: str, choices: tuple[str, ...]) -> str:
    if value.upper() not in choices:
        raise _unusable(f"{key} is {value!r}; choose one of {', '.join(choices)}")
    return value.upper()


def _tls(properties: Mapping[str, str]) -> ssl.SSLContext:
    """TLS 1.2 at least, with the authorities and the certificate that the properties name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    trusted, pem = properties.get("ssl.ca.location"), properties.get("ssl.ca.pem")
    try:
        if pem:
            context.load_verify_locations(cadata=pem)
        if trusted and trusted != "probe":
            try:
                context.load_verify_locations(cafile=trusted)
            except IsADirectoryError:  # of certificates under their hashes
                context.load_verify_locations(capath=trusted)
        elif not pem:
            context.load_default_certs()
        if properties.get("ssl.crl.location"):
            context.load_verify_locations(properties["ssl.crl.location"])
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        if properties.get("ssl.certificate.location"):
            # The password is a text even where there is none: OpenSSL would ask for it on the terminal.
            files = properties["ssl.certificate.location"], properties.get("ssl.key.location")
            context.load_cert_chain(*files, properties.get("ssl.key.password", ""))
    except (OSError, ValueError, TypeError) as wrong:  # the latter two: of texts that are no path or no PEM
        said = getattr(wrong, "strerror", None) or type(wrong).__name__
        raise _unusable(
            f"the files that the ssl keys name cannot be loaded ({said}); "
            "they must be PEM, and ssl.key.password that of the key"
        ) from None
    identification = properties.get("ssl.endpoint.identification.algorithm") or "https"
    if _choice("ssl.endpoint.identification.algorithm", identification, ("HTTPS", "NONE")) == "NONE":
        context.check_hostname = False
    verification = properties.get("enable.ssl.certificate.verification", "true")
    if _choice("enable.ssl.certificate.verification", verification, ("TRUE", "FALSE")) == "FALSE":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


_SECRET = re.compile(r"password|secret|key|pem|jaas|oauth|token", re.IGNORECASE)


def without_secrets(text: str, properties: Mapping[str, str]) -> str:
    """``text`` with the values of all properties that hold a secret struck out."""
    return struck_out(text, (value for key, value in properties.items() if _SECRET.search(key)))


K = TypeVar("K")
P = ParamSpec("P")
S = TypeVar("S", bound="OfCluster")
T = TypeVar("T")

_PAUSE_S = 0.1
_FIRST_SHARE_S = 1.0
"""An observer's first attempt gets so much of the time, each further one twice as much: a broker that went
away without a word is asked again soon, a slow one is given more."""
_NEEDED = {30: "Describe the group", 29: "Describe a topic", 31: "Describe the cluster"}
"""The operation that an observer lacks where a broker answers with this error."""
_IDS = 12
"""The newest Metadata that calls topics by name and tells their ids."""


class KafkaCluster:
    """Requests to the brokers of one cluster; opens nothing before the first.

    ``properties`` are librdkafka's security keys; their values never reach a log or a sentence. ``timeout_s``
    bounds `attempt` with all its retries and every single wait. The methods raise what a connection raises
    (`BrokerConnection`) and `BrokerError`; what runs inside `attempt` is repeated, and gives people's
    sentences. Threads may share a cluster: one `attempt` comes after the other.

    An ``observer`` only reads one group or a window of them: it is given up within ``timeout_s`` however many
    waits it has, repeats every error but a missing right, and names the right that is missing."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        properties: Mapping[str, str] | None = None,
        timeout_s: float = 10.0,
        observer: bool = False,
    ) -> None:
        self._properties = dict(properties or {})
        self._timeout_s = timeout_s
        self._observer = observer
        servers = kafka_servers(
            bootstrap_servers, "kafka.bootstrap_servers", self._properties.get("security.protocol", "")
        )
        self.address = joined(servers)
        self._bootstrap = [(each.host, each.port) for each in servers]
        if not observer:
            _ = self._access
        self._nodes: dict[int, BrokerRow] = {}
        self._connections: dict[int, BrokerConnection] = {}
        self.cluster_id = ""
        """The cluster's id, as of the last metadata; empty before."""
        self.told_last: dict[str, int] = {}
        """What `coordinators` told last of each group that has one; empty after `close`."""
        self._cluster_ids: dict[str, str] | None = None
        self._sent = 0
        self._lock = threading.RLock()

    @cached_property
    def _access(self) -> Access:
        """How to connect. An observer loads files (certificates) when it first connects, and anew after it
        closed its connections: who does not need Kafka goes on without them, and they may be renewed."""
        return access_of(self._properties, self._timeout_s)

    @property
    def who(self) -> str:
        """The identity, for sentences to people."""
        return f"user {self._access.user!r}" if self._access.user else "a connection without a user name"

    def attempt(self, work: Callable[[], T]) -> T:
        """What ``work`` returns; repeated with fresh connections while brokers are silent or say that
        asking again may help. It must be safe to repeat.

        Raises:
            Transient: no answer until the deadline.
            Rejected: credentials are refused, a right is missing, or a broker is too old.
        """
        with self._lock:
            deadline = time.monotonic() + self._timeout_s
            share_s, cause = _FIRST_SHARE_S, ""
            while True:
                if self._observer:
                    self._access.deadline = min(deadline, time.monotonic() + share_s)
                try:
                    return work()
                except (OSError, BrokerError, LoginRefused, UnsupportedByBroker) as failed:
                    self.close()
                    said = without_secrets(str(failed) or type(failed).__name__, self._properties)
                    if why := self._refusal(failed, said):
                        raise Rejected(f"Kafka at {self.address} {why}") from None
                    if not cause or not isinstance(failed, TimeoutError):
                        cause = said
                    if time.monotonic() + _PAUSE_S >= deadline:
                        raise Transient(
                            f"Kafka does not answer at {self.address} (setting [kafka] bootstrap_servers) "
                            f"within {self._timeout_s:g} s ({cause}): check that it runs and that "
                            "the address is right, then run the same command again"
                        ) from None
                    time.sleep(_PAUSE_S)
                    share_s *= 2
                except BaseException:
                    self.close()
                    raise

    def _refusal(self, failed: Exception, said: str) -> str:
        """What Kafka refuses where asking again does not help; empty where it may."""
        if isinstance(failed, LoginRefused):
            return (
                f"refuses the credentials ({said}): "
                "correct the security keys of [kafka.properties] or the ACLs of this user"
            )
        if isinstance(failed, UnsupportedByBroker):
            return f"is too old for this: {said}"
        if isinstance(failed, BrokerError) and self._observer and failed.code in _NEEDED:
            needed = f"does not allow {self.who} to {_NEEDED[failed.code]}"
            return f"{needed} ({said}): grant it, or correct [kafka.properties]"
        lasting = isinstance(failed, BrokerError) and not failed.retriable and not self._observer
        return f"refuses: {said}" if lasting else ""

    def refuse_several(self) -> None:
        """Ask every bootstrap server that answers now for its cluster, once.

        Raises `Rejected` when they are servers of several: groups would be read from either."""
        if self._cluster_ids is None:
            self._cluster_ids = {}
            for server in self._bootstrap if len(self._bootstrap) > 1 else ():
                with suppress(OSError):
                    self._ask_bootstrap(server)
                    self._cluster_ids.setdefault(self.cluster_id, "{}:{}".format(*server))
            self._nodes.clear()
        if len(self._cluster_ids) > 1:
            places = " and ".join(f"{at} is of {each!r}" for each, at in self._cluster_ids.items())
            raise Rejected(
                f"bootstrap servers {self.address} are of several clusters ({places}): name those of one"
            )

    def brokers(self) -> tuple[BrokerRow, ...]:
        """Every broker now, by node id; one that names none has just started and is to be asked again."""
        self._metadata(self._any(), ())
        if not self._nodes:
            raise ConnectionError("the broker names no broker: it has just started")
        return tuple(self._nodes[node] for node in sorted(self._nodes))

    def topics(self) -> frozenset[str]:
        """The names of all topics, internal ones included."""
        return frozenset(str(topic.name) for topic in self._metadata(self._any(), None).topics)

    def all_leaders(self) -> dict[TopicPartition, int]:
        """Node id of the leader of each partition of every topic, -1 where there is none now.

        A broker that names no topic was just started and has not learned them yet (a group's coordinator
        exists only with its offsets topic): that is an OSError to be repeated, not the absence of all."""
        topics = self._metadata(self._any(), None).topics
        if not topics:
            raise ConnectionError("the broker names no topic: it has just started, or this user may see none")
        return {at: int(each.leader_id) for at, each in by_partition(topics).items()}

    def partitions_of(self, topics: Collection[str]) -> tuple[dict[TopicPartition, int], dict[str, int]]:
        """Node id of the leader of each partition of ``topics``, -1 where there is none now, and the error
        code of each topic that the broker does not tell; one that does not exist is not made by asking."""
        if not topics:
            return {}, {}
        answer = self._metadata(self._any(), sorted(topics))
        leaders = {at: int(each.leader_id) for at, each in by_partition(answer.topics).items()}
        return leaders, {
            str(topic.name): int(topic.error_code) for topic in answer.topics if topic.error_code
        }

    def topics_now(self, topics: Collection[str]) -> dict[str, TopicNow]:
        """Ids and leader epochs of ``topics``, by name; one that does not exist is said not to, one that the
        broker does not tell (no rights) is absent."""
        if not topics:
            return {}
        by_name: dict[str, TopicNow] = {}
        for each in self._metadata(self._any(), sorted(topics), at_most=_IDS).topics:
            code, name = int(each.error_code), str(each.name)
            if code == ErrorCode.unknown_topic_or_partition:
                by_name[name] = TopicNow(topic=name, exists=False)
            elif not code:
                led = ((int(at.partition_index), getattr(at, "leader_epoch", -1)) for at in each.partitions)
                topic_id = id_text(getattr(each, "topic_id", None))
                epochs = {number: int(epoch) for number, epoch in led}
                by_name[name] = TopicNow(topic=name, topic_id=topic_id, epochs=epochs)
        return by_name

    def coordinators(self, groups: Iterable[str]) -> tuple[dict[str, int], dict[str, int]]:
        """Node id of each group's coordinator, and the error code of each group that has none now."""
        nodes, errors = dict[str, int](), dict[str, int]()
        for group, node, code in coordinators_told(self._any(), sorted(set(groups))):
            if code:
                errors[group] = code
                self.told_last.pop(group, None)
            else:
                nodes[group] = self.told_last[group] = node
        return nodes, errors

    def coordinated(self, groups: Iterable[str]) -> dict[str, int]:
        """Node id of the coordinator of each group. Raises `BrokerError` where one has none, `Malformed`
        where the broker's answer leaves one out."""
        wanted = set(groups)
        nodes, errors = self.coordinators(wanted)
        for group, code in errors.items():
            raise_for(code, f"group {group!r} has no coordinator")
        if wanted - nodes.keys():
            raise Malformed(f"no coordinator is told for group {min(wanted - nodes.keys())!r}")
        return nodes

    def coordinator(self, group: str) -> BrokerConnection:
        """The connection to a group's coordinator. Raises as `coordinated`."""
        return self.broker(self.coordinated([group])[group])

    def ask_at(
        self,
        places: Iterable[tuple[int, K]],
        questions: Callable[[BrokerConnection, list[K]], Iterable[tuple[Any, T]]],
    ) -> Iterator[tuple[T, Any]]:
        """Ask each broker (by node id) what ``questions`` makes of all that belongs there: as `ask_each`."""
        return self.ask_each(
            {node: list(questions(self.broker(node), each)) for node, each in grouped(places).items()}
        )

    def ask_each(
        self, questions: Mapping[int, Sequence[tuple[Any, T]]], *, in_flight: int = 4
    ) -> Iterator[tuple[T, Any]]:
        """Send each broker (by node id) its requests and give every answer with what stood beside its
        request. All brokers work at the same time, with a few requests under way at each."""
        waiting = [
            (self.broker(node), deque(requests), deque[tuple[int, T]]())
            for node, requests in questions.items()
        ]
        while waiting:
            for connection, requests, sent in waiting:
                while requests and len(sent) < in_flight:
                    request, beside = requests.popleft()
                    sent.append((connection.send(request), beside))
            for connection, _, sent in waiting:
                if sent:
                    correlation, beside = sent.popleft()
                    yield beside, connection.receive(correlation)
            waiting = [each for each in waiting if each[1] or each[2]]

    def ask_brokers(
        self, questions: Callable[[BrokerConnection, int], Iterable[Any]]
    ) -> dict[int, list[Any]]:
        """The answers of every broker, by node id, to its ``questions``, in their order."""
        nodes = [node.node_id for node in self.brokers()]
        answers: dict[int, list[Any]] = {node: [] for node in nodes}
        requests = {node: [(each, node) for each in questions(self.broker(node), node)] for node in nodes}
        for node, answer in self.ask_each(requests):
            answers[node].append(answer)
        return answers

    def lacking(self, brokers: Collection[int], topic: str | None = None) -> str:
        """Which of these brokers is not registered, or what `replicas_lacking` says of every topic, or this
        one, as each of them tells it; empty when all is whole. Raises `BrokerError`."""
        registered = {node.node_id for node in self.brokers()}
        if missing := sorted(set(brokers) - registered):
            return f"broker {', '.join(map(str, missing))} is not registered"
        answers = (metadata(self.broker(node), [topic] if topic else None) for node in sorted(brokers))
        return next((lack for each in answers if (lack := replicas_lacking(each.topics, brokers))), "")

    def known_brokers(self) -> tuple[str, ...]:
        """Every broker with its address; the release that its requests belong to, where it was asked."""
        releases = {node_id: each.release for node_id, each in self._connections.items()}
        return tuple(
            f"broker {node_id} at {node.host}:{node.port}"
            + (f", speaks {releases[node_id]}" if releases.get(node_id) else "")
            for node_id, node in sorted(self._nodes.items())
        )

    @property
    def requests(self) -> int:
        """How many requests were sent so far."""
        return self._sent + sum(connection.sent for connection in self._connections.values())

    def broker(self, node_id: int) -> BrokerConnection:
        """The connection to a broker, at the address that the metadata tells for it."""
        if node_id not in self._connections:
            if node_id not in self._nodes:
                self._metadata(self._any(), ())
            if node_id not in self._nodes:
                raise ConnectionRefusedError(f"no broker has the node id {node_id} now")
            node = self._nodes[node_id]
            self._connections[node_id] = BrokerConnection(node.host, node.port, self._access)
        return self._connections[node_id]

    def drop(self, node_id: int) -> None:
        """Close the connection to one broker; the next use makes a new one."""
        connection = self._connections.pop(node_id, None)
        if connection is not None:
            self._sent += connection.sent
            connection.close()

    def close(self) -> None:
        """Close every connection; the next use makes new ones, from the bootstrap servers on."""
        for node_id in tuple(self._connections):
            self.drop(node_id)
        self._nodes.clear()
        self.told_last = {}
        if self._observer:
            self.__dict__.pop("_access", None)

    def _any(self) -> BrokerConnection:
        """A connection to some broker, by its advertised address."""
        for connection in self._connections.values():
            return connection
        if not self._nodes:  # learnt from the first bootstrap server that answers
            self._first(self._ask_bootstrap, random.sample(self._bootstrap, len(self._bootstrap)))
        return self._first(self.broker, random.sample(sorted(self._nodes), len(self._nodes)))

    def _ask_bootstrap(self, server: tuple[str, int]) -> None:
        share = replace(self._access, timeout_s=self._access.wait_s / len(self._bootstrap))
        met = BrokerConnection(*server, share)
        try:
            self._metadata(met, ())
        finally:
            self._sent += met.sent
            met.close()

    def _first(self, use: Callable[[Any], T], places: Sequence[Any]) -> T:
        failed: OSError = ConnectionRefusedError("no broker is known")
        for place in places:
            try:
                return use(place)
            except OSError as why:
                failed = why
        raise failed

    def _metadata(
        self, connection: BrokerConnection, topics: Sequence[str] | None, *, at_most: int = 9
    ) -> Any:
        """The answer about these topics (None: all), after its brokers were noted."""
        answer = metadata(connection, topics, at_most=at_most)
        self.cluster_id = answer.cluster_id or ""
        self._nodes = {
            int(each.node_id): BrokerRow(
                node_id=int(each.node_id), host=each.host, port=int(each.port), rack=each.rack
            )
            for each in answer.brokers
        }
        return answer


observer = partial(KafkaCluster, timeout_s=7.0, observer=True)
"""A cluster whose brokers are only asked about one group, or a window of them; see `KafkaCluster`."""


class OfCluster:
    """What looks or acts through one `KafkaCluster`, which it closes."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()


def attempted(work: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Make a method of an `OfCluster` run inside `KafkaCluster.attempt`: it is repeated, so it must be safe
    to repeat, and it raises people's sentences."""

    @wraps(work)
    def repeated(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._cluster.attempt(lambda: work(self, *args, **kwargs))

    return repeated
