"""How a run reacts to what a look came to: one table on the way there and one for rollbacks. Command line,
Airflow and scan all ask `forward` and `back`; nothing else decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from groupshift.domain.run import Outcome, RunState, WhenLate


class Reaction(StrEnum):
    """What becomes of a run after a look."""

    NEXT = "next"
    POLL = "poll"
    """Look again later."""
    PARK = "park"
    """The process ends and the run waits for somebody."""
    ASK = "ask"
    """A review: somebody answers with one of the response's answers."""
    RETRY = "retry"
    """Measure once more."""
    ROLL_BACK = "roll back"
    STOP = "stop"
    """The process ends; what was met is named."""


class Choice(StrEnum):
    """What somebody may answer at a gate."""

    APPROVE = "approve"
    REJECT = "reject"
    GO_ON = "go on"
    ROLL_BACK = "roll back"
    STOP = "stop"


class OnFail(StrEnum):
    """What a failure on the way there does."""

    ROLL_BACK = "roll back"
    STOP = "stop"
    """The run stays open where it is: half of a cluster's nodes may be changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A reaction; ``answers`` a review offers, ``then`` is the response once the retry came to the same, and
    ``ends`` the state in which the run ends (None: it stays open)."""

    reaction: Reaction
    answers: tuple[Choice, ...] = ()
    then: Response | None = None
    ends: RunState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """All that a reaction depends on. ``retried``: the same claim measured the step before, with an error.
    ``late``: the step's patience is over, and this is what the step says of that. ``stop_frees``: a stop ends
    the run as moved, with its target free."""

    outcome: Outcome
    state: RunState
    retried: bool = False
    late: WhenLate | None = None
    on_fail: OnFail = OnFail.ROLL_BACK
    stop_frees: bool = False

    @property
    def unchanged(self) -> bool:
        """Whether nothing was begun that would have to be undone."""
        return self.state in {RunState.PLANNED, RunState.APPROVED}


_STOP = Response(reaction=Reaction.STOP)
FORWARD: Mapping[Outcome, Response] = {
    Outcome.PASS: Response(reaction=Reaction.NEXT),
    Outcome.WAIT: Response(reaction=Reaction.POLL),
    Outcome.PERSON: Response(reaction=Reaction.PARK),
    Outcome.DECLINED: _STOP,
    Outcome.INCONCLUSIVE: Response(
        reaction=Reaction.ASK, answers=(Choice.GO_ON, Choice.ROLL_BACK, Choice.STOP)
    ),
    Outcome.ERROR: Response(
        reaction=Reaction.RETRY,
        then=Response(reaction=Reaction.ASK, answers=(Choice.ROLL_BACK, Choice.STOP)),
    ),
    Outcome.FAIL: Response(reaction=Reaction.ROLL_BACK),
}
"""On the way there."""
BACK: Mapping[Outcome, Response] = {
    **FORWARD,
    Outcome.INCONCLUSIVE: Response(reaction=Reaction.ASK, answers=(Choice.GO_ON, Choice.STOP)),
    Outcome.ERROR: Response(reaction=Reaction.RETRY, then=_STOP),
    Outcome.FAIL: Response(reaction=Reaction.STOP, answers=(Choice.STOP,)),
}
"""In a rollback. A failure stops and stays open; its one answer is for a terminal that shows what was met."""
_LATE: Mapping[WhenLate, Response] = {
    WhenLate.JUDGE: Response(reaction=Reaction.NEXT),
    WhenLate.PARK: Response(reaction=Reaction.PARK),
    WhenLate.END: Response(reaction=Reaction.STOP, ends=RunState.REJECTED),
}


def forward(met: Situation) -> Response:
    """Return what a run on its way there does. Never raises."""
    response = _looked_up(FORWARD, met)
    if response.reaction is Reaction.ROLL_BACK and met.on_fail is OnFail.STOP:
        return _STOP
    if response.reaction is Reaction.ROLL_BACK and met.unchanged:
        return replace(_STOP, ends=RunState.REJECTED)
    if response.ends is RunState.REJECTED and not met.unchanged:
        return _LATE[WhenLate.PARK]
    if met.outcome is Outcome.DECLINED:
        freed = RunState.MOVED if met.stop_frees else None
        return replace(response, ends=RunState.REJECTED if met.unchanged else freed)
    if response.reaction is Reaction.ASK and met.unchanged:
        return replace(response, answers=tuple(a for a in response.answers if a is not Choice.ROLL_BACK))
    return response


def back(met: Situation) -> Response:
    """Return what a run does that rolls back. Never raises; never ends a run."""
    response = _looked_up(BACK, met)
    return _LATE[WhenLate.PARK] if response.ends else response


def _looked_up(table: Mapping[Outcome, Response], met: Situation) -> Response:
    response = table[met.outcome]
    if response.reaction is Reaction.POLL and met.late is not None:
        return _LATE[met.late]
    return response.then if met.retried and response.then else response
