"""A plan as one JSON document: canonical bytes under its hash, with its version and its move."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from groupshift.errors import Rejected

PLAN_VERSION = 1
"""Of the form of every plan that this release writes and reads."""


def written(move: str, parts: Mapping[str, Any]) -> str:
    """Canonical JSON: sorted keys, no blanks, so that equal plans have equal bytes."""
    data = {"version": PLAN_VERSION, "move": move, **parts}
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def parts_of(text: str, *moves: str) -> tuple[str, dict[str, Any]]:
    """The move and what `written` was given. Raises `Rejected` for a plan of another version or of none of
    these moves: what another release planned is ended with that release."""
    parts: dict[str, Any] = json.loads(text)
    version, move = parts.pop("version", None), parts.pop("move", None)
    if version != PLAN_VERSION:
        raise Rejected(
            f"plan: it has version {version!r}, this groupshift reads version {PLAN_VERSION};"
            " go on with the release that planned it"
        )
    if move not in moves:
        raise Rejected(f"plan: it is of the move {move!r}; name a run of {' or '.join(moves)}")
    return str(move), parts
