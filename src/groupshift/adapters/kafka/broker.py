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
from types import ModuleType
from typing import Any

from kio.schema.errors import ErrorCode

from groupshift import __version__
from groupshift.adapters.kafka.wire import (
    Api,
    Malformed,
    Range,
    Ranges,
    answer_of,
    choose,
    fill,
    messages,
    raise_for,
    request_frame,
    request_schema,
    versions_answer,
)

_LENGTH = 4
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
            raise TimeoutError(_NO_ANSWER)

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


_HANDSHAKE = 1  # the first version whose tokens are sent in SaslAuthenticate (Kafka 1.0)
_NOT_ACCEPTED = frozenset(
    {ErrorCode.unsupported_sasl_mechanism, ErrorCode.illegal_sasl_state, ErrorCode.sasl_authentication_failed}
)

_FEWEST_ITERATIONS, _MOST_ITERATIONS = 4_096, 1_000_000
"""RFC 7677 and Kafka's brokers demand the former; the latter takes about a second."""
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_NONCE_BYTES = 24

Ask = Callable[[Any], Any]
MessagesOf = Callable[..., Any]


class LoginRefused(Exception):
    """The broker does not accept this mechanism, user or password; asking again would not help."""


def log_in(ask: Ask, messages: MessagesOf, settings: Mapping[str, Any]) -> None:
    """Log in with the mechanism, user and password of `client_settings`; ``messages(api, at_least=…)``
    gives kio's classes in the broker's version. Raises `LoginRefused`, which quotes no secret."""
    mechanism = settings["sasl_mechanism"]
    shake = messages(Api.SASL_HANDSHAKE, at_least=_HANDSHAKE)
    answer = ask(shake.SaslHandshakeRequest(mechanism=mechanism))
    if answer.error_code:
        offered = ", ".join(answer.mechanisms) or "none"
        raise LoginRefused(f"sasl.mechanism {mechanism} is not enabled there; enabled are: {offered}")

    def exchange(token: bytes) -> bytes:
        schema = messages(Api.SASL_AUTHENTICATE).SaslAuthenticateRequest
        told = ask(schema(auth_bytes=token))
        if told.error_code in _NOT_ACCEPTED:
            raise LoginRefused(told.error_message or "authentication failed")
        raise_for(told.error_code, "login")
        return bytes(told.auth_bytes)

    user, password = settings["sasl_plain_username"], settings["sasl_plain_password"]
    for key, text in (("sasl.username", user), ("sasl.password", password)):
        # Null characters set the parts of PLAIN apart; halves of a surrogate pair have no bytes.
        if "\0" in text or any("\ud800" <= each <= "\udfff" for each in text):
            raise LoginRefused(f"{key} has a null character or half of a surrogate pair: choose another")
    if mechanism not in _HASHES:
        exchange(f"\0{user}\0{password}".encode())  # PLAIN, RFC 4616
        return
    # RFC 5802 without channel binding; the server proves that it knows the password too. As Kafka's brokers
    # and librdkafka do, the texts are sent as they are (no SASLprep).
    scram = Scram(mechanism, user, password, nonce=secrets.token_urlsafe(_NONCE_BYTES))
    try:
        scram.verify(exchange(scram.proof(exchange(scram.first()))))
    except ValueError as wrong:
        raise LoginRefused(f"the broker's part of {mechanism} is wrong ({wrong})") from None


class Scram:
    """The client's side of one exchange (RFC 5802 §3, RFC 7677). A server, or who pretends to be one, cannot
    choose how little a guess of the password costs, nor how long we calculate for it. ``nonce`` is printable
    ASCII without commas, never used twice."""

    def __init__(self, mechanism: str, user: str, password: str, *, nonce: str) -> None:
        self._hash = _HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce
        self._bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self._signature = b""

    def first(self) -> bytes:
        """The first message."""
        return f"n,,{self._bare}".encode()

    def proof(self, told: bytes) -> bytes:
        """The last message, which answers the server's first. Raises ValueError when that is none, and
        `LoginRefused` for a count out of bounds or an empty salt, before the password is used."""
        attributes = _attributes(told)
        count, salt = _count(attributes.get("i", "")), _salt(attributes.get("s", ""))
        nonce = attributes.get("r", "")
        if not nonce.startswith(self._nonce):
            raise ValueError("its nonce does not begin with ours")
        last = f"c=biws,r={nonce}"
        signed = b",".join((self._bare.encode(), told, last.encode()))
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, count)
        key = hmac.digest(salted, b"Client Key", self._hash)
        mask = hmac.digest(hashlib.new(self._hash, key).digest(), signed, self._hash)
        self._signature = hmac.digest(hmac.digest(salted, b"Server Key", self._hash), signed, self._hash)
        shown = bytes(one ^ other for one, other in zip(key, mask, strict=True))
        return f"{last},p={base64.b64encode(shown).decode()}".encode()

    def verify(self, told: bytes) -> None:
        """Hold the server's last message against the signature that only who knows the password can give.
        Raises ValueError."""
        given = base64.b64decode(_attributes(told).get("v", ""), validate=True)
        if not self._signature or not hmac.compare_digest(given, self._signature):
            raise ValueError("its signature is not that of a server that knows the password")


def _attributes(told: bytes) -> dict[str, str]:
    """Attributes of a message of the server, by letter. Raises ValueError, also for an extension that the
    client has to know (``m``)."""
    try:
        found = dict(part.split("=", 1) for part in told.decode().split(","))
    except ValueError:
        raise ValueError("its message is none of SCRAM") from None
    if "m" in found:
        raise ValueError("it demands an extension")
    return found


