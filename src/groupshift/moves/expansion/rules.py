"""The numbered rules of an expansion and of an audit of placement (X…), and what the hazard book has against
it (H…).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Flag, auto

from groupshift.domain.cluster import COUNT, ClusterView, PlacementView, configured
from groupshift.domain.equality_rules import Comparison
from groupshift.domain.facts import Complaint, sentence_list
from groupshift.domain.group_protocol import EMPTY, Kind
from groupshift.domain.hazards import Facts, Met, Role, Trait, look
from groupshift.domain.judgement import Judgement
from groupshift.domain.verdict import Finding, Verdict
from groupshift.log.replay import written_by_others
from groupshift.moves.expansion.facts import ASKED_DIRECTLY, PlacementFacts, listed, look_at
from groupshift.ports.cluster import PlacementViews
from groupshift.ports.log import LogProgress, OffsetsLog

TOPIC = "__consumer_offsets"
_SHOWN = 5


def there(facts: PlacementFacts) -> Iterator[Complaint]:
    """There is something to count."""
    view = facts.view
    if not view.count:
        counts = sorted({each for broker in view.cluster.brokers if (each := configured(broker))})
        many = f", with {' or '.join(map(str, counts))} partitions" if len(counts) > 1 else ""
        reason = f"topic {TOPIC} does not exist: whichever broker a client asks first makes it{many}"
        yield Verdict.FAIL, reason, f"give all brokers one {COUNT}, and let one group commit"
    if view.differing:
        reason = f"broker {_names(view.differing)} tells another {TOPIC} than the others"
        yield Verdict.ERROR, reason, "wait until its metadata is up to date, then look again"


def replicated(facts: PlacementFacts) -> Iterator[Complaint]:
    """Every partition is led and in sync."""
    topic = facts.view.topic
    leaderless = [str(number) for number, node in enumerate(topic.leaders) if node < 0]
    if leaderless:
        reason = f"partition {sentence_list(leaderless)} of {TOPIC} has no leader: its groups are not served"
        yield Verdict.FAIL, reason, "bring its brokers back"
    if topic.behind:
        late = sorted({node for nodes in topic.behind.values() for node in nodes})
        where = sentence_list([str(number) for number in sorted(topic.behind)])
        reason = f"partition {where} of {TOPIC} is not in sync on broker {_names(late)}"
        yield Verdict.FAIL, reason, "bring the broker back, and wait until its replicas are in sync"
    if len(set(topic.replicas)) > 1:
        few = min(topic.replicas)
        reason = f"partitions of {TOPIC} have {few} to {max(topic.replicas)} replicas"
        yield Verdict.INCONCLUSIVE, reason, "give all partitions as many; new ones get those of another one"


def complete(facts: PlacementFacts) -> Iterator[Complaint]:
    """Every broker tells all its groups and its configuration."""
    for broker in facts.view.cluster.brokers:
        who = f"broker {broker.node_id}"
        if broker.loading:
            reason = f"{who} is loading coordinator partitions and cannot list all its groups"
            yield Verdict.ERROR, reason, "wait until it has loaded them, then look again"
        if broker.untold:
            reason = f"{who} does not tell its configuration: {broker.untold}"
            yield Verdict.ERROR, reason, "allow DescribeConfigs on the cluster to this login"


def counting(facts: PlacementFacts) -> Iterator[Complaint]:
    """What every broker counts, against what there is: the latent bomb, and the window between."""
    view = facts.view
    if not view.count or not view.answers or view.differing:
        return
    count, fitting = view.count, facts.fitting
    if count in fitting:
        if len(fitting) > 1 and facts.log is None:
            reason = f"what the brokers answer fits {count} partitions and other counts: one leads too many"
            yield Verdict.INCONCLUSIVE, reason, "let the log be read: it tells which count was used last"
        elif facts.unclear:
            reason = (
                f"what broker {_names(facts.unclear)} answers fits {count} partitions and other counts: "
                "those of them that lead nothing may use another one"
            )
            yield Verdict.INCONCLUSIVE, reason, "elect preferred leaders, then look again"
    elif fitting:
        yield _not_adopted(facts)
    else:
        yield from _deviating(facts)


def _not_adopted(facts: PlacementFacts) -> Complaint:
    """The latent bomb: the next restart changes what the brokers count. A plan expects it."""
    count, used = facts.view.count, " or ".join(map(str, sorted(facts.fitting)))
    moved = facts.moving_at_restart
    if facts.in_force is None:
        reason = (
            f"{TOPIC} has {count} partitions and brokers count {used}: the count was changed and no broker "
            "was restarted since; which groups move then cannot be told"
        )
        return Verdict.FAIL, reason, "restart no broker; let groups commit, then look again"
    lost = f"{len(moved)} of {len(facts.hashed.groups)} groups move then, and lose their offsets"
    named = f" ({sentence_list([each.group for each in moved], _SHOWN)})" if moved else ""
    reason = (
        f"{TOPIC} has {count} partitions and all brokers count {used}: the count was changed and no broker "
        f"was restarted since; {lost}{named}"
    )
    hint = f"restart no broker before this is cured: groupshift expansion assess --to {count}"
    return Verdict.FAIL if facts.to is None else Verdict.INCONCLUSIVE, reason, hint


def _deviating(facts: PlacementFacts) -> Iterator[Complaint]:
    count = facts.view.count
    for node, told in sorted(facts.told.items()):
        counts = sorted(told)
        if count in told:
            continue
        uses = f"counts {sentence_list([str(each) for each in counts])}" if counts else "fits no count"
        reason = f"broker {node} {uses}, and {TOPIC} has {count} partitions"
        yield Verdict.FAIL, reason, f"stop all clients, and restart broker {node} before any of them starts"


def configured_alike(facts: PlacementFacts) -> Iterator[Complaint]:
    """The static count matters where the topic is not there when a broker starts."""
    by_count: dict[int, list[str]] = defaultdict(list)
    for broker in facts.view.cluster.brokers:
        count = configured(broker)
        if count is not None:
            by_count[count].append(str(broker.node_id))
    for count, nodes in sorted(by_count.items()):
        if facts.view.count and count != facts.view.count:
            reason = (
                f"broker {sentence_list(nodes)} has {COUNT}={count}, and {TOPIC} has {facts.view.count} "
                "partitions"
            )
            yield Verdict.INCONCLUSIVE, reason, f"set {COUNT}={facts.view.count} in its file"
    if not facts.view.count and len(by_count) > 1:
        said = "; ".join(f"{count} at {sentence_list(nodes)}" for count, nodes in sorted(by_count.items()))
        reason = f"brokers are configured with several counts: {said}"
        yield Verdict.FAIL, reason, f"give all the same {COUNT}"


def one_kind(facts: PlacementFacts) -> Iterator[Complaint]:
    """OLD and NEW coordinators load what lies elsewhere in different ways."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for broker in facts.view.cluster.brokers:
        kinds[broker.coordinator.value.upper()].append(str(broker.node_id))
    if len(kinds) > 1:
        said = ", ".join(f"{kind} at broker {sentence_list(nodes)}" for kind, nodes in sorted(kinds.items()))
        reason = f"the brokers run both group coordinators: {said}"
        yield Verdict.FAIL, reason, "give all brokers the same group.coordinator.rebalance.protocols"


