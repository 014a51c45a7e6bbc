"""One ZooKeeper session, opened when it is first needed, with bounded retries; kazoo stays in this package.

Serves to read groups and to write the mode. All access of the observing side goes through
`ZookeeperConnection.call`; what it hands to the callable is a `Session`, which pipelines its requests.
`cluster_id` says which Kafka cluster keeps its nodes in the ensemble.

`read_all` sends many reads in one request: ZooKeeper's ``multiRead``, which kazoo does not know. One client
that sends its reads one by one manages a few thousand znodes a second, for each costs a wake-up and a system
call. ``multiRead`` (operation 22, ZooKeeper 3.6, ZOOKEEPER-3402) carries ``getData`` and
``getChildren`` only; servers before 3.6 refuse it or never answer it, and are asked one by one.
`read_in_rounds` lets many readers, each of which needs several rounds, share the requests.
"""

from __future__ import annotations

import logging
import math
import struct
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import EXCEPTIONS as ERRORS
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionLoss,
    InvalidACLError,
    MarshallingError,
    NoAuthError,
    NoNodeError,
    OperationTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
    SessionMovedError,
    UnimplementedError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.serialization import (
    GetChildren,
    GetData,
    int_struct,
    multiheader_struct,
    read_buffer,
    read_string,
    stat_struct,
)
from kazoo.protocol.states import ZnodeStat
from kazoo.security import ACL

from groupshift.adapters.zookeeper.login import (
    WORLD,
    NoCredentials,
    ZookeeperLogin,
    make_client,
    read_tool_login,
)
from groupshift.domain.addresses import zookeeper_ensemble
from groupshift.domain.modes import ABSENT_MODE, ModeNode
from groupshift.domain.znodes import CLUSTER_ID, CONSUMERS, parse_cluster_id
from groupshift.errors import Rejected, Transient

T = TypeVar("T")

_LOST = (
    ConnectionLoss,
    ConnectionClosedError,
    SessionExpiredError,
    SessionMovedError,
    OperationTimeoutError,
    KazooTimeoutError,
)
_REFUSED = (NoAuthError, AuthFailedError, InvalidACLError)
_DRAGGED_ALONG = (RolledBackError, RuntimeInconsistency)
_SESSION_TIMEOUT_S = 4.0  # nothing of ours hangs on the session; short, so that a silent server is noticed


_LOG = logging.getLogger("groupshift.zookeeper")
_LOG.addFilter(NoCredentials())
_LOG.setLevel(logging.ERROR)  # its warnings, one per attempt, end in the one sentence of the error


Guard = tuple[str, int]
"""Path and version of a node that a write depends on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A znode as read, with kazoo's ``stat``: ``ctime`` and ``mtime`` are epoch milliseconds, ``pzxid``
    identifies this set of children."""

    path: str
    data: bytes
    stat: ZnodeStat

    @property
    def owner(self) -> int:
        """Return the session id of an ephemeral node's owner, 0 for a persistent node."""
        return int(self.stat.ephemeralOwner)


def node_of(path: str, data: bytes | None, stat: ZnodeStat) -> Node:
    """A node as kazoo tells it; null is what Java's clients write for nothing."""
    return Node(path=path, data=data or b"", stat=stat)


def as_mode(node: Node | None) -> ModeNode:
    """The mode node of the domain."""
    if node is None:
        return ABSENT_MODE
    return ModeNode(data=node.data, version=node.stat.version, czxid=node.stat.czxid, mzxid=node.stat.mzxid)


def failure(outcomes: Sequence[Any]) -> Exception | None:
    """The error that undid a transaction; None where all of it was done. ZooKeeper answers with one outcome
    an operation, of which the others say only that they were dragged along."""
    errors = [each for each in outcomes if isinstance(each, Exception)]
    return min(errors, key=lambda each: isinstance(each, _DRAGGED_ALONG), default=None)


