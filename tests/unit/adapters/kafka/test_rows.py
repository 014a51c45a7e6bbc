"""Answers about one group, as kio has them, become the group of a protocol move."""

from __future__ import annotations

import datetime as dt
import importlib
import struct
import uuid
from typing import Any

import pytest
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode

from groupshift.adapters.kafka.requests import settings_of
from groupshift.adapters.kafka.rows import group_answer as group_told
from groupshift.adapters.kafka.rows import kind_of
from groupshift.adapters.kafka.wire import fill
from groupshift.domain.group_protocol import POLICY, Kind, Policy, Protocol
from groupshift.domain.partitions import TopicPartition
from support.classic_member import assignment, subscription, told_of

_DESCRIBE_GROUPS, _LIST_GROUPS, _API_VERSIONS, _DESCRIBE_CONFIGS, _DESCRIBE = 15, 16, 18, 32, 69


def answer(api: int, version: int) -> Any:
    """The module with the classes of an answer."""
    return importlib.import_module(load_response_schema(api, version).__module__)


def classic(version: int, *members: Any, protocol_type: str = "consumer") -> Any:
    """One group of DescribeGroups."""
    return fill(
        answer(_DESCRIBE_GROUPS, version).DescribedGroup,
        error_code=ErrorCode.none,
        error_message=None,
        group_id="g",
        group_state="Stable",
        protocol_type=protocol_type,
        protocol_data="range",
        members=members,
    )


def member(version: int, metadata: bytes, assigned: bytes, **more: Any) -> Any:
    """One member of DescribeGroups."""
    return fill(
        answer(_DESCRIBE_GROUPS, version).DescribedGroupMember,
        member_id=more.pop("member_id", "m1"),
        client_id="c1",
        client_host="/10.0.0.1",
        member_metadata=metadata,
        member_assignment=assigned,
        group_instance_id=more.pop("instance_id", None),
    )


@pytest.mark.parametrize("version", [0, 6])
def test_a_classic_group_has_topics_partitions_and_the_size_of_user_data(version: int) -> None:
    """Of old and new brokers; members come in the order of their ids."""
    told = classic(
        version,
        member(version, subscription(["t"]), assignment({"t": [0, 1]}, b"12345678"), member_id="m2"),
        member(version, subscription(["t"]), assignment({"t": [2]}), member_id="m1", instance_id="i"),
        member(version, subscription(["t"]), b"", member_id="m3"),
    )
    group = group_told(Kind.CLASSIC, told, 4).group
    assert (group.kind, group.protocol, group.coordinator, group.epoch) == (Kind.CLASSIC, "range", 4, None)
    first, second, third = group.members
    assert [m.member_id for m in group.members] == ["m1", "m2", "m3"]
    assert (first.instance_id, first.user_data) == ("i" if version else None, 0)
    assert (second.user_data, second.host, second.topics) == (8, "10.0.0.1", ("t",))
    assert second.assigned == {TopicPartition("t", 0), TopicPartition("t", 1)}
    assert (third.assigned, third.unreadable) == (frozenset(), "")
    assert {m.speaks for m in group.members} == {Protocol.CLASSIC}


def test_bytes_that_cannot_be_read_are_said_of_consumers_only() -> None:
    """Connect's own are nobody's business."""
    broken = member(6, b"\x00", assignment({"t": [0]}))
    assert "no version" in group_told(Kind.CLASSIC, classic(6, broken), 1).group.members[0].unreadable
    connect = group_told(Kind.CLASSIC, classic(6, broken, protocol_type="connect"), 1).group
    assert (connect.protocol_type, connect.members[0].unreadable) == ("connect", "")


@pytest.mark.parametrize(
    ("version", "speaks"), [(0, {None}), (1, {Protocol.CLASSIC, Protocol.CONSUMER, None})]
)
def test_a_consumer_group_names_each_members_protocol_from_version_1_on(version: int, speaks: set) -> None:
    """3.9 has version 0; a value to come is not guessed."""
    module = answer(_DESCRIBE, version)
    part = module.TopicPartitions(topic_id=uuid.uuid4(), topic_name="t", partitions=(1,))
    given = module.Assignment(topic_partitions=(part,))
    members = tuple(
        fill(
            module.Member,
            member_id=f"m{kind}",
            instance_id=None,
            rack_id=None,
            member_epoch=7,
            client_id="c",
            client_host="/h",
            subscribed_topic_names=("t",),
            subscribed_topic_regex=None,
            assignment=given,
            target_assignment=given,
            member_type=kind,
        )
        for kind in (0, 1, 2)
    )
    told = module.DescribedGroup(
        error_code=ErrorCode.none,
        error_message=None,
        group_id="g",
        group_state="Stable",
        group_epoch=7,
        assignment_epoch=6,
        assignor_name="uniform",
        members=members,
    )
    group = group_told(Kind.CONSUMER, told, 1).group
    assert (group.kind, group.epoch, group.assignment_epoch, group.protocol) == (
        Kind.CONSUMER,
        7,
        6,
        "uniform",
    )
    assert {m.speaks for m in group.members} == speaks
    assert {(m.epoch, m.topics, m.assigned) for m in group.members} == {
        (7, ("t",), frozenset({TopicPartition("t", 1)}))
    }


