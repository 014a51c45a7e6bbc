"""How each kind of step is done: as in every move of one group, but for its approval.

A gate shows what each member subscribes to. While a classic group rebalances its coordinator does not tell
that, so the gate waits for a calm moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groupshift.domain.run import Findings, Step
from groupshift.domain.verdict import Finding, Verdict
from groupshift.engine.group_move import group_handlers
from groupshift.engine.handlers import Approve
from groupshift.engine.move import Handler, Run
from groupshift.moves.protocol.facts import ProtocolPorts, look
from groupshift.moves.protocol.rules import RULES


def tells(run: Run[ProtocolPorts], _step: Step) -> Findings:
    """Return what speaks against showing a gate now: the coordinator of a classic group that rebalances does
    not tell what its members subscribe to."""
    hides = look(run.ports, run.request).hides
    verdict = Verdict.FAIL if hides else Verdict.PASS
    return (Finding(rule="PR02", verdict=verdict, reason="the coordinator tells each subscription"),)


HANDLERS: Mapping[str, Handler[Any]] = group_handlers(RULES, Approve(calm=tells))
