"""Makes the parts of a member from a checked configuration and a subscription.

An application may subscribe to names with streams, to one topic filter, or to nothing.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaException

from groupshift import __version__
from groupshift.adapters.zookeeper.login import make_client
from groupshift.consumers.callbacks import Application
from groupshift.consumers.config import ConsumerConfig
from groupshift.consumers.config_keys import PREFIX, connecting, refusal
from groupshift.consumers.delivery import Delivery
from groupshift.consumers.fetcher import KafkaFetch
from groupshift.consumers.group_state import Identity, Parts, Policy
from groupshift.consumers.kafka_membership import KafkaMembership
from groupshift.consumers.metrics import Counters
from groupshift.consumers.zookeeper_nodes import find_brokers
from groupshift.consumers.zookeeper_session import FOR_EVER, ZookeeperCoordination
from groupshift.domain.reconcile import Member
from groupshift.domain.registration import MOST_STREAMS, Pattern, Registration
from groupshift.domain.topic_filter import Blacklist, Whitelist, clean_filter, compile_filter
from groupshift.errors import Rejected


def make_parts(
    config: ConsumerConfig, delivery: Delivery, application: Application, topics: Collection[str]
) -> Parts:
    """The clients of a member; none of them has joined anything yet. Raises `Rejected` for properties that
    librdkafka does not take together.

    Those of Kafka are connected and know where ``topics`` and the coordinator are, if the brokers answer:
    from the moment the member is registered, others wait for it."""
    counters = Counters()
    try:
        fetching = _located(config)
        _check_login(config, fetching, topics)
        membership = KafkaMembership(config.embedded(), counters) if config.migrating else None
        fetch = KafkaFetch(fetching)
        fetch.warm(topics)
        if membership is not None:
            membership.warm(topics)
        return Parts(
            coordination=ZookeeperCoordination(
                make_client(
                    config.zookeeper, config.session_s, config.login, connection_retry=dict(FOR_EVER)
                ),
                config.group,
                config.consumer_id,
                login=config.login,
                hidden=config.hidden,
            ),
            membership=membership,
            fetch=fetch,
            delivery=delivery,
            application=application,
            counters=counters,
        )
    except KafkaException as error:
        raise Rejected(f"consumer configuration: {error.args[0].str()}: correct it") from error


def _located(config: ConsumerConfig) -> dict[str, Any]:
    """The fetcher's properties, with the brokers from ZooKeeper where none were given."""
    properties = config.fetcher()
    if "bootstrap.servers" not in properties:
        protocol = str(properties.get("security.protocol", "PLAINTEXT")).upper()
        properties["bootstrap.servers"] = find_brokers(
            config.zookeeper, config.connect_s, protocol, config.login
        )
    return properties


def _check_login(config: ConsumerConfig, fetching: dict[str, Any], topics: Collection[str]) -> None:
    """Raises `Rejected` when the brokers refuse this member: registered, it would keep a share that nobody
    reads. The membership is asked for where it logs in otherwise than the fetcher."""
    logins = {"": fetching}
    if config.migrating and _login(config.embedded()) != _login(fetching):
        logins[PREFIX] = config.embedded()
    for prefix, properties in logins.items():
        if problem := refusal(properties, topics, prefix):
            raise Rejected(f"consumer configuration: {problem}")


def _login(properties: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in connecting(properties).items() if key != "client.id"}


def discard(parts: Parts) -> None:
    """Close the clients of a member that never joined."""
    parts.coordination.close()
    if parts.membership is not None:
        parts.membership.close(0)
    parts.fetch.close()


def make_policy(config: ConsumerConfig) -> Policy:
    """How the member starts, commits and lets go."""
    return Policy(
        reset=config.reset,
        auto_commit=config.auto_commit,
        drain_s=config.drain_s,
        wake_every_s=config.wake_every_s,
    )


def make_identity(config: ConsumerConfig, subscription: Subscription) -> Identity:
    """What the member is in the group, registered as of now."""
    return Identity(
        member=Member(
            consumer_id=config.consumer_id,
            subscription=subscription.topics,
            pattern=subscription.pattern,
            hidden=config.hidden,
            aware=config.migrating,
            assignor=config.assignor,
            form=config.form,
        ),
        registration=Registration(
            subscription=tuple(subscription.topics.items()),
            pattern=subscription.pattern,
            timestamp=str(int(time.time() * 1000)),
        ),
        software=__version__,
    )


Topics = Mapping[str, int] | Sequence[str] | Whitelist | Blacklist
"""The argument of ``subscribe``."""

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """Topic → streams, or with a wildcard ``pattern`` one cleaned expression → streams."""

    topics: Mapping[str, int]
    pattern: Pattern = Pattern.STATIC

    @property
    def streams(self) -> int:
        """How many streams there are, numbered from 0."""
        return max(self.topics.values(), default=0)

    @property
    def names(self) -> tuple[str, ...]:
        """The topics that are known by name."""
        return tuple(sorted(self.topics)) if self.pattern is Pattern.STATIC else ()


def read_subscription(topics: Topics) -> Subscription:
    """Check the argument of ``subscribe``. Raises `Rejected` with what is wrong and what to write."""
    if isinstance(topics, Whitelist | Blacklist):
        pattern = Pattern.WHITE_LIST if isinstance(topics, Whitelist) else Pattern.BLACK_LIST
        compile_filter(topics.regex)
        found = Subscription(topics={clean_filter(topics.regex): topics.streams}, pattern=pattern)
    elif isinstance(topics, str):
        raise Rejected(f"subscribe: {topics!r} is one name; pass a list of names, or topic → streams")
    else:
        named = dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics, 1)
        if bad := [each for each in named if not isinstance(each, str) or not _NAME.fullmatch(each)]:
            raise Rejected(f"subscribe: {bad[0]!r} is no topic name; for an expression pass Whitelist(…)")
        found = Subscription(topics=named)
    for topic, streams in found.topics.items():
        if isinstance(streams, bool) or not isinstance(streams, int) or not 1 <= streams <= MOST_STREAMS:
            raise Rejected(
                f"subscribe: {streams!r} streams of {topic!r}; a stream count is 1 or more, "
                f"and at most {MOST_STREAMS}"
            )
    if "" in found.topics:
        raise Rejected("subscribe: an empty topic filter matches nothing; write an expression")
    return found
