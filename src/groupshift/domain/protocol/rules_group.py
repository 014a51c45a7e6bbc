"""Rules of the preflight about the group: its type, its assignor, its offsets, and being empty on the way."""

from __future__ import annotations

from collections.abc import Iterator

from groupshift.domain.commit_places import EPOCHS, Stray
from groupshift.domain.facts import Complaint, sentence_list
from groupshift.domain.group_protocol import CONSUMERS, EMPTY, Kind, Protocol, Way
from groupshift.domain.protocol.facts import ProtocolFacts
from groupshift.domain.rows import ClusterState
from groupshift.domain.topic_filter import clean_filter, compile_filter
from groupshift.domain.verdict import Verdict
from groupshift.errors import Rejected

STABLE = "Stable"
_STICKY = frozenset({"sticky", "cooperative-sticky"})
_AT_REST = frozenset({STABLE, EMPTY})
_MOVABLE = frozenset({Kind.CLASSIC, Kind.CONSUMER})
_SERVER: dict[str, str] = {
    "range": "range",
    "roundrobin": "uniform",
    "sticky": "uniform",
    "cooperative-sticky": "uniform",
}
"""The server's assignor that comes nearest to one of clients (KIP-848)."""


def exists(facts: ProtocolFacts) -> Iterator[Complaint]:
    """A broker lists it, or its coordinator describes it."""
    group = facts.group
    if group.kind is Kind.ABSENT:
        yield (
            Verdict.FAIL,
            f"no broker knows group {group.group}: it has neither members nor offsets",
            "check the name; a new group needs no move",
        )


def movable(facts: ProtocolFacts) -> Iterator[Complaint]:
    """Groups of consumers only: the others have protocols of their own."""
    group = facts.group
    if group.kind is Kind.UNKNOWN:
        yield (
            Verdict.ERROR,
            f"group {group.group} cannot be read: type unknown here, state {group.state or 'not told'}",
            "assess again in a minute, for its coordinator may be loading; else see kafka-groups.sh --list",
        )
    elif group.kind not in _MOVABLE:
        reason = f"group {group.group} is a {group.kind} group: no move leads from there to consumers"
        yield Verdict.FAIL, reason, "leave it out"
    elif group.protocol_type not in {"", CONSUMERS}:
        yield (
            Verdict.FAIL,
            f"group {group.group} is of protocol type {group.protocol_type}, whose members are no consumers",
            "leave it out: it goes on as a classic group on every release",
        )


def something_to_do(facts: ProtocolFacts) -> Iterator[Complaint]:
    """It is not of the wanted type with all its members yet."""
    group = facts.group
    others, unsaid = group.speaking(facts.to.other), group.undeclared
    if group.kind.value != facts.to.value or unsaid:
        return
    if not others:
        yield (
            Verdict.INCONCLUSIVE,
            f"group {group.group} is of type {facts.to} and no member speaks {facts.to.other}",
            "there is nothing to move",
        )
    else:
        reason = f"the move is half-way: {len(others)} of {len(group.members)} members speak {facts.to.other}"
        yield Verdict.PASS, reason, "go on with these members"


def at_rest(facts: ProtocolFacts) -> Iterator[Complaint]:
    """No rebalance goes on."""
    if facts.group.state not in _AT_REST:
        yield Verdict.INCONCLUSIVE, f"the group is {facts.group.state}", "wait until it is Stable"


def assignor(facts: ProtocolFacts) -> Iterator[Complaint]:
    """From the members' assignor to the server's, and back."""
    group, known = facts.group, facts.view.settings.assignors
    if group.empty or not group.protocol:
        return
    if facts.to is Protocol.CLASSIC:
        near = "range" if group.protocol == "range" else "roundrobin or cooperative-sticky"
        reason = f"the server assigns with {group.protocol}; classic members bring their own assignor"
        hint = f"give all of them one partition.assignment.strategy ({near})"
        yield Verdict.PASS, reason, hint
        return
    if group.kind is not Kind.CLASSIC or not known:
        return
    yield from _data_to_come(facts)
    near = _SERVER.get(group.protocol, "")
    default = f"the server assigns with {known[0]} unless members name another"
    if near not in known:
        yield (
            Verdict.INCONCLUSIVE,
            f"assignor {group.protocol} is like none of the server's ({', '.join(known)}); {default}",
            "see that the group does not depend on which member has which partition",
        )
    elif near != known[0]:
        reason = f"members assign with {group.protocol}; {default}"
        yield Verdict.PASS, reason, f"to keep it, set group.remote.assignor={near}"


def _data_to_come(facts: ProtocolFacts) -> Iterator[Complaint]:
    """A cooperative group of librdkafka has user data in its assignments after some rebalances and none after
    others (seen on 4.3.1), so an answer of now does not hold for long."""
    group = facts.group
    if facts.way is Way.ONLINE and group.protocol in _STICKY and facts.view.settings.checks_user_data:
        seen = "it did" if any(member.user_data for member in group.members) else "not in the last one"
        yield (
            Verdict.INCONCLUSIVE,
            f"{group.protocol} may put data into assignments ({seen}); native members are then refused",
            "give all members range or roundrobin first, or move with --offline",
        )