def test_types_in_a_list_are_those_that_are_known() -> None:
    """Also in other letters; one to come, and none, are unknown."""
    listed = answer(_LIST_GROUPS, 5).ListedGroup
    for told, kind in (("classic", Kind.CLASSIC), ("Share", Kind.SHARE), ("later", Kind.UNKNOWN)):
        row = listed(group_id="g", protocol_type="", group_state="Stable", group_type=told)
        assert kind_of(row) is kind
    old = answer(_LIST_GROUPS, 4).ListedGroup(group_id="g", protocol_type="", group_state="Stable")
    assert kind_of(old) is Kind.UNKNOWN


def test_what_a_broker_tells_of_itself() -> None:
    """Requests, features and properties; a refusal is named."""
    module = answer(_API_VERSIONS, 4)
    told = fill(
        module.ApiVersionsResponse,
        error_code=ErrorCode.none,
        api_keys=(
            module.ApiVersion(api_key=68, min_version=0, max_version=1),
            module.ApiVersion(api_key=16, min_version=0, max_version=5),
        ),
        supported_features=(
            module.SupportedFeatureKey(name="metadata.version", min_version=7, max_version=30),
        ),
        finalized_features=(
            module.FinalizedFeatureKey(name="group.version", max_version_level=1, min_version_level=1),
        ),
        throttle_time=dt.timedelta(0),
    )
    configs = answer(_DESCRIBE_CONFIGS, 4)
    entry = configs.DescribeConfigsResourceResult(
        name=POLICY, value="Upgrade", read_only=True, is_sensitive=False, synonyms=(), documentation=None
    )

    def result(code: ErrorCode, *entries: Any) -> Any:
        found = configs.DescribeConfigsResult(
            error_code=code, error_message=None, resource_type=4, resource_name="1", configs=entries
        )
        return configs.DescribeConfigsResponse(throttle_time=dt.timedelta(0), results=(found,))

    settings = settings_of(told, result(ErrorCode.none, entry))
    assert (settings.heartbeats, settings.listings, settings.descriptions) == (1, 5, -1)
    assert (settings.metadata, settings.features) == (30, {"group.version": 1})
    assert settings.policy is Policy.UPGRADE
    refused = settings_of(told, result(ErrorCode.cluster_authorization_failed))
    assert (refused.policy, refused.untold) == (None, "CLUSTER_AUTHORIZATION_FAILED (31)")


def text(value: str) -> bytes:
    """A string of Kafka's protocol."""
    return struct.pack(">h", len(value)) + value.encode()


def encoded(*topics: str, version: int = 1, tail: bytes = b"\xff\xff\xff\xff") -> bytes:
    """ConsumerProtocolSubscription bytes."""
    return struct.pack(">hi", version, len(topics)) + b"".join(text(topic) for topic in topics) + tail


def assigned(tail: bytes = b"\xff\xff\xff\xff", **topics: list[int]) -> bytes:
    """ConsumerProtocolAssignment bytes."""
    parts = [text(name) + struct.pack(f">i{len(held)}i", len(held), *held) for name, held in topics.items()]
    return struct.pack(">hi", 1, len(topics)) + b"".join(parts) + tail


def test_topics_are_read_whatever_follows_them() -> None:
    """Later versions append owned partitions, generation and rack."""
    member, unread = told_of(encoded("orders", "clicks", version=3, tail=b"anything"))
    assert (member.topics, unread) == (("clicks", "orders"), {})


def test_partitions_are_read_whatever_follows_them() -> None:
    """Those of every topic, of which one may have none."""
    member, unread = told_of(assigned=assigned(tail=b"anything", orders=[0, 7], clicks=[], payments=[2]))
    orders = {TopicPartition("orders", 0), TopicPartition("orders", 7)}
    assert (member.assigned, unread) == ({*orders, TopicPartition("payments", 2)}, {})


def test_a_topic_without_a_name_is_bytes_that_cannot_be_read() -> None:
    """No partition of it is told as somebody's."""
    nameless = b"\0\1\0\0\0\1\0\0\0\0\0\1\0\0\0\7" + b"\xff" * 4
    for found, unread in (told_of(encoded("orders", "")), told_of(assigned=nameless)):
        assert (found.topics, found.assigned) == ((), frozenset())
        assert set(unread.values()) == {"a topic has no name"}


def test_an_array_that_is_null_is_an_empty_one() -> None:
    """Both mean that there is none."""
    null = b"\0\1" + b"\xff" * 8
    found, unread = told_of(null, null)
    assert (found.topics, found.assigned, unread) == ((), frozenset(), {})


def test_a_member_still_joining_has_none() -> None:
    """The coordinator answers empty bytes until the group is stable."""
    member, unread = told_of(b"", b"")
    assert (member.topics, member.assigned, unread) == ((), frozenset(), {})


@pytest.mark.parametrize("cut", [1, 5, 7, 10])
def test_bytes_that_end_too_early_are_refused(cut: int) -> None:
    """Rather than an empty or shortened list of topics."""
    member, unread = told_of(encoded("orders")[:cut])
    assert member.topics == ()
    assert "byte" in unread["subscription"]


@pytest.mark.parametrize("cut", [1, 5, 10, 15, 19, 23])
def test_an_assignment_that_ends_too_early_is_refused(cut: int) -> None:
    """Rather than a shortened set of partitions."""
    member, unread = told_of(assigned=assigned(orders=[0, 7])[:cut])
    assert member.assigned == frozenset()
    assert "byte" in unread["assignment"]
