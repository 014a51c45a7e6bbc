"""Other clients in the same tree: named, and nobody is told to delete what lives."""

from __future__ import annotations

import pytest

from groupshift.adapters.zookeeper.nodes import member_of, offset_of, owner_of
from groupshift.adapters.zookeeper.session import Node
from groupshift.domain.facts import Facts
from groupshift.domain.group import GroupView, Owner, merge
from groupshift.domain.group_rules import RULES
from groupshift.domain.modes import ABSENT_MODE
from groupshift.domain.partitions import TopicPartition
from support.znodes import znode

UUID = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
JSON = b'{"version":1,"subscription":{"orders":1},"pattern":"static","timestamp":"1"}'
LIVING = "its session lives; the group cannot be moved while that client is in it: stop that client"

REGISTRATIONS = {
    "pykafka": (f"ids/box-1:{UUID}", b"mytopic", "pykafka"),
    "kazoo-go": (f"ids/box-1:{UUID}", JSON, "a Go client"),
    "kafka-node": (f"ids/g_{UUID}", JSON, "kafka-node"),
    "jafka": ("ids/g_box-1486000000000-ab12cd34", b'{"orders":4, "clicks":1}', "Kafka 0.7 or jafka"),
    "jafka's filter": ("ids/g_box-1", b"*2*orders.*", "Kafka 0.7 or jafka"),
    "without the group's name": ("ids/worker-7", JSON, "not Kafka's old consumer"),
    "a topic's name under another": ("ids/worker-7", b"mytopic", "not Kafka's old consumer"),
    "host and process": ("ids/box-1:4711", b"mytopic", "not Kafka's old consumer"),
    "nothing under another name": ("ids/worker-7", b"", "not Kafka's old consumer"),
    "a version under another name": ("ids/worker-7", b'{"version":1}', "not Kafka's old consumer"),
    "another group's name": ("ids/other_box-1", b"\xff\xfe", "not Kafka's old consumer"),
}
OWNERS = {
    "pykafka": ("owners/mytopic/0-3", f"box-1:{UUID}".encode(), "pykafka"),
    "pykafka of a large broker id": ("owners/mytopic/1001-12", f"box-1:{UUID}".encode(), "pykafka"),
    "kazoo-go": ("owners/mytopic/3", f"box-1:{UUID}".encode(), "a Go client"),
    "kazoo-go, digits only": (
        "owners/mytopic/3", b"box:00000000-0000-0000-0000-000000000001", "a Go client",
    ),
    "kafka-node": ("owners/mytopic/3", f"g_{UUID}".encode(), "kafka-node"),
    "jafka": ("owners/mytopic/0-3", b"g_box-1486000000000-ab12cd34-0", "Kafka 0.7 or jafka"),
    "no group in the thread id": ("owners/mytopic/3", b"other_m1-1-0", "not Kafka's old consumer"),
    "a padded number": ("owners/mytopic/3", b"g_m1-1-00", "not Kafka's old consumer"),
    "nothing": ("owners/mytopic/3", b"", "not Kafka's old consumer"),
    "a padded partition": ("owners/mytopic/03", b"g_m1-1-0", "not Kafka's old consumer"),
    "a superscript": ("owners/mytopic/\u00b2", b"g_m1-1-0", "not Kafka's old consumer"),
    "no number": ("owners/mytopic/three", b"\xff\xfe", "not Kafka's old consumer"),
    "5,000 digits": (f"owners/mytopic/{'9' * 5000}", b"g_m1-1-0", "not Kafka's old consumer"),
}  # fmt: skip


def node(path: str, data: bytes, owner: int = 7) -> Node:
    """A znode of group g; ``owner`` 0 is a persistent one."""
    return znode(f"/consumers/g/{path}", data, owner)


def advises_deleting(sentence: str) -> bool:
    """Whether a person would take it for advice to delete the node."""
    return any(word in sentence.lower() for word in ("delete", "remove", "rmr"))


@pytest.mark.parametrize("name", REGISTRATIONS)
def test_f04_a_living_registration_of_another_client_is_named(name: str) -> None:
    """What it looks like, what it means for the group, what to do; never to delete it."""
    path, data, client = REGISTRATIONS[name]
    found, (problem,) = member_of(node(path, data), None)
    assert found.member_id == path.removeprefix("ids/")
    assert f"/consumers/g/{path}" in problem
    assert client in problem
    assert LIVING in problem
    assert not advises_deleting(problem)


