"""Watch: whether what an act started has settled, and a canary was watched. One look, never blocks."""

from __future__ import annotations

from dataclasses import replace

from groupshift.application import canary
from groupshift.application.acts import change_of, members_of
from groupshift.application.environment import Environment
from groupshift.application.observe import facts
from groupshift.application.records import Migration, load
from groupshift.domain.coordination import MemberKind
from groupshift.domain.facts import Facts
from groupshift.domain.judgement import Judgement, StageStatus
from groupshift.domain.moves import StageName
from groupshift.domain.plan import Stage
from groupshift.domain.rulebook import JOINED
from groupshift.domain.rules import ask
from groupshift.domain.steps import ReplaceMembers
from groupshift.domain.verdict import Verdict
from groupshift.ports.journal import StepRecord


def _seen_in_group(env: Environment, found: Migration, stage: Stage, step: StepRecord) -> bool:
    """Where the driver cannot know (people deploy): as many members of the wanted kind as were met when
    the change was intended, and one more for each place; vacated places are seen as an empty group.

    On the way back as many as the fleet has places do as well, once nobody of the kind that goes is left: a
    stage that was done in part, or never, leaves more of them than are to come."""
    change = change_of(found, step.intent)
    if env.fleets(found.plan.driver).slots(found.record.group):
        return False
    if change.to is MemberKind.VACANT:
        return not env.groups.read(found.record.group).members
    there = members_of(env, found, change.to)
    if there >= int(step.intent["met"]) + len(change.slots):
        return True
    if not stage.name.undoes or not isinstance(stage.step, ReplaceMembers):
        return False
    return there >= len(found.plan.slots) and not members_of(env, found, stage.step.old)


def watch(env: Environment, migration: str, name: StageName) -> StageStatus:
    """See `App.watch`; a stage that the migration does not have is settled."""
    found = load(env, migration)
    stage = found.stage(name)
    if stage is None:
        return StageStatus(settled=True, detail=f"the plan has no stage {name}")
    if name not in found.steps:
        return StageStatus(settled=False, detail=f"stage {name} has not acted yet")
    seen = facts(env, found.record.group, found.plan.driver, found.wanted(name))
    watched = canary.is_watched(found, name)
    if watched and canary.series(found):
        return canary.watched(env, found, stage, seen)  # by time only: what it does now is what is judged
    status = _settled(env, found, stage, seen)
    return canary.watched(env, found, stage, seen) if watched and status.settled else status


def _settled(env: Environment, found: Migration, stage: Stage, seen: Facts) -> StageStatus:
    changed: tuple[str, ...] = ()
    if isinstance(stage.step, ReplaceMembers):
        changed, step = stage.step.slots, found.steps[stage.name]
        status = env.fleets(found.plan.driver).observe(change_of(found, step.intent))
        if not status.done and not _seen_in_group(env, found, stage, step):
            return StageStatus(settled=False, detail=status.detail)
    rules = tuple(rule for rule in stage.after if rule in found.book.settled)
    new = replace(seen, places=tuple(place for place in seen.places if place.name in changed))
    judged = Judgement(findings=(*ask(rules, seen), *ask(JOINED if changed else (), new)))
    settled = not rules or judged.verdict in {Verdict.PASS, Verdict.INCONCLUSIVE}
    return StageStatus(settled=settled, detail="settled" if settled else judged.reasons[0])
