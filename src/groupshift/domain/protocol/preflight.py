"""The numbered rules of a protocol move's preflight (P…): each passes, or says what is wrong and what to do.

What they say is in ``rules.toml``. What brokers and clients are known to do wrong is the hazard book's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from groupshift.domain.commit_places import EPOCHS, Stray
from groupshift.domain.facts import at_brokers, sentence_list
from groupshift.domain.group_protocol import (
    ALIKE,
    AWAY,
    CONSUMERS,
    EMPTY,
    POLICY,
    PROTOCOLS,
    SESSION,
    BrokerSettings,
    KafkaGroup,
    Kind,
    Protocol,
    ProtocolView,
    Way,
)
from groupshift.domain.hazards import Met, Role
from groupshift.domain.protocol.answers import AnswerOutcome, CoordinatorAnswer, forecast, way_back
from groupshift.domain.rows import ClusterState
from groupshift.domain.rules import Rules, Says, some
from groupshift.domain.topic_filter import clean_filter, compile_filter
from groupshift.domain.verdict import Finding, Verdict
from groupshift.errors import Rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolFacts:
    """A group, where it is to go and how. ``versions`` are those that people named, by role; ``state`` is a
    live snapshot of the group with offsets and log ends (None: not read)."""

    view: ProtocolView
    to: Protocol
    way: Way = Way.ONLINE
    versions: Mapping[Role, tuple[Met, ...]] = field(default_factory=dict)
    state: ClusterState | None = None

    @property
    def group(self) -> KafkaGroup:
        """The group."""
        return self.view.group


FILE = "domain/protocol/rules.toml"
RULES: Rules[ProtocolFacts] = Rules(FILE, "P")
"""Every rule of the preflight, in the order in which they are asked."""
STABLE = "Stable"
_rule = RULES.rule
FIRST = ("P01", "P02")
_STICKY = frozenset({"sticky", "cooperative-sticky"})
_SERVER = {"range": "range", **dict.fromkeys(("roundrobin", *_STICKY), "uniform")}
"""The server's assignor that comes nearest to one of clients (KIP-848)."""


def ask(facts: ProtocolFacts) -> tuple[Finding, ...]:
    """Return what the rules say, passed ones included; of what is no group of consumers only the rule that
    says so speaks."""
    findings: list[Finding] = []
    for rule in RULES.values():
        findings += rule.ask(facts)
        if not movable(findings):
            break
    return tuple(findings)


def movable(findings: Iterable[Finding]) -> bool:
    """Return True where the first two rules leave anything to be said."""
    return all(each.verdict is Verdict.PASS for each in findings if each.rule in FIRST)


@_rule("P01")
def exists(facts: ProtocolFacts) -> Iterator[Says]:
    """A broker lists it, or its coordinator describes it."""
    if facts.group.kind is Kind.ABSENT:
        yield Says("unknown_to_brokers", group=facts.group.group)


@_rule("P02")
def of_consumers(facts: ProtocolFacts) -> Iterator[Says]:
    """Groups of consumers only: the others have protocols of their own."""
    group = facts.group
    if group.kind is Kind.UNKNOWN:
        yield Says("type_unknown", group=group.group, state=group.state or "not told")
    elif group.untold:
        yield Says("members_untold", group=group.group, state=group.state)
    elif group.kind not in {Kind.CLASSIC, Kind.CONSUMER}:
        yield Says("other_type", group=group.group, kind=group.kind)
    elif group.protocol_type not in {"", CONSUMERS}:
        yield Says("other_protocol_type", group=group.group, type=group.protocol_type)


@_rule("P03")
def something_to_do(facts: ProtocolFacts) -> Iterator[Says]:
    """It is not of the wanted type with all its members yet."""
    group, other = facts.group, facts.to.other
    others = group.speaking(other)
    if group.kind.value != facts.to.value or group.undeclared:
        return
    if others:
        yield Says("half_way", others=len(others), members=len(group.members), other=other)
    else:
        yield Says("nothing_to_move", group=group.group, to=facts.to, other=other)


