"""The page of a planned expansion: what it costs, and a picture of the load by partition, now and then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from groupshift.domain.cluster import configured
from groupshift.domain.verdict import Verdict, counted
from groupshift.errors import Rejected, Transient
from groupshift.moves.expansion.assess import PlannedExpansion
from groupshift.moves.expansion.load import PartitionLoad
from groupshift.spark import picture as colours
from groupshift.spark.expansion_report.bars import Row, bars
from groupshift.spark.expansion_report.movers import movers_table
from groupshift.spark.html import Markup, badge, facts, moment_utc, page, section, table, tag

_MEASURES: Mapping[str, Callable[[PartitionLoad], int]] = {
    "groups": lambda load: load.groups,
    "live records": lambda load: load.live_records,
    "live bytes": lambda load: load.live_bytes,
}


def write_plan(path: Path, found: PlannedExpansion) -> None:
    """Write the page. Raises `Rejected` where there is such a file, `Transient` when it cannot be written."""
    if path.exists() or path.is_symlink():
        raise Rejected(f"--report {path} is there already; name a new file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as page_file:
            page_file.write(render(found))
    except OSError as why:
        raise Transient(f"--report {path} cannot be written: {why}; name another place") from None


def render(found: PlannedExpansion) -> str:
    """The HTML document; it needs nothing besides itself."""
    view, before = found.facts.view, found.facts.before
    lead = f"Cluster {view.cluster.cluster_id}, looked at {moment_utc(view.cluster.taken_at_ms)}"
    sections = [
        _glance(found),
        _costs(found),
        *_loads(found),
        _brokers(found),
        _findings(found),
        section("Groups that move", movers_table(found.movers, "--json has all")),
    ]
    title = f"__consumer_offsets from {before} to {found.to} partitions"
    word = "it may begin" if found.open else "it may not begin"
    return page(title, found.judgement.verdict, lead, sections, word=word)


def _glance(found: PlannedExpansion) -> Markup:
    groups = len(found.facts.hashed.groups)
    log = found.facts.log
    return section(
        "At a glance",
        facts(
            [
                ("partitions now", found.facts.view.count),
                ("brokers count", found.facts.in_force),
                ("partitions then", found.to),
                ("groups", groups),
                ("groups that move", f"{len(found.movers)} of {groups}"),
                ("records in the log", None if log is None else log.records),
                ("groups with residue", None if log is None else len(log.residue)),
            ]
        ),
    )


def _costs(found: PlannedExpansion) -> Markup:
    rows = (
        (
            each.count,
            f"{each.stays:.1%}",
            each.moving,
            "a multiple" if each.multiple else "no multiple",
            "asked for" if each.count == found.to else "",
        )
        for each in found.costs
    )
    headings = ("partitions", "names that stay", "groups that move", "of the count now", "")
    return section("What a count costs", table(headings, rows, numeric=headings[:3]))


def _loads(found: PlannedExpansion) -> Iterator[Markup]:
    if not found.before:
        return
    shades = {"now": colours.colour(0), "then": colours.colour(1)}
    pictures: list[Markup] = []
    for name, measure in _MEASURES.items():
        moments = {"now": found.before, "then": found.after}
        rows = [
            Row(name=moment, values=[measure(load) for load in loads], shade=shades[moment])
            for moment, loads in moments.items()
        ]
        pictures += [tag("h3", f"{name[0].upper()}{name[1:]}"), bars(name, rows)]
    hint = tag(
        "p", "Live is the newest record of each key; the two rows of a picture have one scale.", class_="hint"
    )
    yield section("Load by partition", hint, colours.legend(shades, {}), *pictures)


def _brokers(found: PlannedExpansion) -> Markup:
    counted = found.facts.told
    rows = (
        (
            broker.node_id,
            broker.coordinator.value.upper(),
            " or ".join(map(str, sorted(counted.get(broker.node_id, ()))[:3])) or None,
            configured(broker),
            found.facts.view.topic.leaders.count(broker.node_id),
            len(broker.groups),
        )
        for broker in found.facts.view.cluster.brokers
    )
    headings = ("broker", "coordinator", "counts", "configured", "leads", "groups listed")
    return section("Brokers", table(headings, rows, numeric=("broker", *headings[2:])))


def _findings(found: PlannedExpansion) -> Markup:
    rows = (
        (each.rule, badge(each.verdict), each.reason, each.hint)
        for each in sorted(found.judgement.findings, key=lambda each: (-each.verdict.rank, each.rule))
        if each.verdict is not Verdict.PASS
    )
    listed = list(rows)
    body = (
        table(("rule", "verdict", "reason", "remedy"), listed)
        if listed
        else tag("p", f"{counted(found.judgement.findings, 'rules')}.")
    )
    return section("What the rules say", body)
