"""What a run does next, from what is journaled: one table of transitions, nothing else decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from groupshift.domain.cluster_run.steps import RunAct, RunStep


class Stand(StrEnum):
    """How far the journal says a step is."""

    UNTOUCHED = "untouched"
    INTENDED = "intended"
    """Written down; whether it happened is not known."""
    ACTED = "acted"
    """It happened; not read back yet."""
    DONE = "done"


class Doing(StrEnum):
    """What is done with a step next."""

    INTEND = "intend"
    ACT = "act"
    READ_BACK = "read back"


class Seen(StrEnum):
    """What reading a step back came to."""

    HOLDS = "holds"
    NOT_YET = "not yet"
    PERSON = "person"
    """Somebody else has to do it."""
    REFUSED = "refused"
    """Somebody said no."""
    FAILED = "failed"


NEXT: Mapping[Stand, Doing | None] = {
    Stand.UNTOUCHED: Doing.INTEND,
    Stand.INTENDED: Doing.ACT,
    Stand.ACTED: Doing.READ_BACK,
    Stand.DONE: None,
}
"""What is done with a step that stands so; acts look before they change anything, so one that was cut off is
made again."""

AFTER: Mapping[Seen, Stand] = {
    Seen.HOLDS: Stand.DONE,
    Seen.NOT_YET: Stand.INTENDED,
    Seen.PERSON: Stand.INTENDED,
    Seen.REFUSED: Stand.INTENDED,
    Seen.FAILED: Stand.INTENDED,
}
"""How a step stands after it was read back; a run that is told to go on acts again where it failed, and where
what it did was not seen in time: it may never have been taken up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Journaled:
    """What the journal has of a step: how far it is, and by which claim; ``taken`` says of a step of
    `TOUCHING` that it was begun by whoever makes it, or may have been."""

    stand: Stand
    token: int
    taken: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """The step, and what is done with it."""

    step: RunStep
    doing: Doing


def ends(step: RunStep, seen: Seen) -> bool:
    """Whether the run ends where a step was read back so: nothing was changed yet, and the cluster is free
    for another plan."""
    declined = seen is Seen.REFUSED and step.subject == "plan"
    return declined or (step.act is RunAct.DRAIN and seen is Seen.NOT_YET)


TOUCHING = frozenset({RunAct.REPLACE, RunAct.DELETE_GROUPS})
"""Steps that somebody who only looked could not have done: what was seen before them is not asked again."""
FINDING = frozenset({RunAct.AUDIT, RunAct.RESTORE})
"""Steps whose act tells what is wrong: nobody is to accept what may be cured by now."""


def next_of(steps: Sequence[RunStep], journal: Mapping[str, Journaled], token: int) -> Next | None:
    """The first step that is not done; None when all are. Never raises.

    A step that must be ``fresh`` counts as untouched when another claim did it, until something was touched
    (`TOUCHING`); so does a step that touches, which another claim wrote down and nobody began. What another
    claim found (`FINDING`) and did not read back is looked for again."""
    found = [journal[each.key] for each in steps if each.act in TOUCHING and each.key in journal]
    touched = any(each.taken or each.stand is not Stand.INTENDED for each in found)
    for step in steps:
        known = journal.get(step.key)
        stand = known.stand if known else Stand.UNTOUCHED
        if known and known.token != token:
            old = step.fresh and not touched
            stand = Stand.UNTOUCHED if old or _only_written_down(step, known) else stand
            stand = Stand.INTENDED if step.act in FINDING and stand is Stand.ACTED else stand
        doing = NEXT[stand]
        if doing is not None:
            return Next(step=step, doing=doing)
    return None


def _only_written_down(step: RunStep, found: Journaled) -> bool:
    return step.act in TOUCHING and found.stand is Stand.INTENDED and not found.taken