def controlled(facts: PlacementFacts) -> Iterator[Complaint]:
    """Partitions are made by the controller."""
    view, remedy = facts.view.cluster, "wait until the cluster has a controller, then plan again"
    if view.kraft and view.quorum is None:
        yield Verdict.FAIL, f"no controller answers: {view.quorum_problem}", remedy
    elif view.quorum is not None and view.quorum.leader < 0:
        yield Verdict.FAIL, "the metadata quorum has no leader", remedy
    elif not view.kraft and view.controller < 0:
        yield Verdict.FAIL, "the cluster has no controller", remedy


def multiple(facts: PlacementFacts) -> Iterator[Complaint]:
    """At a multiple, groups stay or go to a partition that is new."""
    count, to = facts.before, facts.to
    if not count or to is None or to % count == 0:
        return
    other = -(-to // count) * count
    here, there_ = facts.hashed.cost(count, to), facts.hashed.cost(count, other)
    moving = f"{here.moving} of {here.groups} groups move, {there_.moving} at {other}"
    reason = f"{to} is no multiple of {count}: {moving}"
    yield Verdict.INCONCLUSIVE, reason, f"go to {other} partitions, or accept the cost"


def _names(nodes: Iterable[int]) -> str:
    return sentence_list([str(node) for node in nodes])


_NAMED = 20
_NO_MEMBERS = frozenset({EMPTY, "Dead"})
_ABORT = (
    "stop transactional producers, let this login describe transactional ids, and abort one that hangs "
    "(Kafka's kafka-transactions.sh find-hanging)"
)
_DROP = (
    "delete them first (kafka-consumer-groups.sh --delete-offsets), or make the topic again; else the run "
    "asks once, at its rehearsal, whether they are dropped (--seen), and gives back every other offset"
)
_OTHER_BROKERS = "leave the offsets topic as it is: its makers say where groups belong, and how it grows"
_REPAIR = "stop their clients, and bring back what the log has: groupshift repair placement"


def one_owner(facts: PlacementFacts) -> Iterator[Complaint]:
    """In a mixed window two brokers serve one group, and both take commits."""
    if facts.view.differing:
        return
    unclear = any(len(each) != 1 for each in facts.told.values())
    if facts.view.answers and not facts.fitting and unclear:
        reason = "which broker serves each group cannot be told: the counts of some are not clear"
        yield Verdict.ERROR, reason, "see X04, then look again"
    found = facts.several_owners
    two = {group: nodes for group, nodes in found.items() if len(nodes) > 1}
    none = [group for group, nodes in found.items() if not nodes]
    if two:
        said = [f"{group!r} by {' and '.join(map(str, nodes))}" for group, nodes in sorted(two.items())]
        asked = {group: facts.view.owned[group] for group in two if group in facts.view.owned}
        proven = sum(len(nodes) > 1 for nodes in asked.values())
        direct = f" ({proven} of {len(asked)} asked directly were)" if asked else ""
        reason = f"{_are(two)} served by two brokers{direct}: {sentence_list(said, _NAMED)}"
        yield Verdict.FAIL, reason, "stop all clients, then restart the brokers that X04 names"
    if none:
        names = sentence_list([repr(each) for each in sorted(none)], _NAMED)
        reason = f"{_are(none)} served by no broker, each sends clients to another: {names}"
        yield Verdict.FAIL, reason, "stop all clients, then restart the brokers that X04 names"


def listed_once(facts: PlacementFacts) -> Iterator[Complaint]:
    """Two brokers list one: residue of an expansion (NEW), or two owners; or one broker does twice, which
    leads both partitions."""
    hint = "what lies elsewhere is deleted when it expires (offsets.retention.minutes); look again then"
    both = {group: nodes[0] for group, nodes in facts.listing.items() if 1 == len(set(nodes)) < len(nodes)}
    if both:
        said = [f"{group!r} at {node}" for group, node in sorted(both.items())]
        reason = f"{_are(both)} listed twice by one broker: {sentence_list(said, _NAMED)}"
        yield Verdict.FAIL if both.keys() & facts.moving else Verdict.INCONCLUSIVE, reason, hint
    twice = {group: nodes for group, nodes in facts.listing.items() if len(set(nodes)) > 1}
    if twice:
        said = [f"{group!r} at {' and '.join(map(str, nodes))}" for group, nodes in sorted(twice.items())]
        reason = f"{_are(twice)} listed by two brokers: {sentence_list(said, _NAMED)}"
        serious = twice.keys() & (facts.several_owners.keys() | facts.moving)
        yield Verdict.FAIL if serious else Verdict.INCONCLUSIVE, reason, hint


def _are(groups: Collection[object]) -> str:
    return "1 group is" if len(groups) == 1 else f"{len(groups)} groups are"


def _groups(groups: Collection[object]) -> str:
    return "1 group" if len(groups) == 1 else f"{len(groups)} groups"


def at_home(facts: PlacementFacts) -> Iterator[Complaint]:
    """Live records elsewhere than the count in force says: lost, stale, or only residue."""
    log = facts.log
    if log is None:
        yield Verdict.ERROR, "the log of the offsets topic was not read", "let it be read: no --no-log"
        return
    if log.others_wrote:
        yield Verdict.ERROR, written_by_others(log.others_wrote), _OTHER_BROKERS
        return
    if log.unreadable:
        reason = f"{log.unreadable} keys of the log name no group: they were not looked at"
        yield Verdict.INCONCLUSIVE, reason, "look at them with Kafka's DumpLogSegments"
    lost = sorted({each.group for each in log.elsewhere if each.lost})
    stale = sorted({each.group for each in log.elsewhere} - set(lost))
    rest = sorted(log.residue - set(lost) - set(stale))
    if lost:
        offsets = sum(each.lost for each in log.elsewhere)
        reason = (
            f"{offsets} offsets of {_groups(lost)} lie where {log.count} partitions do not put them, and "
            f"their coordinators answer -1 or an older one: {sentence_list(lost, _NAMED)}"
        )
        yield Verdict.FAIL, reason, _REPAIR
    if stale and facts.view.old:
        reason = (
            f"older commits of {_groups(stale)} lie elsewhere: an OLD coordinator that leads both partitions "
            f"answers the one that it loads first, or that lies higher: {sentence_list(stale, _NAMED)}"
        )
        yield Verdict.FAIL, reason, _REPAIR
    else:
        rest = sorted({*rest, *stale})
    if rest:
        reason = f"residue of another count is there of {_groups(rest)}: {sentence_list(rest, _NAMED)}"
        hint = "a NEW coordinator deletes it when it expires; an OLD one never does"
        yield Verdict.FAIL if facts.moving.intersection(rest) else Verdict.INCONCLUSIVE, reason, hint


def no_transactions(facts: PlacementFacts) -> Iterator[Complaint]:
    """Markers go where the transaction coordinator counted, records where the group coordinator did."""
    names = sorted({each for ids in facts.view.open_transactions.values() for each in ids})
    if names:
        where = sentence_list([str(each) for each in sorted(facts.view.open_transactions)])
        said = sentence_list([repr(each) for each in names], _NAMED)
        reason = f"transactional id {said} writes offsets to partition {where} of the offsets topic now"
        verdict = Verdict.FAIL if facts.to is not None else Verdict.INCONCLUSIVE
        yield verdict, reason, "stop that producer, or wait until its transaction ended"
    if facts.view.unlisted_transactions:
        verdict = Verdict.FAIL if facts.to is not None else Verdict.INCONCLUSIVE
        yield verdict, _hanging(facts.view), _ABORT


def _hanging(view: PlacementView) -> str:
    where = sentence_list([str(each) for each in view.unlisted_transactions])
    return f"a transaction is open in partition {where} of the offsets topic, and no broker tells which"


def transacting(view: PlacementView) -> str:
    """Who writes offsets in a transaction now, with what to do; empty when nobody does."""
    ids = sorted({each for found in view.open_transactions.values() for each in found})
    if ids:
        return f"transactional id {sentence_list(ids)} writes offsets now; stop that producer"
    return f"{_hanging(view)}; {_ABORT}" if view.unlisted_transactions else ""


def empty(facts: PlacementFacts) -> Iterator[Complaint]:
    """No group may have members while brokers restart: the run waits for that, and says who has."""
    busy = sorted(busy_groups(facts.view.cluster))
    if busy:
        moving = len(set(busy) & facts.moving)
        reason = f"members are in {_groups(busy)}, {moving} of them move: {sentence_list(busy, _NAMED)}"
        yield Verdict.INCONCLUSIVE, reason, "stop their members before the run; it waits for that"


def busy_groups(cluster: ClusterView) -> frozenset[str]:
    """Groups that a broker lists as having members."""
    return frozenset(each.group for each in listed(cluster) if each.state not in _NO_MEMBERS)


def restorable(facts: PlacementFacts) -> Iterator[Complaint]:
    """Offsets can be committed again; what a share group keeps cannot."""
    share = sorted(
        {each.group for each in listed(facts.view.cluster) if each.kind is Kind.SHARE} & facts.moving
    )
    if share:
        reason = f"share group {sentence_list(share, _NAMED)} moves, and its start offsets would be set anew"
        yield Verdict.FAIL, reason, "stop and delete it, or choose a count at which it stays"
    lost = facts.unrestorable
    if lost:
        said = sentence_list([f"{name} ({why})" for name, why in sorted(lost.items())], _NAMED)
        verb = "1 offset cannot" if len(lost) == 1 else f"{len(lost)} offsets cannot"
        reason = f"{verb} be committed again after the move: {said}"
        yield Verdict.INCONCLUSIVE, reason, _DROP


def logged(facts: PlacementFacts) -> Iterator[Complaint]:
    """What brokers list and what the log has: one that differs was read while something changed."""
    if facts.log is None:
        return
    hidden = facts.log.groups.keys() - facts.listing.keys()
    moving, only_logged = sorted(hidden & facts.moving), sorted(hidden - facts.moving)
    if moving:
        names = sentence_list([repr(each) for each in moving], _NAMED)
        verb = "moves and is" if len(moving) == 1 else "move and are"
        reason = (
            f"{_groups(moving)} in the log {verb} listed by no broker, which none can delete then: {names}"
        )
        hint = (
            "let this login describe all groups; where it may, elect another leader of their partitions and "
            "back, so that they are loaded; then plan again"
        )
        yield Verdict.FAIL, reason, hint
    if only_logged:
        names = sentence_list([repr(each) for each in only_logged], _NAMED)
        reason = f"{_groups(only_logged)} in the log, listed by no broker: {names}"
        yield Verdict.INCONCLUSIVE, reason, "look again; brokers that count otherwise hide them too (X04)"


_MEMBERS = frozenset({Role.LIBRDKAFKA, Role.KAFKA_CLIENTS, Role.MIRROR_MAKER})
_CURED = frozenset({"H34", "H35", "H38", "H39", "H43"})
"""Those whose remedy is what a run does: it stops groups, deletes those that move, large ones in parts, waits
for the tombstones and restarts every broker; and commits of former topics (H43), which a rule names."""


def bugs(facts: PlacementFacts) -> tuple[Finding, ...]:
    """Findings of the hazards that are met or may be, but for those that the run itself keeps off, and those
    of members, which are stopped. Never raises."""
    brokers = tuple(
        Met(where=f"broker {each.node_id}", version=each.line) for each in facts.view.cluster.brokers
    )
    traits = {
        Trait.KRAFT: facts.view.cluster.kraft,
        Trait.OLD_COORDINATOR: facts.view.old,
        Trait.NEW_COORDINATOR: not facts.view.old,
    }
    judged = look(Comparison.EXPANSION, Facts(versions={Role.BROKER: brokers}, traits=traits))
    return tuple(
        each.finding
        for each in judged
        if each.finding.hint
        and each.hazard.number not in _CURED
        and not _MEMBERS & each.hazard.affected.keys()
    )


class Use(Flag):
    """Who asks."""

    AUDIT = auto()
    PLAN = auto()


BOTH = Use.AUDIT | Use.PLAN


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRule:
    """One rule: ``holds`` is the sentence of its passed finding."""

    number: str
    use: Use
    holds: str
    look: Callable[[PlacementFacts], Iterator[Complaint]]

    def ask(self, facts: PlacementFacts) -> tuple[Finding, ...]:
        """What is wrong, or one passed finding."""
        found = tuple(
            Finding(rule=self.number, verdict=verdict, reason=reason, hint=hint)
            for verdict, reason, hint in self.look(facts)
        )
        return found or (Finding(rule=self.number, verdict=Verdict.PASS, reason=self.holds),)


RULES = tuple(
    PlacementRule(number=number, use=use, holds=holds, look=look)
    for number, use, holds, look in (
        ("X01", BOTH, "the offsets topic is there, with one count in every broker's metadata", there),
        ("X02", BOTH, "every partition has a leader and all its replicas in sync", replicated),
        ("X03", BOTH, "every broker tells its groups and its configuration", complete),
        ("X04", BOTH, "all brokers count as many partitions as the topic has", counting),
        ("X05", BOTH, "every group is served by one broker", one_owner),
        ("X06", BOTH, "no group is listed twice", listed_once),
        ("X07", BOTH, "every live record lies in its group's partition", at_home),
        ("X08", BOTH, "every broker is configured with the count of the topic", configured_alike),
        ("X09", Use.PLAN, "all brokers run one kind of group coordinator", one_kind),
        ("X10", Use.PLAN, "the cluster has a controller", controlled),
        ("X11", BOTH, "no open transaction writes offsets", no_transactions),
        ("X12", Use.PLAN, "the count that is wanted is a multiple of the count now", multiple),
        ("X13", Use.PLAN, "no group has members", empty),
        ("X14", Use.PLAN, "what moving groups keep can be committed again", restorable),
        ("X15", Use.PLAN, "the log has exactly the groups that brokers list", logged),
    )
)
"""Every rule, in the order in which they are asked."""


def ask(facts: PlacementFacts, use: Use) -> tuple[Finding, ...]:
    """What the rules of this use say, passed ones included."""
    return tuple(finding for rule in RULES if use in rule.use for finding in rule.ask(facts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where the groups of a cluster are coordinated: what was met, and every finding. ``fenced`` where
    something keeps clients out during a run."""

    facts: PlacementFacts
    judgement: Judgement
    fenced: bool = False

    @property
    def clean(self) -> bool:
        """Whether no rule failed and all could be measured (inconclusive is a warning); of a plan: whether a
        run may begin."""
        return self.judgement.verdict in {Verdict.PASS, Verdict.INCONCLUSIVE}


def audit_placement(
    views: PlacementViews, log: OffsetsLog | None, told: LogProgress | None = None
) -> Placement:
    """Look at every broker, then read the whole log of the offsets topic (None: leave that out).

    Raises as `look_at`."""
    facts = look_at(views, log, told=told)
    suspected = list(facts.several_owners)[:ASKED_DIRECTLY]
    if suspected:
        facts = replace(facts, view=replace(facts.view, owned=views.owners(suspected)))
    return Placement(facts=facts, judgement=Judgement(findings=ask(facts, Use.AUDIT)))


def plan_expansion(views: PlacementViews, log: OffsetsLog | None, to: int) -> Placement:
    """What going to ``to`` partitions would do: which groups move, what this count and others cost, load by
    partition now and then. Raises as `look_at`."""
    facts = look_at(views, log, to)
    return Placement(facts=facts, judgement=Judgement(findings=(*ask(facts, Use.PLAN), *bugs(facts))))
