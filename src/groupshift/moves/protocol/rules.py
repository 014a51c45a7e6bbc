"""Which rules are asked when: before a run, and around each of its acts (``phases.toml`` beside this module);
and what the hazard book says.

A broker tells its line of releases only, by the newest metadata.version that it supports; what members run it
does not tell at all. What people say of either comes first.
"""

from __future__ import annotations

from groupshift.domain import group_rules
from groupshift.domain.equality_rules import Comparison
from groupshift.domain.group_protocol import Aim, Policy, Protocol, Way
from groupshift.domain.hazards import Facts as HazardFacts
from groupshift.domain.hazards import Met, Role, Trait, broker_versions, client_versions, hazards_of
from groupshift.domain.plan import PhaseName
from groupshift.domain.protocol import preflight
from groupshift.domain.protocol.preflight import ProtocolFacts
from groupshift.domain.run import Findings, Step
from groupshift.domain.versions import line_of
from groupshift.engine.group import GroupRules, LiveGroup
from groupshift.engine.move import Run
from groupshift.moves.protocol.facts import ProtocolPorts, ProtocolRequest

HEALS = frozenset({"P02", "P06", "P13", "PR02", "C11", "C18", "PR09"})
"""Rules of `assess` that only need time: brokers that disagree or load, members that are joining or being
replaced."""


def assess(request: ProtocolRequest, live: LiveGroup) -> Findings:
    """Judge whether a run may begin: preflight (P), hazard book (H), live rules, the own login; passed ones
    included. Of a group that no broker knows, or that is none of consumers, only the rules that say so speak.
    Raises `Rejected` for a version that cannot be read."""
    view = live.facts.view.protocol
    if view is None:
        return (*group_rules.ask(RULES.assess, live.facts), *live.identities)
    facts = ProtocolFacts(
        view=view,
        to=request.to,
        way=request.aim.way,
        versions={**client_versions(request.client), **broker_versions(request.broker)},
        state=live.facts.view.snapshot,
    )
    findings = preflight.ask(facts)
    if preflight.movable(findings):
        numbers = RULES.assess if not view.group.empty else ("PR02", "C29")
        findings = (*findings, *group_rules.ask(numbers, live.facts), *known_bugs(facts))
    return (*findings, *live.identities)


_MOVES = {Protocol.CONSUMER: Comparison.PROTOCOL, Protocol.CLASSIC: Comparison.PROTOCOL_BACK}


def known_bugs(facts: ProtocolFacts) -> Findings:
    """What the book says of every hazard of this move, those that are not met included."""
    return hazards_of(_MOVES[facts.to], hazard_facts(facts))


def hazard_facts(facts: ProtocolFacts) -> HazardFacts:
    """What is known of versions and conditions; the rest is asked for."""
    group, settings = facts.group, facts.view.settings
    releases = tuple(
        Met(where=f"broker {each.node_id}", version=line_of(each.settings.metadata))
        for each in facts.view.brokers
    )
    known = {Trait.ONLINE: facts.way is Way.ONLINE and not group.empty}
    if not settings.untold:
        native = "consumer" in settings.protocols
        known |= {Trait.NEW_COORDINATOR: native, Trait.OLD_COORDINATOR: not native}
    if settings.policy is not None:
        known[Trait.POLICY_DISABLED] = settings.policy is Policy.DISABLED
    if not group.empty:
        known |= {
            Trait.STATIC_MEMBERS: any(member.instance_id for member in group.members),
            Trait.COOPERATIVE_STICKY: group.protocol == "cooperative-sticky",
            Trait.ASSIGNMENT_DATA: any(member.user_data for member in group.members),
        }
    if facts.state is not None:
        known[Trait.COMMIT_METADATA] = any((row.metadata or "").rstrip("\0") for row in facts.state.offsets)
    return HazardFacts(versions={Role.BROKER: releases, **facts.versions}, traits=known)


class ProtocolRules(GroupRules[ProtocolPorts]):
    """The live rules of each phase."""

    def wanted(self, run: Run[ProtocolPorts], step: Step) -> Aim | None:
        """See `GroupRules`. Nothing while both protocols are at home."""
        aim: Aim = run.request.aim
        if step.phase == PhaseName.SOAK and not run.there.about["whole"]:
            return None
        return Aim(to=aim.to.other, way=aim.way) if PhaseName(step.phase).undoes else aim


RULES = ProtocolRules("moves/protocol/phases.toml")