@_rule("P04")
def settings_told(facts: ProtocolFacts) -> Iterator[Says]:
    """Every broker tells its settings."""
    for broker in facts.view.brokers:
        if broker.settings.untold:
            yield Says("untold", broker=broker.node_id, why=broker.settings.untold)


@_rule("P05")
def alike(facts: ProtocolFacts) -> Iterator[Says]:
    """Whichever broker coordinates the group reads its own settings (group-coordinator.md §5.1)."""
    settings = [(broker.settings, broker.node_id) for broker in facts.view.brokers]
    serving = at_brokers(("no" if each.serves else "yes", node) for each, node in settings)
    releases = at_brokers((_release(each), node) for each, node in settings)
    if len(serving) > 1:
        yield Says("served_differently", brokers=serving)
    elif len(releases) > 1:
        yield Says("several_releases", brokers=releases)
    for name in ALIKE:
        values = at_brokers((each.properties.get(name, "unset"), node) for each, node in settings)
        if len(values) > 1:
            sentence = "decisive_setting_differs" if name in {POLICY, PROTOCOLS} else "setting_differs"
            yield Says(sentence, setting=name, brokers=values)


def _release(settings: BrokerSettings) -> str:
    if settings.general:
        return "4.0 or newer"
    older = f"older (DescribeGroups {settings.descriptions})"
    return "3.7 to 3.9" if settings.heartbeats == 0 else older


@_rule("P06")
def one_coordinator(facts: ProtocolFacts) -> Iterator[Says]:
    """All brokers name the same, it alone lists the group, and none is loading."""
    for said in disagreements(facts.view):
        yield Says("brokers_disagree_now", said=said)


def disagreements(view: ProtocolView) -> Iterator[str]:
    """Yield what brokers say differently about who coordinates the group."""
    loading = [str(broker.node_id) for broker in view.brokers if broker.loading]
    if loading:
        yield f"broker {sentence_list(loading)} is loading coordinator partitions"
    silent = [str(broker.node_id) for broker in view.brokers if broker.coordinator is None]
    if silent:
        yield f"broker {sentence_list(silent)} names no coordinator"
    named = view.coordinators
    if len(named) > 1:
        each = [f"{node} (broker {', '.join(map(str, by))})" for node, by in sorted(named.items())]
        yield f"brokers name several coordinators: {sentence_list(each)}"
    lists = [broker.node_id for broker in view.brokers if broker.lists is not None]
    others = [str(node) for node in lists if node != view.group.coordinator]
    if others:
        yield f"broker {sentence_list(others)} lists the group without coordinating it"


@_rule("P07")
def served(facts: ProtocolFacts) -> Iterator[Says]:
    """The consumer protocol is on at every broker: the coordinator may move to any."""
    if facts.to is Protocol.CONSUMER:
        for broker in facts.view.brokers:
            if broker.settings.serves:
                yield Says("serves_no_natives", broker=broker.node_id, why=broker.settings.serves)


@_rule("P08")
def predicted(facts: ProtocolFacts) -> Iterator[Says]:
    """What the coordinator will answer, by number of its row; refused or not the type that is wanted."""
    for answer in forecast(facts.to, facts.way, facts.group, facts.view.settings):
        yield Says(_judged(answer, facts.to), answer=_sentence(answer), remedy=answer.remedy)


@_rule("P09")
def back(facts: ProtocolFacts) -> Iterator[Says]:
    """Whether a rollback is possible while the group is consumed."""
    if facts.to is not Protocol.CONSUMER or facts.way is Way.OFFLINE or facts.group.empty:
        return
    for answer in way_back(facts.group, facts.view.settings):
        if _judged(answer, Protocol.CLASSIC) == "answer_refused":
            yield Says("back_offline_only", answer=_sentence(answer), remedy=answer.remedy)