class Session:
    """Requests of one attempt: every wait ends at the attempt's deadline. ``client`` is kazoo's, ``acl`` the
    one of nodes which only this identity may change."""

    def __init__(self, client: KazooClient, deadline: float, acl: Sequence[ACL] = WORLD) -> None:
        self.client = client
        self.acl = list(acl)
        self._deadline = deadline

    def sync(self, path: str) -> None:
        """Catch up with the leader: what is read after it is not older than this call."""
        self.result(self.client.sync_async(path))

    def exists(self, path: str) -> bool:
        """Whether the node is there."""
        return self.result(self.client.exists_async(path)) is not None

    def read(self, path: str) -> Node | None:
        """The node, None where it is absent."""
        try:
            return node_of(path, *self.result(self.client.get_async(path)))
        except NoNodeError:
            return None

    def children(self, path: str) -> tuple[str, ...] | None:
        """The names below the node, sorted; None where it is absent."""
        try:
            return tuple(sorted(self.result(self.client.get_children_async(path))))
        except NoNodeError:
            return None

    def change(
        self,
        path: str,
        data: bytes | None,
        version: int | None,
        *,
        guard: Guard | None = None,
        acl: Sequence[ACL] = WORLD,
    ) -> None:
        """Create a persistent node (``version`` None), set it at exactly this data version, or delete it
        (``data`` None), in one transaction with the check that the node of ``guard`` is at its version.

        Parents are everybody's, for members have to create below them (zookeeper-coordination.md §1.4).
        Raises kazoo's error of the part that failed (NodeExistsError, BadVersionError, NoNodeError); then
        nothing was changed."""
        transaction = self.client.transaction()
        if guard is not None:
            transaction.check(*guard)
        if data is None:
            transaction.delete(path, version)
        elif version is None:
            self.result(self.client.ensure_path_async(path.rpartition("/")[0], list(WORLD)))
            transaction.create(path, data, list(acl))
        else:
            transaction.set_data(path, data, version)
        if failed := failure(self.result(transaction.commit_async())):
            raise failed

    def send(self, asks: Sequence[Ask]) -> Any:
        """Send the reads as one `MultiRead`; await the answers with `result`."""
        sent = self.client.handler.async_result()
        request = MultiRead(asks, str(self.client.chroot))
        self.client._call(request, sent)  # noqa: SLF001 - the way every request of kazoo is sent
        return sent

    def result(self, request: Any, timeout_s: float = math.inf) -> Any:
        """What was answered. Raises kazoo's timeout at the attempt's deadline, or before."""
        left_s = self._deadline - time.monotonic()
        return request.get(timeout=max(0.001, min(timeout_s, left_s)))


class ZookeeperConnection:
    """Keeps one session open between calls and opens nothing before the first.

    ``hosts`` is ``host:port[,host:port]``, ``chroot`` the path below which the Kafka cluster keeps its
    nodes. With a ``username`` the session authenticates by the scheme ``digest``; ``properties`` are the keys
    of `groupshift.adapters.zookeeper.login` for SASL and TLS. ``timeout_s`` bounds each `call` with all its
    retries. Safe to use from several threads (calls are serialised).
    """

    def __init__(
        self,
        hosts: str,
        *,
        chroot: str = "",
        username: str = "",
        password: str = "",
        properties: Mapping[str, str] | None = None,
        timeout_s: float = 6.0,
    ) -> None:
        root = chroot.strip("/")
        self.address = f"{hosts.rstrip('/')}/{root}" if root else hosts
        """Hosts and chroot, for sentences to people."""
        self._user = (username, password)
        self._properties = dict(properties or {})
        self._timeout_s = timeout_s
        self._client: KazooClient | None = None
        self._lock = threading.RLock()

    def call(self, work: Callable[[Session], T]) -> T:
        """Run ``work`` and return its result; repeat it after a lost connection, until ``timeout_s``.

        ``work`` must be safe to repeat. Raises `Transient` when ZooKeeper does not answer in time and
        `Rejected` when it refuses the credentials or the address cannot be one.
        """
        with self._lock:
            deadline = time.monotonic() + self._timeout_s
            asked_again = False
            while True:
                try:
                    return work(Session(self._connected(deadline), deadline, self.login.acl))
                except _LOST as lost:
                    # A request that was given up must not be sent later: drop the client's queue.
                    self.close()
                    if time.monotonic() >= deadline:
                        tls = " (and zookeeper.properties ssl.*, for TLS is on)" if self.login.tls else ""
                        raise Transient(
                            f"ZooKeeper does not answer at {self.address} (setting [zookeeper] hosts) within "
                            f"{self._timeout_s:g} s ({type(lost).__name__}): check that it runs and that the "
                            f"address is right{tls}, then run the same command again"
                        ) from lost
                except _REFUSED as refused:
                    self.close()
                    # a server that is stopped during a login looks like one that refuses it
                    if asked_again or not isinstance(refused, AuthFailedError):
                        raise Rejected(
                            f"ZooKeeper at {self.address} refuses {self.login.who} "
                            f"({type(refused).__name__}): correct username and password of [zookeeper] (or "
                            "sasl.* of [zookeeper.properties]), or the ACL of the group's nodes"
                        ) from refused
                    asked_again = True

    @cached_property
    def login(self) -> ZookeeperLogin:
        """What the properties say. Raises `Rejected` with everything that is wrong with them."""
        return read_tool_login(self._user, self._properties)

    def close(self) -> None:
        """End the session; the next call opens a new one."""
        with self._lock:
            client, self._client = self._client, None
            if client is not None:
                client.stop()
                client.close()

    def _connected(self, deadline: float) -> KazooClient:
        if self._client is None:
            where = zookeeper_ensemble(self.address, "[zookeeper] hosts")
            self._client = make_client(str(where), _SESSION_TIMEOUT_S, self.login, logger=_LOG)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="No chroot path exists")  # `Rejected` says it
                self._client.start(timeout=max(0.001, deadline - time.monotonic()))
        return self._client


def cluster_id(connection: ZookeeperConnection) -> str:
    """The cluster's id; empty where it is not told. Raises as `ZookeeperConnection.call`."""
    node = connection.call(lambda session: session.read(CLUSTER_ID))
    return parse_cluster_id(node.data if node else None)


