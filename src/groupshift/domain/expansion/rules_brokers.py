"""Rules about brokers and the offsets topic itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from groupshift.domain.cluster import COUNT, configured
from groupshift.domain.expansion.facts import PlacementFacts
from groupshift.domain.facts import Complaint, sentence_list
from groupshift.domain.verdict import Verdict

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
    hint = f"restart no broker before this is cured: groupshift plan expansion --to {count}"
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