def _judged(answer: CoordinatorAnswer, to: Protocol) -> str:
    if answer.outcome is AnswerOutcome.UNKNOWN:
        return "answer_unknown"
    if answer.refused or (answer.outcome is AnswerOutcome.STAYS and to is Protocol.CLASSIC):
        return "answer_refused"
    return "answer_fits"


def _sentence(answer: CoordinatorAnswer) -> str:
    code = f" with error {answer.code}" if answer.code else ""
    client = f"; {answer.client}" if answer.client else ""
    kind = f" ({answer.kind})" if answer.kind not in {None, Kind.ABSENT} else ""
    return f"{answer.number}, {answer.event}: {answer.outcome}{code}{kind}, for {answer.reason}{client}"


@_rule("P10")
def at_rest(facts: ProtocolFacts) -> Iterator[Says]:
    """No rebalance goes on."""
    if facts.group.state not in {STABLE, EMPTY}:
        yield Says("rebalances", state=facts.group.state)


@_rule("P11")
def assignor(facts: ProtocolFacts) -> Iterator[Says]:
    """From the members' assignor to the server's, and back. A cooperative group of librdkafka has user data
    in its assignments after some rebalances and none after others (seen on 4.3.1)."""
    group, known = facts.group, facts.view.settings.assignors
    if group.empty or not group.protocol:
        return
    if facts.to is Protocol.CLASSIC:
        near = "range" if group.protocol == "range" else "roundrobin or cooperative-sticky"
        yield Says("server_assigns", assignor=group.protocol, near=near)
        return
    if group.kind is not Kind.CLASSIC or not known:
        return
    if facts.way is Way.ONLINE and group.protocol in _STICKY and facts.view.settings.checks_user_data:
        before = "it did" if any(member.user_data for member in group.members) else "not in the last one"
        yield Says("data_in_assignments", assignor=group.protocol, seen=before)
    near = _SERVER.get(group.protocol, "")
    if near not in known:
        yield Says("assignor_unlike", assignor=group.protocol, known=", ".join(known), default=known[0])
    elif near != known[0]:
        yield Says("assignor_changes", assignor=group.protocol, near=near, default=known[0])


@_rule("P12")
def way_fits(facts: ProtocolFacts) -> Iterator[Says]:
    """Offline means that nobody consumes for a while."""
    group = facts.group
    if facts.way is Way.OFFLINE and not group.empty:
        yield Says("all_stop", members=len(group.members))
    elif facts.way is Way.ONLINE and group.empty:
        yield Says("nobody_in_group")


@_rule("P13")
def offsets_complete(facts: ProtocolFacts) -> Iterator[Says]:
    """Each partition of the topics that are read has a committed offset, within its log or explained; without
    members every topic with offsets is meant."""
    state = facts.state
    if state is None:
        return
    for problem in state.problems:
        if not problem.of_leftover:
            yield Says("snapshot_incomplete", problem=problem.problem)
    topics = _read(state)
    committed = {row.at: row.offset for row in state.offsets}
    missing, beyond, below = list[str](), list[str](), list[str]()
    for end in state.log_ends if not topics else (end for end in state.log_ends if end.topic in topics):
        name, at = str(end.at), committed.get(end.at)
        if at is None:
            missing += [name] if topics and end.log_end > end.log_start else []
        elif not end.log_start <= at <= end.log_end:
            outside = beyond if at > end.log_end else below
            outside.append(f"{name} at {at}, log {end.log_start} to {end.log_end}")
    yield from some("no_offset", count=len(missing), partitions=sorted(missing))
    yield from some("outside_log", partitions=sorted(beyond))
    yield from some("records_deleted", partitions=sorted(below))
    yield from _strays(state, topics)


