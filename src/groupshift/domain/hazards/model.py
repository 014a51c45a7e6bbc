"""What a line of the hazard book is, and what must be known of a cluster to ask it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from groupshift.domain.equality_rules import Comparison
from groupshift.domain.verdict import Verdict
from groupshift.domain.versions import Span, Touch, Version


class Role(StrEnum):
    """Whose version a range speaks of."""

    BROKER = "broker"
    """The brokers as they run before the move."""
    TARGET = "target"
    """The release that a downgrade goes to."""
    LOADER = "loader"
    """Every broker that will load the offsets topic: `BROKER` and `TARGET`."""
    LIBRDKAFKA = "librdkafka"
    """Members on librdkafka, confluent-kafka among them."""
    KAFKA_CLIENTS = "kafka-clients"
    """Members on Kafka's own Java library."""
    MIRROR_MAKER = "mirror-maker"


class Trait(StrEnum):
    """What else must be so that a bug shows; the word is what people type."""

    NEW_COORDINATOR = "new-coordinator"
    OLD_COORDINATOR = "old-coordinator"
    KRAFT = "kraft"
    POLICY_DISABLED = "policy-disabled"
    ONLINE = "online"
    STATIC_MEMBERS = "static-members"
    OTHER_SUBSCRIPTION = "other-subscription"
    COOPERATIVE_STICKY = "cooperative-sticky"
    ASSIGNMENT_DATA = "assignment-data"
    STREAMS_GROUPS = "streams-groups"
    NEW_RECORDS = "new-records"
    GROUP_VERSION = "group-version"
    METADATA_CHANGED = "metadata-changed"
    GROUP_CONFIGS = "group-configs"
    FORMATTED_NEWER = "formatted-newer"
    COMMIT_METADATA = "commit-metadata"
    OLD_BROKER_PROTOCOL = "old-broker-protocol"
    OFFSETS_IN_TRANSACTIONS = "offsets-in-transactions"
    FORMER_TOPIC = "former-topic"
    FOREIGN_EPOCHS = "foreign-epochs"


MEANS: Mapping[Trait, str] = {
    Trait.NEW_COORDINATOR: "the coordinator that loads the groups is the new one",
    Trait.OLD_COORDINATOR: "the coordinator that loads the groups is the old one",
    Trait.KRAFT: "the cluster runs in KRaft mode",
    Trait.POLICY_DISABLED: "group.consumer.migration.policy is disabled",
    Trait.ONLINE: "members stay in the group while it is converted",
    Trait.STATIC_MEMBERS: "members have a group.instance.id",
    Trait.OTHER_SUBSCRIPTION: "a member comes back with another subscription",
    Trait.COOPERATIVE_STICKY: "members use librdkafka's cooperative-sticky",
    Trait.ASSIGNMENT_DATA: "an assignor writes user data into assignments",
    Trait.STREAMS_GROUPS: "there are streams groups",
    Trait.NEW_RECORDS: "the offsets topic holds records of type 3 or above, tombstones included",
    Trait.GROUP_VERSION: "group.version is above 0, or no newer metadata snapshot covers its change",
    Trait.METADATA_CHANGED: "the target is below a level of metadata.version that changed the metadata log"
    " and that was reached",
    Trait.GROUP_CONFIGS: "groups have dynamic configurations",
    Trait.FORMATTED_NEWER: "storage was formatted by the kafka-storage tool of 4.4 or newer",
    Trait.COMMIT_METADATA: "commits carry metadata",
    Trait.OLD_BROKER_PROTOCOL: "inter.broker.protocol.version is older than 2.1",
    Trait.OFFSETS_IN_TRANSACTIONS: "transactions commit offsets of the groups",
    Trait.FORMER_TOPIC: "a committed offset belongs to a former topic of the same name",
    Trait.FOREIGN_EPOCHS: "a commit carries a leader epoch that is not its partition's",
}
"""Each condition as half a sentence."""


class Action(StrEnum):
    """What groupshift does where a hazard is met."""

    REFUSE = "refuse"
    """The move is refused: verdict fail."""
    ASK = "ask"
    """A person decides at a gate: verdict inconclusive."""
    WARN = "warn"
    """Said, and gone on: verdict pass."""


class Sure(StrEnum):
    """How well a line is known."""

    VERIFIED = "verified"
    """Seen on real servers with groupshift."""
    READ = "read"
    """Read in the classes or sources of the releases at both borders."""
    REPORTED = "reported"
    """Said by the project or its users; not tried."""


class Standing(StrEnum):
    """What the book says of one hazard; in order of harm."""

    CLEAR = "clear"
    WARNED = "warned"
    ASKED = "asked"
    REFUSED = "refused"

    @property
    def verdict(self) -> Verdict:
        """A warning passes, a question waits for a person, a refusal fails."""
        return _VERDICTS[self]


_VERDICTS = {
    Standing.CLEAR: Verdict.PASS,
    Standing.WARNED: Verdict.PASS,
    Standing.ASKED: Verdict.INCONCLUSIVE,
    Standing.REFUSED: Verdict.FAIL,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hazard:
    """One known bug or incompatibility.

    It is met where, for each role of ``affected``, some version lies in one of the ranges, and all
    ``traits`` hold. ``bug`` names it where it is kept, ``happens`` what becomes of the group, ``remedy`` what
    to do, ``source`` where it is described, ``seen`` how the borders are known."""

    number: str
    bug: str
    title: str
    happens: str
    moves: frozenset[Comparison]
    affected: Mapping[Role, tuple[Span, ...]]
    traits: frozenset[Trait] = frozenset()
    action: Action
    remedy: str
    source: str
    sure: Sure
    seen: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """A version that was met, and where: exactly, as a range in which it lies, or None for unknown.

    ``said`` is how somebody named it, for people to recognise."""

    where: str
    version: Version | Span | None
    said: str = ""

    def __str__(self) -> str:
        return f"{self.where} {self.said or self.version or 'of unknown version'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of the cluster and its members.

    A role of ``versions`` with an empty tuple is known not to be there; one that is missing is unknown, and
    asked for. ``traits`` that are missing are unknown too."""

    versions: Mapping[Role, tuple[Met, ...]] = field(default_factory=dict)
    traits: Mapping[Trait, bool] = field(default_factory=dict)

    def met(self, role: Role) -> tuple[Met, ...]:
        """The versions of a role; one of unknown version where nothing is known of it."""
        if role is Role.LOADER:
            return (*self.met(Role.BROKER), *self.met(Role.TARGET))
        return self.versions.get(role, (Met(where=role.value, version=None),))

    def unknown(self, role: Role) -> tuple[Role, ...]:
        """Which roles have to be told before this one is known."""
        parts = (Role.BROKER, Role.TARGET) if role is Role.LOADER else (role,)
        return tuple(part for part in parts if any(each.version is None for each in self.met(part)))


def touched(spans: tuple[Span, ...], version: Version | Span | None) -> Touch:
    """The worst that the ranges of one role say of a version."""
    said = [span.touch(version) for span in spans]
    return next((touch for touch in (Touch.YES, Touch.PERHAPS) if touch in said), Touch.NO)
