"""Logs of real brokers of ten releases: what we decode is what the broker answers and its tool prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import pytest

from groupshift.log.decode import DecodeStatus
from support import release_checks as checks
from support.release_broker import RELEASES
from support.release_capture import Captured, capture, spark_session
from support.release_dump import NOT_PRINTED, shape_of

pytestmark = pytest.mark.timeout(900)
KINDS = ("transactions", "consumer", "share", "streams")


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Captured]]:
    """Factory: a release by its name, each captured once."""
    with spark_session() as spark:
        yield cache(lambda name: capture(spark, tmp_path_factory.mktemp("release"), RELEASES[name]))


@pytest.mark.parametrize("name", RELEASES)
def test_every_group_is_decoded_as_the_broker_answers(captured: Callable[[str], Captured], name: str) -> None:
    """Lists, descriptions, offsets; heartbeats for the generations of classic groups."""
    found = captured(name)
    assert set(found.answered) >= checks.LASTING
    assert checks.REMOVED.isdisjoint(found.answered)
    assert set(found.generations) >= checks.STAYING
    assert checks.unlike_answers(found) == []


@pytest.mark.parametrize("name", RELEASES)
def test_spark_and_our_fetches_agree(captured: Callable[[str], Captured], name: str) -> None:
    """The transforms that the audits run, and the live source (which needs 0.11)."""
    found = captured(name)
    assert len(found.rows) == len(found.records) > 0
    assert len(found.in_spark) > len(checks.LASTING)
    assert (found.fetched is None) == (found.release.numbers < (0, 11))
    assert checks.unlike_domain(found) == []


@pytest.mark.parametrize("name", RELEASES)
def test_the_dump_tool_prints_what_we_decode(
    captured: Callable[[str], Captured], name: str, record_property: Callable[[str, object], None]
) -> None:
    """The release's own, 4.3.1's for 4.4.0; the report of the run says what its text lacks."""
    found = captured(name)
    record_property("not printed", NOT_PRINTED[shape_of(found.release.numbers)])
    assert len(found.text) >= len(found.records) > 0
    assert {one.decode_status for one in found.records.values()} == {DecodeStatus.OK}
    assert checks.unlike_dump(found) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", RELEASES)
def test_groups_of_every_kind_are_in_the_log(
    captured: Callable[[str], Captured], name: str, kind: str
) -> None:
    """Skipped where the release has none: the reason is part of the output."""
    release = RELEASES[name]
    if kind in release.missing:
        pytest.skip(f"{kind} on {name} not run: {release.missing[kind]}")
    found = captured(name)
    assert checks.kinds_in(found) == {"classic", "simple", "gone", *release.kinds}
    assert checks.lacking(found, kind) == []
