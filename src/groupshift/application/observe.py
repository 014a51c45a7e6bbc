"""Observing on behalf of the other use cases: the group, its fleet, and rules asked with patience."""

from __future__ import annotations

from dataclasses import replace

from groupshift.application.environment import Environment
from groupshift.domain.books import Wanted
from groupshift.domain.facts import Facts, Place
from groupshift.domain.judgement import Judgement
from groupshift.domain.rules import ask
from groupshift.domain.rules_storage import commits_to_kafka, worth_a_second_look
from groupshift.domain.verdict import Verdict
from groupshift.ports.driver import Slot, SlotState

LOOK_AGAIN_S = 0.5
"""Pause between two looks while waiting for a rule to hold."""


def facts(env: Environment, group: str, driver: str, wanted: Wanted = None) -> Facts:
    """The group and its fleet now."""
    places = tuple(_place(slot) for slot in env.fleets(driver).slots(group))
    return Facts(view=env.groups.read(group), places=places, wanted=wanted)


def look(env: Environment, group: str, driver: str, rules: tuple[str, ...], wanted: Wanted = None) -> Facts:
    """What these rules need to see: a second look too, up to one commit interval later, where C24 has
    reason to ask whether old members commit to Kafka."""
    first = facts(env, group, driver, wanted)
    if "C24" not in rules or not worth_a_second_look(first.view):
        return first
    deadline = env.clock.now_ms() + env.thresholds.commit_interval_ms
    while True:
        env.clock.sleep(LOOK_AGAIN_S)
        seen = replace(facts(env, group, driver, wanted), earlier=first.view)
        certain = commits_to_kafka(first.view, seen.view) or not worth_a_second_look(seen.view)
        if certain or env.clock.now_ms() >= deadline:
            return seen


def _place(slot: Slot) -> Place:
    return Place(
        name=slot.name,
        kind=slot.kind,
        running=slot.state is SlotState.RUNNING,
        member_id=slot.member_id,
    )


def patient(
    env: Environment, group: str, driver: str, rules: tuple[str, ...], wanted: Wanted = None
) -> tuple[Facts, Judgement]:
    """Ask the rules until they hold or `Thresholds.patience_s` is over; what was last seen and said.

    A member that restarts, or a rebalance that is under way, is not a failure yet."""
    deadline = env.clock.now_ms() + env.thresholds.patience_s * 1000
    while True:
        seen = look(env, group, driver, rules, wanted)
        judged = Judgement(findings=ask(rules, seen))
        bad = judged.verdict in {Verdict.FAIL, Verdict.ERROR}
        if not rules or not bad or env.clock.now_ms() >= deadline:
            return seen, judged
        env.clock.sleep(LOOK_AGAIN_S)
