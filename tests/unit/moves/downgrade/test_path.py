"""Each pair of docs/reference/group-coordinator.md §8.2 and docs/reference/coordinator-on-real-brokers.md §D,
with what came of it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from groupshift.domain.versions import LINES, Version, line_of, version_in
from groupshift.log.releases import Coordinator
from groupshift.moves.downgrade.releases import Compaction, Current, Path, ReleaseOrder, path, target_of

MV, GV = "metadata.version", "group.version"
OLD, NEW = Coordinator.OLD, Coordinator.NEW
OF_40 = {MV: 25, GV: 1, "transaction.version": 2}
PLAIN_42 = {
    MV: 29, GV: 1, "transaction.version": 2, "share.version": 1, "streams.version": 1,
    "eligible.leader.replicas.version": 1,
}  # fmt: skip


def way(
    release: str,
    to: str,
    features: Mapping[str, int] | None = None,
    *,
    new_types: bool | None = False,
    commits: int | None = 3,
    runs: Coordinator = NEW,
    will_run: Coordinator | None = None,
) -> Path:
    """The path from a release with these features and this log."""
    current = Current(
        version=version_in(release),
        coordinator=runs,
        features={MV: 21} if features is None else features,
        new_types=new_types,
        commits=commits,
    )
    return path(current, target_of(to, will_run))


def is_open(found: Path) -> bool:
    """Whether features and log are ready for the target now."""
    return found.possible and not found.lowered and found.compaction is Compaction.NOT_NEEDED


@pytest.mark.parametrize("to", ["3.4.1", "3.5.2", "3.9.2"])
def test_newer_records_stop_nobody_from_341_on(to: str) -> None:
    """3.9.2 NEW without preparation: 9 of 9 groups equal (types 3 to 8 are ignored)."""
    assert is_open(way("3.9.2", to, {MV: 8}, new_types=True, will_run=OLD))


def test_the_same_release_with_the_old_coordinator_is_older() -> None:
    """3.9.2 NEW → 3.9.2 OLD by properties; the other way round is none."""
    assert way("3.9.2", "3.9.2", runs=NEW, will_run=OLD).standing is ReleaseOrder.OLDER
    assert way("3.9.2", "3.9.2", runs=OLD, will_run=OLD).standing is ReleaseOrder.SAME
    assert way("3.9.2", "3.9.2", runs=OLD, will_run=NEW).standing is ReleaseOrder.SAME


@pytest.mark.parametrize(
    ("new_types", "compaction", "ready"),
    [
        (True, Compaction.NEEDED, False),
        (False, Compaction.NOT_NEEDED, True),
        (None, Compaction.UNKNOWN, False),
    ],
    ids=[
        "raw or converted only: 5 of 9 lost",
        "converted and compacted, or never used: 9 of 9",
        "log not read",
    ],
)
def test_340_needs_a_compacted_log(new_types, compaction, ready) -> None:
    """The simplest acceptance test: 3.9.2 NEW, formatted for 3.4, to 3.4.0."""
    found = way("3.9.2", "3.4.0", {MV: 8}, new_types=new_types)
    assert (found.compaction, is_open(found), found.possible) == (compaction, ready, True)


def test_commits_since_41_close_the_way_below_341() -> None:
    """4.3.1 formatted for 3.4 to 3.4.0: 6 of 6 lost, whatever is compacted; to 3.4.1: none."""
    lost = way("4.3.1", "3.4.0", {MV: 8}, commits=4)
    assert (lost.compaction, lost.possible) == (Compaction.IMPOSSIBLE, False)
    assert way("4.1.2", "3.4.0", {MV: 8}, commits=None).compaction is Compaction.IMPOSSIBLE
    assert way("4.0.2", "3.4.0", {MV: 8}, commits=4).compaction is Compaction.IMPOSSIBLE
    assert is_open(way("4.0.2", "3.4.0", {MV: 8}, commits=3))
    assert is_open(way("4.3.1", "3.4.1", {MV: 8}, commits=4))
    assert is_open(way("4.3.1", "3.9.2", {MV: 8}, commits=4))


def test_a_controller_of_39_must_not_meet_group_version() -> None:
    """4.3.1 at 3.9: it dies unless the feature is lowered and a newer snapshot covers its record."""
    before = way("4.3.1", "3.9.2", {MV: 21, GV: 1}, new_types=True, commits=4)
    assert [(each.feature, each.level, each.to) for each in before.lowered] == [(GV, 1, 0)]
    assert (before.possible, is_open(before), before.snapshot) == (True, False, True)
    after = way("4.3.1", "3.9.2", {MV: 21}, new_types=True, commits=4)
    assert (after.lowered, is_open(after), after.snapshot) == ((), True, True)


@pytest.mark.parametrize("to", ["4.0.2", "4.2.1"])
def test_data_of_43_is_read_back_to_40_at_its_level(to: str) -> None:
    """4.3.1 at 4.0: 9 of 9 equal, a live native member kept."""
    assert is_open(way("4.3.1", to, OF_40, new_types=True, commits=4))


@pytest.mark.parametrize("to", ["4.2.1", "4.0.2", "3.9.2"])
def test_nothing_goes_back_across_a_change_of_the_metadata_log(to: str) -> None:
    """4.3.1 at 4.3: dies, 'Can't read version 4 of BrokerEndpoint'."""
    found = way("4.3.1", to, {**OF_40, MV: 30}, commits=4)
    assert "4.3-IV0 (30)" in found.changes
    assert (found.possible, is_open(found)) == (False, False)
    assert MV not in {each.feature for each in found.lowered}


