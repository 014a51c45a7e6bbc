"""How our Spark jobs are submitted from a task: what the JVM and the interpreters are told."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from groupshift.adapters.spark_submit.submit import driver_options, stays_here

if TYPE_CHECKING:
    from groupshift.settings import SparkSettings


def jvm(master: str) -> dict[str, str]:
    """Spark's key for what the driver's JVM is told: it must be known before that JVM starts."""
    return {"spark.driver.extraJavaOptions": driver_options(master)}


def environment(settings: SparkSettings, master: str) -> dict[str, str]:
    """The interpreters of workers and driver; on this machine nothing listens outside."""
    found = {"PYSPARK_PYTHON": settings.python or sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    return {**found, "SPARK_LOCAL_IP": "127.0.0.1"} if stays_here(master) else found
