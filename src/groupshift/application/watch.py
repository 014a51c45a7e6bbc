"""Watch: whether what an act started has settled, and a canary was watched. One look, never blocks."""

from __future__ import annotations

from dataclasses import replace

from groupshift.application import canary
from groupshift.application.environment import Environment
from groupshift.application.observe import facts
from groupshift.application.records import Migration, load
from groupshift.application.taken import change_of, seen_in_group
from groupshift.domain.facts import Facts
from groupshift.domain.judgement import Judgement, StageStatus
from groupshift.domain.plan import Stage, StageName
from groupshift.domain.rulebook import JOINED
from groupshift.domain.rules import ask
from groupshift.domain.step import ReplaceMembers
from groupshift.domain.verdict import Verdict


def watch(env: Environment, migration: str, name: StageName) -> StageStatus:
    """See `App.watch`; a stage that the migration does not have is settled, and so is one of the way back
    when the next one has begun."""
    found = load(env, migration)
    stage = found.stage(name)
    if stage is None:
        return StageStatus(settled=True, detail=f"the plan has no stage {name}")
    if name not in found.steps:
        return StageStatus(settled=False, detail=f"stage {name} has not acted yet")
    later = _undone_since(found, name)
    if later is not None:
        return StageStatus(settled=True, detail=f"stage {later} has begun since")
    seen = facts(env, found.record.group, found.plan.driver, found.wanted(name))
    watched = canary.is_watched(found, name)
    if watched and canary.series(found):
        return canary.watched(env, found, stage, seen)  # by time only: what it does now is what is judged
    status = _settled(env, found, stage, seen)
    return canary.watched(env, found, stage, seen) if watched and status.settled else status


def _undone_since(found: Migration, name: StageName) -> StageName | None:
    """A later stage of the way back that has begun: it changes what this one waited for. It began when this
    one was judged, so a way back that goes on after its process was killed has nothing to wait for here."""
    names = [stage.name for stage in found.undo]
    behind = names[names.index(name) + 1 :] if name in names else []
    return next((each for each in behind if each in found.steps), None)


def _settled(env: Environment, found: Migration, stage: Stage, seen: Facts) -> StageStatus:
    changed: tuple[str, ...] = ()
    if isinstance(stage.step, ReplaceMembers):
        changed, step = stage.step.slots, found.steps[stage.name]
        status = env.fleets(found.plan.driver).observe(change_of(found, step.intent))
        if not status.done and not seen_in_group(env, found, stage, step.intent):
            return StageStatus(settled=False, detail=status.detail)
    rules = tuple(rule for rule in stage.after if rule in found.book.settled)
    new = replace(seen, places=tuple(place for place in seen.places if place.name in changed))
    judged = Judgement(findings=(*ask(rules, seen), *ask(JOINED if changed else (), new)))
    settled = not rules or judged.verdict in {Verdict.PASS, Verdict.INCONCLUSIVE}
    return StageStatus(settled=settled, detail="settled" if settled else judged.reasons[0])
