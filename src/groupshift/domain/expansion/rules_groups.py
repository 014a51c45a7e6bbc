"""Rules about groups and what the log has of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from groupshift.domain.cluster import ClusterView, PlacementView
from groupshift.domain.expansion.facts import PlacementFacts
from groupshift.domain.facts import Complaint, sentence_list
from groupshift.domain.group_protocol import EMPTY, Kind
from groupshift.domain.verdict import Verdict
from groupshift.log.other_writers import sentence

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
        yield Verdict.ERROR, sentence(log.others_wrote), _OTHER_BROKERS
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
    found = (each for broker in cluster.brokers for each in broker.groups)
    return frozenset(each.group for each in found if each.state not in _NO_MEMBERS)


def restorable(facts: PlacementFacts) -> Iterator[Complaint]:
    """Offsets can be committed again; what a share group keeps cannot."""
    share = sorted({each.group for each in facts.listed() if each.kind is Kind.SHARE} & facts.moving)
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
