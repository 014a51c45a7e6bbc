"""Which rules a protocol move asks when: one table, from stage and moment to numbers of rules."""

from __future__ import annotations

from collections.abc import Mapping

from groupshift.domain.moves import StageName

_READ = ("PM01", "PM02", "PM03")
_ALL_THERE = (*_READ, "PM04", "PM07", "C11", "C18", "C20")

BEFORE: Mapping[StageName, tuple[str, ...]] = {
    StageName.CANARY: (*_READ, "PM05", "C11", "C18"),
    StageName.ROLL: (*_READ, "PM04", "PM05", "C11", "C18"),
    StageName.EMPTY: (*_READ, "PM05", "C18"),
    StageName.FILL: (*_READ, "PM05", "PM08"),
    StageName.SOAK: (),
    StageName.UNDO_FILL: _READ,
    StageName.UNDO_EMPTY: (*_READ, "PM05", "PM08"),
    StageName.UNDO_MEMBERS: (*_READ, "PM05"),
}
"""Preconditions, asked of the live group right before the act."""

AFTER: Mapping[StageName, tuple[str, ...]] = {
    StageName.CANARY: (*_READ, "PM04", "PM06", "C11", "C18", "C20"),
    StageName.ROLL: _ALL_THERE,
    StageName.EMPTY: (*_READ, "PM08", "C20"),
    StageName.FILL: _ALL_THERE,
    StageName.SOAK: (*_READ, "PM07", "C11", "C18", "C20"),
    StageName.UNDO_FILL: (*_READ, "PM08", "C20"),
    StageName.UNDO_EMPTY: _ALL_THERE,
    StageName.UNDO_MEMBERS: _ALL_THERE,
}
"""What must hold once the stage has settled; the judge asks these."""

SETTLED = ("PM02", "PM03", "PM04", "PM06", "PM07", "PM08", "C11")
"""Of the rules after a stage, those that only need time: the sensor waits for them."""
