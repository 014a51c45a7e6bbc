"""The numbered rules of an expansion and of an audit of placement (X…), what the hazard book has against it
(H…), and both as one look.

``rules.toml`` beside this module has their sentences, docs/reference/placement-rules.md explains them. One
set of rules serves both questions. An audit asks whether every group is where its coordinator looks for it; a
plan asks besides whether the groups that move can be carried (`PLAN_ONLY`). Some verdicts differ for that
reason: brokers that have not taken up a new count are a failure of an audit, and what a plan for that very
count is there to cure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from groupshift.domain import cluster_rules
from groupshift.domain.cluster import ClusterView, PlacementView, configured
from groupshift.domain.equality_rules import Comparison
from groupshift.domain.facts import sentence_list
from groupshift.domain.group_protocol import EMPTY, Kind
from groupshift.domain.hazards import Facts, Met, Role, Trait, met_hazards
from groupshift.domain.partitions import grouped
from groupshift.domain.rules import Rules, Says
from groupshift.domain.verdict import Finding, Judgement, Verdict
from groupshift.log.replay import written_by_others
from groupshift.moves.expansion.facts import ASKED_DIRECTLY, PlacementFacts, listed, look_at
from groupshift.ports.cluster import PlacementViews
from groupshift.ports.log import LogProgress, OffsetsLog

RULES: Rules[PlacementFacts] = Rules("moves/expansion/rules.toml")
"""Every rule, in the order in which they are asked."""
PLAN_ONLY = frozenset({"X09", "X10", "X12", "X13", "X14", "X15"})
"""Rules that an audit does not ask."""
_rule = RULES.rule
_SHOWN, _NAMED = 5, 20
_NO_MEMBERS = frozenset({EMPTY, "Dead"})


_rule("X03")(lambda facts: cluster_rules.complete(facts.view.cluster))
_rule("X09")(lambda facts: cluster_rules.one_coordinator(facts.view.cluster))
_rule("X10")(lambda facts: cluster_rules.controlled(facts.view.cluster))


@_rule("X01")
def there(facts: PlacementFacts) -> Iterator[Says]:
    """There is something to count."""
    view = facts.view
    if not view.count:
        counts = sorted({each for broker in view.cluster.brokers if (each := configured(broker))})
        many = f", with {' or '.join(map(str, counts))} partitions" if len(counts) > 1 else ""
        yield Says("no_topic", many=many)
    if view.differing:
        yield Says("metadata_differs", brokers=view.differing)


@_rule("X02")
def replicated(facts: PlacementFacts) -> Iterator[Says]:
    """Every partition is led and in sync."""
    topic = facts.view.topic
    if leaderless := [number for number, node in enumerate(topic.leaders) if node < 0]:
        yield Says("leaderless", partitions=leaderless)
    if topic.behind:
        late = sorted({node for nodes in topic.behind.values() for node in nodes})
        yield Says("not_in_sync", partitions=sorted(topic.behind), brokers=late)
    if len(set(topic.replicas)) > 1:
        yield Says("uneven_replicas", few=min(topic.replicas), many=max(topic.replicas))


@_rule("X04")
def counting(facts: PlacementFacts) -> Iterator[Says]:
    """What every broker counts, against what there is: the latent bomb, and the window between."""
    view, count, fitting = facts.view, facts.view.count, facts.fitting
    if not count or not view.answers or view.differing:
        return
    if count in fitting:
        if len(fitting) > 1 and facts.log is None:
            yield Says("several_fit", count=count)
        elif facts.unclear:
            yield Says("some_fit", brokers=facts.unclear, count=count)
    elif fitting:
        yield _count_not_adopted(facts)
    else:
        for node, counts in sorted(facts.counts.items()):
            uses = (
                f"counts {sentence_list([str(each) for each in sorted(counts)])}"
                if counts
                else "fits no count"
            )
            if count not in counts:
                yield Says("counts_otherwise", node=node, uses=uses, count=count)


def _count_not_adopted(facts: PlacementFacts) -> Says:
    """The latent bomb: the next restart changes what the brokers count. A plan expects it."""
    count, used = facts.view.count, " or ".join(map(str, sorted(facts.fitting)))
    if facts.in_force is None:
        return Says("not_adopted_unclear", count=count, used=used)
    moving = facts.moving_at_restart
    return Says(
        "not_adopted",
        verdict=Verdict.FAIL if facts.to is None else Verdict.INCONCLUSIVE,
        count=count,
        used=used,
        moving=len(moving),
        groups=len(facts.hashed.groups),
        named=f" ({sentence_list([each.group for each in moving], _SHOWN)})" if moving else "",
    )


@_rule("X05")
def one_owner(facts: PlacementFacts) -> Iterator[Says]:
    """In a mixed window two brokers serve one group, and both take commits."""
    if facts.view.differing:
        return
    unclear = any(len(each) != 1 for each in facts.counts.values())
    if facts.view.answers and not facts.fitting and unclear:
        yield Says("owner_unclear")
    owners = facts.not_one_owner
    if two := {group: nodes for group, nodes in owners.items() if len(nodes) > 1}:
        direct_owners = {group: facts.view.owned[group] for group in two if group in facts.view.owned}
        proven = sum(len(nodes) > 1 for nodes in direct_owners.values())
        direct = f" ({proven} of {len(direct_owners)} asked directly were)" if direct_owners else ""
        yield Says("two_owners", are=_are(two), direct=direct, groups=_with_numbers(two, "by"))
    if none := [group for group, nodes in owners.items() if not nodes]:
        yield Says("no_owner", are=_are(none), groups=_quoted(none))


@_rule("X06")
def listed_once(facts: PlacementFacts) -> Iterator[Says]:
    """Two brokers list one: residue of an expansion (NEW), or two owners; or one broker does twice, which
    leads both partitions."""
    both = {group: nodes[:1] for group, nodes in facts.listing.items() if 1 == len(set(nodes)) < len(nodes)}
    twice = {group: nodes for group, nodes in facts.listing.items() if len(set(nodes)) > 1}
    serious = facts.not_one_owner.keys() | facts.moving
    for name, groups, against in (
        ("listed_twice_by_one", both, facts.moving),
        ("listed_by_two", twice, serious),
    ):
        if groups:
            verdict = Verdict.FAIL if groups.keys() & against else Verdict.INCONCLUSIVE
            yield Says(name, verdict=verdict, are=_are(groups), groups=_with_numbers(groups, "at"))


@_rule("X07")
def at_home(facts: PlacementFacts) -> Iterator[Says]:
    """Live records elsewhere than the count in force says: lost, stale, or only residue."""
    if (log := facts.log) is None:
        yield Says("log_unread")
        return
    if log.others_wrote:
        yield Says("others_wrote", said=written_by_others(log.others_wrote))
        return
    if log.unreadable:
        yield Says("unreadable_keys", keys=log.unreadable)
    lost = {each.group for each in log.elsewhere if each.lost}
    stale = {each.group for each in log.elsewhere} - lost if facts.view.old else set()
    if lost:
        offsets, first = sum(each.lost for each in log.elsewhere), _first(sorted(lost))
        yield Says("lost", offsets=offsets, many=_groups(lost), count=log.count, groups=first)
    if stale:
        yield Says("stale", many=_groups(stale), groups=_first(sorted(stale)))
    if rest := sorted(log.residue - lost - stale):
        verdict = Verdict.FAIL if facts.moving.intersection(rest) else Verdict.INCONCLUSIVE
        yield Says("residue", verdict=verdict, many=_groups(rest), groups=_first(rest))


@_rule("X08")
def configured_alike(facts: PlacementFacts) -> Iterator[Says]:
    """The static count matters where the topic is not there when a broker starts."""
    static = ((configured(broker), broker.node_id) for broker in facts.view.cluster.brokers)
    counts = sorted(grouped((count, node) for count, node in static if count is not None).items())
    for count, nodes in counts:
        if facts.view.count and count != facts.view.count:
            yield Says("configured_otherwise", brokers=nodes, configured=count, count=facts.view.count)
    if not facts.view.count and len(counts) > 1:
        said = [f"{count} at {sentence_list([*map(str, nodes)])}" for count, nodes in counts]
        yield Says("configured_differently", counts="; ".join(said))


@_rule("X11")
def no_transactions(facts: PlacementFacts) -> Iterator[Says]:
    """Markers go where the transaction coordinator counted, records where the group coordinator did."""
    view, verdict = facts.view, Verdict.INCONCLUSIVE if facts.to is None else Verdict.FAIL
    if ids := sorted({each for producers in view.open_transactions.values() for each in producers}):
        where = sorted(view.open_transactions)
        yield Says("transaction_open", verdict=verdict, ids=_quoted(ids), partitions=where)
    if view.unlisted_transactions:
        yield Says("transaction_hangs", verdict=verdict, partitions=view.unlisted_transactions)


def transacting(view: PlacementView) -> str:
    """Who writes offsets in a transaction now, with what to do; empty when nobody does."""
    findings = RULES["X11"].ask(PlacementFacts(view=view))
    return next((f"{each.reason}; {each.hint}" for each in findings if each.verdict is not Verdict.PASS), "")


@_rule("X12")
def multiple(facts: PlacementFacts) -> Iterator[Says]:
    """At a multiple, groups stay or go to a partition that is new."""
    count, to = facts.before, facts.to
    if not count or to is None or to % count == 0:
        return
    other = -(-to // count) * count
    moving, fewer = len(facts.movers), len(facts.hashed.movers(count, other))
    groups = len(facts.hashed.groups)
    yield Says("no_multiple", to=to, count=count, moving=moving, groups=groups, fewer=fewer, other=other)


@_rule("X13")
def empty(facts: PlacementFacts) -> Iterator[Says]:
    """No group may have members while brokers restart: the run waits for that, and says who has."""
    if busy := sorted(busy_groups(facts.view.cluster)):
        moving = len(set(busy) & facts.moving)
        yield Says("members", many=_groups(busy), moving=moving, groups=_first(busy))


def busy_groups(cluster: ClusterView) -> frozenset[str]:
    """Groups that a broker lists as having members."""
    return frozenset(each.group for each in listed(cluster) if each.state not in _NO_MEMBERS)


@_rule("X14")
def restorable(facts: PlacementFacts) -> Iterator[Says]:
    """Offsets can be committed again; what a share group keeps cannot."""
    share_groups = {each.group for each in listed(facts.view.cluster) if each.kind is Kind.SHARE}
    if share := sorted(share_groups & facts.moving):
        yield Says("share_groups", groups=_first(share))
    if lost := facts.unrestorable:
        many = "1 offset cannot" if len(lost) == 1 else f"{len(lost)} offsets cannot"
        said = [f"{name} ({why})" for name, why in sorted(lost.items())]
        yield Says("unrestorable", many=many, offsets=_first(said))


@_rule("X15")
def logged(facts: PlacementFacts) -> Iterator[Says]:
    """What brokers list and what the log has: one that differs was read while something changed."""
    hidden = (facts.log.groups if facts.log else {}).keys() - facts.listing.keys()
    if moving := sorted(hidden & facts.moving):
        move = "moves and is" if len(moving) == 1 else "move and are"
        yield Says("moving_unlisted", many=_groups(moving), move=move, groups=_quoted(moving))
    if only_logged := sorted(hidden - facts.moving):
        yield Says("unlisted", many=_groups(only_logged), groups=_quoted(only_logged))


def _first(names: Collection[str]) -> str:
    """The first names for a sentence, with how many more there are."""
    return sentence_list(list(names), _NAMED)


def _quoted(names: Collection[str]) -> str:
    """The first names, sorted, each in quotes."""
    return _first([repr(each) for each in sorted(names)])


def _with_numbers(groups: Mapping[str, Collection[int]], word: str) -> str:
    """Each group with its brokers."""
    pairs = sorted(groups.items())
    return _first([f"{group!r} {word} {' and '.join(map(str, nodes))}" for group, nodes in pairs])


def _are(groups: Collection[object]) -> str:
    """``1 group is`` or ``3 groups are``."""
    return f"{_groups(groups)} {'is' if len(groups) == 1 else 'are'}"


def _groups(groups: Collection[object]) -> str:
    """``1 group`` or ``3 groups``."""
    return "1 group" if len(groups) == 1 else f"{len(groups)} groups"


_CURED = frozenset({"H34", "H35", "H38", "H39", "H43"})
"""Those whose remedy is what a run does: it stops groups, deletes those that move, large ones in parts, waits
for the tombstones and restarts every broker; and commits of former topics (H43), which a rule names."""


def bugs(facts: PlacementFacts) -> tuple[Finding, ...]:
    """Findings of the hazards that are met or may be, but for those that the run itself keeps off, and those
    of members, which are stopped. Never raises."""
    cluster = facts.view.cluster
    brokers = tuple(Met(where=f"broker {each.node_id}", version=each.line) for each in cluster.brokers)
    traits = {
        Trait.KRAFT: cluster.kraft,
        Trait.OLD_COORDINATOR: facts.view.old,
        Trait.NEW_COORDINATOR: not facts.view.old,
    }
    known = Facts(versions={Role.BROKER: brokers}, traits=traits)
    return tuple(each for each in met_hazards(Comparison.EXPANSION, known) if each.rule not in _CURED)


def ask(facts: PlacementFacts) -> tuple[Finding, ...]:
    """What the rules say, passed ones included: of a plan where a count is wanted, else of an audit."""
    return RULES.ask(facts, [each for each in RULES if facts.to is not None or each not in PLAN_ONLY])


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
    views: PlacementViews, log: OffsetsLog | None, progress: LogProgress | None = None
) -> Placement:
    """Look at every broker, then read the whole log of the offsets topic (None: leave that out).

    Raises as `look_at`."""
    facts = look_at(views, log, progress=progress)
    suspected = list(facts.not_one_owner)[:ASKED_DIRECTLY]
    if suspected:
        facts = replace(facts, view=replace(facts.view, owned=views.owners(suspected)))
    return Placement(facts=facts, judgement=Judgement(findings=ask(facts)))


def plan_expansion(views: PlacementViews, log: OffsetsLog | None, to: int) -> Placement:
    """What going to ``to`` partitions would do: which groups move, what this count and others cost, load by
    partition now and then. Raises as `look_at`."""
    facts = look_at(views, log, to)
    return Placement(facts=facts, judgement=Judgement(findings=(*ask(facts), *bugs(facts))))
