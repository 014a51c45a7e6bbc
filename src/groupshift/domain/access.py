"""What an identity of the tool lacks at a server, and the findings that say so before anything is planned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from groupshift.domain.facts import sentence_list
from groupshift.domain.verdict import Finding, Verdict


class Server(StrEnum):
    """Where somebody logs in."""

    ZOOKEEPER = "ZooKeeper"
    KAFKA = "Kafka"


_NUMBERS = {Server.ZOOKEEPER: "I01", Server.KAFKA: "I02"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """One identity as its server takes it. ``who`` names it for people (``user 'operator'``), ``missing`` are
    operations with their resource that the server refuses (``write /consumers/g/migration/mode``)."""

    server: Server
    who: str
    missing: tuple[str, ...] = ()

    @property
    def finding(self) -> Finding:
        """I01 for ZooKeeper, I02 for Kafka: passed when nothing is missing."""
        number = _NUMBERS[self.server]
        if not self.missing:
            said = f"{self.who} may do at {self.server} what the move needs"
            return Finding(rule=number, verdict=Verdict.PASS, reason=said)
        return Finding(
            rule=number,
            verdict=Verdict.FAIL,
            reason=f"{self.who} may not {sentence_list(list(self.missing))} at {self.server}",
            hint="grant it to this user or log in as another one (docs/security.md says what is needed when)",
        )


def findings(identities: Sequence[Identity]) -> tuple[Finding, ...]:
    """One of each, in order."""
    return tuple(each.finding for each in identities)
