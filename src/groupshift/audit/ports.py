"""What an audit reads besides the coordinators' answers (`groupshift.ports.cluster`), and keeps."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from groupshift.audit.case import ZookeeperGroup
from groupshift.audit.offsets import Audit, Looked, Reading
from groupshift.ports.log import LogProgress


class Comparison(Protocol):
    """Holds what was read within a bracket against the log, which it reads; changes nothing."""

    def look(self, reading: Reading, told: LogProgress | None = None) -> Looked:
        """What `groupshift.audit.offsets.audit` finds. Raises as `LogReader.read`."""
        ...


class OffsetNodes(Protocol):
    """Reads the committed offsets of groups in ZooKeeper and changes nothing. Raises `Transient` when it
    does not answer in time, `Rejected` where there is no Kafka cluster."""

    def read(self, groups: Collection[str] | None = None) -> Mapping[str, ZookeeperGroup]:
        """These groups, or all; those that ZooKeeper does not have are left out."""
        ...

    def cluster_id(self) -> str:
        """The id of the Kafka cluster that keeps its nodes there; empty where it is not told."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class AuditStore(Protocol):
    """Keeps audits: a folder each, named by its path or URI."""

    def refuse(self, folder: str) -> None:
        """Raise `Rejected` when ``folder`` cannot become one: it is there and not empty."""
        ...

    def write(self, folder: str, audit: Audit, report: str) -> None:
        """Write every difference (Parquet), its ``report`` (HTML) and a summary; the folder appears whole or
        not at all.

        Raises `Rejected` as `refuse`, `Transient` when it cannot be written (disk full)."""
        ...

    def read(self, folder: str) -> Audit:
        """The audit that is kept there, as it was given to `write`.

        Raises `Rejected` when there is none, `Broken` when it is not what was written."""
        ...

    def names(self, root: str) -> tuple[str, ...]:
        """The folders of audits right below ``root``, by name; none where it is not there.

        Raises `Transient` when it cannot be listed."""
        ...

    def summary(self, folder: str) -> Mapping[str, Any]:
        """What `groupshift.audit.offsets.summary` said of the audit that is kept there.

        Raises `Rejected` when there is none, `Broken` when it cannot be read."""
        ...
