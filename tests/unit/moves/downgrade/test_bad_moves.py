"""Downgrades that cannot be are refused before anything, each with its remedy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from groupshift.domain.cluster import ClusterView
from groupshift.domain.group_protocol import Kind
from groupshift.errors import Rejected
from groupshift.moves.downgrade.facts import DowngradeRequest
from support.simulated_downgrade import Group, World, driver_of, two_of_43

WAIT = "wait until the cluster has a controller"
ONE_RELEASE = "bring all brokers to one release"


@dataclass
class Odd(World):
    """A world whose view is changed before anybody sees it."""

    odd: Callable[[ClusterView], ClusterView] = lambda view: view

    def look(self) -> ClusterView:
        """See the port."""
        return self.odd(World.look(self))


def cluster(odd: Callable[[ClusterView], ClusterView] = lambda view: view, **groups: Group) -> Odd:
    """Two brokers of 4.3.1 with these groups besides."""
    usual = two_of_43()
    return Odd(
        groups=usual.groups | groups,
        releases=usual.releases,
        coordinators=usual.coordinators,
        features=usual.features,
        group_configs=usual.group_configs,
        odd=odd,
    )


def leaderless(seen: ClusterView) -> ClusterView:
    """The metadata quorum lost its leader."""
    assert seen.quorum is not None
    return replace(seen, quorum=replace(seen.quorum, leader=-1))


def silent(seen: ClusterView) -> ClusterView:
    """No controller answers at all."""
    return replace(seen, quorum=None, quorum_problem="timed out after 5 s")


@pytest.mark.parametrize(
    ("world", "to", "said"),
    [
        (cluster(shared=Group(kind=Kind.SHARE)), "3.9.2", ("W06", "'shared'", "delete the groups")),
        (cluster(flow=Group(kind=Kind.STREAMS)), "3.9.2", ("W06", "'flow'", "delete the groups")),
        (
            cluster(leaderless),
            "3.9.2",
            ("the metadata quorum has no leader", WAIT),
        ),
        (cluster(silent), "3.9.2", ("no controller answers: timed out after 5 s", WAIT)),
        (
            replace(cluster(), releases={1: "4.3.1", 2: "4.2.1"}),
            "3.9.2",
            ("several releases", ONE_RELEASE),
        ),
        (cluster(), "4.3.1", ("is what runs already", "name an older release with --to")),
    ],
)
def test_a_downgrade_that_cannot_be_is_refused_before_anything(
    world: Odd, to: str, said: tuple[str, ...]
) -> None:
    """No run begins; the sentence has the remedy too."""
    driver = driver_of(world)
    with pytest.raises(Rejected, match="is not ready, nothing was journaled") as refused:
        driver.begin(DowngradeRequest(to=to, from_="4.3.1"))
    assert all(each in str(refused.value) for each in said), refused.value
    assert (world.asked, driver.runs.recent(9, previews=True)) == ([], ())


def test_releases_that_are_none_are_refused() -> None:
    """Both options are named, with what is known."""
    for wrong, said in (
        ("9.9.9", "--to 9.9.9 is no release that groupshift knows"),
        ("four", "--to 'four' is no version; give all its numbers"),
    ):
        with pytest.raises(Rejected, match=said):
            DowngradeRequest(to=wrong)
    with pytest.raises(Rejected, match=r"not 9\.9\.9.*correct --from"):
        driver_of(two_of_43()).begin(DowngradeRequest(to="3.9.2", from_="9.9.9"))


def test_a_group_of_connect_workers_is_no_obstacle() -> None:
    """It is classic on every release: named in the findings, and left as it is."""
    world = cluster(workers=Group(kind=Kind.CLASSIC))
    assert driver_of(world).begin(DowngradeRequest(to="3.9.2", from_="4.3.1")).plan
