"""Which clients can speak the consumer protocol to which brokers. A broker does not tell what members run, so
the versions are asked of people: ``kafka-clients=3.9.1``, ``confluent-kafka=2.16.1``.

Sources: specs/group-coordinator.md, sections 5.1, 5.5 and 7.1; specs/verified-coordinator.md, section A (7);
confluent-kafka carries the librdkafka of its own first two numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from groupshift.domain.facts import Complaint
from groupshift.domain.protocol.broker import BrokerSettings
from groupshift.domain.verdict import Verdict
from groupshift.errors import Rejected

Release = tuple[int, ...]


class Client(StrEnum):
    """The clients whose abilities are known."""

    JAVA = "kafka-clients"
    CONFLUENT = "confluent-kafka"
    LIBRDKAFKA = "librdkafka"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientVersion:
    """A client and its version; ``text`` as it was given."""

    client: Client
    release: Release
    text: str


_FORM = re.compile(r"(?P<client>[a-z-]+)=(?P<release>\d+(?:\.\d+){1,3})(?:[-+.]\w+)*")
_PREVIEW, _HEARTBEAT_1 = (2, 4), (2, 10)
_EARLY, _GENERAL = (3, 7), (4, 0)


def client_version(text: str) -> ClientVersion:
    """From ``client=version``. Raises `Rejected` for another form or another client."""
    found = _FORM.fullmatch(text.strip())
    if found is None or found["client"] not in set(Client):
        known = ", ".join(Client)
        raise Rejected(f"client {text!r} is not understood; give one of {known} as in confluent-kafka=2.16.1")
    release = tuple(int(part) for part in found["release"].split("."))
    return ClientVersion(client=Client(found["client"]), release=release, text=text.strip())


def objections(version: ClientVersion, broker: BrokerSettings) -> Iterator[Complaint]:
    """What speaks against this client as a native member at this broker."""
    told = f"client {version.text}"
    if version.client is Client.JAVA:
        if version.release < _EARLY:
            yield Verdict.FAIL, f"{told} knows no group.protocol", "update it: 3.7 is the first, 4.0 ready"
        elif version.release < _GENERAL:
            reason = f"{told} speaks the consumer protocol as a preview; it is ready from 4.0 on"
            yield Verdict.INCONCLUSIVE, reason, "update it to 4.0 or newer"
    elif version.release < _PREVIEW:
        yield Verdict.FAIL, f"{told} knows no group.protocol", "update it: 2.4 is the first"
    elif version.release >= _HEARTBEAT_1 and not broker.general:
        yield (
            Verdict.FAIL,
            f"{told} speaks to brokers from 4.0 on only: here it never joins and says nothing",
            "update the brokers to 4.0, or use 2.4 to 2.8",
        )