def _count(told: str) -> int:
    digits = told.isascii() and told.isdigit() and len(told) <= len(str(_MOST_ITERATIONS))
    if not digits or not _FEWEST_ITERATIONS <= int(told) <= _MOST_ITERATIONS:
        raise LoginRefused(
            f"the broker asks for {told[:12]!r} iterations of SCRAM, {_FEWEST_ITERATIONS} to "
            f"{_MOST_ITERATIONS} are accepted: fewer would let it guess the password; set the user's "
            "credential again with --add-config and iterations=4096 or more"
        )
    return int(told)


def _salt(told: str) -> bytes:
    salt = base64.b64decode(told, validate=True)
    if not salt:
        raise LoginRefused("the broker sends no salt for SCRAM: set the user's credential again")
    return salt


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


@dataclass(slots=True)
class Deadline:
    """When whoever asks wants no answer any more, in monotonic seconds; several connections share it."""

    at: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How to connect: ``settings`` as `client_settings` gives them (never printed), ``timeout_s`` bounds
    the connection's making and each wait for an answer, ``deadline`` all of them."""

    settings: Mapping[str, Any] = field(repr=False, default_factory=dict)
    timeout_s: float = 7.0
    deadline: Deadline = field(default_factory=Deadline)

    @property
    def wait_s(self) -> float:
        """How long to wait now for what is asked. Raises TimeoutError past the deadline."""
        left = self.deadline.at - time.monotonic()
        if left <= 0:
            raise TimeoutError(_NO_ANSWER)
        return min(self.timeout_s, left)

    @property
    def client_id(self) -> str:
        """What the broker's logs and quotas call us."""
        return str(self.settings.get("client_id", "groupshift"))

    @property
    def tls(self) -> ssl.SSLContext | None:
        """What to encrypt with, or None for a plain connection."""
        context: ssl.SSLContext | None = self.settings.get("ssl_context")
        return context


class BrokerConnection:
    """A connection; used by one thread at a time. After any OSError it is of no use: close it.

    Raises OSError when the broker is not reached or silent, `LoginRefused` when it does not accept the
    credentials, `UnsupportedByBroker` when it is too old for a request."""

    def __init__(self, host: str, port: int, access: Access) -> None:
        self.address = f"{host}:{port}"
        self._access = access
        self._correlation = 0
        self._asked: deque[tuple[int, Any]] = deque()
        self._answers: dict[int, Any] = {}
        self._channel: Channel = connect(host, port, access.tls, access.wait_s)
        try:
            self.versions, self.features = self._negotiate()
            if "sasl_mechanism" in access.settings:
                log_in(self.ask, self.messages, access.settings)
        except BaseException:
            self.close()
            raise
        self._channel.largest = LARGEST

    def messages(self, api: Api, *, at_least: int = 0, at_most: int = 32_767) -> ModuleType:
        """Classes of the newest version of ``api`` that both sides know, within the bounds: kio's
        module. Raises `UnsupportedByBroker`."""
        return messages(api, choose(self.versions, api, at_least=at_least, at_most=at_most))

    def request(self, api: Api, *, at_least: int = 0, at_most: int = 32_767, **values: Any) -> Any:
        """A request of the version that `messages` would choose, from ``values`` as `fill` takes them."""
        return fill(
            request_schema(api, choose(self.versions, api, at_least=at_least, at_most=at_most)), **values
        )

    def highest(self, api: Api) -> int:
        """The broker's newest version of ``api``; -1 when it does not have it."""
        known = self.versions.get(api)
        return known.highest if known else -1

    @property
    def release(self) -> str:
        """The newest release of Kafka whose requests the broker knows; empty before 2.0."""
        for release, api, version in _RELEASES:
            offered = self.versions.get(api)
            if offered and offered.lowest <= version <= offered.highest:
                return release
        return ""

    @property
    def sent(self) -> int:
        """How many requests were sent, those of the connection's making included."""
        return self._correlation

    def send(self, request: Any) -> int:
        """Send without waiting for the answer; returns what `receive` wants."""
        self._correlation += 1
        frame = request_frame(request, self._correlation, self._access.client_id)
        self._asked.append((self._correlation, request))
        self._channel.write(frame, self._access.wait_s)
        return self._correlation

    def receive(self, correlation: int, *, timeout_s: float | None = None) -> Any:
        """The answer to a request that was sent; answers to earlier ones are kept for their turn."""
        while correlation not in self._answers:
            waiting, request = self._asked[0]
            body = self._channel.read(self._access.wait_s if timeout_s is None else timeout_s)
            read = versions_answer if request.__api_key__ == Api.API_VERSIONS else answer_of
            found, answer = read(request, body)
            if found != waiting:
                raise Malformed(f"{self.address} answered request {found} where {waiting} was expected")
            self._asked.popleft()
            self._answers[found] = answer
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

    def _negotiate(self) -> tuple[Ranges, Mapping[str, int]]:
        """The broker's versions of every request, and the levels of the cluster's finalised features."""
        logger.info("asking broker %s which requests it knows", self.address)
        version = NEWEST_VERSIONS
        answer = self.ask(fill(request_schema(Api.API_VERSIONS, version), **SOFTWARE))
        if answer.error_code == ErrorCode.unsupported_version:
            offered = {each.api_key: each.max_version for each in answer.api_keys}
            version = min(version, offered.get(Api.API_VERSIONS, 0))
            answer = self.ask(fill(request_schema(Api.API_VERSIONS, version), **SOFTWARE))
        raise_for(answer.error_code, f"{self.address} does not tell its versions")
        ranges = {each.api_key: Range(each.min_version, each.max_version) for each in answer.api_keys}
        features = {each.name: each.max_version_level for each in getattr(answer, "finalized_features", ())}
        return ranges, features
