"""What an adapter asks of the machine and of Python, and gives back."""

from __future__ import annotations

import gc

import pytest

from groupshift.adapters.system import collector_paused
from groupshift.errors import Transient


@collector_paused()
def _fail_within() -> None:
    with collector_paused():
        assert not gc.isenabled()
    assert not gc.isenabled()
    raise Transient("a broker does not answer")


@pytest.mark.parametrize("was_on", [True, False])
def test_the_collector_is_afterwards_as_it_was_before(*, was_on: bool) -> None:
    """Also behind an error, and where blocks lie in each other."""
    before = gc.isenabled()
    (gc.enable if was_on else gc.disable)()
    try:
        with pytest.raises(Transient):
            _fail_within()
        assert gc.isenabled() is was_on
    finally:
        (gc.enable if before else gc.disable)()
