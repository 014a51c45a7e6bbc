"""One connection to one broker: it negotiates versions, logs in, and reads answers in order.

Frames go over one TCP or TLS connection; every wait has a deadline. A login is SaslHandshake, then
SaslAuthenticate with the bytes of the mechanism (KIP-152).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import math
import secrets
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kio.schema.errors import ErrorCode

from groupshift import __version__
from groupshift.adapters.kafka.wire import (
    Api,
    Encoded,
    Malformed,
    Ranges,
    answer_of,
    choose,
    fill,
    raise_for,
    request_frame,
    request_schema,
)

_LENGTH, _AT_ONCE = 4, 256 * 1024
LARGEST = 256 * 1024 * 1024
"""Bytes of the largest answer that is taken."""
LARGEST_OF_STRANGERS = 64 * 1024
"""Bytes of the largest answer before a broker has told its versions and taken our login."""
_NO_ANSWER = "no answer in time"
_WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


def connect(host: str, port: int, context: ssl.SSLContext | None, timeout_s: float) -> Channel:
    """A channel to ``host:port``, encrypted with ``context``. Raises OSError (TimeoutError included)."""
    try:
        addresses = len(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        opened = socket.create_connection((host, port), timeout=timeout_s / addresses)
    except (ValueError, OverflowError) as wrong:  # a stranger's metadata may name anything
        raise ConnectionRefusedError(f"{host!r}:{port} is no address ({type(wrong).__name__})") from None
    try:
        opened.settimeout(timeout_s)
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
        self._buffer = bytearray()

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
        while (frame := self._frame()) is None:
            if not self._receive():
                self._wait(select.POLLIN, deadline)
        return frame

    def close(self) -> None:
        """Close the connection; safe to repeat."""
        self._socket.close()

    def _wait(self, events: int, deadline: float) -> None:
        left = deadline - time.monotonic()
        self._poll.modify(self._socket, events)
        if left <= 0 or not self._poll.poll(left * 1000):
            raise TimeoutError(_NO_ANSWER)

    def _receive(self) -> bool:
        """Take some of what has come; False when nothing has."""
        try:
            taken = self._socket.recv(_AT_ONCE)
        except _WOULD_BLOCK:
            return False
        if not taken:
            raise ConnectionResetError("the broker closed the connection")
        self._buffer += taken
        return True

    def _frame(self) -> bytes | None:
        """The body of the first frame, None while it is not whole."""
        if len(self._buffer) < _LENGTH:
            return None
        size = int.from_bytes(self._buffer[:_LENGTH], "big", signed=True)
        if not _LENGTH <= size <= self.largest:
            text = f"an answer of {size} bytes is none of Kafka's"
            raise ConnectionAbortedError(f"{text}: is this listener's security.protocol another?")
        end = _LENGTH + size
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[_LENGTH:end])
        del self._buffer[:end]
        return body


_HANDSHAKE = 1  # the first version whose tokens are sent in SaslAuthenticate (Kafka 1.0)
_NOT_ACCEPTED = frozenset(
    {ErrorCode.unsupported_sasl_mechanism, ErrorCode.illegal_sasl_state, ErrorCode.sasl_authentication_failed}
)
_FEWEST_ITERATIONS, _MOST_ITERATIONS = 4_096, 1_000_000
"""RFC 7677 and Kafka's brokers demand the former; the latter takes about a second."""
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS = ("PLAIN", *_HASHES)
"""Every SASL mechanism that `log_in` knows."""


class LoginRefused(Exception):
    """The broker does not accept this mechanism, user or password; asking again would not help."""


def log_in(connection: BrokerConnection, access: Access) -> None:
    """Log in with the mechanism, user and password of ``access``.

    Raises:
        LoginRefused: the mechanism, the user or the password is not accepted, or the broker's part of the
            exchange is wrong. No sentence quotes a secret.
        BrokerError: for any other error that the broker answers.
    """
    mechanism, user, password = access.mechanism, access.user, access.password
    shake = connection.request(Api.SASL_HANDSHAKE, at_least=_HANDSHAKE, mechanism=mechanism)
    answer = connection.ask(shake)
    if answer.error_code:
        offered = ", ".join(answer.mechanisms) or "none"
        raise LoginRefused(f"sasl.mechanism {mechanism} is not enabled there; enabled are: {offered}")
    for key, text in (("sasl.username", user), ("sasl.password", password)):
        # Null characters set the parts of PLAIN apart; halves of a surrogate pair have no bytes.
        if "\0" in text or any("\ud800" <= each <= "\udfff" for each in text):
            raise LoginRefused(f"{key} has a null character or half of a surrogate pair: choose another")

    def exchange(token: bytes) -> bytes:
        reply = connection.ask(connection.request(Api.SASL_AUTHENTICATE, auth_bytes=token))
        if reply.error_code in _NOT_ACCEPTED:
            raise LoginRefused(reply.error_message or "authentication failed")
        raise_for(reply.error_code, "login")
        return bytes(reply.auth_bytes)

    if mechanism not in _HASHES:
        exchange(f"\0{user}\0{password}".encode())  # PLAIN, RFC 4616
        return
    try:
        prove(access, exchange, nonce=secrets.token_urlsafe(24))
    except ValueError as wrong:
        raise LoginRefused(f"the broker's part of {mechanism} is wrong ({wrong})") from None


