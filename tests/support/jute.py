"""Writes ZooKeeper transaction logs byte by byte, for tests of the parser."""

from __future__ import annotations

import struct
import zlib

HEADER = b"ZKLG" + struct.pack(">iq", 2, 0)
DIGEST = struct.pack(">iq", 2, 123456789)


def text(value: str) -> bytes:
    """A jute string."""
    data = value.encode()
    return struct.pack(">i", len(data)) + data


def buffer(data: bytes | None) -> bytes:
    """A jute buffer; None is null."""
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


ACL = struct.pack(">i", 1) + struct.pack(">i", 31) + text("world") + text("anyone")


def create(path: str, data: bytes | None = b"", *, ephemeral: bool = False) -> bytes:
    """Body of a create or create2."""
    return text(path) + buffer(data) + ACL + (b"\1" if ephemeral else b"\0") + struct.pack(">i", 1)


def container(path: str) -> bytes:
    """Body of a create of a container: no flag for ephemeral."""
    return text(path) + buffer(b"") + ACL + struct.pack(">i", 1)


def ttl(path: str) -> bytes:
    """Body of a create with a time to live."""
    return container(path) + struct.pack(">q", 60_000)


def delete(path: str) -> bytes:
    """Body of a delete."""
    return text(path)


def set_data(path: str, data: bytes, version: int = 1) -> bytes:
    """Body of a set of data."""
    return text(path) + buffer(data) + struct.pack(">i", version)


def multi(*parts: tuple[int, bytes]) -> bytes:
    """Body of a multi of (type, body) parts."""
    return struct.pack(">i", len(parts)) + b"".join(
        struct.pack(">i", code) + buffer(body) for code, body in parts
    )


def paths(*names: str) -> bytes:
    """Body of the end of a session, from 3.6 on."""
    return struct.pack(">i", len(names)) + b"".join(text(name) for name in names)


def entry(zxid: int, code: int, body: bytes = b"", *, session: int = 7, time_ms: int = 1000) -> bytes:
    """Header and body of one transaction."""
    return struct.pack(">qiqqi", session, 1, zxid, time_ms, code) + body


def record(data: bytes) -> bytes:
    """One record around an entry: checksum, length, entry, end mark."""
    return struct.pack(">qi", zlib.adler32(data), len(data)) + data + b"B"


def log(*entries: bytes, padding: int = 256) -> bytes:
    """A whole file, with the zeros a server allocates ahead."""
    return HEADER + b"".join(record(one) for one in entries) + bytes(padding)
