"""Which rules are asked when: one table, from stage and moment to numbers of rules."""

from __future__ import annotations

from collections.abc import Mapping

from groupshift.domain.coordination import Mode
from groupshift.domain.moves import StageName

ASSESS = ("C01", "C02", "C03", "C04", "C05", "C06", "C07", "C08", "C09", "C10", "C11", "C18", "C20")
"""Asked by assess, before anything is planned."""

_STILL_OLD = ("C02", "C03", "C04", "C05", "C06", "C07", "C08", "C11", "C18")

BEFORE: Mapping[StageName, tuple[str, ...]] = {
    StageName.CANARY: _STILL_OLD,
    StageName.ROLL: _STILL_OLD,
    # F7, to kafka.
    StageName.TOGGLE: ("C03", "C05", "C07", "C08", "C11", "C12", "C13", "C14", "C15", "C16"),
    StageName.RETIRE: ("C03", "C08", "C11", "C12", "C14", "C22"),
    StageName.SOAK: (),
    StageName.FINALISE: ("C21",),
    StageName.UNDO_RETIRE: ("C03", "C22"),
    # F7, to zookeeper; N3.
    StageName.UNDO_TOGGLE: ("C03", "C05", "C08", "C16"),
    StageName.UNDO_MEMBERS: ("C03", "C05", "C16", "C23"),
}
"""Preconditions, asked of the live group right before the act."""

AFTER: Mapping[StageName, tuple[str, ...]] = {
    StageName.CANARY: ("C03", "C08", "C11", "C17", "C18", "C19"),
    StageName.ROLL: ("C03", "C08", "C11", "C13", "C17", "C18", "C19"),
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
