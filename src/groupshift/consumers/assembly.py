"""From a checked configuration and a subscription to the parts of a member."""

from __future__ import annotations

import time

from groupshift import __version__
from groupshift.consumers.configuration import ConsumerConfig
from groupshift.consumers.coordination import ZookeeperCoordination
from groupshift.consumers.delivery import Delivery
from groupshift.consumers.fetcher import KafkaFetch
from groupshift.consumers.holdings import Parts, Policy
from groupshift.consumers.identity import Identity
from groupshift.consumers.membership import KafkaMembership
from groupshift.consumers.subscription import Subscription
from groupshift.domain.reconcile import Member
from groupshift.domain.registration import Registration


def make_parts(config: ConsumerConfig, delivery: Delivery) -> Parts:
    """The clients of a member; none of them has joined anything yet."""
    return Parts(
        coordination=ZookeeperCoordination(
            config.zookeeper, config.group, config.consumer_id, config.session_s, hidden=config.hidden
        ),
        membership=KafkaMembership(config.embedded()) if config.migrating else None,
        fetch=KafkaFetch(config.fetcher()),
        delivery=delivery,
    )


def make_policy(config: ConsumerConfig) -> Policy:
    """How the member starts, commits and lets go."""
    return Policy(reset=config.reset, auto_commit=config.auto_commit, drain_s=config.drain_s)


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
