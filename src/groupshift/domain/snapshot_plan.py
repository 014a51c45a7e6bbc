"""Whether a snapshot belongs to a plan: taken after it was made, and for none other."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from groupshift.domain.cluster_snapshot import ClusterManifest
from groupshift.errors import Rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOf:
    """The plan of a migration as the journal keeps it: its SHA-256, and when it was made (epoch ms)."""

    migration: str
    hash: str
    made_at_ms: int


def refuse_older(what: str, taken_at_ms: int, plan: PlanOf) -> None:
    """Raise `Rejected` when ``what`` (the beginning of the sentence) was taken before its plan was made."""
    if taken_at_ms < plan.made_at_ms:
        raise Rejected(
            f"{what} was taken at {clock(taken_at_ms)}, before its plan of {clock(plan.made_at_ms)} "
            f"(migration {plan.migration}) was made: it says nothing about this move; take it again"
        )


def refuse_other(what: str, manifest: ClusterManifest, plan: PlanOf) -> None:
    """As `refuse_older`, and when the snapshot says that it was taken for another plan."""
    refuse_older(what, manifest.taken_at_ms, plan)
    if manifest.plan_hash and manifest.plan_hash != plan.hash:
        raise Rejected(
            f"{what} was taken for the plan {manifest.plan_hash[:12]}… of migration "
            f"{manifest.migration or '?'}, that of migration {plan.migration} is {plan.hash[:12]}…: "
            "name the snapshots of this migration"
        )


def refuse_mixed(before: ClusterManifest, after: ClusterManifest) -> None:
    """Raise `Rejected` when two snapshots say that they were taken for two plans."""
    if before.plan_hash and after.plan_hash and before.plan_hash != after.plan_hash:
        raise Rejected(
            f"the snapshots were taken for two plans ({before.plan_hash[:12]}… of migration "
            f"{before.migration or '?'}, {after.plan_hash[:12]}… of {after.migration or '?'}): "
            "compare two of one migration"
        )


def clock(at_ms: int) -> str:
    """A time as a person reads it."""
    return datetime.fromtimestamp(at_ms / 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
