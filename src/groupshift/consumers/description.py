"""Who is in the Kafka group, asked beside its membership.

By the older listing call: the admin client's DescribeConsumerGroups aborts the process (an assertion in
librdkafka 2.16.0) when it times out after the process was paused.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from groupshift.consumers.librdkafka import connecting
from groupshift.domain.assignment import parse_assignment
from groupshift.domain.group import KafkaGroup, KafkaMember
from groupshift.errors import Transient

_STABLE = "Stable"
_LEFT_S = 0.1


class GroupDescription:
    """Reads the group of a member with these ``properties``; one thread at a time."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self._properties = properties
        self._group, self._client_id = str(properties["group.id"]), str(properties["client.id"])
        self._admin: AdminClient | None = None

    def read(self, timeout: float) -> KafkaGroup:
        """An answer without this very member is no answer: absence proves nothing. Raises `Transient`."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                listed = self._listed(timeout)
        except KafkaException as error:
            raise Transient(f"the Kafka group {self._group} could not be listed: {error}") from error
        found = [_described(group) for group in listed]
        for group in found:
            if any(member.client_id == self._client_id for member in group.members):
                return group
        raise Transient(f"the Kafka group {self._group} is listed without this member: not a full answer")

    def _listed(self, timeout: float) -> list[Any]:
        """A broker that has just started may say that there is no broker. The client then drops the one it
        knows and asks nobody any more (observed: librdkafka 2.16.1, two minutes and more), until it is asked
        for topics: it looks for brokers at the addresses it was given."""
        if self._admin is None:
            self._admin = AdminClient(connecting(self._properties))
        deadline = time.monotonic() + timeout
        try:
            return list(self._admin.list_groups(self._group, timeout=timeout))
        except KafkaException:
            left = deadline - time.monotonic()
            if left <= _LEFT_S:
                raise
            self._admin.list_topics(timeout=left / 2)
            return list(self._admin.list_groups(self._group, timeout=left / 2))

    def close(self) -> None:
        """Drop the connection."""
        self._admin = None


def _described(group: Any) -> KafkaGroup:
    stable = group.state == _STABLE
    return KafkaGroup(
        state=group.state,
        protocol=group.protocol,
        members=tuple(
            KafkaMember(
                member_id=each.id,
                client_id=each.client_id,
                host=each.client_host,
                assignment=parse_assignment(each.assignment or b"") if stable else frozenset(),
            )
            for each in group.members
        ),
    )
