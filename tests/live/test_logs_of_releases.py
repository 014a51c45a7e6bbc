"""Logs of real brokers of two releases; tests/matrix has all ten, and says there what no release had."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from groupshift.log.decode import DecodeStatus
from support import release_checks as checks
from support.release_broker import RELEASES
from support.release_capture import capture, spark_session

pytestmark = pytest.mark.timeout(600)
"""A broker, a Spark job and a dump tool each: minutes where the machine is busy."""


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A session for this file."""
    with spark_session() as session:
        yield session


@pytest.mark.parametrize("name", ["2.4.1", "4.3.1"])
def test_what_we_decode_is_what_the_broker_answers_and_its_tool_prints(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    """Every group with every field, every record with every field, every kind of group of the release."""
    release = RELEASES[name]
    found = capture(spark, tmp_path, release)
    assert set(found.answered) >= checks.LASTING
    assert checks.REMOVED.isdisjoint(found.answered)
    assert set(found.generations) >= checks.STAYING
    assert checks.unlike_answers(found) == []
    assert len(found.text) >= len(found.records) >= len(found.visible) > len(checks.LASTING)
    assert {one.decode_status for one in found.records.values()} == {DecodeStatus.OK}
    assert found.fetched is not None
    assert checks.unlike_domain(found) == []
    assert checks.unlike_dump(found) == []
    assert checks.kinds_in(found) == {"classic", "simple", "gone", *release.kinds}
    assert [each for kind in release.kinds for each in checks.lacking(found, kind)] == []
