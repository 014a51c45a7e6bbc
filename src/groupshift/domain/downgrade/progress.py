"""What a run does next, from what is journaled: one table of transitions, nothing else decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from groupshift.domain.downgrade.facts import DowngradeFacts
from groupshift.domain.downgrade.path import Compaction
from groupshift.domain.downgrade.properties import misfits
from groupshift.domain.downgrade.run_plan import RunAct, RunStep
from groupshift.domain.protocol.broker import ASSIGNORS, PROTOCOLS
from groupshift.domain.verdict import Finding, Verdict


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
    """What the journal has of a step: how far it is, and by which claim; ``taken`` says that the replacement
    of a node was begun by whoever makes it, or may have been."""

    stand: Stand
    token: int
    taken: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """The step, and what is done with it."""

    step: RunStep
    doing: Doing


def next_of(steps: Sequence[RunStep], journal: Mapping[str, Journaled], token: int) -> Next | None:
    """The first step that is not done; None when all are. Never raises.

    A step that must be ``fresh`` counts as untouched when another claim did it, until a node was touched; so
    does a replacement that another claim wrote down and nobody began."""
    nodes = [journal[each.key] for each in steps if each.act is RunAct.REPLACE and each.key in journal]
    touched = any(each.taken or each.stand is not Stand.INTENDED for each in nodes)
    for step in steps:
        found = journal.get(step.key)
        stand = found.stand if found else Stand.UNTOUCHED
        if found and found.token != token:
            old = step.fresh and not touched
            stand = Stand.UNTOUCHED if old or _only_written_down(step, found) else stand
        doing = NEXT[stand]
        if doing is not None:
            return Next(step=step, doing=doing)
    return None


def _only_written_down(step: RunStep, found: Journaled) -> bool:
    return step.act is RunAct.REPLACE and found.stand is Stand.INTENDED and not found.taken


_PREPARED = frozenset({"W07", "W10", "W11", "H01", "H03", "H05"})
"""Rules whose complaints the steps of a plan answer; the go/no-go asks them again."""
_BY_COMPACTION = frozenset({"W16", "W17"})
_FILES = "W14"
_CONFIGURED = "W10"
"""Group configurations: what could not be read is not deleted either."""
_LEFT_OUT = frozenset({PROTOCOLS, ASSIGNORS})
_CURED = frozenset({"L0", "O1", "O4"})
"""Rules of the replay lint that are no harm, or that conversion and compaction cure."""


def obstacles(facts: DowngradeFacts, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings that no step of the plan answers: a run may not begin."""
    return tuple(each for each in findings if _bad(each) and not _answered(facts, each.rule))


def no_go(facts: DowngradeFacts, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings for which no broker may be touched; only what the new files leave out is left to them."""
    return tuple(each for each in findings if _bad(each) and not (each.rule == _FILES and _droppable(facts)))


def _bad(finding: Finding) -> bool:
    return finding.verdict in {Verdict.FAIL, Verdict.ERROR}


def _answered(facts: DowngradeFacts, rule: str) -> bool:
    if not facts.path.possible:
        return False
    if rule in _BY_COMPACTION:
        return facts.path.compaction is Compaction.NEEDED and _curable(facts)
    if rule == _CONFIGURED and facts.view.configs_problem:
        return False
    return rule in _PREPARED or (rule == _FILES and _droppable(facts))


def _curable(facts: DowngradeFacts) -> bool:
    return facts.log is not None and {each.rule for each in facts.log.verdicts.values()} <= _CURED


def _droppable(facts: DowngradeFacts) -> bool:
    """Whether everything fatal in the brokers' files may be left out; with ZooKeeper a version must be set
    and all brokers restarted before, which no run does."""
    fatal = {
        each.name
        for broker in facts.view.brokers
        for each in misfits(broker.properties, facts.target)
        if each.fatal
    }
    return facts.view.kraft and fatal <= _LEFT_OUT
