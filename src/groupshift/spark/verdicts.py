"""From offending rows to findings, and from findings to ``verdict.json``. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from groupshift.domain.verdict import Finding, Verdict, worst

VERDICT_VERSION = 1
_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Offence:
    """One offending row: where (both may be None) and why, as the end of a sentence."""

    topic: str | None
    partition: int | None
    reason: str

    def __str__(self) -> str:
        where = f"{self.topic}-{self.partition}" if self.partition is not None else self.topic
        return f"{where}: {self.reason}" if where else self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruled:
    """A finding with the rows it rests on."""

    finding: Finding
    offences: tuple[Offence, ...] = ()


def not_asked(rule: str, holds: str, why: str) -> Ruled:
    """The finding of a rule that was not asked, or could not fail: it passes, and counts apart."""
    return Ruled(finding=Finding(rule=rule, verdict=Verdict.PASS, reason=f"{holds}: {why}", asked=False))


def ruled(
    rule: str,
    holds: str,
    found: Sequence[Offence],
    *,
    verdict: Verdict = Verdict.FAIL,
    hint: str = "",
) -> Ruled:
    """`holds` passes when nothing was found; else `verdict`, naming the first offending rows."""
    if not found:
        return Ruled(finding=Finding(rule=rule, verdict=Verdict.PASS, reason=holds))
    named = "; ".join(str(offence) for offence in found[:_NAMED])
    more = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    finding = Finding(rule=rule, verdict=verdict, reason=named + more, hint=hint)
    return Ruled(finding=finding, offences=tuple(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a comparison came to. ``counts`` are offset differences per class; ``manifests`` the
    SHA-256 of both manifests (empty when one could not be read), ``expectations`` what each expectation
    said, ``versions`` the programs that took part."""

    migration: str
    stage: str
    moment: str
    results: tuple[Ruled, ...]
    counts: Mapping[str, int]
    manifests: Mapping[str, str]
    expectations: tuple[Mapping[str, Any], ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        """The worst of all findings."""
        return worst(result.finding.verdict for result in self.results)

    def to_data(self) -> dict[str, Any]:
        """``verdict.json`` as plain values."""
        return {
            "version": VERDICT_VERSION,
            "migration": self.migration,
            "stage": self.stage,
            "moment": self.moment,
            "verdict": self.verdict.value,
            "findings": [finding_data(result) for result in self.results],
            "counts": dict(self.counts),
            "manifests": dict(self.manifests),
            "expectations": [dict(each) for each in self.expectations],
            "versions": dict(self.versions),
            "report": "report.html",
        }


def finding_data(result: Ruled) -> dict[str, Any]:
    """One finding as plain values; ``count`` is the number of offending rows."""
    finding = result.finding
    return {
        "rule": finding.rule,
        "verdict": finding.verdict.value,
        "reason": finding.reason,
        "hint": finding.hint,
        "count": len(result.offences),
        "asked": finding.asked,
    }


def to_json(data: Mapping[str, Any]) -> str:
    """Readable JSON with a stable order of keys."""
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
