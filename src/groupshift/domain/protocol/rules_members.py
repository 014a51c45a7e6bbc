"""Rules of the preflight about members: what they run, and what is not told of them."""

from __future__ import annotations

from collections.abc import Iterator

from groupshift.domain.facts import Complaint, sentence_list
from groupshift.domain.group_protocol import AWAY, SESSION, Kind, Protocol, Way
from groupshift.domain.protocol.facts import ProtocolFacts
from groupshift.domain.verdict import Verdict

_SHORTER = (
    "nothing, where that is short enough (offline is not shorter); else give members a group.instance.id, or "
    "shorten heartbeats: group.consumer.heartbeat.interval.ms and its minimum at the brokers, "
    "heartbeat.interval.ms of classic members"
)


def readable(facts: ProtocolFacts) -> Iterator[Complaint]:
    """What members say about themselves is understood."""
    for member in facts.group.members:
        if member.unreadable:
            reason = f"what member {member.name} says cannot be read ({member.unreadable})"
            yield Verdict.INCONCLUSIVE, reason, "see what client it runs"


def static(facts: ProtocolFacts) -> Iterator[Complaint]:
    """A static native member that closes stays a member (epoch -2) until its session ends, or until its
    twin with the same instance id takes its place."""
    static_ones = [member for member in facts.group.members if member.instance_id]
    away = [member.name for member in static_ones if member.epoch == AWAY]
    session = facts.view.settings.properties.get(SESSION, "45000")
    if away:
        reason = f"static members are away and still counted: {sentence_list(away)}"
        yield Verdict.INCONCLUSIVE, reason, f"start them, or wait {session} ms until their session ends"
    if facts.to is Protocol.CLASSIC and static_ones and facts.way is Way.ONLINE and not away:
        names = sentence_list([member.name for member in static_ones])
        yield (
            Verdict.PASS,
            f"static members {names} stay members for {session} ms after they close",
            "start each classic twin with the same group.instance.id: it takes its place at once",
        )


def told_apart(facts: ProtocolFacts) -> Iterator[Complaint]:
    """Brokers before 4.0 do not say which protocol a member of a mixed group speaks."""
    unsaid = facts.group.undeclared
    if unsaid and facts.group.kind is Kind.CONSUMER:
        yield (
            Verdict.INCONCLUSIVE,
            f"this broker does not tell which protocol {len(unsaid)} members speak (ConsumerGroupDescribe 0)",
            "trust the group's type only: it is classic when the last native member has left",
        )


def sessions(facts: ProtocolFacts) -> Iterator[Complaint]:
    """The session timeout of native members is the brokers' setting, not their own."""
    told = facts.view.settings.properties.get(SESSION)
    if facts.to is Protocol.CONSUMER and told:
        reason = f"a native member that dies is missed after {told} ms ({SESSION}), whatever it configures"
        yield (
            Verdict.PASS,
            reason,
            "remove session.timeout.ms and heartbeat.interval.ms from its configuration",
        )


def handed_over(facts: ProtocolFacts) -> Iterator[Complaint]:
    """A dynamic member that is replaced gives its partitions to others, who learn of it at their next
    heartbeat (docs/reference/protocol-on-real-brokers.md); a static one's wait for its twin."""
    members = facts.group.members
    dynamic = sum(not member.instance_id for member in members)
    if facts.way is Way.ONLINE and dynamic:
        reason = (
            f"{dynamic} of {len(members)} members are dynamic: with stock heartbeats single partitions have "
            "no owner for up to about 5 s while members are replaced one by one"
        )
        yield Verdict.INCONCLUSIVE, reason, _SHORTER