_FAILED = -1
_END = multiheader_struct.pack(-1, 1, -1)
_OPERATIONS = 1000
"""Reads in one request: about 100 KiB, a tenth of what a server accepts."""
_PROBE_S = 2.0


@dataclass(frozen=True, slots=True)
class Data:
    """Ask for a node; the answer is a `Node`, None where there is none."""

    path: str


@dataclass(frozen=True, slots=True)
class Children:
    """Ask for the names below a node; the answer is a sorted tuple, None where there is no node."""

    path: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The answer where the session may not read."""

    path: str


Ask = Data | Children
Answer = Node | tuple[str, ...] | Refused | None
Read = Callable[[Sequence[Ask]], list[Answer]]
"""The answer to each ask, in order."""
Rounds = Generator[Sequence[Ask], list[Answer], T]
"""Yields what it asks for in a round, is sent the answers, and returns what it read."""


class MultiRead:
    """The request as kazoo's connection sends and decodes it."""

    type: ClassVar[int] = 22

    def __init__(self, asks: Sequence[Ask], chroot: str) -> None:
        self._asks = asks
        self._chroot = chroot

    def serialize(self) -> bytearray:
        """One header and one path an ask, closed by an empty header."""
        request = bytearray()
        for ask in self._asks:
            kind: Any = GetData if isinstance(ask, Data) else GetChildren
            part = kind(self._chroot + ask.path, False)
            request += multiheader_struct.pack(kind.type, 0, -1) + part.serialize()
        request += _END
        return request

    def deserialize(self, answer: bytes, at: int) -> list[Answer]:
        """One answer an ask, in order. Raises kazoo's error of the first that failed for another reason
        than that there is no such node, or that it may not be read; `ConnectionLoss` for bytes that are no
        such answers, as for a connection that is lost in the middle of one."""
        try:
            return list(self._answers(answer, at))
        except (struct.error, ValueError, RuntimeError) as wrong:
            raise ConnectionLoss(f"an answer of multiRead that cannot be read ({wrong})") from wrong

    def _answers(self, answer: bytes, at: int) -> Iterator[Answer]:
        for ask in self._asks:
            kind, _, _ = multiheader_struct.unpack_from(answer, at)
            at += multiheader_struct.size
            if kind == _FAILED:
                (code,) = int_struct.unpack_from(answer, at)
                at += int_struct.size
                if code not in (NoNodeError.code, NoAuthError.code):
                    raise ERRORS[code](ask.path)
                yield None if code == NoNodeError.code else Refused(ask.path)
            elif isinstance(ask, Data):
                data, at = read_buffer(answer, at)
                yield node_of(ask.path, data, ZnodeStat(*stat_struct.unpack_from(answer, at)))
                at += stat_struct.size
            else:
                (count,) = int_struct.unpack_from(answer, at)
                at, names = at + int_struct.size, list[str]()
                for _ in range(count):
                    name, at = read_string(answer, at)
                    if name is None or at > len(answer):
                        raise ValueError("a name that is null or cut off")
                    names.append(name)
                yield tuple(sorted(names))


def understands(session: Session) -> bool:
    """Whether the server answers a multiRead. A server before 3.5 drops it without a word, after which
    the session's answers no longer fit its requests: whoever gets False closes the connection."""
    try:
        session.result(session.send([Data(CONSUMERS)]), _PROBE_S)
    except (UnimplementedError, MarshallingError, ConnectionLoss, KazooTimeoutError):
        return False
    return True


def read_in_rounds(read: Read, readers: Sequence[Rounds[T]]) -> list[T]:
    """What each reader returns; the n-th rounds of all are one call of ``read``."""
    by_number: dict[int, T] = {}
    asks = {number: next(reader) for number, reader in enumerate(readers)}
    while asks:
        answers = iter(read([ask for each in asks.values() for ask in each]))
        following = {}
        for number, each in asks.items():
            try:
                following[number] = readers[number].send(list(islice(answers, len(each))))
            except StopIteration as done:
                by_number[number] = done.value
        asks = following
    return [by_number[number] for number in range(len(readers))]


def read_all(session: Session, asks: Sequence[Ask], *, together: bool) -> list[Answer]:
    """The answer to each ask, in order; ``together`` in as few requests as possible, else one each.

    Either way everything is sent before the first answer is awaited."""
    if together:
        sent = [session.send(asks[at : at + _OPERATIONS]) for at in range(0, len(asks), _OPERATIONS)]
        return [answer for request in sent for answer in session.result(request)]
    client, answers = session.client, list[Answer]()
    requests = [
        client.get_async(ask.path) if isinstance(ask, Data) else client.get_children_async(ask.path)
        for ask in asks
    ]
    for ask, request in zip(asks, requests, strict=True):
        try:
            reply = session.result(request)
            answers.append(node_of(ask.path, *reply) if isinstance(ask, Data) else tuple(sorted(reply)))
        except NoNodeError:
            answers.append(None)
        except NoAuthError:
            answers.append(Refused(ask.path))
    return answers
