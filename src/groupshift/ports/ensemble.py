"""Reading every group of a ZooKeeper ensemble and its Kafka cluster, and the brake of what acts on many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from groupshift.domain.scan import Observed


class EnsembleReader(Protocol):
    """Observes many groups and never changes anything.

    Raises `Transient` when ZooKeeper or Kafka does not answer within the bounded retries, `Rejected` when
    credentials are refused or no Kafka cluster keeps its nodes there. What cannot be read of one group is a
    sentence in its `GroupView.problems`: one broken group hides no other."""

    @property
    def name(self) -> str:
        """Hosts and chroot: under this name the journal keeps the scans."""
        ...

    def groups(self) -> tuple[str, ...]:
        """Every group that ZooKeeper or Kafka knows now, sorted."""
        ...

    def read(self, groups: Sequence[str]) -> tuple[Observed, ...]:
        """These groups now, in this order; for a bounded number of groups at a time.

        A group that is gone meanwhile has ``exists`` False."""
        ...


class Brake(Protocol):
    """One place for all who act on many groups: while it is pulled nothing more is started.

    Raises `Transient` when ZooKeeper does not answer."""

    def pulled(self) -> str:
        """Why it is pulled; empty when it is not."""
        ...

    def pull(self, reason: str) -> None:
        """Pull it; the last reason stays."""
        ...

    def release(self) -> None:
        """Release it; releasing a released brake is fine."""
        ...
