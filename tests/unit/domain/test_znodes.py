"""Paths of a group and the JSON that brokers write."""

from __future__ import annotations

import json

import pytest

from groupshift.domain.addresses import Server
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.znodes import GroupPaths, encode_offset, parse_broker, parse_offset, parse_partitions
from groupshift.errors import Rejected

BROKERS = {
    1: {"host": "h", "port": 9092, "jmx_port": -1, "timestamp": "1"},
    2: {"endpoints": ["PLAINTEXT://h:9092"], "host": None, "port": -1},
    3: {"endpoints": ["PLAINTEXT://h:9092", "SSL://h:9093"], "rack": "r"},
    4: {
        "endpoints": ["INSIDE://i:9094", "OUT://h:9092"],
        "listener_security_protocol_map": {"INSIDE": "SSL", "OUT": "PLAINTEXT"},
    },
    5: {
        "endpoints": ["PLAINTEXT://h:9092"],
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "features": {},
    },
}


@pytest.mark.parametrize("version", BROKERS)
def test_scenario_06_broker_json_of_every_version(version: int) -> None:
    """Versions 1 to 5 give the same PLAINTEXT endpoint."""
    endpoints = parse_broker(json.dumps({"version": version, **BROKERS[version]}).encode())
    plain = next(each for each in endpoints if each.protocol == "PLAINTEXT")
    assert plain.server == Server("h", 9092)


@pytest.mark.parametrize("data", [b'{"version":0}', b"{}", b"x", b"", b"[]"])
def test_scenario_06_broker_version_zero_is_refused(data: bytes) -> None:
    """Versions below 1 are an error, and so is what is not an object."""
    with pytest.raises(Rejected, match="/brokers/ids/7"):
        parse_broker(data, "/brokers/ids/7")


@pytest.mark.parametrize(
    "extra",
    [
        {"version": 1},
        {"version": 2, "adding_replicas": {"0": [2]}, "removing_replicas": {}},
        {"version": 3, "adding_replicas": {}, "removing_replicas": {}, "topic_id": "abc"},
    ],
)
def test_scenario_06_topic_json_of_every_version(extra: dict[str, object]) -> None:
    """Only the keys of ``partitions`` count, as numbers, ascending."""
    data = json.dumps({**extra, "partitions": {"10": [1], "2": [1], "0": [1]}}).encode()
    assert parse_partitions(data) == (0, 2, 10)


def test_an_absent_topic_has_no_partitions() -> None:
    """Absent node and absent field are the same; a broken node is named."""
    assert parse_partitions(None) == parse_partitions(b"{}") == ()
    with pytest.raises(Rejected, match="/brokers/topics/t"):
        parse_partitions(b'{"partitions":{"x":[1]}}', "/brokers/topics/t")


def test_offsets_are_plain_decimal() -> None:
    """Written and read as ASCII digits; anything else is refused."""
    assert parse_offset(encode_offset(1234)) == 1234
    assert parse_offset(None) is None
    with pytest.raises(Rejected, match="decimal"):
        parse_offset(b"12a")


def test_the_paths_are_those_of_the_inventory() -> None:
    """§1.1."""
    paths, partition = GroupPaths("g"), TopicPartition("t", 3)
    assert paths.id_of("g_c") == "/consumers/g/ids/g_c"
    assert paths.migration_id_of("g_c") == "/consumers/g/migration/ids/g_c"
    assert paths.mode == "/consumers/g/migration/mode"
    assert paths.owner_of(partition) == "/consumers/g/owners/t/3"
    assert paths.offset_of(partition) == "/consumers/g/offsets/t/3"
