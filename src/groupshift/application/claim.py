"""Claim: a fencing token for a run."""

from __future__ import annotations

from groupshift.application.environment import Environment
from groupshift.errors import Rejected


def claim(env: Environment, migration: str, run: str) -> int:
    """See `App.claim`. Raises `Rejected` for an unknown migration or an empty run."""
    if not run:
        raise Rejected("run is empty: name the run that claims the migration")
    env.journal.find(migration)
    return env.journal.claim(migration, run, env.clock.now_ms())
