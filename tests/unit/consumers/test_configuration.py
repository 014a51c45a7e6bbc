"""A consumer's configuration."""

from __future__ import annotations

import pytest

from groupshift.consumers.configuration import parse
from groupshift.domain.assignment import Assignor, TextForm
from groupshift.errors import Rejected
from groupshift.ports.fetch import Reset

GOOD = {"group.id": "g", "zookeeper.connect": "z:2181", "bootstrap.servers": "k:9092"}


def test_the_old_defaults_hold() -> None:
    """§7, except that auto commit is more frequent."""
    config = parse(GOOD, migrating=False)
    assert (config.session_s, config.connect_s) == (6.0, 6.0)
    assert (config.assignor, config.form) == (Assignor.RANGE, TextForm.DASH)
    assert (config.reset, config.auto_commit) == (Reset.LATEST, True)
    assert config.consumer_id.startswith("g_")


def test_every_problem_is_reported_by_field() -> None:
    """One sentence, all fields."""
    bad = {"auto.offset.reset": "never", "auto.commit.interval.ms": "soon", "consumer.id": "a/b"}
    with pytest.raises(Rejected) as caught:
        parse(bad, migrating=False)
    for field in ("group.id", "zookeeper.connect", "bootstrap.servers", *bad):
        assert field in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"), [("offsets.storage", "zookeeper"), ("dual.commit.enabled", "false")]
)
def test_a_migrating_consumer_commits_to_both_stores(key: str, value: str) -> None:
    """O5: anything else is refused."""
    with pytest.raises(Rejected, match=key.replace(".", r"\.")):
        parse({**GOOD, key: value}, migrating=True)
    parse({**GOOD, key: value}, migrating=False)


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
