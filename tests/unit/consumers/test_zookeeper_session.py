"""Logging in again, where the next refusal comes at once."""

from __future__ import annotations

import threading

from kazoo.protocol.states import KeeperState

from groupshift.consumers import zookeeper_session
from groupshift.consumers.zookeeper_session import Relogin


class Refusing:
    """A client whose login is accepted, and refused again while the answer is on its way: once."""

    def __init__(self) -> None:
        self.client_state = KeeperState.AUTH_FAILED
        self.logins, self.held = 0, threading.Event()

    def add_listener(self, changed):
        """Kazoo's thread calls it."""
        self.changed = changed

    def remove_listener(self, _changed):
        """Nobody is told any more."""

    def stop(self):
        """Nothing to stop."""

    def start(self, timeout):
        """Connected."""
        assert timeout > 0
        self.client_state = KeeperState.CONNECTED

    def exists_async(self, _path):
        """The answer is this object."""
        return self

    def get(self, timeout):
        """The first answer is followed by a refusal."""
        assert timeout > 0
        self.logins += 1
        if self.logins == 1:
            self.client_state = KeeperState.AUTH_FAILED
            self.changed(None)
        else:
            self.held.set()


def test_a_refusal_that_follows_an_accepted_login_is_not_overlooked(monkeypatch) -> None:
    """Else the member would never connect again."""
    monkeypatch.setattr(zookeeper_session, "_PAUSE_S", 0.001)
    client = Refusing()
    watching = Relogin(client)
    watching.begin()
    client.changed(None)
    try:
        assert client.held.wait(20)
    finally:
        watching.close()
