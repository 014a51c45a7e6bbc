"""Claim: a fencing token for a run."""

from __future__ import annotations

from groupshift.application.environment import Environment
from groupshift.domain.holder import Holder
from groupshift.domain.moves import MoveName
from groupshift.domain.phases import Phase
from groupshift.domain.plan import from_json
from groupshift.errors import Rejected

_BEGUN = frozenset({Phase.APPROVED, Phase.RUNNING, Phase.MOVED, Phase.ROLLING_BACK, Phase.ROLLED_BACK})
"""Phases in which a former run may still be about to act; before, nothing is written to ZooKeeper."""


def claim(env: Environment, migration: str, run: str) -> int:
    """See `App.claim`. Raises `Rejected` for an unknown migration or an empty run.

    A move that writes no mode is fenced by the journal and by its fleet driver."""
    if not run:
        raise Rejected("run is empty: name the run that claims the migration")
    found = env.journal.find(migration)
    token = env.journal.claim(migration, run, env.clock.now_ms())
    writes_mode = from_json(found.plan).move is MoveName.COORDINATION
    if found.phase in _BEGUN and writes_mode:
        env.mode.take(found.group, Holder(migration=migration, token=token))
    return token
