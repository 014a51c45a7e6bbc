"""The page of a planned expansion: what it costs, and a picture of the load by partition, now and then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from groupshift.domain.cluster import configured
from groupshift.domain.verdict import Verdict, counted
from groupshift.moves.expansion.assess import PlannedExpansion
from groupshift.moves.expansion.load import Mover, PartitionLoad
from groupshift.report.page import (
    Headline,
    Legend,
    Page,
    Part,
    Section,
    Word,
    badge,
    glance,
    moment_utc,
    section,
    table,
)
from groupshift.report.page import (
    render as render_page,
)
from groupshift.report.pictures import Row, bars
from groupshift.report.svg import colour

_MEASURES: Mapping[str, Callable[[PartitionLoad], int]] = {
    "groups": lambda load: load.groups,
    "live records": lambda load: load.live_records,
    "live bytes": lambda load: load.live_bytes,
}

_SHOWN = 500


def render(found: PlannedExpansion) -> str:
    """The HTML document; it needs nothing besides itself."""
    cluster = found.facts.view.cluster
    word = "it may begin" if found.open else "it may not begin"
    page = Page(
        title=f"__consumer_offsets from {found.facts.before} to {found.to} partitions",
        top=Headline(verdict=found.judgement.verdict, word=word),
        lead=f"Cluster {cluster.cluster_id}, looked at {moment_utc(cluster.taken_at_ms)}",
        sections=[
            _glance(found),
            _costs(found),
            section("Load by partition", *_loads(found)) if found.before else None,
            _brokers(found),
            _findings(found),
            section("Groups that move", movers_table(found.movers, "--json")),
        ],
    )
    return render_page(page)


def _glance(found: PlannedExpansion) -> Section:
    groups, log = len(found.facts.hashed.groups), found.facts.log
    return glance(
        ("partitions now", found.facts.view.count),
        ("brokers count", found.facts.in_force),
        ("partitions then", found.to),
        ("groups", groups),
        ("groups that move", f"{len(found.movers)} of {groups}"),
        ("records in the log", None if log is None else log.records),
        ("groups with residue", None if log is None else len(log.residue)),
    )


def _costs(found: PlannedExpansion) -> Section:
    listed = table(
        found.costs,
        {
            "partitions": "count",
            "names that stay": lambda cost: f"{cost.stays:.1%}",
            "groups that move": "moving",
            "of the count now": lambda cost: "a multiple" if cost.multiple else "no multiple",
            "": lambda cost: "asked for" if cost.count == found.to else "",
        },
        numeric={"partitions", "names that stay", "groups that move"},
    )
    return section("What a count costs", listed)


def _loads(found: PlannedExpansion) -> Iterator[Part]:
    shades = {"now": colour(0), "then": colour(1)}
    hint = "Live is the newest record of each key; the two rows of a picture have one scale."
    yield Word(hint, "hint", tag="p")
    yield Legend(shades)
    for name, measure in _MEASURES.items():
        rows = [
            Row(name=moment, values=[measure(load) for load in loads], shade=shades[moment])
            for moment, loads in (("now", found.before), ("then", found.after))
        ]
        yield Word(f"{name[0].upper()}{name[1:]}", tag="h3")
        yield bars(name, rows)


def _brokers(found: PlannedExpansion) -> Section:
    counts, leaders = found.facts.told, found.facts.view.topic.leaders
    listed = table(
        found.facts.view.cluster.brokers,
        {
            "broker": "node_id",
            "coordinator": lambda each: each.coordinator.value.upper(),
            "counts": lambda each: " or ".join(map(str, sorted(counts.get(each.node_id, ()))[:3])) or None,
            "configured": configured,
            "leads": lambda each: leaders.count(each.node_id),
            "groups listed": lambda each: len(each.groups),
        },
        numeric={"broker", "counts", "configured", "leads", "groups listed"},
    )
    return section("Brokers", listed)


def _findings(found: PlannedExpansion) -> Section:
    findings = found.judgement.findings
    bad = [each for each in findings if each.verdict is not Verdict.PASS]
    listed = table(
        sorted(bad, key=lambda each: (-each.verdict.rank, each.rule)),
        {
            "rule": "rule",
            "verdict": lambda each: badge(each.verdict),
            "reason": "reason",
            "remedy": "hint",
        },
    )
    said = Word(f"{counted(findings, 'rules')}.", tag="p")
    return section("What the rules say", listed if bad else said)


def movers_table(movers: Sequence[Mover], all_by: str) -> Part:
    """The first of the groups that move, and how many more: ``all_by`` shows them."""
    if not movers:
        return Word("None.", tag="p")
    return table(
        movers,
        {"group": "group", "from partition": "before", "to partition": "after"},
        numeric={"from partition", "to partition"},
        most=_SHOWN,
        whole=f"; {all_by} has all",
    )
