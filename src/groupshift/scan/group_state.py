"""A group in one scan: what it is, its mode, since when it is stable, which phase it is ready for, and what
changed since the last scan.

Source: docs/reference/zookeeper-coordination.md §§8.3, 8.10 (F7), 9; KIP-125 (which groups can be toggled).

For rules that need two reads of a group, the last scan is the first read. Since when a group has not changed
follows from ZooKeeper's transaction ids and from earlier scans. ZooKeeper keeps no time of a deletion, but
the directory's pzxid says after which transaction it was. Every node that was written later carries a
transaction id and a time, so the first of them bounds the moment from above: the group is stable at least
since then.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from groupshift.domain.facts import Facts, sentence_list
from groupshift.domain.group import GroupView
from groupshift.domain.group_rules import ask
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.old_members import Held, held_by_old, worth_a_second_look
from groupshift.domain.partitions import grouped
from groupshift.domain.plain import from_plain, shallow
from groupshift.domain.plan import PhaseName
from groupshift.domain.verdict import Finding, Readiness, Verdict
from groupshift.errors import Rejected
from groupshift.moves.coordination.rules import RULES


def look_at(view: GroupView) -> tuple[Held, ...] | None:
    """Return what the next scan needs of this one: the partitions that old members own, with their offsets in
    either store and their log ends. None unless a second look is worth it."""
    held = held_by_old(view)
    return held if worth_a_second_look(held) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTimes:
    """Transaction ids of what counts as a change (a member came or went, the mode was written, a partition
    changed hands), and (zxid, epoch ms) of every write known from the group's nodes."""

    changes: tuple[int, ...] = ()
    stamps: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """Since when (epoch ms) each half of a group is at rest; 0: it was never seen to change."""

    zookeeper_ms: int = 0
    kafka_ms: int = 0

    @property
    def since_ms(self) -> int:
        """Since when the whole group is."""
        return max(self.zookeeper_ms, self.kafka_ms)


def last_change_ms(times: NodeTimes, now_ms: int) -> int | None:
    """No later than this (epoch ms) was the last change; None when no node tells of any. All nodes had been
    read at ``now_ms``."""
    if not times.changes:
        return None
    last = max(times.changes)
    return min((at for zxid, at in times.stamps if zxid >= last and at <= now_ms), default=now_ms)


def fingerprint(view: GroupView, times: NodeTimes) -> str:
    """``<ZooKeeper half>.<Kafka half>``: equal as long as nobody came or went and nothing changed hands."""
    registered = (
        sorted((member.member_id, str(member.session_id)) for member in view.members if member.session_id),
        view.mode.identity,
        sorted(times.changes),
        sorted((*owner.partition, owner.thread_id, owner.czxid) for owner in view.owners),
    )
    joined = sorted((member.member_id, sorted(member.assigned)) for member in view.kafka.members)
    halves = (hashlib.sha256(repr(half).encode()).hexdigest()[:16] for half in (registered, joined))
    return ".".join(halves)


def rest_of(now_ms: int, now: str, known_ms: int | None, before: GroupState | None) -> Rest:
    """Return since when both halves are at rest; ``now`` is the fingerprint now, ``known_ms`` is
    `last_change_ms`.

    Of ZooKeeper the last scan and the nodes both give a moment at which the last change was over: the earlier
    one counts. A change that only Kafka saw has no time: it counts from the scan that met it."""
    changed_ms = now_ms if known_ms is None else known_ms
    if before is None:
        return Rest(zookeeper_ms=changed_ms)
    (nodes, _, joined), (old_nodes, _, old_joined) = now.partition("."), before.fingerprint.partition(".")
    if nodes == old_nodes:
        changed_ms = min(changed_ms, before.rest.zookeeper_ms)
    return Rest(zookeeper_ms=changed_ms, kafka_ms=before.rest.kafka_ms if joined == old_joined else now_ms)


_WORK: Mapping[PhaseName, Callable[[GroupView], bool]] = {
    PhaseName.CANARY: lambda view: bool(view.of_kind(MemberKind.ZOOKEEPER)),
    PhaseName.ROLL: lambda view: bool(view.of_kind(MemberKind.ZOOKEEPER)),
    PhaseName.TOGGLE: lambda view: bool(view.ids) and view.effective_mode is not Mode.KAFKA,
    PhaseName.RETIRE: lambda view: bool(view.of_kind(MemberKind.AWARE)),
    PhaseName.FINALISE: lambda view: view.mode.data is not None,
}
"""Whether a phase still has something to do in a group, of those a scan asks about, in the move's order."""

