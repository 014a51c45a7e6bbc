"""Verdicts and findings: the one ordered vocabulary in which every judgement is said."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """``pass < inconclusive < error < fail``; the worst of several is `worst`.

    Each has its own reaction: pass goes on, inconclusive waits for a person, error (could not
    measure) is retried and then waits for a person, fail rolls back.
    """

    PASS = "pass"
    INCONCLUSIVE = "inconclusive"
    ERROR = "error"
    FAIL = "fail"

    @property
    def rank(self) -> int:
        """Position in the order, 0 (pass) to 3 (fail)."""
        return tuple(Verdict).index(self)


NOT_ASKED = "not asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one numbered rule said about one subject.

    ``rule`` is the rule's number (``C03``, ``V01``), ``reason`` one sentence with the values met,
    ``hint`` what to do about it (empty when there is nothing to do). ``applies`` is False where the rule was
    not asked, or nothing it looks at was there, so that it could not fail: its verdict is pass, and proves
    nothing.
    """

    rule: str
    verdict: Verdict
    reason: str
    hint: str = ""
    applies: bool = True

    @property
    def with_remedy(self) -> str:
        """Number, reason and remedy in one sentence."""
        said = f"{self.rule}: {self.reason}"
        return f"{said} ({self.hint})" if self.hint else said


def against(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings for which nothing may begin: what failed, and what could not be measured."""
    return tuple(each for each in findings if each.verdict in {Verdict.FAIL, Verdict.ERROR})


def counted(findings: Iterable[Finding], noun: str = "") -> str:
    """How many passed of those that could have failed, and how many were not asked: ``12 of 12 passed, 11 not
    asked``. ``noun`` is what they are called, before ``passed``."""
    every = list(findings)
    applied = [each for each in every if each.applies]
    passed = sum(each.verdict is Verdict.PASS for each in applied)
    called = f" {noun}" if noun else ""
    said = f"{passed} of {len(applied)}{called} passed"
    return said if len(applied) == len(every) else f"{said}, {len(every) - len(applied)} not asked"


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of `verdicts`; of nothing, `Verdict.ERROR`: an empty measurement proves nothing."""
    return max(verdicts, key=lambda verdict: verdict.rank, default=Verdict.ERROR)


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
    def reasons(self) -> tuple[str, ...]:
        """The sentences of the findings that did not pass, worst first."""
        bad = (finding for finding in self.findings if finding.verdict is not Verdict.PASS)
        worst_first = sorted(bad, key=lambda finding: -finding.verdict.rank)
        return tuple(f"{finding.rule}: {finding.reason}" for finding in worst_first)
