"""A link of the settings, opened over the real adapters.

Imports are local, so a DAG file pays for none when Airflow parses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groupshift.adapters.system import SystemClock
from groupshift.bootstrap.connect import brokers_of, step_crash_points
from groupshift.errors import Rejected
from groupshift.links.link import Link
from groupshift.links.ports import CommitTail, LinkSyncs, NoSyncs
from groupshift.links.sync_look import OpenLink
from groupshift.settings import KafkaSettings, LinkSettings, Settings

if TYPE_CHECKING:
    from groupshift.adapters.kafka.cluster import KafkaCluster


def link_settings(settings: Settings, name: str) -> LinkSettings:
    """Return what the settings say of a link. Raises `Rejected` where they name none of that name."""
    if name not in settings.links:
        known = ", ".join(sorted(settings.links)) or "none"
        raise Rejected(f"link {name!r} is not in the settings, which have {known}; add [links.{name}]")
    return settings.links[name]


def link_of(settings: Settings, name: str) -> Link:
    """Return a link of the settings. Raises `Rejected` where there is none, or it cannot be used."""
    where = link_settings(settings, name)
    declared: dict[str, Any] = {each.name: getattr(where, each.name) for each in fields(Link)[1:]}
    declared["provenance_encoding"] = where.provenance_encoding or None
    return Link(name=name, **declared)


def _cluster(kafka: KafkaSettings, timeout_s: float) -> KafkaCluster:
    return brokers_of(kafka, timeout_s=timeout_s).cluster()


@contextmanager
def open_link(settings: Settings, name: str, *, timeout_s: float = 30.0) -> Iterator[OpenLink]:
    """Open both sides of a link with its syncs and positions; nothing is changed before it is used.

    Raises `Rejected` where the settings have no such link, or one that cannot be used."""
    import os

    from groupshift.spark.link_sides import LiveSide
    from groupshift.spark.link_topics import KafkaProvenPositions

    link, where = link_of(settings, name), link_settings(settings, name)
    with ExitStack() as stack:
        syncs = stack.enter_context(closing(_syncs(settings, link, timeout_s)))
        source, target = (
            stack.enter_context(closing(LiveSide(_cluster(kafka, timeout_s), SystemClock())))
            for kafka in (where.source, where.target)
        )
        yield OpenLink(
            link=link,
            source=source,
            target=target,
            syncs=syncs,
            positions=KafkaProvenPositions(
                brokers_of(where.target, timeout_s=timeout_s), link.positions_topic
            ),
            clock=SystemClock(),
            crash=step_crash_points(os.environ),
        )


def _syncs(settings: Settings, link: Link, timeout_s: float) -> LinkSyncs:
    """The offset syncs of a link, kept in its archive."""
    topics = link.internal_topics
    if topics is None:
        return NoSyncs()
    from groupshift.adapters.parquet.sync_archive import ParquetSyncArchive
    from groupshift.links.archived_syncs import ArchivedSyncs
    from groupshift.spark.link_topics import KafkaSyncLog

    where = link_settings(settings, link.name)
    folder = where.archive or f"{settings.evidence.root}/links/{link.name}"
    if "://" not in folder:
        Path(folder).parent.mkdir(parents=True, exist_ok=True)
    kafka = where.source if link.sync_location == "source" else where.target
    log = KafkaSyncLog(brokers_of(kafka, timeout_s=timeout_s), topics.offset_syncs)
    return ArchivedSyncs(log, ParquetSyncArchive(folder, link.name))


@contextmanager
def commit_tail(settings: Settings, name: str, *, timeout_s: float = 30.0) -> Iterator[CommitTail]:
    """Open the tail of the source's committed offsets.

    Raises `Rejected` where the settings have no such link."""
    from groupshift.spark.link_sides import LiveCommitTail

    cluster = _cluster(link_settings(settings, name).source, timeout_s)
    with closing(LiveCommitTail(cluster, SystemClock())) as tail:
        yield tail