NEEDS_FLEET = frozenset({"C18"})
"""Rules about places of the fleet: a scan asks no fleet driver, so it says nothing about them."""

_NAMED = 5
_SHOWN = 200
_AT_REST = frozenset({"", "Dead", "Empty"})


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseReadiness:
    """One phase that has something to do in a group: numbers of the rules that passed, and what the others
    said. A phase without a rule to ask is ready."""

    phase: PhaseName
    passed: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def state(self) -> Readiness:
        """Ready (warnings allowed), not ready, or unknown: a rule could not be asked."""
        said = {each.verdict for each in self.findings}
        if Verdict.FAIL in said:
            return Readiness.NOT_READY
        return Readiness.UNKNOWN if Verdict.ERROR in said else Readiness.READY


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """One group in one scan. Times are epoch ms, ``lag`` is in records (None: not known).

    ``old``, ``aware`` and ``plain`` count members; ``requested`` is the mode node's text (empty: absent),
    ``mode`` the one in effect; ``owned`` counts partitions with an owner; ``zookeeper_offsets`` and
    ``kafka_offsets`` count partitions with a committed offset in that store; ``readiness`` holds the
    phases that have something to do, in order; ``held`` is kept for the rules that need two looks."""

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
    readiness: tuple[PhaseReadiness, ...] = ()
    problems: tuple[str, ...] = ()
    held: tuple[Held, ...] | None = None

    @property
    def members(self) -> int:
        """All members."""
        return self.old + self.aware + self.plain

    @property
    def next(self) -> PhaseReadiness | None:
        """The first phase that has something to do; None when there is nothing left to move."""
        return self.readiness[0] if self.readiness else None

    def phase(self, name: PhaseName) -> PhaseReadiness | None:
        """What is said about a phase, None when it has nothing to do."""
        return next((each for each in self.readiness if each.phase is name), None)

    @property
    def stable_since_ms(self) -> int:
        """Since when nobody came or went, the mode was not written and no partition changed hands."""
        return self.rest.since_ms


