"""From a request and an observed group to a plan, and from what was begun to the rollback. Pure.

Online, members are replaced one after the other: a canary first, then the rest, and both protocols are at
home in the group meanwhile. Offline, all of them stop before the first of the new kind starts: the group is
emptied, then filled. Each act is measured before and after; the group that was filled is compared with the
one before it was emptied. Source: docs/reference/group-coordinator.md §§5.2-5.4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from groupshift.domain.evidence import Moment
from groupshift.domain.group_protocol import Protocol
from groupshift.domain.group_rules import leftovers, resets
from groupshift.domain.modes import MemberKind
from groupshift.domain.plan import PhaseName
from groupshift.domain.run import Plan, StepRecord, make_plan, make_rollback
from groupshift.engine.group import LiveGroup, places_of, snapshot_name
from groupshift.engine.group_move import (
    ONLINE,
    GroupSteps,
    acts_begun,
    members_at,
    soaking,
    taken_back,
    undone,
)
from groupshift.engine.replace_members import REPLACE_MEMBERS
from groupshift.errors import Rejected
from groupshift.moves.protocol.facts import ProtocolRequest
from groupshift.ports.group import GroupTerms

OLD_MEMBERS = "old_members"
"""Where a rollback leads."""
KIND = {Protocol.CLASSIC: MemberKind.PLAIN, Protocol.CONSUMER: MemberKind.NATIVE}
"""The kind of a member that speaks a protocol."""


def plan(request: ProtocolRequest, live: LiveGroup) -> Plan:
    """Return the phases that this group still needs, in order.

    Raises `Rejected` where nothing is left to do, and for a canary that is larger than the group."""
    members = live.facts.view.members
    known_by = {each.member_id: each.client_id or each.member_id for each in members}
    shared = Counter(known_by.values())
    own_names = {member_id: name for member_id, name in known_by.items() if shared[name] == 1}
    everywhere = places_of(live.facts, own_names)  # by the names that people know members by
    names = tuple(each.name for each in everywhere)
    others = tuple(each.name for each in everywhere if each.kind is not KIND[request.to])
    if not others:
        raise Rejected(
            f"group {request.group} has nothing to move to the {request.to} protocol: all its "
            f"{len(members)} members speak it; roll back to undo"
        )
    if not request.offline and request.canary > len(members):
        raise Rejected(
            f"canary {request.canary} is more than the {len(members)} members of group {request.group}"
        )
    old, new, parts = KIND[request.to.other], KIND[request.to], GroupSteps(live.terms)
    if request.offline:  # who fills it is compared with the group before it was emptied, too
        before = snapshot_name(Moment.BEFORE, PhaseName.EMPTY)
        changed = members_at(names, old, new)
        parts.replaces(PhaseName.EMPTY, members_at(names, old, MemberKind.VACANT))
        filled = members_at(names, MemberKind.VACANT, new)
        parts.replaces(PhaseName.FILL, filled, base_after=before, since_base=changed)
    else:
        rest = () if request.canary_only else others[request.canary :]
        parts.replaces(PhaseName.CANARY, members_at(others[: request.canary], old, new))
        parts.replaces(PhaseName.ROLL, members_at(rest, old, new))
    parts.measured(soaking(request.soak, live.terms))
    about = {
        "group": request.group,
        "driver": live.driver,
        "to": request.to.value,
        "way": request.aim.way.value,
        "slots": list(names),
        "notes": [*leftovers(live.facts.view), *resets(live.facts.view)],
        "whole": not request.canary_only or request.canary >= len(others),
    }
    return make_plan(parts.steps, about)


def roll_back_plan(there: Plan, records: Mapping[str, StepRecord], number: int, terms: GroupTerms) -> Plan:
    """Return the inverses of the acts that ``records`` has, last one first; canary and roll are one. The last
    one is compared with the group as it was before the run."""
    acts = acts_begun(there, records, {REPLACE_MEMBERS})
    online = [each for each in acts if each.phase in ONLINE]
    undos = []
    for together in [online] if online else [[each] for each in reversed(acts)]:
        slots = [slot for each in together for slot in each.args["slots"]]
        undos.append(taken_back(together, slots, terms))
    steps = [step for _, around in undone(undos, there, records, terms) for step in around]
    return make_rollback(steps, number)
