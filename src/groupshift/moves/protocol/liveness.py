"""Judges a group after its move, look after look."""

from __future__ import annotations

from collections import Counter

from groupshift.domain.group_protocol import Protocol
from groupshift.domain.protocol.live_rules import Wanted, settled
from groupshift.domain.run import Checked, Outcome, outcome_of
from groupshift.engine.group import driver_of, group_of
from groupshift.engine.move import Run
from groupshift.moves.protocol.facts import ProtocolPorts
from groupshift.moves.protocol.liveness_rules import MemberWatch, look_at
from groupshift.ports.driver import SlotState

_STILL_S = 8.0
_INTERVALS = 3
"""How many commit intervals may pass without a commit, while the log grows."""


class Watcher:
    """Looks at the group of a run that is over, and remembers who was there and where offsets stood."""

    def __init__(self, run: Run[ProtocolPorts]) -> None:
        self._run = run
        self._to = Protocol(run.there.about["to"])
        still_s = max(_STILL_S, _INTERVALS * run.ports.terms.commit_interval_ms / 1000)
        slots = driver_of(run).slots(group_of(run))
        names = (each.member_id for each in slots if each.state is SlotState.RUNNING and each.member_id)
        self._members = MemberWatch(expected=Counter(names), still_s=still_s)

    def look(self) -> Checked:
        """Look once. Raises as the ports."""
        group = self._run.ports.side.groups.read(group_of(self._run))
        seen = look_at(group)
        if seen is None:
            return Checked(outcome=Outcome.ERROR, detail="the brokers of the group were not read")
        self._members = self._members.after(seen)
        whole = self._run.there.about["whole"]
        findings = settled(seen.view, Wanted(protocol=self._to)) if whole else ()
        findings = (*findings, *self._members.findings())
        detail = "a group can change as long as it has members: watch it again after each change of them"
        return Checked(outcome=outcome_of(findings), findings=findings, detail=detail)
