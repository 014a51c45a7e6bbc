"""What a comparison came to: findings by rule, counts by class, and the files it leaves. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from groupshift.domain.equality_rules import FIELDS, Comparison, EqualityRule
from groupshift.domain.verdict import Finding, Verdict, worst

OUTCOME_VERSION = 1
_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A rule with what it said: ``count`` offending rows (0: it holds)."""

    rule: EqualityRule
    finding: Finding
    count: int = 0

    def to_data(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "rule": self.finding.rule,
            "field": self.rule.field.value,
            "demand": self.rule.text,
            "verdict": self.finding.verdict.value,
            "reason": self.finding.reason,
            "hint": self.finding.hint,
            "count": self.count,
        }


def held(rule: EqualityRule) -> Judged:
    """The rule holds."""
    reason = f"{FIELDS[rule.field].title}: {rule.text}"
    return Judged(rule=rule, finding=Finding(rule=rule.number, verdict=Verdict.PASS, reason=reason))


def broken(rule: EqualityRule, offending: list[Mapping[str, Any]], count: int) -> Judged:
    """The rule is broken by ``count`` rows, of which the first are named."""
    named = "; ".join(_sentence(row) for row in offending[:_NAMED])
    more = f"; and {count - _NAMED:,} more" if count > _NAMED else ""
    hint = f"{rule.demand.reason} ({rule.demand.source})"
    finding = Finding(rule=rule.number, verdict=Verdict.FAIL, reason=named + more, hint=hint)
    return Judged(rule=rule, finding=finding, count=count)


def unmeasured(rule: EqualityRule, lacking: str) -> Judged:
    """The rule asks for something that a snapshot does not hold."""
    reason = f"{FIELDS[rule.field].title} was not compared: {lacking}"
    hint = "take both snapshots with it, or see that it does not matter here"
    finding = Finding(rule=rule.number, verdict=Verdict.INCONCLUSIVE, reason=reason, hint=hint)
    return Judged(rule=rule, finding=finding)


def _sentence(row: Mapping[str, Any]) -> str:
    where = f"group {row['group']}"
    if row["topic"] is not None:
        where += f", {row['topic']}" + (f"-{row['partition']}" if row["partition"] is not None else "")
    return f"{where}: {row['reason']}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was found. ``counts`` are differing (group, topic, partition) per class; ``settled_by`` says
    which step decided about offsets; ``incomplete`` is what the snapshots themselves say that they lack;
    ``manifests`` are SHA-256."""

    comparison: Comparison
    live: bool
    results: tuple[Judged, ...]
    counts: Mapping[str, int]
    allowed: Mapping[str, int]
    rows: Mapping[str, int]
    manifests: Mapping[str, str]
    settled_by: str
    incomplete: tuple[Finding, ...] = ()
    segments: Mapping[str, int] = field(default_factory=dict)
    parts: Mapping[str, int] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        """Fail when a rule is broken, error when a snapshot is incomplete. A table or column that a
        snapshot does not hold is said, and decides nothing."""
        verdicts = [finding.verdict for finding in self.findings]
        return worst(one for one in verdicts if one is not Verdict.INCONCLUSIVE)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All that was found, what is incomplete first."""
        return (*self.incomplete, *(one.finding for one in self.results))

    def to_data(self) -> dict[str, Any]:
        """``verdict.json`` as plain values."""
        return {
            "version": OUTCOME_VERSION,
            "move": self.comparison.value,
            "commits_went_on": self.live,
            "verdict": self.verdict.value,
            "incomplete": [finding.reason for finding in self.incomplete],
            "findings": [one.to_data() for one in self.results],
            "counts": dict(self.counts),
            "allowed": dict(self.allowed),
            "rows": dict(self.rows),
            "settled_by": self.settled_by,
            "segments": dict(self.segments),
            "parts": dict(self.parts),
            "manifests": dict(self.manifests),
        }
