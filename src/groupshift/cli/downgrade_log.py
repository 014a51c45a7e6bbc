"""Where the verbs of a downgrade read the log of the offsets topic."""

from __future__ import annotations

from pathlib import Path

from groupshift.errors import Rejected
from groupshift.ports.log_copies import OffsetsLog
from groupshift.settings import KafkaSettings

NEEDS_SPARK = "reading the log needs the extra 'spark': pip install 'kafka-groupshift[spark]'"


def log_at(kafka: KafkaSettings, timeout_s: float, segments: str = "") -> OffsetsLog:
    """The copy in the folder ``segments``, or the brokers where it is empty. Raises `Rejected` for a folder
    that is none, and where the extra is missing."""
    try:
        from groupshift.spark.copied_log import CopiedLog
        from groupshift.spark.direct_log import DirectLog
        from groupshift.spark.fetched import Brokers
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("groupshift"):
            raise
        raise Rejected(f"{NEEDS_SPARK} ({missing.name} is missing)") from missing
    if segments:
        if "://" not in segments and not Path(segments).is_dir():
            raise Rejected(f"--segments {segments} is no folder; give a copy of a broker's log folder")
        return CopiedLog(segments)
    return DirectLog(
        Brokers(bootstrap_servers=kafka.bootstrap_servers, properties=kafka.properties, timeout_s=timeout_s)
    )
