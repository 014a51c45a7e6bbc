"""What an adapter asks of the machine and of Python, and gives back."""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from groupshift.adapters.system import collector_paused, signalled, signals_wait
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


ASKS_TO_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture
def as_interrupts() -> Iterator[None]:
    """Signals that ask to end raise KeyboardInterrupt, as while a run is driven."""
    with signalled(signal.default_int_handler, *ASKS_TO_END):
        yield


@pytest.mark.usefixtures("as_interrupts")
@pytest.mark.parametrize("how", ASKS_TO_END)
def test_a_signal_waits_for_the_end_of_the_block(how: signal.Signals) -> None:
    """What is within is done whole, then it is as if the signal came now."""
    done: list[str] = []

    def work() -> None:
        with signals_wait():
            signal.raise_signal(how)
            done.append("whole")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["whole"]
    assert signal.getsignal(how) is signal.default_int_handler


@pytest.mark.usefixtures("as_interrupts")
def test_a_signal_is_not_lost_behind_an_error() -> None:
    """Who would try again because of the error ends instead."""

    def work() -> None:
        with signals_wait():
            signal.raise_signal(signal.SIGTERM)
            raise Transient("the journal does not answer")

    with pytest.raises(KeyboardInterrupt) as ended:
        work()
    assert isinstance(ended.value.__context__, Transient)


@pytest.mark.usefixtures("as_interrupts")
def test_who_asks_twice_does_not_wait() -> None:
    """A database that never answers keeps nobody."""
    done: list[str] = []

    def work() -> None:
        with signals_wait():
            signal.raise_signal(signal.SIGINT)
            done.append("first")
            signal.raise_signal(signal.SIGINT)
            done.append("second")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["first"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("as_interrupts")
def test_the_handlers_of_before_are_back_behind_the_block() -> None:
    """All of them, also of signals that did not come."""
    with signals_wait():
        assert not {signal.getsignal(each) for each in ASKS_TO_END} & {signal.default_int_handler}
    assert {signal.getsignal(each) for each in ASKS_TO_END} == {signal.default_int_handler}


def _other(_number: int, _frame: object) -> None:
    """A handler of somebody else's."""


@pytest.mark.parametrize(
    "handler", [signal.SIG_DFL, signal.SIG_IGN, _other], ids=["default", "ignored", "own"]
)
def test_a_signal_that_raises_nothing_does_not_wait(handler: Any) -> None:
    """A service that is stopped ends at once, what is ignored stays so, and Airflow hears of its own."""
    with signalled(handler, *ASKS_TO_END), signals_wait():
        assert [signal.getsignal(each) for each in ASKS_TO_END] == [handler] * 3


def test_a_thread_of_its_own_changes_no_handler() -> None:
    """Python takes handlers from the main thread only; the thread does its work all the same."""
    seen: list[object] = []

    def work() -> None:
        with signals_wait():
            seen.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
