"""Snapshot: everything that must survive, written as evidence."""

from __future__ import annotations

from groupshift.application.environment import Environment
from groupshift.application.observe import patient
from groupshift.application.records import Migration, load
from groupshift.domain.books import Wanted
from groupshift.domain.equality import nobody_at
from groupshift.domain.evidence import Manifest, Moment
from groupshift.domain.moves import StageName
from groupshift.domain.snapshot import snapshot_rows
from groupshift.domain.verdict import Verdict
from groupshift.ports.journal import Entry, EventKind

_CALM = ("C11", "C18")
"""A snapshot waits, as long as patience lasts, for a moment at which every partition is owned once and
every place is filled; after an act also for what that act leads to. A restarting member is no finding."""


def snapshot(env: Environment, migration: str, stage: StageName, moment: Moment) -> Manifest:
    """See `App.snapshot`."""
    found = load(env, migration)
    if _relied_on(found, stage, moment):
        kept = env.evidence.manifest(migration, stage.value, moment)
        if kept is not None:
            return kept
    driver, rules, wanted = found.plan.driver, *_calm(found, stage, moment)
    view = patient(env, found.record.group, driver, rules, wanted)[0].view
    rows = snapshot_rows(view, env.ledger.last_delivered(found.record.group))
    manifest = env.evidence.write((migration, stage.value, moment), view.taken_at_ms, rows)
    env.journal.append(
        Entry(
            migration=migration,
            at_ms=env.clock.now_ms(),
            kind=EventKind.SNAPSHOT,
            stage=stage,
            body={"moment": moment.value, "digest": manifest.digest, "brokers": list(view.brokers)},
        )
    )
    return manifest


def _calm(found: Migration, name: StageName, moment: Moment) -> tuple[tuple[str, ...], Wanted]:
    stage = found.stage(name)
    if stage is not None and nobody_at(stage, moment):
        return (stage.after if moment is Moment.AFTER else ()), found.wanted(name)
    if moment is Moment.BEFORE or stage is None:
        return _CALM, None
    return tuple(dict.fromkeys((*_CALM, *stage.after))), found.wanted(name)


def _relied_on(found: Migration, stage: StageName, moment: Moment) -> bool:
    """A snapshot before an act is fixed once the act is intended; any other once it was judged, unless
    that is to be measured again: an error, or a way back that could not be proven."""
    taken = any(each[:2] == (stage, moment) for each in found.snapshots())
    if not taken:
        return False
    if moment is Moment.BEFORE and stage in found.steps:
        return True
    again = {None, Verdict.ERROR, Verdict.FAIL if stage.undoes else None}
    return found.verdict(stage, moment) not in again
