"""What somebody is asked, what they answer, and the parts of a report or gate that are shown to people."""

from __future__ import annotations

from dataclasses import dataclass, field

from groupshift.domain.reactions import Choice
from groupshift.domain.run import Findings, Json, RunState, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a report or of a gate: sentences, or rows below their heads."""

    title: str
    sentences: tuple[str, ...] = ()
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What a look found, as ``assess`` shows it beside its findings: for people, and as data."""

    sections: tuple[Section, ...] = ()
    data: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What somebody is asked at a gate or in a review: ``gate`` is the step's key and ``does`` its words,
    ``fingerprint`` names what was shown (an answer has to name it), ``changes`` made an earlier answer void.

    ``ahead`` are the steps that a yes lets happen, ``later`` says what is asked next (empty: nothing).
    ``findings`` are of this look, else those of the plan; ``judged`` are of the last judgement. ``state`` is
    the run's, and ``optional`` and ``frees`` say what a no does: the steps are left out, or the run
    ends and its target is free."""

    run: str
    gate: str
    answers: tuple[Choice, ...]
    fingerprint: str
    plan_hash: str
    ahead: tuple[Step, ...] = ()
    changes: tuple[str, ...] = ()
    findings: Findings = ()
    detail: str = ""
    pause: str = ""
    shown: tuple[Section, ...] = ()
    does: str = ""
    later: str = ""
    judged: Findings = ()
    state: RunState = RunState.RUNNING
    optional: bool = False
    frees: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What somebody answers, who it is, and what was shown to them."""

    choice: Choice
    who: str
    fingerprint: str
