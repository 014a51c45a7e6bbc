"""Which rules a protocol move asks when: one table, from stage and moment to numbers of rules."""

from __future__ import annotations

from collections.abc import Mapping

from groupshift.domain.plan import StageName

_LOOKED = ("PR02", "PR03")
"""What a group that was emptied can answer to: one without commits is gone then."""
_READ = ("PR01", *_LOOKED)
_ALL_THERE = (*_READ, "PR04", "PR07", "C11", "C18", "C20")

BEFORE: Mapping[StageName, tuple[str, ...]] = {
    StageName.CANARY: (*_READ, "PR05", "C11", "C18"),
    StageName.ROLL: (*_READ, "PR04", "PR05", "C11", "C18"),
    StageName.EMPTY: (*_READ, "PR05", "C18"),
    StageName.FILL: (*_LOOKED, "PR05", "PR08"),
    StageName.SOAK: (),
    StageName.UNDO_FILL: _LOOKED,
    StageName.UNDO_EMPTY: (*_LOOKED, "PR05"),
    StageName.UNDO_MEMBERS: (*_READ, "PR05"),
}
"""Preconditions, asked of the live group right before the act.

The way back out of an emptied group asks for no emptiness: whoever is in it, the fleet must not stay
stopped."""

AFTER: Mapping[StageName, tuple[str, ...]] = {
    StageName.CANARY: (*_READ, "PR04", "PR06", "C11", "C18", "C20"),
    StageName.ROLL: _ALL_THERE,
    StageName.EMPTY: (*_LOOKED, "PR08", "C20"),
    StageName.FILL: _ALL_THERE,
    StageName.SOAK: (*_READ, "PR07", "C11", "C18", "C20"),
    StageName.UNDO_FILL: (*_LOOKED, "PR08", "C20"),
    StageName.UNDO_EMPTY: _ALL_THERE,
    StageName.UNDO_MEMBERS: _ALL_THERE,
}
"""What must hold once the stage has settled; the judge asks these."""

SETTLED = ("PR02", "PR03", "PR04", "PR06", "PR07", "PR08", "C11")
"""Of the rules after a stage, those that only need time: the sensor waits for them."""
