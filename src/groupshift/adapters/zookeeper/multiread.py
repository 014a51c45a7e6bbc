"""Many reads in one request: ZooKeeper's ``multiRead``, which kazoo does not know.

One client that sends its reads one by one manages a few thousand znodes a second, for each costs a wake-up
and a system call. ``multiRead`` (operation 22, ZooKeeper 3.6, ZOOKEEPER-3402) carries ``getData`` and
``getChildren`` only; servers before 3.6 refuse it or never answer it, and are asked one by one.
`read_in_rounds` lets many readers, each of which needs several rounds, share the requests.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, ClassVar, TypeVar

from kazoo.exceptions import EXCEPTIONS as ERRORS
from kazoo.exceptions import (
    ConnectionLoss,
    MarshallingError,
    NoAuthError,
    NoNodeError,
    UnimplementedError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import ZnodeStat

from groupshift.adapters.zookeeper.session import Node, Session, ZookeeperConnection, node_of
from groupshift.domain.znodes import CONSUMERS

_DATA, _CHILDREN, _FAILED = 4, 8, -1
_HEADER = struct.Struct("!iBi")
_INT = struct.Struct("!i")
_STAT = struct.Struct("!qqqqiiiqiiq")
_END = _HEADER.pack(-1, 1, -1)
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


T = TypeVar("T")
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
            path = (self._chroot + ask.path).encode()
            request += _HEADER.pack(_DATA if isinstance(ask, Data) else _CHILDREN, 0, -1)
            request += _INT.pack(len(path)) + path + b"\0"
        return request + _END

    def deserialize(self, answer: bytes, at: int) -> list[Answer]:
        """One answer an ask, in order. Raises kazoo's error of the first that failed for another reason
        than that there is no such node, or that it may not be read; `ConnectionLoss` for bytes that are no
        such answers, as for a connection that is lost in the middle of one."""
        try:
            return self._answers(answer, at)
        except (struct.error, ValueError, RuntimeError) as wrong:
            raise ConnectionLoss(f"an answer of multiRead that cannot be read ({wrong})") from wrong

    def _answers(self, answer: bytes, at: int) -> list[Answer]:
        answers: list[Answer] = []
        for ask in self._asks:
            kind, _, _ = _HEADER.unpack_from(answer, at)
            at += _HEADER.size
            if kind == _FAILED:
                (code,) = _INT.unpack_from(answer, at)
                at += _INT.size
                if code not in (NoNodeError.code, NoAuthError.code):
                    raise ERRORS[code](ask.path)
                answers.append(None if code == NoNodeError.code else Refused(ask.path))
            elif isinstance(ask, Data):
                node, at = _node(ask.path, answer, at)
                answers.append(node)
            else:
                names, at = _names(answer, at)
                answers.append(names)
        return answers


def _node(path: str, answer: bytes, at: int) -> tuple[Node, int]:
    (size,) = _INT.unpack_from(answer, at)
    start = at + _INT.size
    at = start + max(size, 0)  # -1 stands for null
    stat = ZnodeStat(*_STAT.unpack_from(answer, at))
    return node_of(path, bytes(answer[start:at]), stat), at + _STAT.size


def _names(answer: bytes, at: int) -> tuple[tuple[str, ...], int]:
    (count,) = _INT.unpack_from(answer, at)
    at += _INT.size
    names = []
    for _ in range(count):
        (size,) = _INT.unpack_from(answer, at)
        at += _INT.size
        if not 0 <= size <= len(answer) - at:
            raise ValueError(f"a name of {size} bytes where {len(answer) - at} are left")
        names.append(answer[at : at + size].decode())
        at += size
    return tuple(sorted(names)), at


def understands(session: Session) -> bool:
    """Whether the server answers a multiRead. A server before 3.5 drops it without a word, after which
    the session's answers no longer fit its requests: whoever gets False closes the connection."""
    try:
        session.result(session.send(MultiRead((Data(CONSUMERS),), session.chroot)), _PROBE_S)
    except (UnimplementedError, MarshallingError, ConnectionLoss, KazooTimeoutError):
        return False
    return True


class BulkReader:
    """Reads through a connection: many nodes in one request where its servers can, which is found out once.

    ``together`` False reads one by one, whatever they can."""

    def __init__(self, connection: ZookeeperConnection, *, together: bool | None = None) -> None:
        self._connection, self._together = connection, together

    def call(self, work: Callable[[Read], T]) -> T:
        """Run ``work``, which is given what reads; nothing that it reads is older than this call.

        ``work`` must be safe to repeat. Raises as `ZookeeperConnection.call`."""
        if self._together is None:
            self._together = self._connection.call(understands)
            if not self._together:
                self._connection.close()
        together = self._together

        def attempt(session: Session) -> T:
            session.sync(CONSUMERS)
            return work(partial(read_all, session, together=together))

        return self._connection.call(attempt)


def read_in_rounds(read: Read, readers: Sequence[Rounds[T]]) -> list[T]:
    """What each reader returns; the n-th rounds of all are one call of ``read``."""
    found: dict[int, T] = {}
    asks = {number: next(reader) for number, reader in enumerate(readers)}
    while asks:
        answers = iter(read([ask for each in asks.values() for ask in each]))
        following = {}
        for number, each in asks.items():
            try:
                following[number] = readers[number].send(list(islice(answers, len(each))))
            except StopIteration as done:
                found[number] = done.value
        asks = following
    return [found[number] for number in range(len(readers))]


def read_all(session: Session, asks: Sequence[Ask], *, together: bool) -> list[Answer]:
    """The answer to each ask, in order; ``together`` in as few requests as possible, else one each.

    Either way everything is sent before the first answer is awaited."""
    if together:
        parts = [asks[at : at + _OPERATIONS] for at in range(0, len(asks), _OPERATIONS)]
        sent = [session.send(MultiRead(part, session.chroot)) for part in parts]
        return [answer for request in sent for answer in session.result(request)]
    return [_single(session, ask, request) for ask, request in [(a, _send(session, a)) for a in asks]]


def _send(session: Session, ask: Ask) -> Any:
    if isinstance(ask, Data):
        return session.client.get_async(ask.path)
    return session.client.get_children_async(ask.path)


def _single(session: Session, ask: Ask, request: Any) -> Answer:
    try:
        answer = session.result(request)
    except NoNodeError:
        return None
    except NoAuthError:
        return Refused(ask.path)
    if isinstance(ask, Children):
        return tuple(sorted(answer))
    return node_of(ask.path, *answer)
