"""What people are told when Kafka refuses or does not answer; no secret is ever quoted."""

from __future__ import annotations

import re
from collections.abc import Mapping

from groupshift.domain.secrets import struck_out
from groupshift.errors import Rejected, Transient

_SECRET = re.compile(r"password|secret|key|pem|jaas|oauth|token", re.IGNORECASE)


def without_secrets(text: str, properties: Mapping[str, str]) -> str:
    """``text`` with the values of all properties that hold a secret struck out."""
    return struck_out(text, (value for key, value in properties.items() if _SECRET.search(key)))


def refused(address: str, why: str) -> Rejected:
    """The credentials are not accepted."""
    return Rejected(
        f"Kafka at {address} refuses the credentials ({why}): "
        "correct the security keys of [kafka.properties] or the ACLs of this user"
    )


def silent(address: str, timeout_s: float, cause: str) -> Transient:
    """Nobody answers in time."""
    return Transient(
        f"Kafka does not answer at {address} (setting [kafka] bootstrap_servers) within "
        f"{timeout_s:g} s ({cause}): check that it runs and that "
        "the address is right, then run the same command again"
    )
