"""What MirrorMaker is configured with: names, policies, places and guarantees as the link says them."""

from __future__ import annotations

import pytest

from groupshift.domain.modes import Isolation
from groupshift.errors import Rejected
from groupshift.links.link import Link, LinkKind, SyncLocation
from groupshift_sandbox.replication.mirrormaker import MirrorMakerOptions, mirrormaker_properties

DEFAULT = Link(name="dr", kind=LinkKind.MM2_DEFAULT, source_alias="a", target_alias="b")


def properties(link: Link = DEFAULT, **options) -> dict[str, str]:
    """Of a flow between two addresses."""
    return mirrormaker_properties(MirrorMakerOptions(link=link, source="s:1", target="t:2", **options))


def test_only_the_flow_of_the_link_runs() -> None:
    """The way back is off, and no heartbeats make topics on the source."""
    made = properties()
    assert made["clusters"] == "a, b"
    assert (made["a.bootstrap.servers"], made["b.bootstrap.servers"]) == ("s:1", "t:2")
    assert (made["a->b.enabled"], made["b->a.enabled"]) == ("true", "false")
    assert made["emit.heartbeats.enabled"] == "false"


@pytest.mark.parametrize(
    ("kind", "policy"), [(LinkKind.MM2_DEFAULT, "Default"), (LinkKind.MM2_IDENTITY, "Identity")]
)
def test_each_kind_has_its_policy(kind: LinkKind, policy: str) -> None:
    """By the class of MirrorMaker."""
    link = Link(name="dr", kind=kind, source_alias="a", target_alias="b")
    assert properties(link)["replication.policy.class"] == (
        f"org.apache.kafka.connect.mirror.{policy}ReplicationPolicy"
    )


@pytest.mark.parametrize("location", list(SyncLocation))
def test_the_syncs_lie_where_the_link_says(location: SyncLocation) -> None:
    """For every connector, or the checkpoints would read another topic."""
    link = Link(name="dr", kind="mm2-default", source_alias="a", target_alias="b", sync_location=location)
    assert properties(link)["offset-syncs.topic.location"] == location.value


def test_a_separator_is_named_only_when_it_is_another() -> None:
    """MirrorMaker reads the switch for its own topics only beside one."""
    assert "replication.policy.separator" not in properties()
    link = Link(
        name="dr",
        kind="mm2-default",
        source_alias="a",
        target_alias="b",
        separator="_",
        separator_in_internal_topics=False,
    )
    made = properties(link)
    assert made["replication.policy.separator"] == "_"
    assert made["replication.policy.internal.topic.separator.enabled"] == "false"


def test_exactly_once_is_the_worker_of_the_target() -> None:
    """And the level at which the source is read is the link's."""
    link = Link(
        name="dr",
        kind="mm2-default",
        source_alias="a",
        target_alias="b",
        isolation=Isolation.READ_COMMITTED,
    )
    made = properties(link, exactly_once=True)
    assert made["b.exactly.once.source.support"] == "enabled"
    assert made["a.consumer.isolation.level"] == "read_committed"
    assert "b.exactly.once.source.support" not in properties()


def test_rest_is_off_or_on_the_loopback() -> None:
    """Never on another address."""
    assert not any("listeners" in name for name in properties())
    options = MirrorMakerOptions(link=DEFAULT, source="s:1", target="t:2")
    assert mirrormaker_properties(options, rest_port=7)["listeners"] == "http://127.0.0.1:7"


def test_intervals_and_every_replication_factor_are_set() -> None:
    """Seven topics would ask for three brokers otherwise."""
    made = properties(checkpoints_s=3, groups_s=4, refresh_s=5, flush_s=0.5, offset_lag_max=10)
    assert [name for name, value in made.items() if "replication.factor" in name and value != "1"] == []
    assert sum("replication.factor" in name for name in made) == 7
    assert made["emit.checkpoints.interval.seconds"] == "3"
    assert made["sync.group.offsets.interval.seconds"] == "4"
    assert made["refresh.topics.interval.seconds"] == made["refresh.groups.interval.seconds"] == "5"
    assert made["b.offset.flush.interval.ms"] == "500"
    assert made["offset.lag.max"] == "10"
    assert properties(properties={"offset.lag.max": "7"})["offset.lag.max"] == "7"


def test_a_link_of_another_kind_is_refused() -> None:
    """Before anything is started."""
    link = Link(name="dr", kind="none", source_alias="a", target_alias="b")
    with pytest.raises(Rejected, match=r"link dr: kind none is not MirrorMaker's; use mm2-default, mm2-id"):
        properties(link)
