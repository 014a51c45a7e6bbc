"""ZooKeeper's transaction log as bytes, read into transactions. Pure: no files, no server.

Source: Apache ZooKeeper 3.4-3.9, ``FileTxnLog``, ``zookeeper.jute`` (records of package ``txn``) and
``SerializeUtils.deserializeTxn``. A file is::

    header   int magic "ZKLG", int version 2, long database id
    record   long adler32 of the entry, int length, entry, byte 'B'        (repeated)
    padding  zeros, because the server allocates its files ahead

and an entry is a header (long session, int cxid, long zxid, long time in ms, int type), the
transaction, and from 3.6 on a digest that is of no interest here. All numbers are big-endian.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise

from groupshift.errors import Broken

MAGIC = b"ZKLG"
VERSION = 2
_START = MAGIC + VERSION.to_bytes(4, "big")
_FILE_HEADER_BYTES = 16
_RECORD_HEADER = struct.Struct(">qi")
_END_OF_RECORD = 0x42


class Op(IntEnum):
    """Transaction types of ``ZooDefs.OpCode`` that change the tree or a session."""

    CREATE = 1
    DELETE = 2
    SET_DATA = 5
    SET_ACL = 7
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    RECONFIG = 16
    CREATE_CONTAINER = 19
    DELETE_CONTAINER = 20
    CREATE_TTL = 21
    CREATE_SESSION = -10
    CLOSE_SESSION = -11
    ERROR = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """A node has this data now: it was replaced, or the node was `Created` with it."""

    path: str
    data: bytes


class Created(DataSet):
    """A node came to be."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """A node was deleted by request."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionClosed:
    """A session ended: closed by its client or expired by the server. ``paths`` are the ephemeral
    nodes that went with it; servers before 3.6 list none, although they delete them all the same."""

    paths: tuple[str, ...]


Change = DataSet | Deleted | SessionClosed


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """One transaction: ``time_ms`` is the server's clock (epoch), ``session`` who asked.

    ``changes`` is empty for what changed nothing: a failed request, a failed multi (which is applied
    not at all), access lists, checks and the start of a session.
    """

    zxid: int
    time_ms: int
    session: int
    changes: tuple[Change, ...]


class _Jute:
    """A cursor over one entry. Raises `ValueError` past its end or for an impossible length."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take(self, length: int) -> bytes:
        if length < 0 or self._at + length > len(self._data):
            raise ValueError(f"{length} bytes wanted at {self._at} of {len(self._data)}")
        taken = self._data[self._at : self._at + length]
        self._at += length
        return taken

    def int32(self) -> int:
        return int.from_bytes(self._take(4), "big", signed=True)

    def int64(self) -> int:
        return int.from_bytes(self._take(8), "big", signed=True)

    def buffer(self) -> bytes:
        """Length-prefixed bytes; -1 stands for null, here the same as empty."""
        length = self.int32()
        return b"" if length == -1 else self._take(length)

    def text(self) -> str:
        return self.buffer().decode("utf-8")

    def count(self) -> int:
        """Number of elements of a vector; every element has at least four bytes."""
        number = self.int32()
        if number * 4 > len(self._data) - self._at:
            raise ValueError(f"a vector of {number} elements does not fit")
        return max(number, 0)


def _changes(code: int, jute: _Jute) -> tuple[Change, ...]:
    """What a transaction of this type changed: of a multi what its parts did in order, nothing where one
    failed. Access lists, versions and flags behind it are not read. Raises `ValueError` for a multi within a
    multi."""
    change: Change
    match Op(code):
        case Op.MULTI:
            parts = [(jute.int32(), jute.buffer()) for _ in range(jute.count())]
            if any(inner == Op.MULTI for inner, _ in parts):
                raise ValueError("a multi within a multi, which no server writes")
            if any(inner == Op.ERROR for inner, _ in parts):
                return ()
            return tuple(each for inner, body in parts for each in _changes(inner, _Jute(body)))
        case Op.CREATE | Op.CREATE2 | Op.CREATE_CONTAINER | Op.CREATE_TTL:
            change = Created(path=jute.text(), data=jute.buffer())
        case Op.SET_DATA | Op.RECONFIG:
            change = DataSet(path=jute.text(), data=jute.buffer())
        case Op.DELETE | Op.DELETE_CONTAINER:
            change = Deleted(path=jute.text())
        case Op.CLOSE_SESSION:
            paths: tuple[str, ...] = ()
            with suppress(ValueError):  # before 3.6, or with the list switched off, no list follows
                paths = tuple(jute.text() for _ in range(jute.count()))
            change = SessionClosed(paths=paths)
        case _:
            return ()
    return (change,)


def parse(data: bytes, name: str = "log") -> tuple[Transaction, ...]:
    """The transactions of one file (``log.<zxid>``) in their order; ``name`` is used in messages only. A last
    record that is incomplete is left out: a server that was killed, or is writing right now, leaves one.

    Raises:
        Broken: the bytes are no transaction log, or a record that is not the last one has a wrong checksum or
            cannot be understood.
    """
    begun = data.rstrip(b"\0")
    if len(begun) < len(_START) and _START.startswith(begun):
        return ()
    if not data.startswith(_START) or len(data) < _FILE_HEADER_BYTES:
        raise Broken(
            f"{name} is no ZooKeeper transaction log of version {VERSION}; give the folder version-2"
        )
    transactions: list[Transaction] = []
    at = _FILE_HEADER_BYTES
    while at + _RECORD_HEADER.size <= len(data):
        checksum, length = _RECORD_HEADER.unpack_from(data, at)
        start, stop = at + _RECORD_HEADER.size, at + _RECORD_HEADER.size + length
        entry = data[start:stop]
        whole = length > 0 and stop < len(data) and data[stop] == _END_OF_RECORD
        if not whole or zlib.adler32(entry) != checksum:
            if length > 0 and stop + 1 < len(begun):
                raise Broken(f"{name} has a damaged record at byte {at}; what follows it cannot be trusted")
            break
        jute = _Jute(entry)
        try:
            session, _cxid, zxid = jute.int64(), jute.int32(), jute.int64()
            time_ms, changes = jute.int64(), _changes(jute.int32(), jute)
            transactions.append(Transaction(zxid=zxid, time_ms=time_ms, session=session, changes=changes))
        except ValueError as error:
            raise Broken(f"{name} has a record at byte {at} that cannot be understood ({error})") from error
        at = stop + 1
    return tuple(transactions)


def merge(files: Iterable[Iterable[Transaction]]) -> tuple[Transaction, ...]:
    """The transactions of several files by zxid, each once."""
    by_zxid = {transaction.zxid: transaction for file in files for transaction in file}
    return tuple(by_zxid[zxid] for zxid in sorted(by_zxid))


def missing(transactions: Iterable[Transaction]) -> tuple[tuple[int, int], ...]:
    """(last zxid before, first zxid after) of every hole: a log file that is not there.

    Zxids count by one within an epoch (their upper half); a new epoch starts anew.
    """
    return tuple(
        (one.zxid, other.zxid)
        for one, other in pairwise(transactions)
        if one.zxid >> 32 == other.zxid >> 32 and other.zxid != one.zxid + 1
    )
