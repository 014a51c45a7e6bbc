"""`groupshift.ports.consumer.Coordination` on kazoo: session, registration, lease.

`Relogin` logs in again after a login that failed. Kazoo takes a connection that ends during a SASL login for
a wrong password and never connects again. A server that is stopped in that moment, or a password that is
being changed, would so end a member for good.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Callable
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KeeperState

from groupshift.adapters.zookeeper.login import WORLD, refused, send_question, unique
from groupshift.adapters.zookeeper.session import failure
from groupshift.consumers.threads import daemon
from groupshift.consumers.zookeeper_nodes import Observer, PartitionNodes
from groupshift.domain.registration import Registration, encode_registration
from groupshift.errors import Conflict, Transient
from groupshift.ports.consumer import CoordinationListener, SessionState

_LOOK_S = 0.05

FOR_EVER: Final = MappingProxyType({"max_tries": -1, "delay": 0.1, "backoff": 2, "max_delay": 1.0})
"""How a member's client connects again (kazoo's ``connection_retry``)."""


class ZookeeperCoordination(PartitionNodes, Observer):
    """One member's session at ZooKeeper, with its registration, owner nodes, offsets and views.

    ``client`` is not started yet. Every method but `offsets` is called by one thread, the reconciler's;
    watches and changes of the session are told to the listener on kazoo's thread."""

    @cached_property
    def _relogin(self) -> Relogin:
        return Relogin(self._client)

    # -- session ---------------------------------------------------------------------------------

    def start(self, listener: CoordinationListener, timeout: float) -> None:
        """Connect; the listener hears of every change from then on.

        Raises `Transient` naming the hosts without an answer in ``timeout`` seconds, and `Rejected` when this
        identity may not log in or not take partitions: a member that owns nothing for ever would keep a
        share. Then it is to be closed."""
        self._listener = listener
        try:
            self._connect(timeout)
            self._prove_rights()
        except (KazooTimeoutError, KazooException, OSError, Transient) as error:
            hint = ", or zookeeper.ssl.* does not fit that port" if self._login.tls else ""
            raise Transient(
                f"zookeeper.connect {self._hosts!r}: no answer in {timeout:g} s ({error}){hint}; "
                "start it and retry"
            ) from error
        self._client.add_listener(self._state_changed)
        self._relogin.begin()

    def _connect(self, timeout: float) -> None:
        """As ``KazooClient.start``, which takes a login that is refused as soon as it is connected for no
        answer."""
        live, deadline = self._client.start_async(), time.monotonic() + timeout
        while not live.wait(_LOOK_S) and time.monotonic() < deadline:
            if self._client.client_state == KeeperState.AUTH_FAILED:
                break
        if self._client.client_state == KeeperState.AUTH_FAILED:
            raise self._unauthorised("may not log in")
        if not self._client.connected:
            raise KazooTimeoutError("Connection time-out")

    def _prove_rights(self) -> None:
        """Log in (kazoo does it after it says that it is connected), and create below ``owners`` and
        ``offsets``, as far as there are any."""
        self._answer(self._client.exists_async(self._paths.root))
        parents = [self._paths.owners, self._paths.offsets]
        for directory in tuple(parents):
            parents += [f"{directory}/{topic}" for topic in self._children(directory)]

        requests = []
        for each in parents:
            question, path = self._client.transaction(), f"{each}/{unique()}"
            question.create(path, b"")
            question.delete(path)
            requests.append(send_question(question))
        for path, answer in zip(parents, requests, strict=True):
            if refused(self._answer(answer)):
                raise self._unauthorised(f"may not create below {path}")

    def session_id(self) -> int | None:
        """Kazoo's present session id."""
        return self._session() if self._client.connected else None

    def close(self) -> None:
        """Close the session; the server drops what is left of its ephemeral nodes."""
        self._client.remove_listener(self._state_changed)
        self._relogin.close()
        self._client.stop()
        self._client.close()

    def prove(self, answered: Callable[[float], None]) -> None:
        """Ask for the own ``ids`` node."""
        sent, session = time.monotonic(), self.session_id()

        def completed(result: Any) -> None:
            stat = result.value if result.successful() else None
            if stat is not None and stat.ephemeralOwner == session == self.session_id():
                answered(sent)

        if session is not None:
            self._client.exists_async(self._paths.id_of(self._consumer_id)).rawlink(completed)

    def _state_changed(self, state: str) -> None:
        if self._listener is not None:
            self._listener.session_changed(SessionState(state.lower()))

    # -- registration ----------------------------------------------------------------------------

    def _own_paths(self, consumer_id: str) -> tuple[str, str]:
        return self._paths.id_of(consumer_id), self._paths.migration_id_of(consumer_id)

    def register(self, registration: bytes, migration: bytes | None) -> None:
        """Create ``ids/<cid>`` and, where there is a payload for it, ``migration/ids/<cid>``.

        Both in one transaction, so that nobody sees a migrating member as an old one (D4); a repeated call in
        the same session succeeds. Raises `Conflict` while another session holds one of them, else
        `Transient`."""
        both = zip(self._own_paths(self._consumer_id), (registration, migration), strict=True)
        wanted = {path: data for path, data in both if data is not None}
        change = self._client.transaction()
        for path, data in wanted.items():
            self._ensure(path.rpartition("/")[0], WORLD)
            change.create(path, data, acl=WORLD, ephemeral=True)
        failed = failure(self._answer(change.commit_async()))
        if failed is None:
            return
        if not isinstance(failed, NodeExistsError):
            self._parents.clear()
            raise Transient(f"cannot register {self._consumer_id}: {failed!r}; retrying")
        stats = [self._answer(self._client.exists_async(path)) for path in wanted]
        if any(stat is None or stat.ephemeralOwner != self.session_id() for stat in stats):
            raise Conflict(
                f"consumer.id {self._consumer_id!r} is registered by another session; waiting for its end"
            )

    def publish(self, migration: bytes) -> None:
        """Set the payload of the own migration id."""
        try:
            self._answer(self._client.set_async(self._paths.migration_id_of(self._consumer_id), migration))
        except NoNodeError:
            raise Transient("the own migration id is gone; registering again") from None

    def unregister(self) -> None:
        """Delete both ids together, whichever exist."""
        change = self._client.transaction()
        paths = self._own_paths(self._consumer_id)
        for path, request in [(path, self._client.exists_async(path)) for path in paths]:
            stat = self._answer(request)
            if stat is not None and stat.ephemeralOwner == self.session_id():
                change.delete(path)
        if change.operations:
            self._answer(change.commit_async())

    def wake(self) -> None:
        """Register and unregister a member that nobody is, in one transaction: every old member hears that
        ``ids`` changed and rebalances (F9). Guarded by the own registration, like every change. Raises
        `Transient`."""
        paths = self._own_paths(f"{self._group}_groupshift-wake-{uuid.uuid4().hex[:8]}")
        nobody = encode_registration(Registration(subscription=(), timestamp=str(int(time.time() * 1000))))
        change = self._guarded()
        for path in paths:
            change.create(path, nobody, acl=WORLD, ephemeral=True)
        for path in paths:
            change.delete(path)
        if failed := failure(self._answer(change.commit_async())):
            raise Transient(f"old members could not be woken: {failed!r}")


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
        if (thread := self._thread) is not None:
            thread.join(_LONGEST_S)

    def _changed(self, _state: Any) -> None:
        with self._lock:
            idle = self._thread is None or not self._thread.is_alive()
            if idle and self._client.client_state == KeeperState.AUTH_FAILED and not self._ended.is_set():
                self._thread = daemon("login", self._again)
                self._thread.start()

    def _again(self) -> None:
        """Until it succeeds: the answer to a request shows it, for kazoo is connected before it logs in."""
        _LOG.warning("ZooKeeper refused the login; trying again every %g s", _PAUSE_S)
        while not self._ended.wait(_PAUSE_S):
            with contextlib.suppress(KazooException, KazooTimeoutError, OSError):
                self._client.stop()
                self._client.start(timeout=_CONNECT_S)
                self._client.exists_async("/").get(timeout=_CONNECT_S)
                with self._lock:  # another login that is refused from now on starts a thread again
                    if self._client.client_state != KeeperState.AUTH_FAILED:
                        self._thread = None
                        _LOG.warning("ZooKeeper accepted the login again")
                        return
