"""What the JVM of a job's driver is told: a job lives for seconds."""

from __future__ import annotations

from groupshift.adapters.spark_submit.class_archive import sharing_options
from groupshift.adapters.spark_submit.shipping import stays_here

BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The first compiler tier and one collector thread start fastest (a third less time)."""


def driver_options(master: str, java: str = "") -> str:
    """Options for the driver of a job that is submitted to ``master`` from this process: `BRIEF`, and where
    driver and workers stay on this machine the classes that it shares with earlier ones.

    ``java`` is the home of the Java that will run; empty means ``JAVA_HOME``, else the one on the path."""
    shared = sharing_options(java or None) if stays_here(master) else ""
    return f"{BRIEF} {shared}".strip()
