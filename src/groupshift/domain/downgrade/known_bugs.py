"""What the hazard book says of one downgrade, of all that its preflight has seen."""

from __future__ import annotations

from groupshift.domain.downgrade.facts import DowngradeFacts
from groupshift.domain.downgrade.inventory import of_kind
from groupshift.domain.downgrade.releases import GROUP
from groupshift.domain.equality_rules import Comparison
from groupshift.domain.group_protocol import Kind
from groupshift.domain.hazards import Facts, Met, Role, Trait, look
from groupshift.domain.verdict import Finding
from groupshift.log.releases import Coordinator

_MEMBERS = frozenset({Role.LIBRDKAFKA, Role.KAFKA_CLIENTS, Role.MIRROR_MAKER})


def bugs(facts: DowngradeFacts) -> tuple[Finding, ...]:
    """Findings of the hazards that are met or may be. Those of members are left to the move that converts
    them (``groupshift protocol assess``), which asks what they run."""
    judged = look(Comparison.DOWNGRADE, _known(facts))
    return tuple(
        each.finding for each in judged if each.finding.hint and not _MEMBERS & each.hazard.affected.keys()
    )


def _known(facts: DowngradeFacts) -> Facts:
    brokers = tuple(
        Met(where=f"broker {broker.node_id}", version=facts.version(broker), said=_said(facts))
        for broker in facts.view.brokers
    )
    target = Met(where="target", version=facts.target.version)
    return Facts(versions={Role.BROKER: brokers, Role.TARGET: (target,)}, traits=_traits(facts))


def _said(facts: DowngradeFacts) -> str:
    return str(facts.said) if facts.said is not None else ""


def _traits(facts: DowngradeFacts) -> dict[Trait, bool]:
    view = facts.view
    known = {
        Trait.KRAFT: view.kraft,
        Trait.STREAMS_GROUPS: bool(of_kind(facts.groups, Kind.STREAMS)),
        Trait.NEW_COORDINATOR: facts.target.coordinator is Coordinator.NEW,
        Trait.OLD_COORDINATOR: facts.target.coordinator is Coordinator.OLD,
        Trait.METADATA_CHANGED: bool(facts.path.changes),
    }
    if not view.configs_problem:
        known[Trait.GROUP_CONFIGS] = bool(view.group_configs)
    if facts.brokers_only:
        known[Trait.GROUP_VERSION] = False  # it is controllers that die of it; W11 asks for the brokers
    elif view.finalised.get(GROUP):
        known[Trait.GROUP_VERSION] = True
    elif not facts.path.snapshot:
        known[Trait.GROUP_VERSION] = False
    if facts.log is not None:
        known[Trait.NEW_RECORDS] = bool(facts.log.new_types)
    return known
