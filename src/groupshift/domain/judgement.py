"""One verdict of several findings, and what it says of a group that is to be moved."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from groupshift.domain.verdict import Finding, Verdict, worst


class Readiness(StrEnum):
    """What assess says."""

    READY = "ready"
    NOT_READY = "not ready"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One verdict (the worst of the findings) and every finding, passed ones included."""

    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict; of no finding `Verdict.ERROR`."""
        return worst(finding.verdict for finding in self.findings)

    @property
    def passed(self) -> tuple[Finding, ...]:
        """The findings of rules that were asked, could fail, and passed."""
        return tuple(each for each in self.findings if each.asked and each.verdict is Verdict.PASS)

    @property
    def not_asked(self) -> tuple[Finding, ...]:
        """The findings of rules that were not asked or could not fail: they count neither as passed nor as
        failed."""
        return tuple(each for each in self.findings if not each.asked)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The sentences of the findings that did not pass, worst first."""
        bad = [finding for finding in self.findings if finding.verdict is not Verdict.PASS]
        bad.sort(key=lambda finding: -finding.verdict.rank)
        return tuple(f"{finding.rule}: {finding.reason}" for finding in bad)
