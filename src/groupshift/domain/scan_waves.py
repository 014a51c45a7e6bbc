"""Which groups are toggled next: in waves, never more at a time than may still fail.

Every group that is under way may fail, so a wave is never larger than what is left of the error budget: even
if all of it fails, no more than the budget has failed. The brake stops before the next wave.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from groupshift.domain.modes import Mode
from groupshift.domain.plan import StageName
from groupshift.domain.scan import GroupState, Life

MAX_STABLE_S = 30 * 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveRules:
    """``size`` groups at most in one wave; after ``budget`` failures nothing more is started; a group is
    toggled to kafka only when it is at rest for ``stable_s`` seconds; ``limit`` groups at most in one run
    (0: all)."""

    size: int = 5
    budget: int = 2
    stable_s: int = 3600
    limit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A group that may be toggled; small groups come first, for they risk least."""

    group: str
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run of waves is: groups still to do, in order, and how many failed."""

    todo: tuple[str, ...]
    failed: int = 0


def check(rules: WaveRules) -> tuple[str, ...]:
    """Everything wrong with the values, one clause each; empty when usable."""
    problems = []
    if rules.size < 1:
        problems.append(f"wave size {rules.size} is less than 1 group")
    if rules.budget < 1:
        problems.append(f"error budget {rules.budget} is less than 1 failure, so nothing could be started")
    if not 0 <= rules.stable_s <= MAX_STABLE_S:
        problems.append(f"stable time {rules.stable_s} s is not between 0 and {MAX_STABLE_S}")
    if rules.limit < 0:
        problems.append(f"limit {rules.limit} is negative; 0 means all groups")
    return tuple(problems)


def next_wave(progress: Progress, rules: WaveRules, brake: str) -> tuple[str, ...]:
    """The groups to start now; none when the brake is pulled (``brake`` is why) or the budget is used up."""
    if brake or progress.failed >= rules.budget:
        return ()
    return progress.todo[: min(rules.size, rules.budget - progress.failed)]


def unfit(state: GroupState, rules: WaveRules, now_ms: int) -> str:
    """Why a group is not toggled to kafka by itself; empty when it is fully migrated and at rest."""
    toggle = state.stage(StageName.TOGGLE)
    if state.life is not Life.ACTIVE or not state.aware:
        return f"{state.life}, without migration-aware members"
    if toggle is None:
        return f"already in {state.mode} mode"
    if not toggle.clean:
        said = toggle.findings[0]
        return f"{said.rule}: {said.reason}"
    rest_s = (now_ms - state.stable_since_ms) // 1000
    if rest_s < rules.stable_s:
        return f"at rest for {rest_s} s only, wanted are {rules.stable_s} s"
    return ""


def ordered(candidates: Iterable[Candidate], limit: int = 0) -> tuple[str, ...]:
    """Names, smallest group first."""
    names = [each.group for each in sorted(candidates, key=lambda each: (each.partitions, each.group))]
    return tuple(names[:limit] if limit else names)


def is_asked_for(group: str, patterns: Iterable[str]) -> bool:
    """Whether one of the names or patterns is about a group. ``*`` and ``?`` stand for others; brackets,
    which group ids may hold, for themselves."""
    return any(fnmatchcase(group, pattern.replace("[", "[[]")) for pattern in patterns)


def wanted_back(state: GroupState, patterns: Iterable[str]) -> bool:
    """Whether a group that is asked for by name or pattern has kafka as its mode node."""
    return is_asked_for(state.group, patterns) and state.requested == Mode.KAFKA.value
