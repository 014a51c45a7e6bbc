"""Which rules are asked when: one table, from stage and moment to numbers of rules."""

from __future__ import annotations

from collections.abc import Mapping

from groupshift.domain.group import GroupView
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.plan import StageName, Until

ASSESS = (
    *("C01", "C02", "C03", "C04", "C05", "C06", "C07", "C28", "C09", "C10", "C11", "C18", "C20"),
    *("C24", "C25", "C26", "C27", "C29"),
)
"""Asked by assess, before anything is planned."""

_STILL_OLD = ("C02", "C03", "C04", "C05", "C06", "C07", "C28", "C11", "C18", "C24")

F7: Mapping[Mode, Mapping[str, str]] = {
    Mode.KAFKA: {
        "C13": "aware",
        "C08": "every member has the fence",
        "C14": "the Kafka group is Stable",
        "C15": "the Kafka group's client ids and the migration ids are the same set",
        "C12": "Kafka offsets complete (O8)",
    },
    Mode.ZOOKEEPER: {"C16": "no plain Kafka member (D11)"},
}
"""The preconditions of a mode write: rule and its clause of zookeeper-coordination.md §8.10 F7."""

BEFORE: Mapping[StageName, tuple[str, ...]] = {
    StageName.CANARY: _STILL_OLD,
    StageName.ROLL: _STILL_OLD,
    StageName.TOGGLE: ("C03", "C05", "C07", "C11", "C16", *F7[Mode.KAFKA]),
    StageName.RETIRE: ("C03", "C08", "C11", "C12", "C14", "C22"),
    StageName.SOAK: (),
    StageName.FINALISE: ("C21",),
    StageName.UNDO_RETIRE: ("C03", "C22"),
    # N3 beside F7. A member without fence is no hindrance: zookeeper mode is its remedy.
    StageName.UNDO_TOGGLE: ("C03", "C05", *F7[Mode.ZOOKEEPER]),
    StageName.UNDO_MEMBERS: ("C03", "C05", "C16", "C23"),
}
"""Preconditions, asked of the live group right before the act."""

AFTER: Mapping[StageName, tuple[str, ...]] = {
    StageName.CANARY: ("C03", "C28", "C11", "C17", "C18", "C19"),
    StageName.ROLL: ("C03", "C28", "C11", "C13", "C17", "C18", "C19"),
    StageName.TOGGLE: ("C03", "C08", "C11", "C13", "C14", "C15", "C16", "C17", "C18"),
    StageName.RETIRE: ("C03", "C11", "C14", "C18", "C21", "C22"),
    StageName.SOAK: ("C03", "C11", "C17", "C18"),
    StageName.FINALISE: (),
    StageName.UNDO_RETIRE: ("C03", "C11", "C13", "C15", "C16", "C17", "C18"),
    StageName.UNDO_TOGGLE: ("C03", "C11", "C16", "C17", "C18"),
    StageName.UNDO_MEMBERS: ("C03", "C11", "C16", "C17", "C18", "C19"),
}
"""What must hold once the stage has settled; the judge asks these."""

SETTLED = ("C11", "C14", "C15", "C17", "C19", "C21")
"""Of the rules after a stage, those that only need time: the sensor waits for them."""

JOINED = ("C18",)
"""Asked of the changed places only: a member that its driver calls running may not have joined yet."""

MODE_WANTED: Mapping[StageName, Mode] = {
    StageName.CANARY: Mode.ZOOKEEPER,
    StageName.ROLL: Mode.ZOOKEEPER,
    StageName.TOGGLE: Mode.KAFKA,
    StageName.RETIRE: Mode.KAFKA,
    StageName.UNDO_RETIRE: Mode.KAFKA,
    StageName.UNDO_TOGGLE: Mode.ZOOKEEPER,
    StageName.UNDO_MEMBERS: Mode.ZOOKEEPER,
}
"""The mode in effect once the stage has settled; soak keeps what it found."""


def assessed(view: GroupView, until: Until) -> tuple[str, ...]:
    """What assess asks of this group: where the toggle would be the first act, its rules too."""
    toggles = until in {Until.TOGGLE, Until.RETIRE} and view.effective_mode is not Mode.KAFKA
    first = toggles and view.of_kind(MemberKind.AWARE) and not view.of_kind(MemberKind.OLD)
    return tuple(dict.fromkeys((*ASSESS, *(BEFORE[StageName.TOGGLE] if first else ()))))


def wanted(until: Until) -> Mode:
    """The mode that a move as far as ``until`` leads to."""
    return Mode.KAFKA if until in {Until.TOGGLE, Until.RETIRE} else Mode.ZOOKEEPER