def way_fits(facts: ProtocolFacts) -> Iterator[Complaint]:
    """Offline means that nobody consumes for a while."""
    group = facts.group
    if facts.way is Way.OFFLINE and not group.empty:
        count = len(group.members)
        reason = f"offline, all members stop before the first one starts again; {count} are in the group"
        yield Verdict.INCONCLUSIVE, reason, "--online keeps consuming, where the answers allow it"
    elif facts.way is Way.ONLINE and group.empty:
        yield Verdict.PASS, "nobody is in the group: the first member that joins converts it", ""


def offsets_complete(facts: ProtocolFacts) -> Iterator[Complaint]:
    """Each partition of the topics that are read has a committed offset, within its log or explained."""
    if facts.state is None:
        return
    for problem in facts.state.problems:
        if not problem.of_leftover:
            yield (
                Verdict.ERROR,
                problem.problem,
                "try again; a snapshot that is not complete proves nothing",
            )
    missing, beyond, below = _compared(facts.state)
    if missing:
        yield (
            Verdict.INCONCLUSIVE,
            f"{len(missing)} partitions have no committed offset: {sentence_list(missing)}",
            "their next member begins where its auto.offset.reset says: let members commit first",
        )
    if beyond:
        yield (
            Verdict.FAIL,
            f"committed offsets lie outside their logs: {sentence_list(beyond)}",
            "their next member begins where its auto.offset.reset says: correct them first",
        )
    if below:
        yield (
            Verdict.PASS,
            f"explained: the records at committed offsets are deleted: {sentence_list(below)}",
            "their next member begins where its auto.offset.reset says",
        )
    yield from _strays(facts.state)


def _strays(state: ClusterState) -> Iterator[Complaint]:
    """Commits with which the next member does not go on where the group is, of topics that are read: whether
    it minds a foreign leader epoch depends on its client."""
    topics = _read(state)
    rows = [row for row in state.offsets if row.offset >= 0 and (not topics or row.topic in topics)]
    found = [(row, state.topics.strays(row)) for row in rows]
    former = [row for row, strays in found if Stray.FORMER_TOPIC in strays]
    if former:
        names = sorted(f"{row.topic}-{row.partition} at {row.offset}" for row in former)
        yield (
            Verdict.FAIL,
            (
                f"commits belong to a former topic of the same name: {sentence_list(names)}; a member that "
                "asks by topic id is told none and resets, one that asks by name reads on at another record"
            ),
            "set these offsets to where the group should go on in the topic of today, or delete them",
        )
    foreign = [row for row, strays in found if strays & EPOCHS]
    if foreign:
        names = sorted(
            f"{row.topic}-{row.partition} (epoch {row.leader_epoch}, "
            f"now {state.topics.current_epoch(row.topic, row.partition)})"
            for row in foreign
        )
        yield (
            Verdict.INCONCLUSIVE,
            (
                f"the leader epoch of the commit is not the partition's: {sentence_list(names)}; a Java "
                "consumer that starts there reads nothing, or goes back"
            ),
            "let members commit; else stop them, then: groupshift repair epochs --execute",
        )


def _compared(state: ClusterState) -> tuple[list[str], list[str], list[str]]:
    """Partitions of the topics that are read without an offset, and those whose offset is beyond their log,
    or before it. Without members every topic with offsets is meant."""
    topics = _read(state)
    committed = {(row.topic, row.partition): row.offset for row in state.offsets}
    missing, beyond, below = [], [], []
    for end in state.log_ends:
        name, at = f"{end.topic}-{end.partition}", committed.get((end.topic, end.partition))
        if topics and end.topic not in topics:
            continue
        if at is None:
            if topics and end.log_end > end.log_start:
                missing.append(name)
        elif at > end.log_end:
            beyond.append(f"{name} at {at}, log {end.log_start} to {end.log_end}")
        elif at < end.log_start:
            below.append(f"{name} at {at}, log {end.log_start} to {end.log_end}")
    return sorted(missing), sorted(beyond), sorted(below)


def _read(state: ClusterState) -> set[str]:
    """The topics that members name, have, or match by an expression: by one that cannot be evaluated here,
    all of them."""
    named = {row.topic for row in state.subscriptions}
    expressions = sorted(each[1:] for each in named if each[:1] == "~")
    topics = {each for each in named if each[:1] != "~"} | {row.topic for row in state.assignments}
    known = {end.topic for end in state.log_ends}
    for each in expressions:
        if clean_filter(each) != each:  # what old consumers read otherwise
            return topics | known
        try:
            matches = compile_filter(each).fullmatch
        except Rejected:
            return topics | known
        topics |= {topic for topic in known if matches(topic)}
    return topics


def alone(facts: ProtocolFacts) -> Iterator[Complaint]:
    """A single member cannot be replaced without a moment with none."""
    if facts.way is Way.ONLINE and len(facts.group.members) == 1:
        yield (
            Verdict.INCONCLUSIVE,
            "the group has one member: until its successor has joined nobody consumes, and nothing converts",
            "start a second member first, or accept the gap",
        )


def old_offsets(facts: ProtocolFacts) -> Iterator[Complaint]:
    """A group of type consumer that is empty loses commits older than the retention at the next check
    (section 1.7; seen on 4.3.1 one second after it was emptied)."""
    if facts.group.kind is Kind.CONSUMER and (facts.empties or facts.group.empty):
        yield (
            Verdict.INCONCLUSIVE,
            "an empty group of type consumer soon loses commits older than offsets.retention.minutes",
            "close members cleanly (librdkafka commits again then); start the first one within 10 minutes",
        )
