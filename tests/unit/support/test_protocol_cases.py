"""What is held against a move of a fleet (`support.protocol_cases`): all that is not as its case expects."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupshift.domain.group_protocol import Kind, Way
from groupshift.domain.modes import MemberKind
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.run import RunState
from groupshift.domain.verdict import Verdict
from groupshift.engine.progress import Ended
from groupshift.engine.run_end import Closing
from groupshift_sandbox.client_members.events import MemberEvent, Owned
from support.protocol_cases import PAIRS, Case, Moved
from support.protocol_fleet import Account

P0 = TopicPartition("t", 0)
TWO_OWNERS = (P0, Owned(member="m1", from_ms=0, to_ms=None), Owned(member="m2", from_ms=1, to_ms=None))
CLEAN = Account(
    lost={},
    repeated={P0: {7: 1}},
    repeated_within={},
    unowned_ms={P0: [40]},
    all_unowned_ms=[],
    overlaps=[],
    fatal=[],
)
FATAL = MemberEvent(at_ms=1, member="m1", event="error")
(REFUSED,) = (each for each in PAIRS if each.refused)
ONLINE = next(each for each in PAIRS if each.way is Way.ONLINE and not each.refused)


def ended(state: RunState) -> Ended:
    """A run that ended so."""
    return Ended(closing=Closing(run="r", state=state, verdict=Verdict.PASS, reason="", following=""))


def moved(case: Case) -> Moved:
    """A move with nothing against it; what came twice did so at a hand-over."""
    return Moved(
        progress=ended(RunState.MOVED),
        refused=("P08",) if case.refused else (),
        kinds=case.kinds,
        members=frozenset({MemberKind.NATIVE}),
        steps_back=[],
        not_at_end={},
        account=CLEAN,
    )


def test_a_clean_move_has_nothing_against_it() -> None:
    """Online as well as one that was refused first and went offline then."""
    assert moved(ONLINE).against(ONLINE) == {}
    assert moved(REFUSED).against(REFUSED) == {}
    assert (REFUSED.goes, list(REFUSED.kinds)) == (Way.OFFLINE, ["empty", "fill"])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"progress": ended(RunState.ROLLED_BACK)}, "ended otherwise"),
        ({"refused": ("P08",)}, "refused"),
        ({"kinds": {"canary": Kind.CLASSIC, "roll": Kind.CONSUMER}}, "types"),
        ({"kinds": {}}, "types"),
        ({"members": frozenset(MemberKind)}, "members"),
        ({"steps_back": ["t-0: 9 at begun, 8 at roll"]}, "offsets went back"),
        ({"not_at_end": {P0: 8}}, "offsets not at the end"),
        ({"account": replace(CLEAN, lost={P0: [3]})}, "lost"),
        ({"account": replace(CLEAN, repeated_within={P0: [3]})}, "repeated without a hand-over"),
        ({"account": replace(CLEAN, overlaps=[TWO_OWNERS])}, "two owners"),
        (
            {"account": replace(CLEAN, fatal=[MemberEvent(at_ms=1, member="m1", event="error")])},
            "fatal errors",
        ),
    ],
)
def test_everything_else_is_named(change: dict[str, object], named: str) -> None:
    """And nothing beside it."""
    assert list(replace(moved(ONLINE), **change).against(ONLINE)) == [named]  # type: ignore[arg-type]


def test_a_refusal_that_did_not_come_is_named() -> None:
    """Librdkafka's cooperative groups are refused online first."""
    assert replace(moved(REFUSED), refused=()).against(REFUSED) == {"refused": ()}
