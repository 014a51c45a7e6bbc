"""How many groups each broker counts, held against how many it lists (the test plan of KIP-915).

What brokers count they publish as metrics. Up to 3.9 the numbers are those of the moment; since 4.0 each
coordinator partition counts anew once a minute, so after a change the two differ for up to that long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from groupshift.domain.facts import Complaint, sentence_list
from groupshift.domain.group_protocol import Kind
from groupshift.domain.verdict import Finding, Verdict

Counts = Mapping[tuple[Kind, str], int]
"""Groups by type and state, as a broker lists them."""

_LATER = "brokers since 4.0 count anew once a minute: look again with --patience 90"
_SAME_STATE = str.casefold


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
    """Brokers whose metrics were read, and by node id what every broker lists."""

    gauged: Sequence[GaugedBroker]
    listed: Mapping[int, Counts]

    @property
    def pairs(self) -> Iterator[tuple[GaugedBroker, Counts]]:
        """Each broker whose metrics were read, with its list."""
        for broker in self.gauged:
            yield broker, self.listed.get(broker.node_id, {})

    @property
    def rows(self) -> list[dict[str, Any]]:
        """What each broker counts and lists, as data; None where its metrics were not read."""
        gauged = {broker.node_id: broker for broker in self.gauged}
        found = []
        for node in sorted({*gauged, *self.listed}):
            broker = gauged.get(node)
            found.append(
                {
                    "node": node,
                    "jmx": broker and broker.address,
                    "release": broker and broker.release,
                    "coordinator": broker and broker.coordinator,
                    "partitions": broker and broker.partitions,
                    "counted": broker and _by_name(broker.types),
                    "listed": _by_name(_by_type(self.listed.get(node, {}))),
                }
            )
        return found


def _types(view: CountView) -> Iterator[Complaint]:
    for broker, listed in view.pairs:
        wanted = _by_type(listed)
        if Kind.UNKNOWN in wanted:  # before 3.8 a list tells no types
            if sum(broker.types.values()) != sum(wanted.values()):
                yield Verdict.FAIL, _differs(broker, "", sum(broker.types.values()), sum(wanted.values())), ""
            continue
        for kind in sorted({*wanted, *broker.types}):
            told = broker.types.get(kind, 0)
            if told != wanted[kind]:
                yield Verdict.FAIL, _differs(broker, f" of type {kind}", told, wanted[kind]), _LATER


def _states(view: CountView) -> Iterator[Complaint]:
    for broker, listed in view.pairs:
        counted = {kind for kind, _ in broker.states}
        if Kind.UNKNOWN in _by_type(listed):
            continue
        wanted = Counter(
            {(kind, _SAME_STATE(state)): count for (kind, state), count in listed.items() if kind in counted}
        )
        told = Counter({(kind, _SAME_STATE(state)): count for (kind, state), count in broker.states.items()})
        for kind, state in sorted({*wanted, *told}):
            if told[kind, state] != wanted[kind, state]:
                what = f" of type {kind} in state {state}"
                reason = _differs(broker, what, told[kind, state], wanted[kind, state])
                yield Verdict.INCONCLUSIVE, reason, _LATER


def _loaded(view: CountView) -> Iterator[Complaint]:
    for broker in view.gauged:
        for state in ("loading", "failed"):
            count = broker.partitions.get(state, 0)
            if count:
                reason = f"broker {broker.node_id} has {count} coordinator partitions in state {state}"
                yield Verdict.FAIL, reason, "see its log for what it cannot load; do not go on before"


def _all_read(view: CountView) -> Iterator[Complaint]:
    addresses: dict[int, list[str]] = {}
    for broker in view.gauged:
        addresses.setdefault(broker.node_id, []).append(broker.address)
    for node, found in sorted(addresses.items()):
        if node not in view.listed:
            yield Verdict.FAIL, f"{found[0]} is broker {node}, which this cluster does not have", ""
        if len(found) > 1:
            yield Verdict.FAIL, f"{sentence_list(found)} are all broker {node}", "name each broker once"
    missing = sorted(set(view.listed) - set(addresses))
    if missing:
        names = sentence_list([str(node) for node in missing])
        yield Verdict.INCONCLUSIVE, f"metrics of brokers {names} were not read", "name them with --jmx"


def _one_kind(view: CountView) -> Iterator[Complaint]:
    kinds: dict[str, list[str]] = {}
    for broker in view.gauged:
        kinds.setdefault(broker.coordinator, []).append(f"{broker.node_id} ({broker.release})")
    if len(kinds) > 1:
        said = "; ".join(f"{kind} at {sentence_list(nodes)}" for kind, nodes in sorted(kinds.items()))
        yield Verdict.INCONCLUSIVE, f"brokers run different coordinators: {said}", ""


Look = Callable[[CountView], Iterator[Complaint]]

COUNTED: tuple[tuple[str, str, Look], ...] = (
    ("PG01", "every broker counts as many groups of each type as it lists", _types),
    ("PG02", "so it is in each state", _states),
    ("PG03", "no coordinator partition is loading, and none has failed", _loaded),
    ("PG04", "the metrics of every broker were read, once", _all_read),
    ("PG05", "all brokers run the same coordinator", _one_kind),
)
"""Number, passed sentence and rule."""


COUNTS = frozenset({"PG01", "PG02", "PG03"})
"""Rules that another look may find mended."""


def counted(view: CountView) -> tuple[Finding, ...]:
    """What the rules say, passed ones included."""
    found: list[Finding] = []
    for number, holds, look in COUNTED:
        said = [
            Finding(rule=number, verdict=verdict, reason=reason, hint=hint)
            for verdict, reason, hint in look(view)
        ]
        found += said or [Finding(rule=number, verdict=Verdict.PASS, reason=holds)]
    return tuple(found)


def _by_name(counts: Mapping[Kind, int]) -> dict[str, int]:
    return {kind.value: count for kind, count in sorted(counts.items())}


def _by_type(listed: Counts) -> Counter[Kind]:
    found: Counter[Kind] = Counter()
    for (kind, _), count in listed.items():
        found[kind] += count
    return found


def _differs(broker: GaugedBroker, what: str, told: int, listed: int) -> str:
    return f"broker {broker.node_id} ({broker.release}) counts {told} groups{what}, and lists {listed}"
