"""The crash points of a downgrade's steps are for tests alone."""

from __future__ import annotations

import pytest

from groupshift.adapters.system import KillAtStep
from groupshift.bootstrap.connect import step_crash_points
from groupshift.errors import Rejected
from groupshift.ports.clock import NoStepCrash

HOOKS = {"GROUPSHIFT_TEST_HOOKS": "1"}
AT = {"GROUPSHIFT_CRASH_AT_STEP": "replace 1.after_journal"}


def test_a_point_alone_kills_nobody() -> None:
    """A variable left behind in a shell is not enough."""
    assert isinstance(step_crash_points(AT), NoStepCrash)
    assert isinstance(step_crash_points(HOOKS), NoStepCrash)
    assert isinstance(step_crash_points({**HOOKS, **AT}), KillAtStep)


def test_a_point_that_does_not_exist_is_refused() -> None:
    """With what was asked for."""
    with pytest.raises(Rejected, match=r"replace 1\.later"):
        step_crash_points({**HOOKS, "GROUPSHIFT_CRASH_AT_STEP": "replace 1.later"})
