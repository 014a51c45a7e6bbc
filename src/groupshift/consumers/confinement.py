"""Calls that are carried out by the one thread that owns a client.

confluent-kafka lets one thread at a time into a consumer and does not queue the others fairly: a thread
that polls in a loop starves every other caller (observed with 2.16.1). So each client here belongs to
one thread at a time, and everyone else hands it calls.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, TypeVar

from groupshift.errors import Transient

T = TypeVar("T")


class Calls:
    """A queue of calls for the owning thread, carried out in order by `serve`."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self._arrived = threading.Event()

    def hand(self, call: Callable[[], T]) -> Future[T]:
        """Queue a call and return at once."""
        result: Future[T] = Future()
        self._waiting.put((call, result))
        self._arrived.set()
        return result

    def ask(self, call: Callable[[], T], timeout: float, what: str) -> T:
        """Queue a call and wait. Raises what it raises, or `Transient` naming ``what`` after ``timeout`` s.

        A call that was not begun by then is not carried out any more."""
        result = self.hand(call)
        try:
            return result.result(timeout)
        except FutureTimeoutError:
            result.cancel()
            raise Transient(f"{what}: no answer within {timeout:g} s") from None

    def wait(self, timeout: float) -> None:
        """Return when a call may be waiting, at the latest after ``timeout`` seconds; from any thread."""
        self._arrived.wait(timeout)

    def serve(self, timeout: float = 0) -> None:
        """On the owning thread: wait up to ``timeout`` seconds for a call, then carry out all there are."""
        self._arrived.clear()
        try:
            call, result = self._waiting.get(timeout=timeout) if timeout > 0 else self._waiting.get_nowait()
            while True:
                if result.set_running_or_notify_cancel():
                    self._carry_out(call, result)
                call, result = self._waiting.get_nowait()
        except queue.Empty:
            return

    @staticmethod
    def _carry_out(call: Callable[[], Any], result: Future[Any]) -> None:
        try:
            answer = call()
        except BaseException as error:  # noqa: BLE001 (handed to whoever waits for the result)
            result.set_exception(error)
        else:
            result.set_result(answer)
