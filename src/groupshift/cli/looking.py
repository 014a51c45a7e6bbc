"""Looks at one group of the cluster that options or settings name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from groupshift.bootstrap.connect import protocol_views
from groupshift.cli.options import one_cluster, settings
from groupshift.ports.cluster import ProtocolViews
from groupshift.settings import KafkaSettings


def named_kafka(bootstrap_servers: str, settings_file: Path | None) -> KafkaSettings:
    """The brokers of the options, else those of the settings. Raises `Rejected` when both name a cluster, or
    neither."""
    one_cluster(bootstrap_servers, settings_file)
    if bootstrap_servers:
        return KafkaSettings(bootstrap_servers=bootstrap_servers)
    return settings(settings_file).kafka


@contextmanager
def looking(
    bootstrap_servers: str, settings_file: Path | None, timeout_s: float
) -> Iterator[tuple[ProtocolViews, KafkaSettings]]:
    """Looks at the brokers of `named_kafka`, closed at the end, and which brokers these are."""
    kafka = named_kafka(bootstrap_servers, settings_file)
    views = protocol_views(kafka, timeout_s=timeout_s)
    try:
        yield views, kafka
    finally:
        views.close()
