"""Which findings of the preflight no step of a downgrade answers, before it begins and before a broker is
touched."""

from __future__ import annotations

from collections.abc import Iterable

from groupshift.domain.downgrade.facts import DowngradeFacts
from groupshift.domain.downgrade.path import Compaction
from groupshift.domain.downgrade.properties import misfits
from groupshift.domain.group_protocol import ASSIGNORS, PROTOCOLS
from groupshift.domain.verdict import Finding, Verdict

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
