"""When two snapshots of a group around a phase are equal: what the phase changes, and the numbered rules.

`AllowedChanges` is handed to the Spark job ``validate`` as JSON: its fields under their names, and
``version``. Whatever the phase, offsets may advance, be new and have other metadata; none may be lost or go
back; and the set of partitions and the topics that the group subscribes stay. ``phase_rules.toml`` beside
this module holds the rules that say so, with their numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from math import ceil
from typing import Any

from groupshift.domain.evidence import Moment, Row, long_of
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.plain import built
from groupshift.domain.plan import Phase, PhaseName, ReplaceMembers, SetMode
from groupshift.domain.tables import table_of
from groupshift.domain.verdict import Verdict
from groupshift.errors import Rejected

RULES_VERSION = 3

Snapshot = Mapping[str, Sequence[Row]]
"""All tables of a snapshot as `EvidenceStore.read` gives them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedChanges:
    """What one comparison allows.

    ``kafka_mode``: the mode in effect afterwards is kafka, else zookeeper; then ZooKeeper's offsets may be
    ``gap`` records behind Kafka's, per partition. ``replaced`` members of kind ``old`` became ``new``, all
    others are of the kinds they were (a restarted member has a new id and is still equal). ``mode_text`` is
    what the mode node holds afterwards (None: it is absent). ``nobody``: the group is empty, and neither
    owners nor subscriptions are compared. ``log`` is what the log answered about offsets that advanced and
    were delivered to nobody (`groupshift.domain.log_gaps.answers_data`)."""

    phase: PhaseName
    moment: Moment
    kafka_mode: bool
    gap: int
    replaced: int = 0
    old: MemberKind | None = None
    new: MemberKind | None = None
    mode_text: str | None = None
    nobody: bool = False
    log: Sequence[Mapping[str, Any]] = ()

    @property
    def effective_mode(self) -> Mode:
        """The mode that must be in effect in the later snapshot."""
        return Mode.KAFKA if self.kafka_mode else Mode.ZOOKEEPER

    def to_data(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"version": RULES_VERSION, **asdict(self)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> AllowedChanges:
        """Return what `to_data` gave.

        Raises:
            Rejected: another release wrote it, or a key (which is named) is missing or spoilt.
        """
        try:
            if data["version"] != RULES_VERSION:
                raise Rejected(f"rules version {data['version']!r} is not {RULES_VERSION}; update groupshift")
            changes: AllowedChanges = built(cls, {each.name: data[each.name] for each in fields(cls)})
        except (KeyError, TypeError, ValueError) as error:
            raise Rejected(f"the rules lack or spoil the key {error}; plan the run again") from error
        return changes


class Needed(StrEnum):
    """What must be there for a rule, or it is not asked."""

    KAFKA_MODE = "kafka mode"
    MEMBERS = "members"
    CANARY = "canary"
    """A canary that was replaced."""
    PAIR = "pair"
    """Two snapshots: of one beside itself the rule would prove nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRule:
    """One rule, by its number ``rule``; ``phase_rules.toml`` says what each other field is."""

    holds: str
    hint: str
    rule: str = ""
    verdict: Verdict = Verdict.FAIL
    only: tuple[Needed, ...] = ()
    statement: str = ""
    difference: str = ""
    allowed: str = ""
    about: str = ""
    explained: str = ""
    table: str = ""

    def unasked(self, changes: AllowedChanges, *, itself: bool) -> str:
        """Return why this rule is not asked of a comparison (``itself``: of a snapshot beside itself); empty
        where it is."""
        canary = (changes.phase, changes.moment) == (PhaseName.CANARY, Moment.AFTER)
        lacking = {
            Needed.KAFKA_MODE: "" if changes.kafka_mode else "not asked in zookeeper mode",
            Needed.MEMBERS: "not asked of an empty group" if changes.nobody else "",
            Needed.CANARY: "" if canary else "asked after phase canary only",
            Needed.PAIR: "not asked, the snapshot is compared with itself" if itself else "",
        }
        return next((why for each in self.only if (why := lacking[each])), "")


_READ = table_of(dict[str, dict[str, PhaseRule]], "domain/phase_rules.toml")
PHASE_RULES = tuple(replace(rule, rule=number) for number, rule in _READ["rules"].items())
"""Every rule about two snapshots of a group, in the order of their numbers."""


def allowed_changes(
    phase: Phase, moment: Moment, before: Snapshot, after: Snapshot, gap: int
) -> AllowedChanges:
    """What may differ between these two snapshots around (or, for ``before``, ahead of) a phase.

    Ahead of a phase nothing may have changed but offsets; after it, what its step says. The group is meant to
    be empty where this phase vacated it, or the one before it. Where ``before`` was
    taken ahead of an earlier phase, ``phase`` holds both steps as one."""
    text, step = before["group"][0]["mode_text"], phase.step
    changes = AllowedChanges(
        phase=phase.name,
        moment=moment,
        kafka_mode=after["group"][0]["effective_mode"] == Mode.KAFKA.value,
        gap=gap,
        mode_text=None if text is None else str(text),
        nobody=isinstance(step, ReplaceMembers)
        and (step.new if moment is Moment.AFTER else step.old) is MemberKind.VACANT,
    )
    if moment is Moment.AFTER and isinstance(step, ReplaceMembers):
        return replace(changes, replaced=len(step.slots), old=step.old, new=step.new)
    if moment is Moment.AFTER and isinstance(step, SetMode):
        return replace(changes, mode_text=step.to.value)
    return changes


def restored_changes(changes: AllowedChanges, mode_text: str | None) -> AllowedChanges:
    """The comparison of the first snapshot with the last one of a rollback to old members.

    Members are as they were; the mode node may say ``zookeeper`` where it was absent (D13)."""
    return replace(changes, replaced=0, old=None, new=None, mode_text=mode_text)


def records_per_interval(before: Snapshot, after: Snapshot, interval_ms: int) -> int:
    """The most records one commit interval produced in any partition between two snapshots.

    0 when both are of one moment: there is no rate to speak of."""
    elapsed_ms = long_of(after["group"][0], "taken_at_ms") - long_of(before["group"][0], "taken_at_ms")
    if elapsed_ms <= 0:
        return 0
    then = {(row["topic"], row["partition"]): long_of(row, "log_end") for row in before["log_ends"]}
    grown = [
        long_of(row, "log_end") - then.get((row["topic"], row["partition"]), long_of(row, "log_end"))
        for row in after["log_ends"]
    ]
    return ceil(max(grown, default=0) * interval_ms / elapsed_ms)