def state_of(observed: Observed, before: GroupState | None) -> GroupState:
    """The row of one group; ``before`` is that of the last scan."""
    view, times = observed.view, observed.times
    by_ms = max(observed.read_by_ms, view.taken_at_ms)  # it may change while it is being read
    stamp = fingerprint(view, times)
    known = last_change_ms(times, by_ms)
    life = life_of(view)
    owned = view.owners_by_partition
    return GroupState(
        group=view.group,
        taken_at_ms=view.taken_at_ms,
        life=life,
        old=len(view.of_kind(MemberKind.ZOOKEEPER)),
        aware=len(view.of_kind(MemberKind.AWARE)),
        plain=len(view.of_kind(MemberKind.PLAIN)),
        mode=view.effective_mode,
        requested=(view.mode.data or b"")[:_SHOWN].decode("utf-8", "backslashreplace"),
        fingerprint=stamp,
        rest=rest_of(by_ms, stamp, known, before),
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
    nothing from there (docs/reference/epochs-and-topic-ids.md §A)."""
    now = {at: end.leader_epoch for at, end in view.ends.items() if end.leader_epoch >= 0}
    partitions = [
        f"{each.at} ({each.leader_epoch}, now {now[each.at]})"
        for each in view.kafka_offsets
        if each.leader_epoch is not None and each.leader_epoch > now.get(each.at, each.leader_epoch)
    ]
    text = (
        f"the leader epoch of the commit is too high for {sentence_list(partitions, _NAMED)}: a Java "
        "consumer would read nothing; stop the group, then: groupshift repair epochs --execute"
    )
    return (text,) if partitions else ()


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
    znodes, kafka = view.stores.values()
    in_kafka = view.effective_mode is Mode.KAFKA or not view.ids
    committed = znodes | kafka if in_kafka else kafka | znodes
    lags = [max(0, end.log_end - committed[at]) for at, end in view.ends.items() if at in committed]
    return sum(lags) if lags else None


def readiness_of(view: GroupView, before: GroupState | None = None) -> tuple[PhaseReadiness, ...]:
    """Return what the rules before each phase with work say; each rule is asked once. What the last scan
    (``before``) kept of the group is the first of two looks."""
    phases = [phase for phase, has_work in _WORK.items() if has_work(view)]
    wanted = {
        phase: [number for number in RULES.phases[phase].before if number not in NEEDS_FLEET]
        for phase in phases
    }
    numbers = sorted({number for rules_of in wanted.values() for number in rules_of})
    facts = Facts(view=view, earlier=before.held if before else None)
    said = grouped((each.rule, each) for each in (ask(tuple(numbers), facts) if numbers else ()))
    readiness = []
    for phase, rules_of in wanted.items():
        findings = [each for number in rules_of for each in said.get(number, ())]
        readiness.append(
            PhaseReadiness(
                phase=phase,
                passed=tuple(each.rule for each in findings if each.verdict is Verdict.PASS),
                findings=tuple(each for each in findings if each.verdict is not Verdict.PASS),
            )
        )
    return tuple(readiness)


class Aspect(StrEnum):
    """What of a group changed."""

    APPEARED = "appeared"
    VANISHED = "vanished"
    LIFE = "life"
    MEMBERS = "members"
    MODE = "mode"
    NEXT = "next phase"
    PARTITIONS = "partitions"
    MOVED = "at rest"
    """Same members and mode, but somebody restarted or partitions changed hands since the last scan."""
    PROBLEMS = "problems"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChange:
    """One difference; ``before`` and ``after`` are short texts for people, empty where there was nothing."""

    group: str
    aspect: Aspect
    before: str = ""
    after: str = ""


def members_text(state: GroupState) -> str:
    """``3 old, 1 aware``, or ``none``."""
    counts = ((state.old, "old"), (state.aware, "aware"), (state.plain, "plain"))
    return ", ".join(f"{count} {kind}" for count, kind in counts if count) or "none"


def next_text(state: GroupState) -> str:
    """``toggle: ready``, or ``-`` when there is nothing left to move."""
    return f"{state.next.phase}: {state.next.state}" if state.next else "-"


def appeared(state: GroupState) -> GroupChange:
    """A group that the last scan did not know."""
    return GroupChange(
        group=state.group, aspect=Aspect.APPEARED, after=f"{state.life}, {members_text(state)}"
    )


def vanished(group: str, before: GroupState) -> GroupChange:
    """A group that the last scan knew and that is gone from both systems."""
    return GroupChange(group=group, aspect=Aspect.VANISHED, before=f"{before.life}, {members_text(before)}")


def difference(before: GroupState, after: GroupState) -> tuple[GroupChange, ...]:
    """Every difference but those that always are there (lag, offsets that advance)."""
    aspects = [
        (Aspect.LIFE, before.life.value, after.life.value),
        (Aspect.MEMBERS, members_text(before), members_text(after)),
        (Aspect.MODE, before.mode.value, after.mode.value),
        (Aspect.NEXT, next_text(before), next_text(after)),
        (Aspect.PARTITIONS, str(before.partitions), str(after.partitions)),
        (Aspect.PROBLEMS, "; ".join(before.problems), "; ".join(after.problems)),
    ]
    changes = [(aspect, then, now) for aspect, then, now in aspects if then != now]
    if not changes and before.fingerprint != after.fingerprint:
        changes = [(Aspect.MOVED, "", "members restarted or partitions changed hands")]
    return tuple(
        GroupChange(group=after.group, aspect=aspect, before=then, after=now) for aspect, then, now in changes
    )


def state_data(state: GroupState) -> dict[str, Any]:
    """Return the state as JSON, for ``scan --json``: each phase with its verdict, the rules that passed and
    what the others said. What only the next scan needs is left out."""
    data = asdict(replace(state, held=None))
    del data["held"]
    return {
        **data,
        "members": {"old": state.old, "aware": state.aware, "plain": state.plain},
        "offsets": {"zookeeper": state.zookeeper_offsets, "kafka": state.kafka_offsets},
        "stable_since_ms": state.stable_since_ms,
        "readiness": [{**asdict(each), "state": each.state.value} for each in state.readiness],
    }


def state_text(state: GroupState) -> str:
    """The state as JSON, with what the next scan needs."""
    return json.dumps(state, default=shallow, separators=(",", ":"), ensure_ascii=False)


def state_from(text: str) -> GroupState:
    """The state that `state_text` wrote. Raises `Rejected` for one of another release."""
    try:
        return from_plain(GroupState, json.loads(text))
    except (KeyError, TypeError, ValueError) as wrong:
        raise Rejected(
            f"the journal has the state of a group in another form ({wrong!r:.80}): a scan of another "
            "release wrote it; empty the table scan_state, and scan again"
        ) from wrong
