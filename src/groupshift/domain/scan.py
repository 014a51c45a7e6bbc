"""One row of a scan: what a group is, in which mode, at rest since when, and which stage it is ready for.

Source: specs/zookeeper-coordination.md §§8.3, 8.10 (F7), 9; KIP-125 (which groups can be toggled).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from groupshift.domain.facts import Facts, OffsetTable, sentence_list
from groupshift.domain.group import GroupView
from groupshift.domain.judgement import Judgement, Readiness
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.plan import StageName
from groupshift.domain.rulebook import BEFORE
from groupshift.domain.rules import ask
from groupshift.domain.scan_look import HeldPartition, earlier_view, look_at
from groupshift.domain.scan_stability import (
    NodeTimes,
    Rest,
    Sighting,
    fingerprint,
    last_change_ms,
    rest_of,
)
from groupshift.domain.verdict import Finding, Verdict

STAGES = (StageName.CANARY, StageName.ROLL, StageName.TOGGLE, StageName.RETIRE, StageName.FINALISE)
"""The stages a scan asks about, in the order of the move."""

NEEDS_FLEET = frozenset({"C18"})
"""Rules about places of the fleet: a scan asks no fleet driver, so it says nothing about them."""

_NAMED = 5
_SHOWN = 200
_AT_REST = frozenset({"", "Dead", "Empty"})
_READINESS = {
    Verdict.PASS: Readiness.READY,
    Verdict.INCONCLUSIVE: Readiness.READY,
    Verdict.ERROR: Readiness.UNKNOWN,
    Verdict.FAIL: Readiness.NOT_READY,
}


class Life(StrEnum):
    """Whether anybody uses a group."""

    ACTIVE = "active"
    """It has members."""
    DEAD = "dead"
    """It has committed offsets and no member."""
    UNUSED = "unused"
    """It has neither."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A group as an ensemble's reader saw it; ``read_by_ms`` (epoch): everything of it was read by then."""

    view: GroupView
    times: NodeTimes
    read_by_ms: int = 0

    @property
    def changed_by_ms(self) -> int:
        """Whatever it shows had happened by then: it may change while it is being read."""
        return max(self.read_by_ms, self.view.taken_at_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageReadiness:
    """One stage that has something to do in a group: numbers of the rules that passed, and what the others
    said. A stage without a rule to ask is ready."""

    stage: StageName
    passed: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def state(self) -> Readiness:
        """Ready (warnings allowed), not ready, or unknown."""
        return _READINESS[Judgement(findings=self.findings).verdict] if self.findings else Readiness.READY

    @property
    def clean(self) -> bool:
        """Ready without any warning."""
        return not self.findings


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """One group in one scan. Times are epoch ms, ``lag`` is in records (None: not known).

    ``old``, ``aware`` and ``plain`` count members; ``requested`` is the mode node's text (empty: absent),
    ``mode`` the one in effect; ``owned`` counts partitions with an owner; ``zookeeper_offsets`` and
    ``kafka_offsets`` count partitions with a committed offset in that store; ``readiness`` holds the
    stages that have something to do, in order; ``held`` is kept for the rules that need two looks."""

    group: str
    taken_at_ms: int
    life: Life
    old: int = 0
    aware: int = 0
    plain: int = 0
    mode: Mode = Mode.ZOOKEEPER
    requested: str = ""
    fingerprint: str = ""
    rest: Rest = field(default_factory=Rest)
    topics: tuple[str, ...] = ()
    partitions: int = 0
    owned: int = 0
    lag: int | None = None
    zookeeper_offsets: int = 0
    kafka_offsets: int = 0
    readiness: tuple[StageReadiness, ...] = ()
    problems: tuple[str, ...] = ()
    held: tuple[HeldPartition, ...] = ()

    @property
    def members(self) -> int:
        """All members."""
        return self.old + self.aware + self.plain

    @property
    def next(self) -> StageReadiness | None:
        """The first stage that has something to do; None when there is nothing left to move."""
        return self.readiness[0] if self.readiness else None

    def stage(self, name: StageName) -> StageReadiness | None:
        """What is said about a stage, None when it has nothing to do."""
        return next((each for each in self.readiness if each.stage is name), None)

    @property
    def sighting(self) -> Sighting:
        """What the next scan compares with."""
        return Sighting(fingerprint=self.fingerprint, rest=self.rest)

    @property
    def stable_since_ms(self) -> int:
        """Since when nobody came or went, the mode was not written and no partition changed hands."""
        return self.rest.since_ms


def state_of(observed: Observed, before: GroupState | None) -> GroupState:
    """The row of one group; ``before`` is that of the last scan."""
    view, times = observed.view, observed.times
    seen = fingerprint(view, times)
    known = last_change_ms(times, observed.changed_by_ms)
    life = life_of(view)
    owned = view.owners_of()
    return GroupState(
        group=view.group,
        taken_at_ms=view.taken_at_ms,
        life=life,
        old=len(view.of_kind(MemberKind.OLD)),
        aware=len(view.of_kind(MemberKind.AWARE)),
        plain=len(view.of_kind(MemberKind.PLAIN)),
        mode=view.effective_mode,
        requested=(view.mode.data or b"")[:_SHOWN].decode("utf-8", "backslashreplace"),
        fingerprint=seen,
        rest=rest_of(observed.changed_by_ms, seen, known, before.sighting if before else None),
        topics=tuple(sorted({partition.topic for partition in view.partitions})),
        partitions=len(view.partitions),
        owned=sum(1 for owners in owned.values() if owners),
        lag=lag_of(view),
        zookeeper_offsets=len(view.zookeeper_offsets),
        kafka_offsets=len(view.kafka_offsets),
        readiness=readiness_of(view, before) if life is Life.ACTIVE else (),
        problems=(*view.problems, *foreign_epochs(view)),
        held=look_at(view),
    )


def foreign_epochs(view: GroupView) -> tuple[str, ...]:
    """A sentence about commits in Kafka whose leader epoch is above their partition's: a Java consumer reads
    nothing from there (specs/verified-epochs-shares.md §A)."""
    now = {end.partition: end.leader_epoch for end in view.log_ends if end.leader_epoch >= 0}
    found = [
        f"{each.partition} ({each.leader_epoch}, now {now[each.partition]})"
        for each in view.kafka_offsets
        if each.leader_epoch > now.get(each.partition, each.leader_epoch)
    ]
    text = (
        f"the leader epoch of the commit is too high for {sentence_list(found, _NAMED)}: a Java consumer "
        "would read nothing; stop the group, then: groupshift repair epochs --execute"
    )
    return (text,) if found else ()


def life_of(view: GroupView) -> Life:
    """Active with any member, of whatever protocol; else dead or unused by its committed offsets, nodes of
    them that hold none among these."""
    if view.members or view.ids or view.kafka.members or view.kafka.state not in _AT_REST:
        return Life.ACTIVE
    stored = view.zookeeper_offsets or view.kafka_offsets or view.no_offsets
    return Life.DEAD if stored else Life.UNUSED


def lag_of(view: GroupView) -> int | None:
    """Records between the committed offsets and the log ends, over the partitions that have an offset.

    The offset is the one of the store that the mode in effect starts from, else of the other one; None when
    no partition has both an offset and a log end."""
    stores = [OffsetTable.of(view.zookeeper_offsets), OffsetTable.of(view.kafka_offsets)]
    if view.effective_mode is Mode.KAFKA or not view.ids:
        stores.reverse()
    first, second = (store.by_partition for store in stores)
    found = [
        max(0, end.end - first.get(end.partition, second.get(end.partition, 0)))
        for end in view.log_ends
        if _has(end.partition, first, second)
    ]
    return sum(found) if found else None


def _has(partition: TopicPartition, *stores: object) -> bool:
    return any(partition in store for store in stores)  # type: ignore[operator]


def has_work(view: GroupView, stage: StageName) -> bool:
    """Whether a stage of the move still has something to do in this group."""
    match stage:
        case StageName.CANARY | StageName.ROLL:
            return bool(view.of_kind(MemberKind.OLD))
        case StageName.TOGGLE:
            return bool(view.ids) and view.effective_mode is not Mode.KAFKA
        case StageName.RETIRE:
            return bool(view.of_kind(MemberKind.AWARE))
        case StageName.FINALISE:
            return view.mode.data is not None
        case _:
            return False


def readiness_of(view: GroupView, before: GroupState | None = None) -> tuple[StageReadiness, ...]:
    """What the rules before each stage with work say; each rule is asked once."""
    earlier = earlier_view(view.group, before.taken_at_ms, before.held) if before else None
    stages = [stage for stage in STAGES if has_work(view, stage)]
    wanted = {stage: [n for n in BEFORE[stage] if n not in NEEDS_FLEET] for stage in stages}
    numbers = sorted({number for asked in wanted.values() for number in asked})
    said: dict[str, list[Finding]] = {}
    for finding in ask(tuple(numbers), Facts(view=view, earlier=earlier)) if numbers else ():
        said.setdefault(finding.rule, []).append(finding)
    return tuple(_readiness(stage, asked, said) for stage, asked in wanted.items())


def _readiness(stage: StageName, asked: list[str], said: dict[str, list[Finding]]) -> StageReadiness:
    findings = [finding for number in asked for finding in said.get(number, [])]
    return StageReadiness(
        stage=stage,
        passed=tuple(finding.rule for finding in findings if finding.verdict is Verdict.PASS),
        findings=tuple(finding for finding in findings if finding.verdict is not Verdict.PASS),
    )
