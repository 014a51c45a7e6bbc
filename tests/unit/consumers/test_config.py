"""A consumer's configuration."""

from __future__ import annotations

import pytest

from groupshift.consumers.config import parse
from groupshift.domain.assignment import Assignor, TextForm
from groupshift.errors import Rejected
from groupshift.ports.consumer import Reset

GOOD = {"group.id": "g", "zookeeper.connect": "z:2181", "bootstrap.servers": "k:9092"}


def test_the_old_defaults_hold() -> None:
    """§7, except that auto commit is more frequent."""
    config = parse(GOOD, migrating=False)
    assert (config.session_s, config.connect_s) == (6.0, 6.0)
    assert (config.member.assignor, config.member.form) == (Assignor.RANGE, TextForm.DASH)
    assert (config.policy.reset, config.policy.auto_commit) == (Reset.LATEST, True)
    assert config.member.consumer_id.startswith("g_")


def test_every_problem_is_reported_by_field() -> None:
    """One sentence, all fields."""
    bad = {
        "auto.offset.reset": "never",
        "no.such.key": "1",
        "auto.commit.interval.ms": "soon",
        "consumer.id": "a/b",
    }
    with pytest.raises(Rejected) as caught:
        parse(bad, migrating=False)
    for field in ("group.id", "zookeeper.connect", *bad):
        assert field in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"), [("offsets.storage", "zookeeper"), ("dual.commit.enabled", "false")]
)
def test_a_migrating_consumer_commits_to_both_stores(key: str, value: str) -> None:
    """O5: anything else is refused."""
    with pytest.raises(Rejected, match=key.replace(".", r"\.")):
        parse({**GOOD, key: value}, migrating=True)
    parse({**GOOD, key: value}, migrating=False)


@pytest.mark.parametrize(("key", "value"), [("offsets.storage", "kafka"), ("dual.commit.enabled", "true")])
def test_a_consumer_that_does_not_migrate_commits_to_zookeeper(key: str, value: str) -> None:
    """§9: an old member with storage kafka has its commits refused once the group has Kafka members."""
    with pytest.raises(Rejected, match=key.replace(".", r"\.")):
        parse({**GOOD, key: value}, migrating=False)


@pytest.mark.parametrize(
    "wrong",
    [
        {"auto.commit.enable": "true", "enable.auto.commit": "false"},
        {"session.timeout.ms": 6000, "coordination.migration.session.timeout.ms": 7000},
        {"group.protocol": "consumer"},
        {"coordination.migration.group.protocol": "classic"},
        {"group.instance.id": "i1"},
        {"coordination.migration.partition.assignment.strategy": "cooperative-sticky,range"},
        {"auto.offset.reset": "none"},
        {"partition.assignment.strategy": "sticky"},
        {"client.id": "a b"},
        {"metrics.port": 70_000},
        {"wake.old.members.ms": "often"},
        {"exclude.internal.topics": "maybe"},
        {"fetch.massage.max.bytes": 5},
        {"coordination.migration.no.such.key": 5},
        {"receive.message.max.bytes": "much"},
        {"zookeeper.session.timeout.ms": -1},
    ],
    ids=",".join,
)
def test_what_cannot_work_is_refused_with_its_key(wrong: dict[str, object]) -> None:
    """Unknown keys, contradictions, and what this consumer cannot honour; the sentence names every key."""
    with pytest.raises(Rejected) as caught:
        parse({**GOOD, **wrong}, migrating=True)
    for key in wrong:
        assert key.removeprefix("coordination.migration.") in str(caught.value)


