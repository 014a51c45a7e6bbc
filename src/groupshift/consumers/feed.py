"""From the fetcher into the buffers: the reader that has nothing left fetches for all.

So a record passes from the client to the application on one thread; a thread of its own only serves the
fetcher while nobody reads, for example at a hand-over.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from groupshift.consumers.delivery import Delivery
from groupshift.domain.partitions import TopicPartition
from groupshift.ports.consumer import Fetch, Record

_LOG = logging.getLogger(__name__)
_BATCH = 500
_TURN_S = 0.01
_IDLE_S = 0.25


class Feed:
    """``lost`` is called with a partition whose position the broker does not have."""

    def __init__(
        self, name: str, fetch: Fetch, delivery: Delivery, lost: Callable[[TopicPartition], None]
    ) -> None:
        self._fetch, self._delivery, self._lost = fetch, delivery, lost
        self._turn = threading.Lock()
        self._thread = threading.Thread(target=self._serve, name=f"groupshift-fetch-{name}", daemon=True)

    def start(self) -> None:
        """Serve the fetcher from now on."""
        self._thread.start()

    def take(self, stream: int | None, limit: int, timeout: float) -> list[Any]:
        """`Delivery.take`, fetching when nothing is buffered. Raises `RuntimeError` when closed."""
        taken = self._delivery.take(stream, limit, 0)
        deadline = time.monotonic() + timeout
        while not taken:
            left = deadline - time.monotonic() if timeout >= 0 else _TURN_S
            if left <= 0:
                break
            self._fill(stream, limit, min(left, _TURN_S))
            taken = self._delivery.take(stream, limit, 0)
        return taken

    def _fill(self, stream: int | None, limit: int, wait: float) -> None:
        """One turn at the fetcher; when it is another reader's, or records wait for the lease, just wait."""
        if self._delivery.full or self._delivery.buffered(stream):
            self._delivery.wait(wait)
        elif self._turn.acquire(timeout=wait):
            try:
                if not self._delivery.closed:
                    self._poll(max(limit, _BATCH), wait)
            finally:
                self._turn.release()

    def _poll(self, limit: int, wait: float) -> None:
        records = self._fetch.poll(limit, wait)
        if not records:
            return
        if self._fetch.flawed(records):
            records = [each for each in records if not self._complains(each)]
        self._delivery.offer(records, self._fetch.ends())

    def _complains(self, record: Record) -> bool:
        if not self._fetch.flawed([record]):
            return False
        partition = self._fetch.out_of_range(record)
        if partition is not None:
            self._lost(partition)
        else:
            self._delivery.notify(record)
        return True

    def _serve(self) -> None:
        while not self._delivery.closed:
            try:
                self._fetch.poll(0, _IDLE_S)
                with self._turn:
                    self._fetch.poll(0, 0)
            except Exception:  # noqa: BLE001 (a hand-over needs this thread, whatever the client says)
                _LOG.exception("the fetcher failed, and is asked again")
                self._delivery.wait(_IDLE_S)
        with self._turn:
            self._fetch.close()

    def join(self, timeout: float) -> None:
        """Wait for the end of the thread, after `Delivery.close`."""
        if self._thread.is_alive():
            self._thread.join(timeout)
