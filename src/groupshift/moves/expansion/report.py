"""What people read of an expansion.

Of an assessment: what each broker uses, what this and other counts cost, the load by partition now and then,
and which groups move. Of a run: what became of the groups, what to do now, and its own parts. A run that
somebody let go on although something was wrong says so in its first sentence, with who did: such an end is no
success, whatever its state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from groupshift.domain.cluster import COUNT, configured
from groupshift.domain.run import Step, StepState
from groupshift.domain.verdict import Verdict
from groupshift.domain.verdict import counted as passed
from groupshift.engine import questions_and_approvers as questions
from groupshift.engine.move import Run
from groupshift.moves.expansion.facts import ExpansionRequest
from groupshift.moves.expansion.ports import COUNTED, ExpansionPorts, counts_of
from groupshift.moves.expansion.rules import Placement
from groupshift.report.kept_evidence import Kept
from groupshift.report.page import (
    Headline,
    Legend,
    Page,
    Part,
    Table,
    Word,
    badge,
    duration,
    moment_utc,
    section,
    table,
)
from groupshift.report.page import (
    render as render_page,
)
from groupshift.report.pictures import Row, bars
from groupshift.report.run_history import (
    History,
    NodeInterval,
    node_intervals,
    wrong_words,
)
from groupshift.report.run_page import ClusterWords, PageParts, cluster_page, sections_of
from groupshift.report.svg_and_time_axis import colour

_COUNTS = 3
_NAMED, _SHOWN = 50, 500
"""How many groups that move a terminal and a page show."""
_MEASURES = ("groups", "live_records", "live_bytes")
"""What is told of a `PartitionLoad`."""


def overview(placement: Placement, named: int = _NAMED) -> Iterator[questions.Section]:
    """Yield the parts of an assessment: what each broker uses, what this and other counts cost, the busiest
    partition and the mean now and then, and ``named`` groups that move. All partitions are on the page, all
    groups in the data of `observed`."""
    facts, brokers = placement.facts, []
    for broker in facts.view.cluster.brokers:
        counts, static = sorted(facts.counts.get(broker.node_id, ())), configured(broker)
        uses = " or ".join(map(str, counts[:_COUNTS])) + (" …" if len(counts) > _COUNTS else "")
        of, leads = broker.coordinator.value.upper(), facts.view.topic.leaders.count(broker.node_id)
        of_file = "" if static is None else str(static)
        brokers.append((str(broker.node_id), of, uses, of_file, str(leads), f"{len(broker.groups):,}"))
    yield questions.Section(
        title=f"__consumer_offsets: {facts.view.count} partitions",
        head=("broker", "coordinator", "uses", "configured", "leads", "groups listed"),
        rows=tuple(brokers),
    )
    yield questions.Section(
        title="What a count costs",
        head=("partitions", "names that stay", "groups that move", "of the count now"),
        rows=tuple(
            (
                f"{each.count}{' (asked for)' if each.count == facts.to else ''}",
                f"{each.stays:.1%}",
                f"{each.moving:,}",
                "a multiple" if each.multiple else "no multiple",
            )
            for each in facts.costs
        ),
    )
    if facts.log:
        rows = []
        for when, loads in (("now", facts.log.loads), ("then", facts.after)):
            measured = [[getattr(load, each) for load in loads] for each in _MEASURES]
            pairs = [(f"{max(each):,}", f"{sum(each) / len(each):,.1f}") for each in measured]
            rows.append((when, str(len(loads)), *chain.from_iterable(pairs)))
        heads = ("groups: busiest", "mean", "records: busiest", "mean", "bytes: busiest", "mean")
        yield questions.Section(
            title="Live load by partition", head=("", "partitions", *heads), rows=tuple(rows)
        )
    more = len(facts.movers) - named
    said = [f"{len(facts.movers):,} of {len(facts.hashed.groups):,} groups move."]
    yield questions.Section(
        title="Groups that move",
        sentences=(*said, *([f"{more:,} more than these; --json has all"] if more > 0 else ())),
        head=("group", "from partition", "to partition") if facts.movers else (),
        rows=tuple((each.group, str(each.before), str(each.after)) for each in facts.movers[:named]),
    )


def observed(_request: ExpansionRequest, placement: Placement) -> questions.Observed:
    """Return what was found of the cluster: `overview`, and the same as data, with every partition and every
    group; no loads where the log was not read."""
    facts = placement.facts
    data = {
        "from": facts.before,
        "to": facts.to,
        "partitions": facts.view.count,
        "uses": {str(each): sorted(counts) for each, counts in facts.counts.items()},
        "costs": facts.costs,
        "moving": facts.movers,
        "load": {
            "now": facts.log.loads if facts.log else (),
            "then": facts.after,
        },
    }
    return questions.Observed(sections=tuple(overview(placement)), data=data)


def render(_request: ExpansionRequest, placement: Placement) -> str:
    """The assessment as an HTML document, with pictures of the load; it needs nothing besides itself."""
    facts, log, findings = placement.facts, placement.facts.log, placement.judgement.findings
    cluster = facts.view.cluster
    bad = [each for each in findings if each.verdict is not Verdict.PASS]
    rules = table(
        sorted(bad, key=lambda each: (-each.verdict.rank, each.rule)),
        {
            "rule": "rule",
            "verdict": lambda each: badge(each.verdict),
            "reason": "reason",
            "remedy": "hint",
        },
    )
    pictures: list[Part] = []
    if log:
        hint = "Live is the newest record of each key; the two rows of a picture have one scale."
        loads, shades = {"now": log.loads, "then": facts.after}, {"now": colour(0), "then": colour(1)}
        pictures += [Word(hint, "hint", tag="p"), Legend(shades)]
        for each in _MEASURES:
            values = {when: [getattr(load, each) for load in all_of] for when, all_of in loads.items()}
            rows = [Row(name=when, values=values[when], shade=shades[when]) for when in loads]
            name = each.replace("_", " ")
            pictures += [Word(name.capitalize(), tag="h3"), bars(name, rows)]
    page = Page(
        title=f"__consumer_offsets from {facts.before} to {facts.to} partitions",
        top=Headline(
            verdict=placement.judgement.verdict,
            word="it may begin" if placement.clean else "it may not begin",
        ),
        lead=f"Cluster {cluster.cluster_id}, looked at {moment_utc(cluster.taken_at_ms)}",
        sections=[
            section("What the rules say", rules if bad else Word(f"{passed(findings, 'rules')}.", tag="p")),
            section("Load by partition", *pictures) if log else None,
            *sections_of(tuple(overview(placement, _SHOWN))),
        ],
    )
    return render_page(page)


UNKNOWN = "not asked yet"


def page(_run: Run[ExpansionPorts], history: History, _kept: Kept | None) -> PageParts:
    """Return the parts of the page of a run: figures, the count of each broker over time, the groups that
    move."""
    plan, other = counts_of(history.plan), _made_by_another(history)
    topic = f"__consumer_offsets of {history.record.target}"
    restarts, deleted = history.of_kind("restart"), any(e.begun for e in history.of_kind("delete-groups"))
    over = f"{topic} has {other or plan.to} partitions now, from {plan.before}"
    if history.state.goes_back:
        again = f", by {other} partitions, which somebody else made and brokers took up" if other else ""
        undone = f"what was deleted is committed again{again}" if deleted or other else "nothing was changed"
        over = f"The way of {topic} to {plan.to} partitions was taken back: {undone}"
    elif all(each.step.kind != "audit" for each in history.accepted):
        over += ", and every broker counts them"
    restored = [each.result for each in history.steps if each.step.kind == "restore"]
    equal = [int(each["equal"]) for each in restored if "equal" in each]
    made = [each.record.state for each in history.of_kind("create-partitions") if each.record]
    closed = any(each.begun for each in restarts) or (
        plan.partitions != plan.to and bool({StepState.ACTED, StepState.DONE}.intersection(made))
    )
    drained = next((each.at_ms for each in history.of_kind("drain") if each.done), 0)
    expiring = sum(int(each.result.get("expiring", 0)) for each in history.of_kind("agree"))
    read = [each.result["records"] for each in history.of_kind("audit") if "records" in each.result]
    moving = history.about["movers"]
    listed = Table(
        heads=("group", "from partition", "to partition"),
        rows=moving[:_SHOWN],
        numeric={"from partition", "to partition"},
        rest=f"groupshift report {history.record.run} --json has all {len(moving):,}."
        if moving[_SHOWN:]
        else "",
    )
    words = ClusterWords(
        title=f"__consumer_offsets from {plan.before} to {plan.to} partitions",
        what=topic,
        aim=f"{plan.to} partitions",
        progress=f"{sum(each.done for each in restarts)} of {len(restarts)} brokers are restarted",
        over=over,
        proven=f"{equal[-1]:,} offsets were committed again and read back; " if equal else "",
        again=f"groupshift expansion run --to {plan.to}",
        closed="No client may start yet, and there is only the way forward" if closed else "",
        halt="No client may start before it is done, or taken back." if deleted else "",
        after=_after(history, other),
        figures=(
            ("partitions before", plan.before),
            ("partitions to be", other or plan.to),
            ("nobody consumed for", duration(history.ended_ms - drained) if drained else None),
            ("brokers", len(plan.brokers)),
            ("groups that move", f"{len(plan.moving):,}"),
            ("offsets committed again", f"{equal[-1]:,}" if equal else None),
            ("of them with an expiry of their own, which is lost", expiring or None),
            ("records in the log at the end", f"{read[-1]:,}" if read else None),
        ),
        lanes="Counts of the brokers over time",
        node="broker",
        intervals=count_lanes(history),
        own=[section("Groups that move", listed if moving else "None.")],
        wrong=_wrong,
    )
    return cluster_page(history, words)


_OFFSETS_DIFFER = "offsets are not as in snapshot {}"
_WRONG = {
    "restore": _OFFSETS_DIFFER,
    "rehearse": _OFFSETS_DIFFER,
    "place": "somebody else gave the topic another count than the plan's",
    "verify": "the log is not as snapshot {}",
    "audit": "the audit of the whole log found something wrong",
}


def _wrong(step: Step) -> str:
    """What it means that a step is not as it has to be."""
    return _WRONG[step.kind].format(step.subject) if step.kind in _WRONG else wrong_words(step)


def _made_by_another(history: History) -> int:
    """How many partitions somebody else gave the topic, where that was accepted, or groups were committed
    again by it in a rollback; else 0."""
    placing = (each for each in history.steps if each.step.kind in {"place", "restore"})
    return next((int(count) for each in placing if (count := each.result.get(COUNTED))), 0)


def _after(history: History, other: int) -> Sequence[tuple[str, str]]:
    """What to do when a run is over: first what has to be cured of what steps found wrong, the log before the
    offsets, and of ``other`` partitions than the plan's (0: there are none)."""
    wrong, back = {each.step.kind for each in history.accepted}, history.state.goes_back
    where = ": every group is where it was" if back and not other else ""
    commands = [] if wrong else [(f"Clients may start{where}.", "")]
    if not wrong and not back:
        look = "For as long as offsets are kept, look for commits that came late, and for offsets that fell:"
        return [*commands, (look, f"groupshift watch {history.record.run}")]
    if "audit" in wrong:
        clean = "Restart no broker and start no client before this is clean:"
        commands.append((clean, "groupshift audit placement"))
    if other:
        commands.append((f"Set {COUNT}={other} in the file of every broker.", ""))
    if wrong - {"audit", "place"}:
        correct = "Correct what differs before its clients start: the offsets of before are in snapshot S."
        commands.append((correct, ""))
    return commands


def count_lanes(history: History) -> tuple[NodeInterval, ...]:
    """Return the count by which each broker coordinates, from the plan to what was journaled last; the one
    that is restarted first is the first. What a broker counts after its restart is known when each was asked
    (`UNKNOWN` before)."""
    plan, placed = counts_of(history.plan), all(each.done for each in history.of_kind("place"))
    after = str(_made_by_another(history) or plan.to) if placed else UNKNOWN
    return node_intervals(history, "restart", str(plan.before), lambda _step: after)
