"""What a downgrade is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from groupshift.domain.addresses import one_server
from groupshift.domain.requests import option
from groupshift.domain.versions import Version
from groupshift.log.releases import Coordinator
from groupshift.moves.downgrade.releases import Target, target_of

_RELEASE = r"\d+\.\d+\.\d+"


@dataclass(frozen=True, slots=True, kw_only=True)
class DowngradeRequest:
    """Raises `Rejected` for a release that is not known, or no version."""

    to: str = option("The older release, such as 3.9.2.", pattern=_RELEASE)
    from_: str = option(
        "What the brokers run, where they tell only its line.", default="", pattern=f"({_RELEASE})?"
    )
    coordinator: Coordinator | None = option(
        "The group coordinator that the older release will run; without it its default.", default=None
    )
    segments: str = option(
        "A copy of __consumer_offsets' files; without it the log is read at the brokers.",
        default="",
        assesses=True,
    )
    jmx: tuple[str, ...] = option(
        "Where a broker has JMX open (host:port): its counts of groups have to be those of its list. Needs "
        "$KAFKA_HOME/libs.",
        default=(),
        assesses=True,
    )
    live: bool = option("Consumers commit while the brokers are replaced.", default=False)
    brokers_only: bool = option("Controllers of their own keep their release.", default=False)
    soak_s: int = option(
        "Seconds to look on whether every group answers what it had.", default=0, minimum=0, maximum=604_800
    )

    def __post_init__(self) -> None:
        _ = (self.target, self.said)
        for each in self.jmx:
            one_server(each, "--jmx")

    @property
    def target(self) -> Target:
        """The release to go to."""
        return target_of(self.to, self.coordinator)

    @property
    def copied(self) -> bool:
        """Whether the log that is read is a copy; a run reads it at the brokers."""
        return bool(self.segments)

    @property
    def said(self) -> Version | None:
        """What the brokers run, None where nobody said it."""
        return Version.parse(self.from_, "--from") if self.from_ else None
