"""The way to an older release, whatever is finalised and written: it is decided, one-way, and never
across a change."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from groupshift.domain.versions import LINES, METADATA, Span, Version, version_in
from groupshift.errors import Rejected
from groupshift.log.releases import LOADERS, Coordinator
from groupshift.moves.downgrade.releases import (
    CHANGES,
    LEVELS,
    Compaction,
    Current,
    Path,
    ReleaseOrder,
    Target,
    path,
    target_of,
)

NAMES = (
    "group.version",
    "share.version",
    "streams.version",
    "transaction.version",
    "kraft.version",
    "new.thing",
)
PATCHES = {"3.4": 2, "3.5": 3, "3.6": 3, "3.7": 3, "3.8": 2, "3.9": 3, "4.0": 3, "4.1": 3, "4.2": 2, "4.3": 2}


def _targets() -> list[Target]:
    found = []
    for line in LINES:
        for patch in range(PATCHES.get(line.name, 1)):
            for coordinator in Coordinator:
                try:
                    found.append(target_of(f"{line.name}.{patch}", coordinator))
                except Rejected:
                    assert not any(
                        each.coordinator is coordinator
                        and each.since <= Version.parse(f"{line.name}.{patch}").numbers[:3] < each.before
                        for each in LOADERS
                    )
    return found


TARGETS = _targets()
targets = st.sampled_from(TARGETS)
versions: st.SearchStrategy[Version | Span | None] = st.one_of(
    st.sampled_from([each.version for each in TARGETS]),
    st.sampled_from([version_in(line.name) for line in LINES]),
    st.none(),
)
features = st.builds(
    lambda level, others: others if level is None else {METADATA: level, **others},
    st.none() | st.integers(1, max(LEVELS) + 3),
    st.dictionaries(st.sampled_from(NAMES), st.integers(1, 3)),
)
currents = st.builds(
    Current,
    version=versions,
    coordinator=st.none() | st.sampled_from(Coordinator),
    features=features,
    new_types=st.none() | st.booleans(),
    commits=st.none() | st.integers(0, 4),
)


@settings(max_examples=400)
def is_open(found: Path) -> bool:
    """Whether features and log are ready for the target now."""
    return found.possible and not found.lowered and found.compaction is Compaction.NOT_NEEDED


@given(currents, targets)
def test_every_way_is_decided(current: Current, target: Target) -> None:
    """Open is possible, possible is older, and what must be lowered ends at what the target reads."""
    found = path(current, target)
    assert not is_open(found) or found.possible
    assert not found.possible or found.standing is ReleaseOrder.OLDER
    for each in (*found.lowered, *found.fixed):
        assert each.level == current.features[each.feature] > each.to == target.line.supports(each.feature)
    assert not (found.changes and METADATA in {each.feature for each in found.lowered})


@settings(max_examples=400)
@given(currents, targets)
def test_no_way_is_open_across_a_change_of_the_metadata_log(current: Current, target: Target) -> None:
    """Neither open nor possible, however little else there is in the way; and open means all is readable."""
    found = path(current, target)
    level, highest = current.features.get(METADATA, 0), target.line.metadata
    crossed = [n for n in range(highest + 1, level + 1) if n not in LEVELS or n in CHANGES]
    assert bool(found.changes) == bool(crossed)
    assert not (crossed and found.possible)
    if is_open(found):
        assert all(target.line.supports(name) >= level for name, level in current.features.items())


@given(targets, targets, features)
def test_no_two_releases_are_each_below_the_other(one: Target, other: Target, levels: dict[str, int]) -> None:
    """Where there is a way down there is none back by the same move; no release is below itself."""

    def possible(here: Target, there: Target) -> bool:
        current = Current(
            version=here.version, coordinator=here.coordinator, features=levels, new_types=False
        )
        return path(current, there).possible

    assert not (possible(one, other) and possible(other, one))
    assert not possible(one, one)


@given(currents, targets)
def test_only_loaders_that_break_off_ask_for_compaction(current: Current, target: Target) -> None:
    """From 3.4.1 on nothing needs it; what a log that was not read holds is never taken to be fine before."""
    found = path(current, target).compaction
    if target.loader.ignores_unknown_types:
        assert found is Compaction.NOT_NEEDED
    elif current.new_types is None:
        assert found in {Compaction.UNKNOWN, Compaction.IMPOSSIBLE}
