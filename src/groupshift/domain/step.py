"""Steps as data: those of one group's plan and those of a cluster run, and what a run does next.

A step of a plan has an inverse: its rollback is derived, never written by hand. A step of a run says what it
does, its key, and what it needs. `NEXT` is the one table of transitions: it alone decides from the journal
what a run does next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from groupshift.domain.equality_rules import Comparison
from groupshift.domain.modes import MemberKind, Mode


class StepName(StrEnum):
    """The name under which a step is stored in plans and events."""

    REPLACE_MEMBERS = "replace_members"
    SET_MODE = "set_mode"
    SOAK = "soak"
    DELETE_MODE_NODE = "delete_mode_node"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceMembers:
    """Replace members of kind ``old`` by members of kind ``new``.

    ``slots`` are the fleet driver's names of the places whose occupant changes (for the process
    driver: supervisor slots), sorted; what runs there afterwards is of kind ``new``.
    """

    slots: tuple[str, ...]
    old: MemberKind
    new: MemberKind

    @property
    def inverse(self) -> ReplaceMembers:
        """The same places, back to what they held."""
        return ReplaceMembers(slots=self.slots, old=self.new, new=self.old)

    def after(self, earlier: ReplaceMembers) -> ReplaceMembers:
        """This step and the one that vacated its places, as one."""
        return ReplaceMembers(slots=self.slots, old=earlier.old, new=self.new)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMode:
    """Write the mode node. The inverse of a first write sets ``zookeeper`` (D13: never forget)."""

    to: Mode

    @property
    def inverse(self) -> SetMode:
        """The other mode."""
        return SetMode(to=Mode.ZOOKEEPER if self.to is Mode.KAFKA else Mode.KAFKA)


@dataclass(frozen=True, slots=True, kw_only=True)
class Soak:
    """Keep judging for ``seconds`` without acting; its own inverse does nothing."""

    seconds: int

    @property
    def inverse(self) -> None:
        """Waiting needs no way back."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteModeNode:
    """Remove the mode node; irreversible, and only after retire is proven."""

    @property
    def inverse(self) -> None:
        """None: this is the irreversible step."""
        return None


Step = ReplaceMembers | SetMode | Soak | DeleteModeNode


class RunAct(StrEnum):
    """What a step of a run does."""

    APPROVE = "approve"
    SNAPSHOT = "snapshot"
    CONVERT = "convert"
    """A person's: the members are restarted as classic ones."""
    CONVERT_EMPTY = "convert-empty"
    COMPARE = "compare"
    """Takes a snapshot and compares it with an earlier one."""
    QUICKEN = "quicken-compaction"
    COMPACT = "compact"
    SETTLE = "settle-compaction"
    DELETE_CONFIGS = "delete-configs"
    SET_CONFIGS = "set-configs"
    LOWER = "lower"
    RAISE = "raise"
    AWAIT_SNAPSHOT = "await-snapshot"
    PROVE = "prove"
    """The go/no-go: everything is asked again, the log is read again."""
    REPLACE = "replace"
    """A node gets another release."""
    FENCE = "fence"
    """Clients are kept out, also those that start again by themselves."""
    REOPEN = "reopen"
    """Clients are let in again."""
    DRAIN = "drain"
    """Waits until no group has members, and no transaction writes offsets."""
    AGREE = "agree"
    """What brokers answered and what the log holds are held against each other."""
    DELETE_GROUPS = "delete-groups"
    CREATE_PARTITIONS = "create-partitions"
    RESTART = "restart"
    """A node starts again, with the count in its file."""
    PLACE = "place"
    """Each broker is asked by which count it coordinates."""
    REHEARSE = "rehearse"
    """What a snapshot has is committed where it is already: whoever may not restore it, may not begin."""
    RESTORE = "restore"
    """What a snapshot has is committed again, and read back."""
    VERIFY = "verify"
    """A snapshot is held against the bytes of the log."""
    AUDIT = "audit"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStep:
    """One step: ``key`` names it in the journal, ``subject`` is the group, feature, node or snapshot;
    ``args`` are JSON values that its act needs; ``fresh`` ones are done again by each new process until the
    first node is touched: what they saw grows old."""

    key: str
    act: RunAct
    subject: str = ""
    does: str
    proof: str = ""
    inverse: str = ""
    args: Mapping[str, Any] = field(default_factory=dict)
    fresh: bool = False


def numbered(found: Iterable[RunStep]) -> tuple[RunStep, ...]:
    """The steps with their keys: place, act and subject."""
    return tuple(
        replace(each, key=f"{number:02} {each.act}{' ' if each.subject else ''}{each.subject}")
        for number, each in enumerate(found, 1)
    )


