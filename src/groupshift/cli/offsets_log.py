"""Where verbs read the log of the offsets topic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from groupshift.errors import Rejected
from groupshift.ports.log import OffsetsLog
from groupshift.settings import KafkaSettings

NEEDS_SPARK = "reading the log needs the extra 'spark': pip install 'kafka-groupshift[spark]'"


@contextmanager
def needing_spark() -> Iterator[None]:
    """Imports of the extra. Raises `Rejected` where it is missing."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("groupshift"):
            raise
        raise Rejected(f"{NEEDS_SPARK} ({missing.name} is missing)") from missing


def log_at(kafka: KafkaSettings, timeout_s: float, segments: str = "") -> OffsetsLog:
    """The copy in the folder ``segments``, or the brokers where it is empty. Raises `Rejected` for a folder
    that is none, and where the extra is missing."""
    with needing_spark():
        from groupshift.spark.broker_source import Brokers
        from groupshift.spark.copied_log import CopiedLog, DirectLog
    if segments:
        if "://" not in segments and not Path(segments).is_dir():
            raise Rejected(f"--segments {segments} is no folder; give a copy of a broker's log folder")
        return CopiedLog(segments)
    return DirectLog(
        Brokers(bootstrap_servers=kafka.bootstrap_servers, properties=kafka.properties, timeout_s=timeout_s)
    )
