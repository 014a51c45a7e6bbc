"""Logging in again, where the next refusal comes at once; views that take over what is known."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace

from kazoo.exceptions import NoNodeError
from kazoo.protocol.states import KeeperState

from groupshift.consumers import zookeeper_session
from groupshift.consumers.zookeeper_session import Relogin, ZookeeperCoordination


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


REGISTRATION = {"version": 1, "subscription": {"t": 1}, "pattern": "static", "timestamp": "1", "fence": 1}


class Group:
    """A client of a group with these members; ``read`` are the paths whose data was asked for."""

    hosts, chroot, connected, client_state, _session_timeout = (("127.0.0.1", 1),), "", True, None, 6000

    def __init__(self, *names):
        self.names, self.pzxid, self.data = list(names), 5, json.dumps(REGISTRATION).encode()
        self.read = []

    def _answer(self, value):
        def get(timeout):
            assert timeout > 0
            if isinstance(value, Exception):
                raise value
            return value

        return SimpleNamespace(get=get, ready=lambda: True)

    def _stat(self):
        return SimpleNamespace(pzxid=self.pzxid, version=0, czxid=1, mzxid=1)

    def sync_async(self, path):
        """Done."""
        return self._answer(path)

    def exists_async(self, _path, watch=None):
        """It does."""
        assert watch is None or callable(watch)
        return self._answer(self._stat())

    def get_children_async(self, _path, watch, include_data):
        """Of both directories."""
        assert watch
        assert include_data
        return self._answer((list(self.names), self._stat()))

    def get_async(self, path, watch=None):
        """No mode, no topic."""
        assert watch is None or callable(watch)
        self.read.append(path)
        member = path.rpartition("/")[2] in self.names
        return self._answer((self.data, self._stat()) if member else NoNodeError())


def registrations_read(client, view):
    """The next view, and of how many members a node was read for it."""
    client.read.clear()
    view = ZookeeperCoordination(client, "g", "g_a").observe(view, ("t",))
    return view, {path for path in client.read if "/ids/" in path}


def test_registrations_are_read_again_only_when_members_came_or_went() -> None:
    """Each of a hundred members looks at the group every half a minute, and after each write of its mode."""
    client = Group("g_a", "g_b")
    first, read = registrations_read(client, None)
    assert (first.ids, len(read)) == (("g_a", "g_b"), 4)
    again, read = registrations_read(client, first)
    assert (again, read) == (first, set())
    client.names, client.pzxid = ["g_a", "g_b", "g_c"], 6
    third, read = registrations_read(client, again)
    assert (third.ids, len(read)) == (("g_a", "g_b", "g_c"), 6)


def test_registrations_are_read_again_while_one_of_them_cannot_be_read() -> None:
    """Its data may be corrected without a change of the directory."""
    client = Group("g_a", "g_b")
    client.data = b"["
    broken, _ = registrations_read(client, None)
    assert len(broken.problems) == 2
    client.data = json.dumps(REGISTRATION).encode()
    whole, read = registrations_read(client, broken)
    assert (whole.ids, whole.problems, len(read)) == (("g_a", "g_b"), (), 4)
