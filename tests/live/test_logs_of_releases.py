"""Logs of real brokers of three releases; tests/matrix has all ten, and says there what no release had."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from release_broker import RELEASES
from release_capture import capture, spark_session
from release_checks import check_answers, check_dump, check_kind, check_spark

pytestmark = pytest.mark.timeout(600)
"""A broker, a Spark job and a dump tool each: minutes where the machine is busy."""


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A session for this file."""
    with spark_session() as session:
        yield session


@pytest.mark.parametrize("name", ["2.4.1", "3.9.2 NEW", "4.3.1"])
def test_what_we_decode_is_what_the_broker_answers_and_its_tool_prints(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    """Every group with every field, every record with every field, every kind of group of the release."""
    release = RELEASES[name]
    found = capture(spark, tmp_path, release)
    check_answers(found)
    check_spark(found)
    check_dump(found)
    for kind in sorted(release.kinds):
        check_kind(found, kind)
