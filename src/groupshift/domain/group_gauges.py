"""How many groups each broker counts, held against how many it lists (the test plan of KIP-915).

What brokers count they publish as metrics. Up to 3.9 the numbers are those of the moment; since 4.0 each
coordinator partition counts anew once a minute, so after a change the two differ for up to that long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from groupshift.domain.facts import sentence_list
from groupshift.domain.group_protocol import Kind
from groupshift.domain.partitions import grouped
from groupshift.domain.rules import Rules, Says, some

Counts = Mapping[tuple[Kind, str], int]
"""Groups by type and state, as a broker lists them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GaugedBroker:
    """What one broker publishes. ``types`` has the types that it counts at all; ``states`` those of which it
    counts states (an old coordinator: classic only, and all without a word about types)."""

    address: str
    node_id: int
    release: str
    types: Mapping[Kind, int]
    states: Counts
    partitions: Mapping[str, int] = field(default_factory=dict)
    """Partitions of ``__consumer_offsets`` by state (active, loading, failed); empty where not counted."""

    @property
    def coordinator(self) -> str:
        """``new`` or ``old``: which of its two coordinators a 3.x runs is told by nothing else."""
        return "new" if self.partitions else "old"


@dataclass(frozen=True, slots=True, kw_only=True)
class CountView:
    """Brokers whose metrics were read, and by node id what every broker lists; those that are ``loading``
    coordinator partitions cannot list all."""

    gauged: Sequence[GaugedBroker]
    listed: Mapping[int, Counts]
    loading: Collection[int] = ()

    @property
    def pairs(self) -> Iterator[tuple[GaugedBroker, Counts]]:
        """Each broker whose metrics were read, with its list, where that is whole."""
        for broker in self.gauged:
            if broker.node_id not in self.loading:
                yield broker, self.listed.get(broker.node_id, {})

    @property
    def rows(self) -> list[dict[str, Any]]:
        """What each broker counts and lists, as data; None where its metrics were not read."""
        gauged = {broker.node_id: broker for broker in self.gauged}
        return [
            {
                "node": node,
                "jmx": broker and broker.address,
                "release": broker and broker.release,
                "coordinator": broker and broker.coordinator,
                "partitions": broker and broker.partitions,
                "counted": broker and dict(sorted(broker.types.items())),
                "listed": dict(sorted(_by_type(self.listed.get(node, {})).items())),
            }
            for node in sorted({*gauged, *self.listed})
            for broker in [gauged.get(node)]
        ]


RULES: Rules[CountView] = Rules("domain/group_gauge_rules.toml")
"""What is asked of the counts."""
COUNTS = frozenset({"PG01", "PG02", "PG03"})
"""Rules that another look may find mended."""


@RULES.rule("PG01")
def _types(view: CountView) -> Iterator[Says]:
    """A list before 3.8 tells no types: then only the sums can be equal."""
    for broker, listed in view.pairs:
        wanted, at, release = _by_type(listed), broker.node_id, broker.release
        if Kind.UNKNOWN in wanted:
            count, total = sum(broker.types.values()), wanted.total()
            if count != total:
                yield Says("other_sum", node=at, release=release, told=count, listed=total)
            continue
        for kind in sorted({*wanted, *broker.types}):
            count, lists = broker.types.get(kind, 0), wanted[kind]
            if count != lists:
                yield Says("other_type", node=at, release=release, told=count, kind=kind, listed=lists)


@RULES.rule("PG02")
def _states(view: CountView) -> Iterator[Says]:
    """Of the types of which the broker counts states; it may write them in another case."""
    for broker, listed in view.pairs:
        if Kind.UNKNOWN in _by_type(listed):
            continue
        at, release, of_states = broker.node_id, broker.release, _by_state(broker.states)
        counted = {kind for kind, _ in of_states}
        wanted = _by_state({of: count for of, count in listed.items() if of[0] in counted})
        for kind, state in sorted({*wanted, *of_states}):
            counts, lists = of_states[kind, state], wanted[kind, state]
            if counts != lists:
                yield Says(
                    "other_state", node=at, release=release, told=counts, kind=kind, state=state, listed=lists
                )


@RULES.rule("PG03")
def _loaded(view: CountView) -> Iterator[Says]:
    """A partition that loads or failed has groups that the broker neither counts nor serves."""
    for node in sorted(view.loading):
        yield Says("not_listed", node=node)
    for broker in view.gauged:
        for state in ("loading", "failed"):
            if count := broker.partitions.get(state, 0):
                yield Says("not_active", node=broker.node_id, count=count, state=state)


@RULES.rule("PG04")
def _all_read(view: CountView) -> Iterator[Says]:
    """Each broker of the cluster by one address."""
    addresses = grouped((broker.node_id, broker.address) for broker in view.gauged)
    for node, places in sorted(addresses.items()):
        if node not in view.listed:
            yield Says("foreign_broker", address=places[0], node=node)
        if len(places) > 1:
            yield Says("read_twice", addresses=places, node=node)
    yield from some("not_read", nodes=sorted(view.listed.keys() - addresses.keys()))


@RULES.rule("PG05")
def _one_kind(view: CountView) -> Iterator[Says]:
    """In the middle of a change from one coordinator to the other there are two."""
    kinds = grouped((each.coordinator, f"{each.node_id} ({each.release})") for each in view.gauged)
    if len(kinds) > 1:
        said = [f"{kind} at {sentence_list(nodes)}" for kind, nodes in sorted(kinds.items())]
        yield Says("two_coordinators", kinds="; ".join(said))


def _by_state(counts: Counts) -> Counter[tuple[Kind, str]]:
    return Counter({(kind, state.casefold()): count for (kind, state), count in counts.items()})


def _by_type(listed: Counts) -> Counter[Kind]:
    totals: Counter[Kind] = Counter()
    for (kind, _), count in listed.items():
        totals[kind] += count
    return totals
