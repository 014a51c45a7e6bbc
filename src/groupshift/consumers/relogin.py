"""Logging in again at ZooKeeper after a login that failed.

Kazoo takes a connection that ends during a SASL login for a wrong password and never connects again. A server
that is stopped in that moment, or a password that is being changed, would so end a member for good.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KeeperState

_LOG = logging.getLogger(__name__)
_PAUSE_S = 1.0
_CONNECT_S = 2.0
_LONGEST_S = 5.0


class Relogin:
    """Watches ``client`` from `begin` to `close`; its session was lost with the login, so the next is new."""

    def __init__(self, client: KazooClient) -> None:
        self._client = client
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Once the first login has succeeded."""
        self._client.add_listener(self._changed)

    def close(self) -> None:
        """Give up; the client is the caller's to stop afterwards."""
        self._ended.set()
        self._client.remove_listener(self._changed)
        thread = self._thread
        if thread is not None:
            thread.join(_LONGEST_S)

    def _changed(self, _state: Any) -> None:
        with self._lock:
            idle = self._thread is None or not self._thread.is_alive()
            if idle and self._client.client_state == KeeperState.AUTH_FAILED and not self._ended.is_set():
                self._thread = threading.Thread(target=self._again, name="groupshift-login", daemon=True)
                self._thread.start()

    def _again(self) -> None:
        """Until it succeeds: the answer to a request shows it, for kazoo is connected before it logs in."""
        _LOG.warning("ZooKeeper refused the login; trying again every %g s", _PAUSE_S)
        while not self._ended.wait(_PAUSE_S):
            with contextlib.suppress(KazooException, KazooTimeoutError, OSError):
                self._client.stop()
                self._client.start(timeout=_CONNECT_S)
                self._client.exists_async("/").get(timeout=_CONNECT_S)
                if self._ends():
                    return

    def _ends(self) -> bool:
        """Whether the login holds; another one that is refused from now on starts a thread again."""
        with self._lock:
            if self._client.client_state == KeeperState.AUTH_FAILED:
                return False
            self._thread = None
        _LOG.warning("ZooKeeper accepted the login again")
        return True
