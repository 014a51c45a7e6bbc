"""Frames over one TCP or TLS connection; every wait has a deadline."""

from __future__ import annotations

import select
import socket
import ssl
import time
from collections import deque

_LENGTH = 4
LARGEST = 256 * 1024 * 1024
"""Bytes of the largest answer that is taken."""
LARGEST_OF_STRANGERS = 64 * 1024
"""Bytes of the largest answer before a broker has told its versions and taken our login."""
_WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


def connect(host: str, port: int, context: ssl.SSLContext | None, timeout_s: float) -> Channel:
    """A channel to ``host:port``, encrypted with ``context``. Raises OSError (TimeoutError included)."""
    opened = socket.create_connection((host, port), timeout=timeout_s)
    try:
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            # On failure wrap_socket has taken the descriptor and closed it.
            opened = context.wrap_socket(opened, server_hostname=host)
        opened.setblocking(False)
    except BaseException:
        opened.close()
        raise
    return Channel(opened)


class Channel:
    """Sends bytes and receives frames. While it sends it also receives, so a broker that cannot get rid of
    its answers cannot block us; raises OSError at a deadline or when the connection ends. ``largest`` bounds
    the frames that are taken."""

    def __init__(self, opened: socket.socket) -> None:
        self.largest = LARGEST_OF_STRANGERS
        self._socket = opened
        self._poll = select.poll()
        self._poll.register(opened, select.POLLIN)
        self._frames: deque[bytes] = deque()
        self._buffer = bytearray(_LENGTH)
        self._missing = memoryview(self._buffer)
        self._is_length = True

    def write(self, data: bytes, timeout_s: float) -> None:
        """Send all of ``data``."""
        deadline = time.monotonic() + timeout_s
        view = memoryview(data)
        while view:
            try:
                view = view[self._socket.send(view) :]
            except _WOULD_BLOCK:
                if not self._receive():
                    self._wait(select.POLLIN | select.POLLOUT, deadline)

    def read(self, timeout_s: float) -> bytes:
        """The body of the next frame."""
        deadline = time.monotonic() + timeout_s
        while not self._frames:
            if not self._receive():
                self._wait(select.POLLIN, deadline)
        return self._frames.popleft()

    def close(self) -> None:
        """Close the connection; safe to repeat."""
        self._socket.close()

    def _wait(self, events: int, deadline: float) -> None:
        left = deadline - time.monotonic()
        self._poll.modify(self._socket, events)
        if left <= 0 or not self._poll.poll(left * 1000):
            raise TimeoutError("no answer in time")

    def _receive(self) -> bool:
        """Take what has come, one frame at most; False when nothing has."""
        try:
            count = self._socket.recv_into(self._missing)
        except _WOULD_BLOCK:
            return False
        if not count:
            raise ConnectionResetError("the broker closed the connection")
        self._missing = self._missing[count:]
        if not self._missing:
            self._advance()
        return True

    def _expect(self, size: int, *, length: bool) -> None:
        self._buffer = bytearray(size)
        self._missing = memoryview(self._buffer)
        self._is_length = length

    def _advance(self) -> None:
        if not self._is_length:
            self._frames.append(bytes(self._buffer))
            self._expect(_LENGTH, length=True)
            return
        size = int.from_bytes(self._buffer, "big", signed=True)
        if not _LENGTH <= size <= self.largest:
            raise ConnectionAbortedError(
                f"an answer of {size} bytes is none of Kafka's: is this listener's security.protocol another?"
            )
        self._expect(size, length=False)
