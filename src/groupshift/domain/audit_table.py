"""What is kept and shown of an audit: the table of differences, and a summary in plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from groupshift.domain.audit import Audit, Looked, Mismatch
from groupshift.domain.audit_rules import Kind, Weight
from groupshift.domain.evidence import Column, ColumnType, Table

_LONG, _INT = ColumnType.LONG, ColumnType.INT


def _column(name: str, type_: ColumnType = ColumnType.STRING, *, null: bool = False) -> Column:
    return Column(name=name, type=type_, nullable=null)


DIFFERENCES = Table(
    name="differences",
    columns=(
        _column("group"),
        _column("topic"),
        _column("partition", _INT),
        _column("kind"),
        _column("weight"),
        _column("rule"),
        _column("reason"),
        _column("remedy"),
        _column("answered", _LONG, null=True),
        _column("logged", _LONG, null=True),
        _column("zookeeper", _LONG, null=True),
        _column("mode", null=True),
        _column("log_partition", _INT, null=True),
        _column("log_offset", _LONG, null=True),
        _column("foreign_partition", _INT, null=True),
        _column("foreign_offset", _LONG, null=True),
        _column("log_end", _LONG, null=True),
    ),
    key=("group", "topic", "partition"),
)
"""The columns are the fields of `groupshift.domain.audit.Mismatch`."""


def summary(audit: Audit) -> dict[str, Any]:
    """Counts by kind and weight, and of what; only values that JSON knows."""
    looked = audit.looked
    weights = {str(weight): 0 for weight in Weight}
    for one in looked.mismatches:
        weights[str(one.weight)] += 1
    return {
        "cluster_id": audit.cluster_id,
        "began_ms": audit.began_ms,
        "ended_ms": audit.ended_ms,
        "zookeeper": audit.zookeeper,
        "retention_ms": audit.retention_ms,
        "clean": audit.clean,
        "keys": looked.keys,
        "agreeing": looked.agreeing,
        "weights": weights,
        "kinds": {str(kind): count for kind, count in sorted(looked.kinds.items())},
        "problems": list(looked.problems),
        "unread": {group: list(told) for group, told in looked.unread.items()},
    }


def audit_of(told: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> Audit:
    """The audit of which `summary` told this, and whose differences these rows are.

    Raises `KeyError` and `ValueError` for what no audit has."""
    mismatches = (
        Mismatch(**{**row, "kind": Kind(row["kind"]), "weight": Weight(row["weight"])}) for row in rows
    )
    looked = Looked(
        keys=told["keys"],
        agreeing=told["agreeing"],
        mismatches=tuple(mismatches),
        problems=tuple(told["problems"]),
        unread={group: tuple(each) for group, each in told.get("unread", {}).items()},
        kinds={Kind(kind): count for kind, count in told["kinds"].items()},
    )
    return Audit(
        began_ms=told["began_ms"],
        ended_ms=told["ended_ms"],
        cluster_id=told["cluster_id"],
        zookeeper=told["zookeeper"],
        retention_ms=told["retention_ms"],
        looked=looked,
    )
