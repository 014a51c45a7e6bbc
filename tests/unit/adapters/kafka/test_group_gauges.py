"""Metrics of a broker as Kafka's JmxTool prints them, and addresses that cannot be used."""

from __future__ import annotations

import socket

import pytest

from groupshift.adapters.kafka.group_gauges import JmxToolGauges, broker, gauges
from groupshift.domain.group_protocol import Kind
from groupshift.errors import Rejected, Transient

STARTED = "time=1795335440276\nkafka.server:type=app-info,id=1:CommitId=26b2\n"
OLD = (
    STARTED
    + """kafka.server:type=app-info,id=1:Version=3.9.2
kafka.coordinator.group:type=GroupMetadataManager,name=NumGroups:Value=4
kafka.coordinator.group:type=GroupMetadataManager,name=NumGroupsEmpty:Value=3
kafka.coordinator.group:type=GroupMetadataManager,name=NumGroupsStable:Value=1
kafka.coordinator.group:type=GroupMetadataManager,name=NumOffsets:Value=17
"""
)
NEW = (
    OLD
    + """kafka.server:type=group-coordinator-metrics,protocol=classic:group-count=4
kafka.server:type=group-coordinator-metrics,protocol=consumer:group-count=2
kafka.server:type=group-coordinator-metrics,protocol=future:group-count=9
kafka.server:type=group-coordinator-metrics,state=Empty:consumer-group-count=2
kafka.server:type=group-coordinator-metrics,state=Stable:share-group-count=0.0
kafka.server:type=group-coordinator-metrics,state=active:num-partitions=10
kafka.server:type=group-coordinator-metrics,state=loading:num-partitions=0
"""
)


def test_a_new_coordinator_counts_types_states_and_partitions() -> None:
    """A type that is not known here is left out; offsets are no groups."""
    found = broker("h:1", list(gauges(NEW)))
    assert (found.node_id, found.release, found.coordinator) == (1, "3.9.2", "new")
    assert found.types == {Kind.CLASSIC: 4, Kind.CONSUMER: 2}
    assert found.states == {
        (Kind.CLASSIC, "Empty"): 3,
        (Kind.CLASSIC, "Stable"): 1,
        (Kind.CONSUMER, "Empty"): 2,
        (Kind.SHARE, "Stable"): 0,
    }
    assert found.partitions == {"active": 10, "loading": 0}


def test_an_old_coordinator_counts_classic_groups_only() -> None:
    """Without a word about types."""
    found = broker("h:1", list(gauges(OLD)))
    assert (found.coordinator, found.types, found.partitions) == ("old", {Kind.CLASSIC: 4}, {})


@pytest.mark.parametrize("said", [STARTED, STARTED + "kafka.server:type=app-info,id=1:Version=4.3.1\n", ""])
def test_what_is_no_broker_is_refused(said: str) -> None:
    """A controller of its own has no groups, another program nothing at all."""
    with pytest.raises(Rejected, match="JMX at h:1 is of no Kafka broker"):
        broker("h:1", list(gauges(said)))


@pytest.mark.parametrize("address", ["", "host", "host:", ":9999", "host:x", "service:jmx:rmi://h/x:1"])
def test_an_address_that_is_none_is_refused_before_anything_is_started(address: str) -> None:
    """In one sentence."""
    with pytest.raises(Rejected, match="is no host:port"):
        JmxToolGauges("no-java", "").read(address)


@pytest.mark.parametrize(
    "address",
    [
        "h:0",
        "h:65536",
        "h:²",
        "h:٣",
        "h:9999,i:9999",
        "h:9999;i:9999",
        "h..i:9999",
        "h i:9999",
        "::1",
        "[h]:9",
    ],
)
def test_f06_a_jmx_address_is_held_to_the_same_parser(address: str) -> None:
    """Before Java, or anybody, is asked."""
    with pytest.raises(Rejected, match=r"--jmx .*is no host:port"):
        JmxToolGauges("no-java", "").read(address)


def test_f06_a_login_in_a_jmx_address_is_refused_and_not_shown() -> None:
    """As everywhere."""
    with pytest.raises(Rejected, match="--jmx holds a user name or a password") as caught:
        JmxToolGauges("no-java", "").read("u:hush@h:9999")
    assert "hush" not in str(caught.value)


def test_f06_jmx_of_an_ipv6_address_is_reached() -> None:
    """Its brackets are no part of the host."""
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    with (
        socket.create_server(("::1", 0), family=socket.AF_INET6) as server,
        pytest.raises(Rejected, match="Java is not at"),
    ):
        JmxToolGauges("no-java", "kafka-tools.jar").read(f" [::1]:{server.getsockname()[1]}")


def test_a_port_where_nobody_listens_is_transient() -> None:
    """Told at once: the tool is not started."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(Transient, match=r"nobody answers at 127\.0\.0\.1:"):
            JmxToolGauges("no-java", "kafka-tools.jar").read(f"127.0.0.1:{bound.getsockname()[1]}")


def test_a_machine_without_java_is_told_what_to_do() -> None:
    """Something listens, and there is nothing to ask it with."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(Rejected, match="Java is not at 'no-java': install a Java runtime"):
            JmxToolGauges("no-java", "kafka-tools.jar").read(address)


def test_without_kafka_nothing_is_asked() -> None:
    """JmxTool is a class of Kafka's."""
    with pytest.raises(Rejected, match="no KAFKA_HOME"):
        JmxToolGauges("java", "").read("127.0.0.1:9999")