def test_every_key_of_the_old_consumer_is_taken() -> None:
    """§7 as a whole, with its defaults where the consumer honours them: nothing has to be removed."""
    old = {
        "zookeeper.session.timeout.ms": "6000", "zookeeper.connection.timeout.ms": "6000",
        "zookeeper.sync.time.ms": "2000", "rebalance.max.retries": "4", "rebalance.backoff.ms": "2000",
        "partition.assignment.strategy": "roundrobin", "exclude.internal.topics": "true",
        "offsets.storage": "zookeeper", "dual.commit.enabled": "false", "auto.commit.enable": "false",
        "auto.commit.interval.ms": "60000", "auto.offset.reset": "smallest", "consumer.timeout.ms": "-1",
        "offsets.channel.backoff.ms": "1000", "offsets.channel.socket.timeout.ms": "10000",
        "offsets.commit.max.retries": "5", "refresh.leader.backoff.ms": "200",
        "queued.max.message.chunks": "2", "num.consumer.fetchers": "1", "fetch.message.max.bytes": "1048576",
        "fetch.min.bytes": "1", "fetch.wait.max.ms": "100", "socket.timeout.ms": "30000",
        "socket.receive.buffer.bytes": "65536", "client.id": "app",
    }  # fmt: skip
    config = parse({**GOOD, **old}, migrating=False)
    assert (config.member.assignor, config.policy.commit_every_s, config.client_id) == (
        Assignor.ROUND_ROBIN,
        60.0,
        "app",
    )
    assert not config.policy.auto_commit
    assert set(config.kafka) == {
        "bootstrap.servers", "fetch.message.max.bytes", "fetch.min.bytes", "fetch.wait.max.ms",
        "socket.timeout.ms", "socket.receive.buffer.bytes",
    }  # fmt: skip


def test_migration_can_be_switched_off_and_is_on_by_the_class() -> None:
    """KIP-125's key decides in a migrating consumer only."""
    switch = "coordination.migration.enabled"
    assert parse(GOOD, migrating=True).member.aware
    assert not parse({**GOOD, switch: "false", "offsets.storage": "zookeeper"}, migrating=True).member.aware
    assert not parse({**GOOD, switch: False}, migrating=False).member.aware
    with pytest.raises(Rejected, match="MigratingConsumer"):
        parse({**GOOD, switch: "true"}, migrating=False)


def test_membership_keys_may_come_with_or_without_the_prefix() -> None:
    """They concern the embedded consumer only; the fetcher never sees them."""
    config = parse({**GOOD, "session.timeout.ms": 8000}, migrating=True)
    assert config.embedded()["session.timeout.ms"] == 8000
    assert "session.timeout.ms" not in config.fetcher()
    prefixed = {"coordination.migration.bootstrap.servers": "other:9092"}
    config = parse({**GOOD, **prefixed}, migrating=True)
    assert config.embedded()["bootstrap.servers"] == "other:9092"
    assert config.fetcher()["bootstrap.servers"] == "k:9092"


def test_only_a_migrating_consumer_must_be_told_the_brokers() -> None:
    """The old consumer finds them in ZooKeeper."""
    told = {key: value for key, value in GOOD.items() if key != "bootstrap.servers"}
    assert "bootstrap.servers" not in parse(told, migrating=False).fetcher()
    with pytest.raises(Rejected, match="bootstrap"):
        parse(told, migrating=True)


def test_internal_topics_are_a_setting() -> None:
    """§3.2: members up to 0.10.2 know one of them only, and the whole group must agree."""
    assert parse(GOOD, migrating=False).member.hidden == {"__consumer_offsets", "__transaction_state"}
    old = {**GOOD, "internal.topics": "__consumer_offsets"}
    assert parse(old, migrating=False).member.hidden == {"__consumer_offsets"}
    assert parse({**old, "exclude.internal.topics": "false"}, migrating=False).member.hidden == frozenset()


def test_the_embedded_consumer_gets_its_own_keys_and_what_is_forced() -> None:
    """§8.1: group, client id and auto commit cannot be set."""
    raw = {
        **GOOD,
        "consumer.id": "m1",
        "security.protocol": "PLAINTEXT",
        "coordination.migration.enabled": "true",
        "coordination.migration.session.timeout.ms": 6000,
        "coordination.migration.client.id": "x",
        "coordination.migration.enable.auto.commit": "true",
    }
    embedded = parse(raw, migrating=True).embedded()
    assert embedded["session.timeout.ms"] == 6000
    assert (embedded["client.id"], embedded["group.id"], embedded["enable.auto.commit"]) == (
        "g_m1",
        "g",
        False,
    )
    assert embedded["security.protocol"] == "PLAINTEXT"
    assert "enabled" not in embedded


def test_the_fetcher_never_commits_and_never_resets_by_itself() -> None:
    """Positions are the reconciler's business."""
    fetcher = parse({**GOOD, "fetch.min.bytes": 10, "enable.auto.commit": "true"}, migrating=True).fetcher()
    assert (fetcher["enable.auto.commit"], fetcher["auto.offset.reset"]) == (False, "error")
    assert fetcher["fetch.min.bytes"] == 10
    assert "zookeeper.connect" not in fetcher
