"""One lazily made Kafka admin client with bounded retries; confluent-kafka stays in this package."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from groupshift.errors import Rejected, Transient

T = TypeVar("T")

_LOG = logging.getLogger("groupshift.kafka")
_SECRET = re.compile(r"password|secret|key|pem|jaas|oauth|token", re.IGNORECASE)
_PAUSE_S = 0.1
_FIRST_SLICE_S = 1.0
"""The first attempt's share of the time, doubled for each further one: while a broker makes the offsets
topic, librdkafka lets a request for the coordinator hang that is answered at once when asked again."""

_REFUSED = frozenset(
    {
        KafkaError._AUTHENTICATION,  # noqa: SLF001 - librdkafka's local codes have such names
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.ILLEGAL_SASL_STATE,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)


class Requests:
    """The admin client of one attempt: every wait ends at the attempt's deadline."""

    def __init__(self, admin: AdminClient, deadline: float) -> None:
        self.admin = admin
        self._deadline = deadline

    @property
    def left_s(self) -> float:
        """Seconds until the deadline, never below 0.1 (librdkafka's shortest useful time-out)."""
        return max(0.1, self._deadline - time.monotonic())

    def result(self, future: Future[T]) -> T:
        """The answer; raises `KafkaException` or, when none came, the future's time-out."""
        return future.result(timeout=self.left_s + 0.5)


class KafkaConnection:
    """Keeps one admin client between calls and opens nothing before the first.

    ``properties`` are librdkafka keys (security, chiefly); their values never reach a log or a
    sentence. ``timeout_s`` bounds each `call` with all its retries.
    """

    def __init__(
        self, bootstrap_servers: str, *, properties: Mapping[str, str] | None = None, timeout_s: float = 7.0
    ) -> None:
        self._address = bootstrap_servers
        self._properties = dict(properties or {})
        self._timeout_s = timeout_s
        self._admin: AdminClient | None = None
        self._refusal: str | None = None
        self._last = ""
        self._lock = threading.RLock()

    @property
    def address(self) -> str:
        """The bootstrap servers, for sentences to people."""
        return self._address

    def call(self, work: Callable[[Requests], T]) -> T:
        """Run ``work`` and return its result; repeat it after an error, until ``timeout_s``.

        ``work`` must be safe to repeat. Raises `Transient` when Kafka does not answer in time,
        `Rejected` when it refuses the credentials or a property is wrong.
        """
        with self._lock:
            deadline = time.monotonic() + self._timeout_s
            slice_s = _FIRST_SLICE_S
            while True:
                until = min(deadline, time.monotonic() + slice_s)
                slice_s *= 2
                try:
                    return work(Requests(self._connected(), until))
                except (KafkaException, FutureTimeoutError) as failed:
                    self._judge(failed)
                    if time.monotonic() + _PAUSE_S >= deadline:
                        raise self._unreachable(failed) from failed
                    time.sleep(_PAUSE_S)

    def close(self) -> None:
        """Drop the admin client; the next call makes a new one."""
        with self._lock:
            self._admin = None

    def _connected(self) -> AdminClient:
        if self._admin is None:
            self._refusal, self._last = None, ""
            settings = {
                "client.id": "groupshift",
                "reconnect.backoff.max.ms": 500,
                # What it would log once per attempt comes through error_cb and ends in one sentence.
                "log_level": 2,
                **self._properties,
                "bootstrap.servers": self._address,
                "error_cb": self._remember,
            }
            try:
                self._admin = AdminClient(settings, logger=_LOG)
            except KafkaException as wrong:
                raise Rejected(
                    f"a property of [kafka.properties] cannot be used: {self._without_secrets(_text(wrong))}"
                ) from None
        return self._admin

    def _remember(self, error: KafkaError) -> None:
        if error.code() in _REFUSED:
            self._refusal = error.str()
        elif error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 - says less than its cause
            self._last = error.str()

    def _judge(self, failed: Exception) -> None:
        """Raise `Rejected` when the failure is a refusal; librdkafka reports some only as an event."""
        if self._admin is not None:
            self._admin.poll(0)
        error = _error(failed)
        refusal = error.str() if error is not None and error.code() in _REFUSED else self._refusal
        if refusal:
            self.close()
            raise Rejected(
                f"Kafka at {self._address} refuses the credentials ({self._without_secrets(refusal)}): "
                "correct the security keys of [kafka.properties] or the ACLs of this user"
            ) from None

    def _unreachable(self, failed: Exception) -> Transient:
        self.close()
        cause = self._without_secrets(self._last or _text(failed))
        return Transient(
            f"Kafka does not answer at {self._address} (setting [kafka] bootstrap_servers) within "
            f"{self._timeout_s:g} s ({cause}): check that it runs and that "
            "the address is right, then run the same command again"
        )

    def _without_secrets(self, text: str) -> str:
        for key, value in self._properties.items():
            if _SECRET.search(key) and value:
                text = text.replace(value, "***")
        return text


def _error(failed: Exception) -> KafkaError | None:
    first: Any = failed.args[0] if failed.args else None
    return first if isinstance(first, KafkaError) else None


def _text(failed: Exception) -> str:
    error = _error(failed)
    return f"{error.name()}: {error.str()}" if error is not None else "no answer in time"