def asked_with(steps: Sequence[RunStep], **known: Any) -> tuple[RunStep, ...]:
    """The steps of a plan, of which the first, its approval, tells what else is ``known`` to who is asked."""
    return tuple(
        replace(each, args={**each.args, **known}) if not n else each for n, each in enumerate(steps)
    )


class OnDifference(StrEnum):
    """What becomes of a run where a comparison finds a difference."""

    ANEW = "anew"
    """Commits went on in between; a person may accept it."""
    ACCEPTABLE = "acceptable"
    """A person may accept it."""
    HOPELESS = "hopeless"
    """It stays one: the run has to be taken back."""


def compare_step(name: str, base: str, move: Comparison, *then: OnDifference, fresh: bool = False) -> RunStep:
    """A comparison of all groups with an earlier snapshot; it has no key yet. Without ``then`` a difference
    stops the run."""
    marked = {each.value: True for each in then}
    return RunStep(
        key="",
        act=RunAct.COMPARE,
        subject=name,
        does=f"snapshot {name} of all groups, compared with {base} by the rules of {move}",
        proof="no problem and no difference",
        args={"base": base, "move": move.value, **marked},
        fresh=fresh,
    )


class Stand(StrEnum):
    """How far the journal says a step is."""

    UNTOUCHED = "untouched"
    INTENDED = "intended"
    """Written down; whether it happened is not known."""
    ACTED = "acted"
    """It happened; not read back yet."""
    DONE = "done"


class Doing(StrEnum):
    """What is done with a step next."""

    INTEND = "intend"
    ACT = "act"
    READ_BACK = "read back"


class Seen(StrEnum):
    """What reading a step back came to."""

    HOLDS = "holds"
    NOT_YET = "not yet"
    PERSON = "person"
    """Somebody else has to do it."""
    REFUSED = "refused"
    """Somebody said no."""
    FAILED = "failed"


NEXT: Mapping[Stand, Doing | None] = {
    Stand.UNTOUCHED: Doing.INTEND,
    Stand.INTENDED: Doing.ACT,
    Stand.ACTED: Doing.READ_BACK,
    Stand.DONE: None,
}
"""What is done with a step that stands so; acts look before they change anything, so one that was cut off is
made again."""

AFTER: Mapping[Seen, Stand] = {
    Seen.HOLDS: Stand.DONE,
    Seen.NOT_YET: Stand.INTENDED,
    Seen.PERSON: Stand.INTENDED,
    Seen.REFUSED: Stand.INTENDED,
    Seen.FAILED: Stand.INTENDED,
}
"""How a step stands after it was read back; a run that is told to go on acts again where it failed, and where
what it did was not seen in time: it may never have been taken up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Journaled:
    """What the journal has of a step: how far it is, and by which claim; ``taken`` says of a step of
    `TOUCHING` that it was begun by whoever makes it, or may have been."""

    stand: Stand
    token: int
    taken: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """The step, and what is done with it."""

    step: RunStep
    doing: Doing


def ends(step: RunStep, seen: Seen) -> bool:
    """Whether the run ends where a step was read back so: nothing was changed yet, and the cluster is free
    for another plan."""
    declined = seen is Seen.REFUSED and step.subject == "plan"
    return declined or (step.act is RunAct.DRAIN and seen is Seen.NOT_YET)


TOUCHING = frozenset({RunAct.REPLACE, RunAct.DELETE_GROUPS})
"""Steps that somebody who only looked could not have done: what was seen before them is not asked again."""
FINDING = frozenset({RunAct.AUDIT, RunAct.RESTORE})
"""Steps whose act tells what is wrong: nobody is to accept what may be cured by now."""


def next_of(steps: Sequence[RunStep], journal: Mapping[str, Journaled], token: int) -> Next | None:
    """The first step that is not done; None when all are. Never raises.

    A step that must be ``fresh`` counts as untouched when another claim did it, until something was touched
    (`TOUCHING`); so does a step that touches, which another claim wrote down and nobody began. What another
    claim found (`FINDING`) and did not read back is looked for again."""
    found = [journal[each.key] for each in steps if each.act in TOUCHING and each.key in journal]
    touched = any(each.taken or each.stand is not Stand.INTENDED for each in found)
    for step in steps:
        known = journal.get(step.key)
        stand = known.stand if known else Stand.UNTOUCHED
        if known and known.token != token:
            old = step.fresh and not touched
            stand = Stand.UNTOUCHED if old or _only_written_down(step, known) else stand
            stand = Stand.INTENDED if step.act in FINDING and stand is Stand.ACTED else stand
        doing = NEXT[stand]
        if doing is not None:
            return Next(step=step, doing=doing)
    return None


def _only_written_down(step: RunStep, found: Journaled) -> bool:
    return step.act in TOUCHING and found.stand is Stand.INTENDED and not found.taken
