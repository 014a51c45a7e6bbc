"""From a checked configuration and a subscription to the parts of a member."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

from confluent_kafka import KafkaException

from groupshift import __version__
from groupshift.adapters.zookeeper.login import make_client
from groupshift.consumers.brokers import find_brokers
from groupshift.consumers.callbacks import Application
from groupshift.consumers.configuration import ConsumerConfig
from groupshift.consumers.coordination import FOR_EVER, ZookeeperCoordination
from groupshift.consumers.counters import Counters
from groupshift.consumers.delivery import Delivery
from groupshift.consumers.fetcher import KafkaFetch
from groupshift.consumers.identity import Identity
from groupshift.consumers.keys import PREFIX
from groupshift.consumers.librdkafka import connecting, refusal
from groupshift.consumers.membership import KafkaMembership
from groupshift.consumers.parts import Parts, Policy
from groupshift.consumers.subscription import Subscription
from groupshift.domain.reconcile import Member
from groupshift.domain.registration import Registration
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
