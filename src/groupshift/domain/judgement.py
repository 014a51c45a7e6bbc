"""What the use cases hand back: assessments, briefs, judgements, outcomes. All frozen, all plain."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from groupshift.domain.group import GroupView
from groupshift.domain.plan import Choice, Gate, Phase, Plan
from groupshift.domain.verdict import Finding, Verdict, worst


class Readiness(StrEnum):
    """What assess says."""

    READY = "ready"
    NOT_READY = "not ready"
    UNKNOWN = "unknown"


_READINESS = {
    Verdict.PASS: Readiness.READY,
    Verdict.INCONCLUSIVE: Readiness.READY,
    Verdict.ERROR: Readiness.UNKNOWN,
    Verdict.FAIL: Readiness.NOT_READY,
}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """The group as read and what every rule of assess says about it (inconclusive is a warning)."""

    view: GroupView
    findings: tuple[Finding, ...]

    @property
    def readiness(self) -> Readiness:
        """Ready, not ready (a rule failed) or unknown (a rule could not be measured)."""
        return _READINESS[worst(finding.verdict for finding in self.findings)]

    @property
    def ready(self) -> bool:
        """True when no rule failed and every rule could be measured."""
        return self.readiness is Readiness.READY


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A journaled plan: the migration's id, the plan and its SHA-256 in hex."""

    migration: str
    plan: Plan
    plan_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One answer of a gate: what its button says, what is answered by it, and what it does (a sentence).
    ``default`` is what counts when nobody answers."""

    label: str
    choice: Choice
    does: str
    default: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GateTerms:
    """How a question is asked: for how long (None: as long as an answer counts), with which links."""

    within_s: int | None = None
    links: tuple[tuple[str, str], ...] = ()


ASK = GateTerms()


@dataclass(frozen=True, slots=True, kw_only=True)
class GateBrief:
    """What a person sees at a gate: ``body`` is Markdown, ``fingerprint`` goes into the answer, ``options``
    are the buttons that the body speaks of."""

    gate: Gate
    subject: str
    body: str
    fingerprint: str
    options: tuple[Option, ...] = ()


class ActState(StrEnum):
    """What an act did: ``done`` (the driver or ZooKeeper accepted it; `watch` says when it has
    settled), ``pending`` (a person has to act), ``unchanged`` (nothing to do, or done before)."""

    DONE = "done"
    PENDING = "pending"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActOutcome:
    """``instruction`` is Markdown for a person when pending; ``change_id`` names a fleet change."""

    state: ActState
    detail: str = ""
    instruction: str = ""
    change_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStatus:
    """What a sensor asks: ``settled`` when there is nothing left to wait for."""

    settled: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """How a run ended. ``verdict`` is `Verdict.PASS` only when what was asked for was reached."""

    phase: Phase
    verdict: Verdict
    reason: str