def prove(access: Access, exchange: Callable[[bytes], bytes], *, nonce: str) -> None:
    """Prove by SCRAM that we know the password, and let the server prove it, too (RFC 5802 §3, RFC 7677).

    ``exchange`` sends a message and returns the server's; ``nonce`` is printable ASCII without commas, never
    used twice. There is no channel binding. As Kafka's brokers and librdkafka do, the texts are sent as they
    are (no SASLprep). A server, or who pretends to be one, cannot choose how little a guess of the password
    costs, nor how long we calculate for it.

    Raises:
        LoginRefused: for a count of iterations out of bounds or an empty salt, before the password is used.
        ValueError: a message is none of SCRAM, or the server does not know the password.
    """
    hash_ = _HASHES[access.mechanism]
    bare = f"n={access.user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
    first = exchange(f"n,,{bare}".encode())
    challenge = _attributes(first)
    count = challenge.get("i", "")
    digits = count.isascii() and count.isdigit() and len(count) <= len(str(_MOST_ITERATIONS))
    if not digits or not _FEWEST_ITERATIONS <= int(count) <= _MOST_ITERATIONS:
        raise LoginRefused(
            f"the broker asks for {count[:12]!r} iterations of SCRAM, {_FEWEST_ITERATIONS} to "
            f"{_MOST_ITERATIONS} are accepted: fewer would let it guess the password; set the user's "
            "credential again with --add-config and iterations=4096 or more"
        )
    salt = base64.b64decode(challenge.get("s", ""), validate=True)
    if not salt:
        raise LoginRefused("the broker sends no salt for SCRAM: set the user's credential again")
    if not challenge.get("r", "").startswith(nonce):
        raise ValueError("its nonce does not begin with ours")
    last = f"c=biws,r={challenge['r']}"
    signed = b",".join((bare.encode(), first, last.encode()))
    salted = hashlib.pbkdf2_hmac(hash_, access.password.encode(), salt, int(count))
    key = hmac.digest(salted, b"Client Key", hash_)
    mask = hmac.digest(hashlib.new(hash_, key).digest(), signed, hash_)
    proof = base64.b64encode(bytes(one ^ other for one, other in zip(key, mask, strict=True)))
    proven = _attributes(exchange(f"{last},p={proof.decode()}".encode())).get("v", "")
    signature = hmac.digest(hmac.digest(salted, b"Server Key", hash_), signed, hash_)
    if not hmac.compare_digest(base64.b64decode(proven, validate=True), signature):
        raise ValueError("its signature is not that of a server that knows the password")


def _attributes(text: bytes) -> dict[str, str]:
    """Attributes of a message of the server, by letter. Raises ValueError, also for an extension that the
    client has to know (``m``)."""
    try:
        attributes = dict(part.split("=", 1) for part in text.decode().split(","))
    except ValueError:
        raise ValueError("its message is none of SCRAM") from None
    if "m" in attributes:
        raise ValueError("it demands an extension")
    return attributes


logger = logging.getLogger(__name__)

NEWEST_VERSIONS = 4
"""ApiVersions 4 shows features whose lowest level is 0 (group.version), which 3 hides."""
SOFTWARE: Mapping[str, Any] = {"client_software_name": "groupshift", "client_software_version": __version__}
_IN_FLIGHT = 4
_RELEASES = (
    ("4.3", 35, 5), ("4.2", 2, 11), ("4.1", 0, 13), ("4.0", 2, 10),
    ("3.9", 1, 17), ("3.8", 0, 11), ("3.7", 1, 16), ("3.6", 24, 4), ("3.5", 1, 15), ("3.4", 4, 7),
    ("3.3", 29, 3), ("3.2", 11, 9), ("3.1", 1, 13), ("3.0", 2, 7),
    ("2.8", 0, 9), ("2.7", 1, 12), ("2.6", 48, 0), ("2.5", 29, 2), ("2.4", 0, 8), ("2.3", 1, 11),
    ("2.2", 2, 5), ("2.1", 1, 10), ("2.0", 1, 8),
)  # fmt: skip
"""API key and version that came with each release, newest first (Kafka's message definitions). The broker's
own word for its release is not in the protocol."""


