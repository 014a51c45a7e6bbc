"""Groups of groupshift's own that commit to every partition of the offsets topic; commits as a member."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from groupshift.adapters.kafka import cluster_changes
from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.cluster_changes import PREFIX, LiveClusterActs, LiveFencedCommits, names
from groupshift.adapters.kafka.wire import Api, fill, request_schema
from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import OffsetRow
from groupshift.errors import Conflict


@pytest.mark.parametrize("partitions", [1, 7, 31, 50, 62, 93, 961])
def test_every_partition_gets_a_group_also_where_31_divides_the_count(partitions: int) -> None:
    """Java's hash multiplies by 31: of such a count only the last character of a name decides."""
    found = names(partitions)
    assert sorted(found) == list(range(partitions))
    assert all(partition_of(name, partitions) == number for number, name in found.items())
    assert all(name.startswith(PREFIX) for name in found.values())


def test_a_topic_that_is_not_there_has_no_names() -> None:
    """A broker that was just started names no partition."""
    assert names(0) == {}


def test_a_broker_that_does_not_know_the_offsets_topic_yet_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was just started; to make no group for any partition would leave segments unrolled."""
    topic, cluster, deleted = "__consumer_offsets", KafkaCluster("127.0.0.1:1"), list[str]()
    told = [({TopicPartition(topic, number): 1 for number in range(2)}, {}), ({}, {topic: 3})]
    monkeypatch.setattr(cluster, "partitions_of", lambda _topics: told.pop())

    def delete(_: KafkaCluster, groups: Iterable[str]) -> Mapping[str, str]:
        deleted.extend(groups)
        return {}

    monkeypatch.setattr(cluster_changes, "delete_groups", delete)
    LiveClusterActs(cluster).remove_churn()
    assert not told
    assert len(deleted) == 2


class Coordinator:
    """Answers a joining member; ``asked`` are its requests."""

    def __init__(self, *, state: str = "Empty", others: int = 0, refused: int = 0) -> None:
        self.state, self.others, self.refused = state, others, refused
        self.asked: list[Any] = []

    def highest(self, _api: Api) -> int:
        return -1

    def request(self, api: Api, *, at_least: int = 0, at_most: int = 9, **values: Any) -> Any:  # noqa: ARG002
        return fill(request_schema(api, min(at_most, 5)), **values)

    def ask(self, request: Any, *, timeout_s: float | None = None) -> Any:  # noqa: ARG002
        self.asked.append(request)
        api = Api(int(request.__api_key__))
        if api is Api.DESCRIBE_GROUPS:
            return said(groups=[said(group_state=self.state, error_code=0)])
        if api is Api.JOIN_GROUP and not request.member_id:
            return said(error_code=79, member_id="us")
        if api is Api.JOIN_GROUP:
            members = [said(member_id="us"), *(said(member_id="other") for _ in range(self.others))]
            return said(error_code=0, member_id="us", leader="us", generation_id=7, members=members)
        if api is Api.OFFSET_FETCH:
            held = said(
                partition_index=0, committed_offset=40, committed_leader_epoch=3, metadata="m", error_code=0
            )
            return said(error_code=0, topics=[said(name="orders", partitions=[held])])
        if api is Api.OFFSET_COMMIT:
            partitions = [said(partition_index=0, error_code=self.refused)]
            return said(topics=[said(name="orders", partitions=partitions)])
        return said(error_code=0)

    @property
    def apis(self) -> list[Api]:
        return [Api(int(request.__api_key__)) for request in self.asked]


class OneBroker(KafkaCluster):
    """A cluster whose only broker coordinates every group."""

    def __init__(self, broker: Coordinator) -> None:
        super().__init__("127.0.0.1:1", timeout_s=0.1)
        self._only = broker

    def coordinator(self, group: str) -> Any:  # noqa: ARG002
        return self._only


def said(**fields: Any) -> SimpleNamespace:
    """A part of an answer."""
    return SimpleNamespace(**fields)


def higher(committed: Mapping[TopicPartition, OffsetRow]) -> list[OffsetRow]:
    """Two records on, for a partition that has an offset."""
    return [
        OffsetRow(group="g", topic=at.topic, partition=at.partition, offset=row.offset + 2)
        for at, row in committed.items()
    ]


def test_a_fenced_commit_is_made_by_the_only_member_of_its_generation() -> None:
    """It sees what is committed, commits as that member, and leaves."""
    broker = Coordinator()
    assert LiveFencedCommits(OneBroker(broker)).commit("g", higher) == {}
    assert broker.apis == [
        Api.DESCRIBE_GROUPS, Api.JOIN_GROUP, Api.JOIN_GROUP, Api.SYNC_GROUP, Api.OFFSET_FETCH,
        Api.OFFSET_COMMIT, Api.LEAVE_GROUP,
    ]  # fmt: skip
    commit = broker.asked[-2]
    assert (commit.generation_id_or_member_epoch, commit.member_id) == (7, "us")
    ((partition,),) = [topic.partitions for topic in commit.topics]
    assert partition.committed_offset == 42


def test_a_fenced_commit_leaves_a_group_with_members_alone() -> None:
    """Before it joins, and where another one joined at the same time; then it leaves at once."""
    broker = Coordinator(state="Stable")
    with pytest.raises(Conflict, match="is Stable"):
        LiveFencedCommits(OneBroker(broker)).commit("g", higher)
    assert broker.apis == [Api.DESCRIBE_GROUPS]
    broker = Coordinator(others=1)
    with pytest.raises(Conflict, match="other members"):
        LiveFencedCommits(OneBroker(broker)).commit("g", higher)
    assert broker.apis[-1] is Api.LEAVE_GROUP
    assert Api.OFFSET_COMMIT not in broker.apis


def test_what_a_coordinator_refuses_of_a_fenced_commit_is_told() -> None:
    """A consumer came in between: the generation is another one."""
    broker = Coordinator(refused=22)
    refused = LiveFencedCommits(OneBroker(broker)).commit("g", higher)
    assert "ILLEGAL_GENERATION" in refused["g"]
    assert broker.apis[-1] is Api.LEAVE_GROUP
