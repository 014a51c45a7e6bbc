"""Rules that the phases of a protocol move ask: each passes, and each fails on what it is for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupshift.domain.facts import Facts, Slot, SlotState
from groupshift.domain.group import view_of
from groupshift.domain.group_protocol import Aim, KafkaGroup, Kind, Policy, Protocol, ProtocolView, Way
from groupshift.domain.group_rules import ask
from groupshift.domain.modes import MemberKind
from groupshift.domain.plan import PhaseName
from groupshift.domain.protocol.live_rules import RULES
from groupshift.domain.verdict import Finding, Verdict
from groupshift.engine.group import LiveGroup
from groupshift.moves.protocol import rules as rulebook
from groupshift.moves.protocol.facts import ProtocolRequest
from groupshift.ports.group import GroupTerms
from support.protocol_groups import broker, classic, consumer, view

UP = Aim(to=Protocol.CONSUMER)
DOWN = Aim(to=Protocol.CLASSIC)
OFFLINE = Aim(to=Protocol.CONSUMER, way=Way.OFFLINE)


def _facts(seen: ProtocolView | KafkaGroup, wanted: Aim | None = UP) -> Facts:
    look = seen if isinstance(seen, ProtocolView) else view(seen)
    return Facts(view=view_of(look, None), wanted=wanted)


def _placed(group: KafkaGroup, *clients: str) -> Facts:
    running = {"kind": MemberKind.PLAIN, "state": SlotState.RUNNING}
    places = (Slot(name=each, member_id=each, **running) for each in clients)
    return replace(_facts(group), places=tuple(places))


def _verdicts(rule: str, facts: Facts) -> set[Verdict]:
    return {finding.verdict for finding in RULES[rule].ask(facts)}


def _loading() -> ProtocolView:
    seen = view(classic(2), broker(), broker())
    return replace(seen, brokers=(replace(seen.brokers[0], loading=True), seen.brokers[1]))


@pytest.mark.parametrize(
    ("rule", "good", "bad", "verdict"),
    [
        ("PR02", _facts(classic(2)), _facts(replace(classic(2), kind=Kind.UNKNOWN)), Verdict.ERROR),
        ("PR02", _facts(consumer(2)), _facts(replace(consumer(2), members=())), Verdict.ERROR),
        ("PR03", _facts(classic(2)), _facts(_loading()), Verdict.FAIL),
        ("PR04", _facts(classic(2)), _facts(classic(2, state="PreparingRebalance")), Verdict.FAIL),
        ("PR04", _facts(consumer(2, epoch=3, assignment_epoch=3)),
         _facts(consumer(2, epoch=4, assignment_epoch=4)), Verdict.FAIL),
        ("PR05", _facts(classic(2)), _facts(view(classic(2), broker(Policy.DISABLED))), Verdict.FAIL),
        ("PR05", _facts(consumer(2), DOWN), _facts(view(consumer(2), broker(Policy.UPGRADE)), DOWN),
         Verdict.FAIL),
        ("PR05", _facts(view(classic(2), broker(Policy.DISABLED)), OFFLINE),
         _facts(view(classic(2), broker(Policy.DOWNGRADE))), Verdict.FAIL),
        ("PR06", _facts(consumer(1, 1)), _facts(consumer(0, 2)), Verdict.FAIL),
        ("PR07", _facts(consumer(2)), _facts(consumer(1, 1)), Verdict.FAIL),
        ("PR07", _facts(classic(2), DOWN), _facts(consumer(2), DOWN), Verdict.FAIL),
        ("PR07", _facts(consumer(2)), _facts(consumer(0)), Verdict.FAIL),
        ("PR08", _facts(consumer(0)), _facts(consumer(1)), Verdict.FAIL),
        ("PR09", _placed(classic(2), "c0", "c1"), _placed(classic(2), "c0"), Verdict.FAIL),
        ("PR10", _facts(consumer(1, 1)), _facts(consumer(1, 1), OFFLINE), Verdict.FAIL),
        ("PR11", _facts(view(classic(2), broker(heartbeats=0)), OFFLINE),
         _facts(view(classic(2), broker(heartbeats=0))), Verdict.FAIL),
    ],
)  # fmt: skip
def test_each_rule_passes_and_fails_on_what_it_is_for(
    rule: str, good: Facts, bad: Facts, verdict: Verdict
) -> None:
    """One look each."""
    assert _verdicts(rule, good) == {Verdict.PASS}
    assert verdict in _verdicts(rule, bad)


def test_a_group_that_no_broker_knows_is_one_finding_only() -> None:
    """PR01 speaks, nothing else can be said."""
    absent = _facts(KafkaGroup(group="g", kind=Kind.ABSENT))
    (finding,) = ask(("PR01", "PR02", "PR07", "C11"), absent)
    assert (finding.rule, finding.verdict) == ("PR01", Verdict.FAIL)


def test_an_emptied_group_that_is_gone_can_be_filled_again() -> None:
    """One without commits is deleted when its last member leaves: neither way is shut by that."""
    gone = _facts(KafkaGroup(group="g", kind=Kind.ABSENT), OFFLINE)
    for name in (PhaseName.FILL, PhaseName.UNDO_EMPTY):
        asked = rulebook.RULES.phases[name].before
        assert {finding.verdict for finding in ask(asked, gone)} == {Verdict.PASS}
    occupied = _facts(classic(1), DOWN)
    assert {f.verdict for f in ask(rulebook.RULES.phases[PhaseName.UNDO_EMPTY].before, occupied)} == {
        Verdict.PASS
    }


def test_a_group_whose_brokers_were_not_read_never_passes() -> None:
    """An error, for nothing was looked at."""
    seen = _facts(classic(2))
    blind = replace(seen, view=replace(seen.view, protocol=None))
    assert all(_verdicts(rule, blind) == {Verdict.ERROR} for rule in RULES if rule.startswith("PR"))


def test_problems_of_reading_are_errors() -> None:
    """Not failures: nothing is known to be wrong."""
    seen = _facts(classic(2))
    (finding,) = RULES["PR02"].ask(replace(seen, view=replace(seen.view, problems=("no answer",))))
    assert (finding.verdict, finding.reason) == (Verdict.ERROR, "no answer")


def _assessed(facts: Facts) -> tuple[Finding, ...]:
    live = LiveGroup(facts=facts, driver="manual", identities=(), terms=GroupTerms())
    return rulebook.assess(ProtocolRequest(group="g", to=Protocol.CONSUMER), live)


def test_assess_says_the_preflight_the_hazards_and_what_is_live() -> None:
    """Of another kind of group only that it is none of consumers."""
    found = {finding.rule for finding in _assessed(_facts(classic(2)))}
    assert {"P01", "P08", "P19", "PR02", "C11", "C18"} <= found
    assert any(rule.startswith("H") for rule in found)
    share = _assessed(_facts(KafkaGroup(group="g", kind=Kind.SHARE, state="Stable")))
    assert [finding.rule for finding in share] == ["P01", "P02"]
    assert share[-1].verdict is Verdict.FAIL
