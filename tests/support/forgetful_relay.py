"""A relay before a broker that, while told so, answers that topics have no partitions.

So a real broker 3.9.2 answered right after a restart (chaos seed 2026: "partition count changed from 24
to 0"). Only the answers to Metadata are touched, by kio's schemas; everything else passes as it is.
"""

from __future__ import annotations

import io
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from kio.index import load_response_schema
from kio.serial import entity_reader, entity_writer

METADATA, FLEXIBLE = 3, 9


class ForgetfulRelay:
    """Listens on ``port`` until the context of `forgetful` ends."""

    def __init__(self, port: int, target: tuple[str, int]) -> None:
        self.forgets = False
        self.forgot = threading.Event()
        self.asked = 0
        self._target, self._sockets = target, []
        self._listening = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(self._target)
                self._sockets += [client, server]
                asked: dict[int, int] = {}
                for source, sink, pass_on in (
                    (client, server, self._request),
                    (server, client, self._answer),
                ):
                    threading.Thread(target=_pump, args=(source, sink, pass_on, asked), daemon=True).start()

    def _request(self, frame: bytes, asked: dict[int, int]) -> bytes:
        key, version, correlation = struct.unpack_from(">hhi", frame)
        if key == METADATA:
            asked[correlation] = version
            self.asked += 1
        return frame

    def _answer(self, frame: bytes, asked: dict[int, int]) -> bytes:
        version = asked.pop(struct.unpack_from(">i", frame)[0], None)
        if version is None or not self.forgets:
            return frame
        schema, head = load_response_schema(METADATA, version), 5 if version >= FLEXIBLE else 4
        told, _ = entity_reader(schema)(frame, head)
        if not told.topics:
            return frame
        told = replace(told, topics=tuple(replace(each, partitions=()) for each in told.topics))
        with io.BytesIO() as made:
            entity_writer(schema)(made, told)
            self.forgot.set()
            return frame[:head] + made.getvalue()

    def cut(self) -> None:
        """End all connections, as a broker that restarts does."""
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._sockets.clear()

    def close(self) -> None:
        """Listen no more."""
        self._listening.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listening.close()
        self.cut()


def _pump(source, sink, pass_on, asked) -> None:
    with suppress(OSError, struct.error):
        while True:
            (length,) = struct.unpack(">i", _exactly(source, 4))
            frame = pass_on(_exactly(source, length), asked)
            sink.sendall(struct.pack(">i", len(frame)) + frame)
    for each in (source, sink):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


def _exactly(source: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        part = source.recv(length - len(data))
        if not part:
            raise OSError("closed")
        data += part
    return data


@contextmanager
def forgetful(port: int, target: str) -> Iterator[ForgetfulRelay]:
    """A relay on a port that the broker advertises, before its listener ``target``."""
    host, _, number = target.rpartition(":")
    relay = ForgetfulRelay(port, (host, int(number)))
    try:
        yield relay
    finally:
        relay.close()
