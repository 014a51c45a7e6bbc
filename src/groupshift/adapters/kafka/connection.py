"""One lazily made session with the brokers and bounded retries."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from kafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    KafkaError,
    KafkaTimeoutError,
    TopicAuthorizationFailedError,
)

from groupshift.adapters.kafka.properties import client_settings
from groupshift.adapters.kafka.sentences import refused, silent, without_secrets
from groupshift.adapters.kafka.session import REFUSED, Requests, Session
from groupshift.domain.addresses import kafka_servers
from groupshift.errors import Rejected

T = TypeVar("T")

_NEEDED = {
    GroupAuthorizationFailedError: "Describe the group",
    TopicAuthorizationFailedError: "Describe a topic",
    ClusterAuthorizationFailedError: "Describe the cluster",
}
"""The operation that an observer lacks where a broker answers with this error."""
_PAUSE_S = 0.1
_FIRST_SLICE_S = 1.0
"""The first attempt's share of the time, doubled for each further one: a broker that went away without
a word is asked again soon, a slow one is given more."""


class KafkaConnection:
    """Keeps one session between calls and opens nothing before the first.

    ``properties`` are librdkafka's security keys; their values never reach a log or a sentence.
    ``timeout_s`` bounds each `call` with all its retries.
    """

    def __init__(
        self, bootstrap_servers: str, *, properties: Mapping[str, str] | None = None, timeout_s: float = 7.0
    ) -> None:
        self._address = bootstrap_servers
        self._properties = dict(properties or {})
        self._timeout_s = timeout_s
        self._session: Session | None = None
        self._lock = threading.RLock()

    @property
    def address(self) -> str:
        """The bootstrap servers, for sentences to people."""
        return self._address

    @property
    def who(self) -> str:
        """The identity, for sentences to people."""
        user = self._properties.get("sasl.username")
        return f"user {user!r}" if user else "a connection without a user name"

    def call(self, work: Callable[[Requests], Awaitable[T]]) -> T:
        """Run ``work`` and return its result; repeat it after an error, until ``timeout_s``.

        ``work`` must be safe to repeat. Raises `Transient` when Kafka does not answer in time,
        `Rejected` when it refuses the credentials or a property is wrong.
        """
        with self._lock:
            deadline = time.monotonic() + self._timeout_s
            slice_s, cause = _FIRST_SLICE_S, ""
            while True:
                until = min(deadline, time.monotonic() + slice_s)
                slice_s *= 2
                try:
                    return self._connected().run(work, until)
                except (KafkaError, OSError) as failed:
                    self.close()
                    self._judge(failed)
                    if not cause or not isinstance(failed, KafkaTimeoutError):
                        cause = str(failed)
                    if time.monotonic() + _PAUSE_S >= deadline:
                        raise silent(self._address, self._timeout_s, self._without_secrets(cause)) from None
                    time.sleep(_PAUSE_S)
                except BaseException:
                    self.close()
                    raise

    def close(self) -> None:
        """Close the session; the next call opens a new one."""
        with self._lock:
            session, self._session = self._session, None
            if session is not None:
                session.close()

    def _connected(self) -> Session:
        if self._session is None:
            settings = client_settings(self._properties)
            servers = kafka_servers(
                self._address, "kafka.bootstrap_servers", self._properties.get("security.protocol", "")
            )
            self._session = Session({**settings, "bootstrap_servers": [str(each) for each in servers]})
        return self._session

    def _judge(self, failed: Exception) -> None:
        needed = next((said for kind, said in _NEEDED.items() if isinstance(failed, kind)), None)
        if needed:
            raise Rejected(
                f"Kafka at {self._address} does not allow {self.who} to {needed} "
                f"({self._without_secrets(str(failed))}): grant it, or correct [kafka.properties]"
            ) from None
        if isinstance(failed, REFUSED):
            raise refused(self._address, self._without_secrets(str(failed))) from None

    def _without_secrets(self, text: str) -> str:
        return without_secrets(text, self._properties)
