"""What an adapter asks of the machine and of Python, and gives back."""

from __future__ import annotations

import gc
from contextlib import ExitStack

import pytest

from groupshift.adapters.system import collector_paused
from groupshift.errors import Transient


@collector_paused()
def _fail_within() -> None:
    assert not gc.isenabled()
    raise Transient("a broker does not answer")


def test_the_collector_goes_on_behind_an_error() -> None:
    """A process that lives on cleans up again."""
    with pytest.raises(Transient):
        _fail_within()
    assert gc.isenabled()


def test_the_collector_goes_on_when_the_last_block_is_left_whichever_came_first() -> None:
    """As threads meet each other: the first leaves while the second is within."""
    first, second = ExitStack(), ExitStack()
    first.enter_context(collector_paused())
    second.enter_context(collector_paused())
    first.close()
    assert not gc.isenabled()
    second.close()
    assert gc.isenabled()
