"""S11: who asks, who approves, and by what account."""

from __future__ import annotations

import os
import pwd

import pytest

from groupshift.cli.options import who
from groupshift.engine.questions_and_approvers import Approvers, account_of
from groupshift.errors import Rejected

GATE = "01 plan/approve"


@pytest.mark.parametrize(
    "requester", ["ann", "ann (uid 1000)", "bob (uid 1000, ann)", "bob (uid 7) (uid 1000, ann)"]
)
def test_s11_who_asks_may_not_approve_with_four_eyes(requester: str) -> None:
    """Under no name that the account claims; another account may."""
    approvers = Approvers(four_eyes=True)
    with pytest.raises(Rejected, match=r"asked for this run and may not approve it .*another person"):
        approvers.require(requester, requester="ann", gate=GATE)
    approvers.require("ann (uid 1001, eve)", requester=requester, gate=GATE)


@pytest.mark.parametrize(
    "person", ["carl", "ann (uid 0, carl)", "ann (uid 5) (uid 0, root)", "annie", "", "ANN"]
)
def test_s11_only_the_named_approvers_may(person: str) -> None:
    """By their account, not by what the environment claims."""
    approvers = Approvers(names=("ann", "bob"))
    with pytest.raises(Rejected, match=r"may not approve.*approval\.approvers names ann, bob"):
        approvers.require(person, requester="eve", gate=GATE)
    approvers.require("x (uid 1000, bob)", requester="eve", gate=GATE)


def test_s11_the_account_stands_beside_the_claimed_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """LOGNAME is what anybody says; the user id is what the operating system says."""
    real = pwd.getpwuid(os.getuid()).pw_name
    for claimed in ("somebody-else", f"eve (uid {os.getuid()})"):
        monkeypatch.setenv("LOGNAME", claimed)
        assert who() == f"{claimed} (uid {os.getuid()}, {real})"
        assert account_of(who()) == real
    monkeypatch.setenv("LOGNAME", real)
    assert who() == f"{real} (uid {os.getuid()})"
    assert account_of(who()) == real