@dataclass(slots=True, kw_only=True)
class Access:
    """How to connect: ``client_id`` is what the broker's logs and quotas call us, ``mechanism`` that of SASL
    (empty: no login), ``tls`` what to encrypt with (None: nothing). ``timeout_s`` bounds the connection's
    making and each wait for an answer, ``deadline`` (monotonic seconds, may be moved) all of them."""

    client_id: str = "groupshift"
    mechanism: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    tls: ssl.SSLContext | None = None
    timeout_s: float = 7.0
    deadline: float = math.inf

    @property
    def wait_s(self) -> float:
        """How long to wait now for what is asked. Raises TimeoutError past the deadline."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(_NO_ANSWER)
        return min(self.timeout_s, left)


class BrokerConnection:
    """A connection; used by one thread at a time. After any OSError it is of no use: close it.

    Raises OSError when the broker is not reached or silent, `LoginRefused` when it does not accept the
    credentials, `UnsupportedByBroker` when it is too old for a request."""

    def __init__(self, host: str, port: int, access: Access) -> None:
        self.address = f"{host}:{port}"
        self.sent = 0
        """How many requests were sent, those of the connection's making included."""
        self._access = access
        self._unanswered: deque[tuple[int, Any]] = deque()
        self._answers: dict[int, Any] = {}
        self._channel: Channel = connect(host, port, access.tls, access.wait_s)
        try:
            self.versions = self._negotiate()
            if access.mechanism:
                log_in(self, access)
        except BaseException:
            self.close()
            raise
        self._channel.largest = LARGEST

    def request(self, api: Api, *, at_least: int = 0, at_most: int = 32_767, **values: Any) -> Any:
        """A request of the newest version of ``api`` that both sides know, within the bounds; ``values`` are
        its fields, as `fill` takes them. Raises `UnsupportedByBroker`."""
        version = choose(self.versions, api, at_least=at_least, at_most=at_most)
        return fill(request_schema(api, version), **values)

    def highest(self, api: Api) -> int:
        """The broker's newest version of ``api``; -1 when it does not have it."""
        return max(self.versions.get(api, ()), default=-1)

    @property
    def release(self) -> str:
        """The newest release of Kafka whose requests the broker knows; empty before 2.0."""
        known = (release for release, api, version in _RELEASES if version in self.versions.get(api, ()))
        return next(known, "")

    def send(self, request: Any) -> int:
        """Send without waiting for the answer; returns what `receive` wants."""
        self.sent += 1
        request, body = (request.like, request.body) if isinstance(request, Encoded) else (request, b"")
        frame = request_frame(request, self.sent, self._access.client_id, body)
        self._unanswered.append((self.sent, request))
        self._channel.write(frame, self._access.wait_s)
        return self.sent

    def receive(self, correlation: int, *, timeout_s: float | None = None) -> Any:
        """The answer to a request that was sent; answers to earlier ones are kept for their turn."""
        while correlation not in self._answers:
            waiting, request = self._unanswered[0]
            body = self._channel.read(self._access.wait_s if timeout_s is None else timeout_s)
            answered, answer = answer_of(request, body)
            if answered != waiting:
                raise Malformed(f"{self.address} answered request {answered} where {waiting} was expected")
            self._unanswered.popleft()
            self._answers[answered] = answer
        return self._answers.pop(correlation)

    def ask(self, request: Any, *, timeout_s: float | None = None) -> Any:
        """Send and wait for the answer."""
        return self.receive(self.send(request), timeout_s=timeout_s)

    def ask_all(self, requests: Iterable[Any]) -> Iterator[Any]:
        """The answers in the order of ``requests``, a few of them under way at any time."""
        sent: deque[int] = deque()
        for request in requests:
            sent.append(self.send(request))
            if len(sent) >= _IN_FLIGHT:
                yield self.receive(sent.popleft())
        while sent:
            yield self.receive(sent.popleft())

    def close(self) -> None:
        """Close the connection; answers under way are dropped. Safe to repeat."""
        self._channel.close()

    def _negotiate(self) -> Ranges:
        """The broker's versions of every request."""
        logger.info("asking broker %s which requests it knows", self.address)
        version = NEWEST_VERSIONS
        answer = self.ask(fill(request_schema(Api.API_VERSIONS, version), **SOFTWARE))
        if answer.error_code == ErrorCode.unsupported_version:
            offered = {each.api_key: each.max_version for each in answer.api_keys}
            version = min(version, offered.get(Api.API_VERSIONS, 0))
            answer = self.ask(fill(request_schema(Api.API_VERSIONS, version), **SOFTWARE))
        raise_for(answer.error_code, f"{self.address} does not tell its versions")
        return {each.api_key: range(each.min_version, each.max_version + 1) for each in answer.api_keys}
