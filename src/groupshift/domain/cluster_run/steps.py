"""The steps of a run that changes a whole cluster, as data: what a step does, its key, what it needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from groupshift.domain.equality_rules import Comparison


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