def _strays(state: ClusterState, topics: Collection[str]) -> Iterator[Says]:
    """Commits of a former topic or with a foreign leader epoch: the next member does not go on where the
    group is, or may not. Whether it minds depends on its client."""
    rows = [row for row in state.offsets if row.offset >= 0 and (not topics or row.topic in topics)]
    strays = [(row, state.topics.strays(row)) for row in rows]
    former = sorted(f"{row.at} at {row.offset}" for row, kinds in strays if Stray.FORMER_TOPIC in kinds)
    yield from some("former_topic", partitions=former)
    foreign = sorted(
        f"{row.at} (epoch {row.leader_epoch}, now {state.topics.current_epoch(*row.at)})"
        for row, kinds in strays
        if kinds & EPOCHS
    )
    yield from some("foreign_epoch", partitions=foreign)


def _read(state: ClusterState) -> set[str]:
    """The topics that members name, have, or match by an expression: by one that cannot be evaluated here,
    all of them."""
    named = state.read_topics
    expressions = sorted(each[1:] for each in named if each[:1] == "~")
    topics = {each for each in named if each[:1] != "~"}
    known = {end.topic for end in state.log_ends}
    try:
        filters = [compile_filter(each) for each in expressions]
    except Rejected:
        return topics | known
    if any(clean_filter(each) != each for each in expressions):  # what old consumers read otherwise
        return topics | known
    return topics | {topic for topic in known if any(each.fullmatch(topic) for each in filters)}


@_rule("P14")
def alone(facts: ProtocolFacts) -> Iterator[Says]:
    """A single member cannot be replaced without a moment with none."""
    if facts.way is Way.ONLINE and len(facts.group.members) == 1:
        yield Says("one_member")


@_rule("P15")
def old_offsets(facts: ProtocolFacts) -> Iterator[Says]:
    """A group of type consumer that is empty loses commits older than the retention at the next check
    (section 1.7; seen on 4.3.1 one second after it was emptied): offline, and online with a single member,
    nobody is in the group for a moment."""
    group = facts.group
    empties = group.empty or facts.way is Way.OFFLINE or len(group.members) == 1
    if group.kind is Kind.CONSUMER and empties:
        yield Says("commits_expire")


@_rule("P16")
def static(facts: ProtocolFacts) -> Iterator[Says]:
    """A static native member that closes stays a member (epoch -2) until its session ends, or until its
    twin with the same instance id takes its place."""
    static_ones = [member for member in facts.group.members if member.instance_id]
    away = [member.name for member in static_ones if member.epoch == AWAY]
    session = facts.view.settings.properties.get(SESSION, "45000")
    if away:
        yield Says("static_away", members=away, session=session)
    elif facts.to is Protocol.CLASSIC and static_ones and facts.way is Way.ONLINE:
        yield Says("static_stay", members=[member.name for member in static_ones], session=session)


@_rule("P17")
def readable(facts: ProtocolFacts) -> Iterator[Says]:
    """What members say about themselves is understood."""
    for member in facts.group.members:
        if member.unreadable:
            yield Says("unreadable", member=member.name, why=member.unreadable)


@_rule("P18")
def told_apart(facts: ProtocolFacts) -> Iterator[Says]:
    """Brokers before 4.0 do not say which protocol a member of a mixed group speaks."""
    unsaid = facts.group.undeclared
    if unsaid and facts.group.kind is Kind.CONSUMER:
        yield Says("undeclared", count=len(unsaid))


@_rule("P19")
def sessions(facts: ProtocolFacts) -> Iterator[Says]:
    """The session timeout of native members is the brokers' setting, not their own."""
    session = facts.view.settings.properties.get(SESSION)
    if facts.to is Protocol.CONSUMER and session:
        yield Says("session_of_brokers", session=session, setting=SESSION)


@_rule("P20")
def handed_over(facts: ProtocolFacts) -> Iterator[Says]:
    """A dynamic member that is replaced gives its partitions to others, who learn of it at their next
    heartbeat (docs/reference/protocol-on-real-brokers.md); a static one's wait for its twin."""
    members = facts.group.members
    dynamic = sum(not member.instance_id for member in members)
    if facts.way is Way.ONLINE and dynamic:
        yield Says("dynamic_members", dynamic=dynamic, members=len(members))
