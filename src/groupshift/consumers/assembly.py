"""From a checked configuration and a subscription to the parts of a member."""

from __future__ import annotations

import time
from collections.abc import Mapping

from groupshift import __version__
from groupshift.consumers.configuration import ConsumerConfig
from groupshift.consumers.coordination import ZookeeperCoordination
from groupshift.consumers.delivery import Delivery
from groupshift.consumers.fetcher import KafkaFetch
from groupshift.consumers.holdings import Parts, Policy
from groupshift.consumers.identity import Identity
from groupshift.consumers.membership import KafkaMembership
from groupshift.domain.reconcile import Member
from groupshift.domain.registration import Registration


def make_parts(
    config: ConsumerConfig, subscription: Mapping[str, int], delivery: Delivery, *, aware: bool
) -> Parts:
    """The clients of a member; none of them has joined anything yet."""
    return Parts(
        coordination=ZookeeperCoordination(
            config.zookeeper, config.group, config.consumer_id, config.session_s
        ),
        membership=KafkaMembership(config.embedded(), subscription) if aware else None,
        fetch=KafkaFetch(config.fetcher()),
        delivery=delivery,
    )


def make_policy(config: ConsumerConfig) -> Policy:
    """How the member starts, commits and lets go."""
    return Policy(reset=config.reset, auto_commit=config.auto_commit, drain_s=config.drain_s)


def make_identity(config: ConsumerConfig, subscription: Mapping[str, int], *, aware: bool) -> Identity:
    """What the member is in the group, registered as of now."""
    return Identity(
        member=Member(
            consumer_id=config.consumer_id,
            subscription=subscription,
            aware=aware,
            assignor=config.assignor,
            form=config.form,
        ),
        registration=Registration(
            subscription=tuple(subscription.items()), timestamp=str(int(time.time() * 1000))
        ),
        software=__version__,
    )
