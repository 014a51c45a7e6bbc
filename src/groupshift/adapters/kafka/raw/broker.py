"""One connection to one broker: versions negotiated, logged in, requests answered in order."""

from __future__ import annotations

import logging
import ssl
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from kio.schema.errors import ErrorCode

from groupshift import __version__
from groupshift.adapters.kafka.raw.channel import LARGEST, Channel, connect
from groupshift.adapters.kafka.raw.login import log_in
from groupshift.adapters.kafka.raw.wire import (
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
    versions_answer,
)

logger = logging.getLogger(__name__)

_NEWEST_VERSIONS = 4
"""ApiVersions 4 shows features whose lowest level is 0 (group.version), which 3 hides."""
_IN_FLIGHT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How to connect: ``settings`` as `client_settings` gives them (never printed), ``timeout_s`` bounds
    the connection's making and each wait for an answer."""

    settings: Mapping[str, Any] = field(repr=False, default_factory=dict)
    timeout_s: float = 7.0

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
        self._channel: Channel = connect(host, port, access.tls, access.timeout_s)
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

    def highest(self, api: Api) -> int:
        """The broker's newest version of ``api``; -1 when it does not have it."""
        known = self.versions.get(api)
        return known.highest if known else -1

    @property
    def sent(self) -> int:
        """How many requests were sent, those of the connection's making included."""
        return self._correlation

    def send(self, request: Any) -> int:
        """Send without waiting for the answer; returns what `receive` wants."""
        self._correlation += 1
        frame = request_frame(request, self._correlation, self._access.client_id)
        self._asked.append((self._correlation, request))
        self._channel.write(frame, self._access.timeout_s)
        return self._correlation

    def receive(self, correlation: int, *, timeout_s: float | None = None) -> Any:
        """The answer to a request that was sent; answers to earlier ones are kept for their turn."""
        while correlation not in self._answers:
            waiting, request = self._asked[0]
            body = self._channel.read(self._access.timeout_s if timeout_s is None else timeout_s)
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
        version = _NEWEST_VERSIONS
        answer = self.ask(_versions_request(version))
        if answer.error_code == ErrorCode.unsupported_version:
            offered = {each.api_key: each.max_version for each in answer.api_keys}
            version = min(version, offered.get(Api.API_VERSIONS, 0))
            answer = self.ask(_versions_request(version))
        raise_for(answer.error_code, f"{self.address} does not tell its versions")
        ranges = {each.api_key: Range(each.min_version, each.max_version) for each in answer.api_keys}
        features = {each.name: each.max_version_level for each in getattr(answer, "finalized_features", ())}
        return ranges, features


def _versions_request(version: int) -> Any:
    schema = messages(Api.API_VERSIONS, version).ApiVersionsRequest
    return fill(schema, client_software_name="groupshift", client_software_version=__version__)
