"""What an assessment of an expansion shows besides its findings: what each broker uses, what this and other
counts cost, the load by partition now and then, and which groups move."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from groupshift.domain.cluster import configured
from groupshift.domain.run import Json
from groupshift.engine.questions import Section
from groupshift.moves.expansion.assess import PlannedExpansion
from groupshift.moves.expansion.facts import PlacementFacts
from groupshift.moves.expansion.load import PartitionLoad

_COUNTS = 3
_NAMED = 50


def overview(found: PlannedExpansion) -> Iterator[Section]:
    """Yield the parts; all partitions are on the page, all groups in `overview_data`."""
    yield _brokers(found.facts)
    yield Section(
        title="What a count costs",
        head=("partitions", "names that stay", "groups that move", "of the count now"),
        rows=tuple(
            (
                f"{each.count}{' (asked for)' if each.count == found.to else ''}",
                f"{each.stays:.1%}",
                f"{each.moving:,}",
                "a multiple" if each.multiple else "no multiple",
            )
            for each in found.costs
        ),
    )
    if found.before:
        yield _load(found)
    yield _movers(found)


def overview_data(found: PlannedExpansion) -> Json:
    """Return the same as data, with every partition and every group; no loads where the log was not read."""
    facts = found.facts
    return {
        "from": facts.before,
        "to": found.to,
        "partitions": facts.view.count,
        "uses": {str(each): sorted(counts) for each, counts in facts.told.items()},
        "costs": found.costs,
        "moving": found.movers,
        "load": {"now": found.before, "then": [_live(each) for each in found.after]},
    }


def _live(load: PartitionLoad) -> Json:
    """What can be said of a partition then: what is overwritten or deleted stays where it lies."""
    return {name: getattr(load, name) for name in ("partition", "groups", "live_records", "live_bytes")}


def _brokers(facts: PlacementFacts) -> Section:
    told, rows = facts.told, []
    for broker in facts.view.cluster.brokers:
        counts = sorted(told.get(broker.node_id, ()))
        static = configured(broker)
        rows.append(
            (
                str(broker.node_id),
                broker.coordinator.value.upper(),
                " or ".join(map(str, counts[:_COUNTS])) + (" …" if len(counts) > _COUNTS else ""),
                "" if static is None else str(static),
                str(facts.view.topic.leaders.count(broker.node_id)),
                f"{len(broker.groups):,}",
            )
        )
    return Section(
        title=f"__consumer_offsets: {facts.view.count} partitions",
        head=("broker", "coordinator", "uses", "configured", "leads", "groups listed"),
        rows=tuple(rows),
    )


def _load(found: PlannedExpansion) -> Section:
    """The busiest partition and the mean, now and then."""
    heads = ("groups: busiest", "mean", "records: busiest", "mean", "bytes: busiest", "mean")
    now = ("now", str(len(found.before)), *_measured(found.before))
    then = ("then", str(len(found.after)), *_measured(found.after))
    return Section(title="Live load by partition", head=("", "partitions", *heads), rows=(now, then))


def _measured(loads: Sequence[PartitionLoad]) -> Iterator[str]:
    for values in (
        [each.groups for each in loads],
        [each.live_records for each in loads],
        [each.live_bytes for each in loads],
    ):
        yield from (f"{max(values):,}", f"{sum(values) / len(values):,.1f}")


def _movers(found: PlannedExpansion) -> Section:
    more = len(found.movers) - _NAMED
    said = [f"{len(found.movers):,} of {len(found.facts.hashed.groups):,} groups move."]
    if more > 0:
        said.append(f"{more:,} more than these; --json has all")
    return Section(
        title="Groups that move",
        sentences=tuple(said),
        head=("group", "from partition", "to partition") if found.movers else (),
        rows=tuple((each.group, str(each.before), str(each.after)) for each in found.movers[:_NAMED]),
    )