def test_44_at_43_goes_back_to_431() -> None:
    """9 of 9 equal; as 4.4.0 comes (4.4-IV2) there is no way, by two changes of the metadata log."""
    assert is_open(way("4.4.0", "4.3.1", {**PLAIN_42, MV: 30}, new_types=True, commits=4))
    plain = way("4.4.0", "4.3.1", {**PLAIN_42, MV: 33, "share.version": 2}, commits=4)
    assert (plain.changes, plain.possible) == (("4.4-IV1 (32)", "4.4-IV2 (33)"), False)


def test_42_goes_back_to_40_when_its_features_are_lowered() -> None:
    """4.2-IV1 → 4.0-IV3 is safe; share and streams go to 0 first."""
    found = way("4.2.1", "4.0.2", PLAIN_42, new_types=True, commits=4)
    assert {each.feature: each.to for each in found.lowered} == {
        MV: 25, "share.version": 0, "streams.version": 0,
    }  # fmt: skip
    assert (found.possible, is_open(found), found.snapshot) == (True, False, True)
    assert "4.2-IV1 (29) to 4.0-IV3 (25)" in str(found.lowered[-3])


def test_40_goes_back_to_39_only_below_its_change() -> None:
    """The realistic way: MV kept at 3.9-IV0, group.version to 0; at 4.0-IV3 there is none, at 4.0-IV0 one."""
    kept = way("4.0.2", "3.9.2", {MV: 21, GV: 1}, new_types=True)
    assert (kept.possible, [str(each) for each in kept.lowered]) == (True, ["group.version from 1 to 0"])
    assert way("4.0.2", "3.9.2", OF_40).changes == ("4.0-IV1 (23)",)
    preview = way("4.0.2", "3.9.2", {MV: 22})
    assert (preview.possible, [(each.feature, each.to) for each in preview.lowered]) == (True, [(MV, 21)])


def test_a_dynamic_quorum_closes_the_way_to_releases_that_do_not_know_it() -> None:
    """kraft.version is lowered by no release."""
    found = way("4.0.2", "3.8.1", {MV: 20, "kraft.version": 1})
    assert [str(each) for each in found.fixed] == ["kraft.version from 1 to 0"]
    assert not found.possible
    assert way("4.0.2", "3.9.2", {MV: 20, "kraft.version": 1}).possible


def test_zookeeper_mode_has_no_features_and_no_snapshot() -> None:
    """3.9.2 → 3.5.2 by jars."""
    found = way("3.9.2", "3.5.2", {}, runs=OLD)
    assert (is_open(found), found.snapshot) == (True, False)


@pytest.mark.parametrize(
    ("runs", "to", "standing"),
    [
        ("3.9", "3.9.2", ReleaseOrder.UNKNOWN),
        ("3.9", "3.8.1", ReleaseOrder.OLDER),
        ("3.9", "4.0.0", ReleaseOrder.NEWER),
        ("3.9.2", "3.9.1", ReleaseOrder.OLDER),
        ("3.7.2", "3.8.1", ReleaseOrder.NEWER),
        ("unknown", "3.8.1", ReleaseOrder.UNKNOWN),
    ],
)
def test_the_target_is_older_newer_or_nobody_knows(runs: str, to: str, standing: ReleaseOrder) -> None:
    """Within a line the release must be said."""
    found = way(runs, to, {MV: 8})
    assert found.standing is standing
    assert is_open(found) == (standing is ReleaseOrder.OLDER)


def test_a_broker_of_a_line_is_as_new_as_its_line() -> None:
    """What a line may have finalised counts, whichever of its releases runs."""
    for line in LINES:
        found = path(Current(version=line_of(line.metadata), features={MV: 8}), target_of("3.4.1"))
        assert found.snapshot == (line.name != "3.4")
    assert path(Current(version=None, features={MV: 8}), target_of("4.4.0")).snapshot
    assert not path(Current(version=Version.parse("3.4.1"), features={MV: 8}), target_of("3.4.0")).snapshot
