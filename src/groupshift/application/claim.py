"""Claim: a fencing token for a run."""

from __future__ import annotations

from dataclasses import replace

from groupshift.application.environment import Environment
from groupshift.domain.modes import Holder, taken_over
from groupshift.domain.plan import MoveName, Phase, from_json
from groupshift.errors import Fenced, Rejected
from groupshift.ports.journal import EventKind

_BEGUN = frozenset({Phase.APPROVED, Phase.RUNNING, Phase.MOVED, Phase.ROLLING_BACK, Phase.ROLLED_BACK})
"""Phases in which a former run may still be about to act; before, nothing is written to ZooKeeper."""


def claim(env: Environment, migration: str, run: str) -> int:
    """See `App.claim`. Raises `Rejected` for an unknown migration or an empty run, `Fenced` for a run that
    lost its claim to another one: a task that is tried again takes nothing back.

    A move that writes no mode is fenced by the journal and by its fleet driver."""
    if not run:
        raise Rejected("run is empty: name the run that claims the migration")
    found = env.journal.find(migration)
    claims = env.journal.claims(migration)
    mine = [token for token, holder in claims.items() if holder == run]
    if mine:
        demand_held(replace(env, held=Holder(migration=migration, token=max(mine))), migration)
    token = env.journal.claim(migration, run, env.clock.now_ms())
    writes_mode = from_json(found.plan).move is MoveName.COORDINATION
    if found.phase in _BEGUN and writes_mode:
        env.mode.take(found.group, Holder(migration=migration, token=token))
    return token


def demand_held(env: Environment, migration: str) -> None:
    """Raises `Fenced`, naming the run that took the migration over, when the claim under which ``env`` works
    is not the latest one. Every use case asks before it reads, writes or shows anything (`records.load`)."""
    held = env.held
    if held is None or held.migration != migration:
        return
    claims = env.journal.claims(migration)
    latest = max(claims, default=0)
    if latest == held.token:
        return
    at_ms = next(
        (
            event.at_ms
            for event in env.journal.events(migration)
            if event.kind is EventKind.CLAIMED and event.token == latest
        ),
        0,
    )
    raise Fenced(
        f"{taken_over('migration', claims.get(latest, 'nobody'), at_ms)}; token {held.token} of migration "
        f"{migration} is void, and nothing more is done here"
    )