@pytest.mark.parametrize("name", OWNERS)
def test_f04_a_living_owner_node_of_another_client_is_named(name: str) -> None:
    """A thread id is only what the old consumer writes; a partition number has no padding."""
    path, data, client = OWNERS[name]
    problem = owner_of(node(path, data))
    assert isinstance(problem, str)
    assert f"/consumers/g/{path}" in problem
    assert client in problem
    assert LIVING in problem
    assert not advises_deleting(problem)


@pytest.mark.parametrize("owner", [0, 7])
def test_f04_an_offset_that_another_client_keeps_is_left_to_it(owner: int) -> None:
    """Kafka 0.7 and jafka keep theirs in persistent nodes: deleting them loses a living client's place."""
    problem = offset_of(node("offsets/mytopic/0-3", b"120", owner))
    assert isinstance(problem, str)
    assert "Kafka 0.7 or jafka" in problem
    assert not advises_deleting(problem)
    assert not advises_deleting(str(offset_of(node("offsets/mytopic/3", b"twelve", owner))))


def test_f04_owners_of_a_topic_that_is_gone_are_stopped_not_removed() -> None:
    """An owner node always belongs to a living session."""
    owned = Owner(partition=TopicPartition("gone", 0), thread_id="g_m1-1-0", czxid=5, session_id=7)
    side = GroupView(group="g", exists=True, owners=(owned,))
    (problem,) = (text for text in merge(1, side, GroupView(group="g")).problems if "owner nodes" in text)
    assert "stop the members" in problem
    assert not advises_deleting(problem)


def test_f04_the_rule_about_nodes_gives_no_advice_of_its_own() -> None:
    """Each sentence holds its remedy: "repair or remove that node" was said of living ones too."""
    view = GroupView(group="g", taken_at_ms=1, exists=True, mode=ABSENT_MODE, problems=("something",))
    (found,) = RULES["C03"].ask(Facts(view=view))
    assert found.reason == "something"
    assert not advises_deleting(found.hint)


def test_the_old_consumers_own_nodes_are_no_other_clients() -> None:
    """Generated ids, ids set by hand, and groups whose name has dashes and underscores."""
    for name in ("g_box.a-1486000000000-ab12cd34", "g_m1", "g_m1-1"):
        assert member_of(node(f"ids/{name}", JSON), None)[1] == ()
        assert isinstance(owner_of(node("owners/orders/3", f"{name}-12".encode())), Owner)
    assert "is persistent" in member_of(node("ids/g_m1", JSON, owner=0), None)[1][0]


@pytest.mark.parametrize("life", ["dead", "unused"])
def test_f04_a_group_whose_partitions_somebody_owns_is_not_said_to_be_removable(life: str) -> None:
    """Its registration is gone, its session is not."""
    from groupshift.cli.scan import idle_text
    from groupshift.scan.group_state import GroupState, Life

    owned = GroupState(group="g", taken_at_ms=1, life=Life(life), owned=1)
    assert "living sessions" in idle_text(owned)
    assert not advises_deleting(idle_text(owned))
    assert advises_deleting(idle_text(GroupState(group="g", taken_at_ms=1, life=Life(life))))


def test_a_registration_that_lost_its_subscription_is_the_old_consumers() -> None:
    """Its member has to be restarted: no other client writes a version alone."""
    from groupshift.adapters.zookeeper.nodes import KAFKA_07, client_of_registration

    assert client_of_registration("g", "g_m1-1", b'{"version":1}') is None
    assert client_of_registration("g", "g_m1-1", b'{"orders":1}') == KAFKA_07


def test_a_backslash_that_is_not_escaped_is_the_old_consumers() -> None:
    """kafka-node writes JSON; only the old consumer writes such a pattern, under whatever id it was given."""
    lone = b'{"version":1,"subscription":{"a\\.b":2},"pattern":"white_list","timestamp":"1"}'
    assert member_of(node(f"ids/g_{UUID}", lone), None)[1] == ()
    ((said),) = member_of(node(f"ids/g_{UUID}", lone.replace(b"\\", b"\\\\")), None)[1]
    assert "kafka-node" in said
