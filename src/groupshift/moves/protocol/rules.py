"""Which rules are asked when: before a run, and around each of its acts."""

from __future__ import annotations

from groupshift.domain.group_protocol import Aim
from groupshift.domain.plan import StageName
from groupshift.domain.protocol import assessing, rulebook
from groupshift.domain.run import Findings, Step
from groupshift.engine.group import GroupRules
from groupshift.engine.move import Run
from groupshift.moves.protocol.facts import LiveGroup, ProtocolPorts, ProtocolRequest

HEALS = frozenset(assessing.HEALS)
"""Rules of `assess` that only need time."""


def assess(request: ProtocolRequest, live: LiveGroup) -> Findings:
    """Judge whether a run may begin: preflight, hazard book, live rules, the own login; passed ones
    included. Raises `Rejected` for a version that cannot be read."""
    return (*assessing.findings(request.as_move, live.facts), *live.identities)


class ProtocolRules(GroupRules[ProtocolPorts]):
    """The live rules of each phase."""

    def before(self, step: Step) -> tuple[str, ...]:
        """See `GroupRules`. The way out of an emptied group asks for no emptiness: whoever is in it, the
        fleet must not stay stopped."""
        return rulebook.BEFORE[StageName(step.phase)]

    def after(self, step: Step) -> tuple[str, ...]:
        """See `GroupRules`."""
        return rulebook.AFTER[StageName(step.phase)]

    def settled(self, step: Step) -> tuple[str, ...]:
        """See `GroupRules`."""
        return tuple(each for each in self.after(step) if each in rulebook.SETTLED)

    def wanted(self, run: Run[ProtocolPorts], step: Step) -> Aim | None:
        """See `GroupRules`. Nothing while both protocols are at home."""
        aim = run.request.aim
        if step.phase == StageName.SOAK and not run.there.about["whole"]:
            return None
        return Aim(to=aim.to.other, way=aim.way) if StageName(step.phase).undoes else aim
