"""Counts of groups by JMX on every line of releases, with either coordinator."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupshift_sandbox.kraft import CONSUMER_PROTOCOL
from support.counted_groups import counts, counts_that_agree, make_groups, open_cluster, verdicts

CASES = [
    ("3.4.0", {}, "old", False),
    ("3.9.2", {}, "old", False),
    ("3.9.2", CONSUMER_PROTOCOL, "new", True),
    ("4.0.2", {}, "new", True),
    ("4.1.2", {}, "new", True),
    ("4.4.0", {}, "new", True),
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("release", "properties", "coordinator", "native"), CASES)
def test_counts_agree_with_the_list(
    release: str,
    properties: dict[str, str],
    coordinator: str,
    *,
    native: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By type and state where the release counts them; lists of 3.4.0 tell no types, so their sum."""
    with open_cluster(tmp_path, release, properties=properties) as cluster:
        made = make_groups(cluster.bootstrap, native=native)
        document = counts_that_agree(cluster, capsys)
    (broker,) = document["brokers"]
    assert (broker["release"], broker["coordinator"]) == (release, coordinator)
    assert {kind: count for kind, count in broker["counted"].items() if count} == made
    assert sum(broker["listed"].values()) == sum(made.values())


@pytest.mark.timeout(600)
def test_each_of_three_brokers_is_held_against_its_own_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever coordinates a group counts it; a broker that is not read is named."""
    with open_cluster(tmp_path, "4.3.1", nodes=3) as cluster:
        made = make_groups(cluster.bootstrap, native=True)
        document = counts_that_agree(cluster, capsys)
        partly = counts(cluster, capsys, nodes=2)
    assert [broker["node"] for broker in document["brokers"]] == [1, 2, 3]
    for kind, count in made.items():
        assert sum(broker["counted"][kind] for broker in document["brokers"]) == count
    assert verdicts(partly)["PG04"] == "inconclusive"
    assert "metrics of brokers 3 were not read" in [each["reason"] for each in partly["findings"]]
