"""Waves of toggles: start a few groups, wait until they have settled, go on; stop at the budget or the brake.

Every group that is under way may fail, so a wave is never larger than what is left of the error budget: even
if all of it fails, no more than the budget has failed. The brake stops before the next wave.

A toggle is a run of the move coordination with one act (`groupshift.scan.toggles`), with the fence and the
compare-and-set of any other run; `groupshift roll-back` takes it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from groupshift.domain.modes import Mode
from groupshift.domain.plan import PhaseName
from groupshift.scan.group_state import GroupState, Life
from groupshift.scan.ports import ToggleRecord, ToggleState

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


def check(rules: WaveRules) -> tuple[str, ...]:
    """Everything wrong with the values, one clause each; empty when usable."""
    checks = (
        (rules.size < 1, f"wave size {rules.size} is less than 1 group"),
        (rules.budget < 1, f"error budget {rules.budget} is less than 1 failure: nothing could be started"),
        (
            not 0 <= rules.stable_s <= MAX_STABLE_S,
            f"stable time {rules.stable_s} s is not between 0 and {MAX_STABLE_S}",
        ),
        (rules.limit < 0, f"limit {rules.limit} is negative; 0 means all groups"),
    )
    return tuple(said for wrong, said in checks if wrong)


def next_wave(todo: Sequence[str], failed: int, rules: WaveRules, brake: str) -> Sequence[str]:
    """The groups of ``todo`` to start now; none when the brake is pulled (``brake`` is why) or when as many
    have ``failed`` as the error budget allows."""
    if brake or failed >= rules.budget:
        return ()
    return todo[: min(rules.size, rules.budget - failed)]


def unfit(state: GroupState, rules: WaveRules, now_ms: int) -> str:
    """Why a group is not toggled to kafka by itself; empty when it is fully migrated and at rest."""
    toggle = state.phase(PhaseName.TOGGLE)
    if state.life is not Life.ACTIVE or not state.aware:
        return f"{state.life}, without migration-aware members"
    if toggle is None:
        return f"already in {state.mode} mode"
    if toggle.findings:
        return f"{toggle.findings[0].rule}: {toggle.findings[0].reason}"
    rest_s = (now_ms - state.stable_since_ms) // 1000
    if rest_s < rules.stable_s:
        return f"at rest for {rest_s} s only, wanted are {rules.stable_s} s"
    return ""


def ordered(sized: Iterable[tuple[int, str]], limit: int = 0) -> tuple[str, ...]:
    """Names of groups, given as (partitions, name): the smallest one first, for small groups risk least."""
    return tuple(name for _, name in sorted(sized)[: limit or None])


def is_asked_for(group: str, patterns: Iterable[str]) -> bool:
    """Whether one of the names or patterns is about a group. ``*`` and ``?`` stand for others; brackets,
    which group ids may hold, for themselves."""
    return any(fnmatchcase(group, pattern.replace("[", "[[]")) for pattern in patterns)


def wanted_back(state: GroupState, patterns: Iterable[str]) -> bool:
    """Whether a group that is asked for by name or pattern has kafka as its mode node."""
    return is_asked_for(state.group, patterns) and state.requested == Mode.KAFKA.value


Shown = Callable[[ToggleRecord], None]
"""Is told how far each group is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveReport:
    """What the waves did. ``left`` are the groups that were not started, and ``stopped`` why (empty: none
    is left)."""

    to: Mode
    execute: bool
    toggles: tuple[ToggleRecord, ...] = ()
    left: tuple[str, ...] = ()
    stopped: str = ""

    def count(self, state: ToggleState) -> int:
        """How many groups are in a state."""
        return sum(1 for each in self.toggles if each.state is state)
