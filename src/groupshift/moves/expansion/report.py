"""What people read of an expansion.

Of an assessment: what each broker uses, what this and other counts cost, the load by partition now and then,
and which groups move. Of a run: what became of the groups, what to do now, and its own parts. A run that
somebody let go on although something was wrong says so in its first sentence, with who did: such an end is no
success, whatever its state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import chain

from groupshift.domain.cluster import COUNT, configured
from groupshift.domain.run import Json, RunState, Step, StepState
from groupshift.domain.verdict import Verdict
from groupshift.domain.verdict import counted as passed
from groupshift.engine import questions
from groupshift.engine.move import Run
from groupshift.moves.expansion.load import Mover, PartitionLoad
from groupshift.moves.expansion.ports import COUNTED, ExpansionPorts, counts_of
from groupshift.moves.expansion.rules import Placement
from groupshift.report.history import (
    History,
    NodeInterval,
    compared,
    node_intervals,
    wrong_words,
)
from groupshift.report.kept import Kept
from groupshift.report.page import (
    Headline,
    Legend,
    Page,
    Part,
    Section,
    Word,
    badge,
    duration,
    glance,
    moment_utc,
    section,
    table,
)
from groupshift.report.page import (
    render as render_page,
)
from groupshift.report.pictures import Row, bars
from groupshift.report.run_page import PageParts, node_lanes, sections_of, way_sentence
from groupshift.report.svg import colour

_COUNTS = 3
_NAMED, _SHOWN = 50, 500
"""How many groups that move a terminal and a page show."""
_MEASURES: Mapping[str, Callable[[PartitionLoad], int]] = {
    "groups": lambda load: load.groups,
    "live records": lambda load: load.live_records,
    "live bytes": lambda load: load.live_bytes,
}


def overview(placement: Placement, named: int = _NAMED) -> Iterator[questions.Section]:
    """Yield the parts of an assessment: what each broker uses, what this and other counts cost, the busiest
    partition and the mean now and then, and ``named`` groups that move. All partitions are on the page, all
    groups in `overview_data`."""
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
            found_values = [list(map(measure, loads)) for measure in _MEASURES.values()]
            pairs = [(f"{max(each):,}", f"{sum(each) / len(each):,.1f}") for each in found_values]
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


def overview_data(placement: Placement) -> Json:
    """Return the same as data, with every partition and every group; no loads where the log was not read. Of
    a partition then nothing is said of what is overwritten or deleted: it stays where it lies."""
    facts, live = placement.facts, ("partition", "groups", "live_records", "live_bytes")
    return {
        "from": facts.before,
        "to": facts.to,
        "partitions": facts.view.count,
        "uses": {str(each): sorted(counts) for each, counts in facts.counts.items()},
        "costs": facts.costs,
        "moving": facts.movers,
        "load": {
            "now": facts.log.loads if facts.log else (),
            "then": [{name: getattr(each, name) for name in live} for each in facts.after],
        },
    }


def render(placement: Placement) -> str:
    """The assessment as an HTML document, with pictures of the load; it needs nothing besides itself."""
    facts, log, findings = placement.facts, placement.facts.log, placement.judgement.findings
    cluster, groups = facts.view.cluster, len(facts.hashed.groups)
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
    at_a_glance = glance(
        ("partitions now", facts.view.count),
        ("brokers count", facts.in_force),
        ("partitions then", facts.to),
        ("groups", groups),
        ("groups that move", f"{len(facts.movers)} of {groups}"),
        ("records in the log", None if log is None else log.records),
        ("groups with residue", None if log is None else len(log.residue)),
    )
    pictures: list[Part] = []
    if log:
        hint = "Live is the newest record of each key; the two rows of a picture have one scale."
        loads, shades = {"now": log.loads, "then": facts.after}, {"now": colour(0), "then": colour(1)}
        pictures += [Word(hint, "hint", tag="p"), Legend(shades)]
        for name, measure in _MEASURES.items():
            rows = [Row(name=when, values=[*map(measure, loads[when])], shade=shades[when]) for when in loads]
            pictures += [Word(name.capitalize(), tag="h3"), bars(name, rows)]
    page = Page(
        title=f"__consumer_offsets from {facts.before} to {facts.to} partitions",
        top=Headline(
            verdict=placement.judgement.verdict,
            word="it may begin" if placement.clean else "it may not begin",
        ),
        lead=f"Cluster {cluster.cluster_id}, looked at {moment_utc(cluster.taken_at_ms)}",
        sections=[
            at_a_glance,
            section("What the rules say", rules if bad else Word(f"{passed(findings, 'rules')}.", tag="p")),
            section("Load by partition", *pictures) if log else None,
            *sections_of(tuple(overview(placement, _SHOWN))),
        ],
    )
    return render_page(page)


UNKNOWN = "not asked yet"
_OVER = frozenset({RunState.FINALISED, RunState.MOVED, RunState.ROLLED_BACK})


def page(_run: Run[ExpansionPorts], history: History, _kept: Kept | None) -> PageParts:
    """Return the parts of the page of a run: figures, the count of each broker over time, the groups that
    move."""
    plan, to = counts_of(history.plan), counted(history)
    counts = dict.fromkeys((str(plan.before), str(plan.to), str(to)))
    shades = {count: colour(number) for number, count in enumerate(counts)}
    title, every = "Counts of the brokers over time", {**shades, UNKNOWN: "#999"}
    lanes = section(
        "Brokers and their counts",
        "A bar is the count of partitions by which a broker finds groups, by the journal; grey is the time "
        "from the step before its restart until it was back and in sync, and until each broker was asked "
        "which count it uses. A sign below is a comparison of all groups.",
        Legend(shades, {str(plan.to): "partitions"}),
        node_lanes(history, title, "broker", count_lanes(history), every),
    )
    return PageParts(
        title=f"__consumer_offsets from {plan.before} to {plan.to} partitions",
        sentence=_sentence(history),
        now=_now(history) if history.state not in _OVER else _after(history),
        first=[_glance(history), lanes],
        own=[section("Groups that move", *_moving(history))],
        wrong=_wrong,
    )


def _wrong(step: Step) -> str:
    """What it means that a step is not as it has to be."""
    match step.kind:
        case "restore" | "rehearse":
            return f"offsets are not as in snapshot {step.subject}"
        case "place":
            return "somebody else gave the topic another count than the plan's"
        case "verify":
            return f"the log is not as snapshot {step.subject}"
        case "audit":
            return "the audit of the whole log found something wrong"
        case _:
            return wrong_words(step)


def counted(history: History) -> int:
    """Return how many partitions brokers are to count: the plan's number, or that of somebody else."""
    return _made_by_another(history) or counts_of(history.plan).to


def _made_by_another(history: History) -> int:
    """How many partitions somebody else gave the topic, where that was accepted, or groups were committed
    again by it in a rollback; else 0."""
    placing = (each for each in history.steps if each.step.kind in {"place", "restore"})
    return next((int(count) for each in placing if (count := each.result.get(COUNTED))), 0)


def _deleted(history: History) -> bool:
    """Whether groups may have been deleted: the step was begun."""
    return any(each.begun for each in history.of_kind("delete-groups"))


def _restored(history: History) -> int | None:
    """How many offsets were committed again and read back as they were; None while none were."""
    results = [each for each in history.steps if each.step.kind == "restore" and "equal" in each.result]
    return int(results[-1].result["equal"]) if results else None


def _sentence(history: History) -> str:
    """What became of the topic, and how much was committed again and compared; what was accepted stands in
    the place of that."""
    plan, state = counts_of(history.plan), history.state
    topic = f"__consumer_offsets of cluster {history.about['cluster_id']}"
    if state not in _OVER:
        steps = history.of_kind("restart")
        restarts = f"{sum(each.done for each in steps)} of {len(steps)} brokers are restarted"
        return way_sentence(history, (topic, f"{plan.to} partitions"), restarts)
    other = _made_by_another(history)
    if not state.goes_back:
        audited = all(each.step.kind != "audit" for each in history.accepted)
        brokers = ", and every broker counts them" if audited else ""
        said = f"{topic} has {counted(history)} partitions now, from {plan.before}{brokers}."
    else:
        undone = "what was deleted is committed again" if _deleted(history) else "nothing was changed"
        if other:  # without what nobody asked: the count that the topic has after a rollback
            undone = (
                f"what was deleted is committed again, by {other} partitions, which somebody else made and "
                "brokers took up"
            )
        said = f"The way of {topic} to {plan.to} partitions was taken back: {undone}."
    if history.accepted:
        wrong = (
            f"{_wrong(each.step)}: {'; '.join(each.reasons)} (accepted by {each.who})"
            for each in history.accepted
        )
        return f"{said} But not all is as it has to be: {'; '.join(wrong)}."
    equal = [each for each in compared(history) if each.verdict is Verdict.PASS]
    offsets, groups = _restored(history), max((each.groups or 0 for each in equal), default=0)
    if offsets is None and not equal:
        return f"{said} Groups were not compared."
    again = "" if offsets is None else f"{offsets:,} offsets were committed again and read back; "
    proven = f"{len(equal)} comparisons of {groups:,} groups found nothing lost and no offset changed"
    return f"{said} {again}{proven}."


def _now(history: History) -> tuple[tuple[str, str], ...]:
    """What to do about a run that is not over. There is only the way forward, as far as the journal can tell,
    once this run made partitions or a broker was to be restarted."""
    run, why, plan = history.record.run, history.trouble, counts_of(history.plan)
    command, made = f"groupshift continue {run} --execute", {StepState.ACTED, StepState.DONE}
    closed = any(each.begun for each in history.of_kind("restart")) or (
        plan.partitions != plan.to
        and any(each.record and each.record.state in made for each in history.of_kind("create-partitions"))
    )
    match history.state:
        case RunState.REJECTED | RunState.PREVIEW:
            return (("To plan it again:", f"groupshift expansion run --to {plan.to}"),)
        case RunState.ROLLING_BACK:
            return (("To go on with the rollback:", command),)
        case _ if closed:
            cured = "; once the cause is cured" if why else ""
            return ((f"No client may start yet, and there is only the way forward{cured}:", command),)
        case _:
            halt = ("No client may start before it is done, or taken back.", "")
            go_on = ("To go on where it stands:", command)
            back = ("To take it back:", f"groupshift roll-back {run} --execute")
            both = (back, go_on) if why else (go_on, back)
            return (halt, *both) if _deleted(history) else both


def _after(history: History) -> tuple[tuple[str, str], ...]:
    """What to do when a run is over: first what has to be cured of what steps found wrong, the log before the
    offsets, and of another count than the plan's."""
    run, other = history.record.run, _made_by_another(history)
    wrong, commands = {each.step.kind for each in history.accepted}, list[tuple[str, str]]()
    if not wrong:
        where = ": every group is where it was" if history.state.goes_back and not other else ""
        commands.append((f"Clients may start{where}.", ""))
    if wrong or history.state.goes_back:
        if "audit" in wrong:
            commands.append(
                (
                    "Restart no broker and start no client before this is clean:",
                    "groupshift audit placement",
                )
            )
        if other:
            commands.append((f"Set {COUNT}={other} in the file of every broker.", ""))
        if wrong - {"audit", "place"}:
            correct = "Correct what differs before its clients start"
            commands.append((f"{correct}: the offsets of before are in snapshot S.", ""))
    else:
        look = "For as long as offsets are kept, look for commits that came late, and for offsets that fell:"
        commands.append((look, f"groupshift watch {run}"))
    check = ("To prove that nobody changed this evidence since:", f"groupshift verify-evidence {run}")
    return (*commands, check)


def _glance(history: History) -> Section:
    """The run in figures; for how long no client was allowed counts from the drain to the end, or so far."""
    plan, comparisons, offsets = counts_of(history.plan), compared(history), _restored(history)
    drained = next((each.at_ms for each in history.of_kind("drain") if each.done), 0)
    expiring = sum(int(each.result.get("expiring", 0)) for each in history.of_kind("agree"))
    read = [each.result["records"] for each in history.of_kind("audit") if "records" in each.result]
    return glance(
        ("partitions before", plan.before),
        ("partitions to be", counted(history)),
        ("nobody consumed for", duration(history.ended_ms - drained) if drained else None),
        ("brokers", len(plan.brokers)),
        ("groups", max((each.groups or 0 for each in comparisons), default=0) or None),
        ("groups that move", f"{len(plan.moving):,}"),
        ("offsets committed again", None if offsets is None else f"{offsets:,}"),
        ("of them with an expiry of their own, which is lost", expiring or None),
        (
            "comparisons equal",
            f"{sum(each.verdict is Verdict.PASS for each in comparisons)} of {len(comparisons)}",
        ),
        ("records in the log at the end", f"{read[-1]:,}" if read else None),
        ("steps read back", f"{sum(each.done for each in history.steps)} of {len(history.steps)}"),
    )


def count_lanes(history: History) -> tuple[NodeInterval, ...]:
    """Return the count by which each broker coordinates, from the plan to what was journaled last; the one
    that is restarted first is the first. What a broker counts after its restart is known when each was asked
    (`UNKNOWN` before)."""
    placing = history.of_kind("place")
    after = str(counted(history)) if all(each.done for each in placing) else UNKNOWN
    return node_intervals(history, "restart", str(counts_of(history.plan).before), lambda _step: after)


def _moving(history: History) -> Iterator[Part]:
    """How many groups leave each partition, how many come, and which."""
    plan = counts_of(history.plan)
    movers = [
        Mover(group=str(group), before=int(before), after=int(after))
        for group, before, after in history.about["movers"]
    ]
    if not movers:
        yield Word("None.", tag="p")
        return
    shades = {"leave": colour(0), "come": colour(1)}
    leave, come = Counter(each.before for each in movers), Counter(each.after for each in movers)
    yield Legend(shades)
    rows = [
        Row(name="leave", values=[leave[number] for number in range(plan.before)], shade=shades["leave"]),
        Row(name="come", values=[come[number] for number in range(plan.to)], shade=shades["come"]),
    ]
    yield bars("groups that move", rows)
    yield table(
        movers,
        {"group": "group", "from partition": "before", "to partition": "after"},
        numeric={"from partition", "to partition"},
        most=_SHOWN,
        whole=f"; groupshift report {history.record.run} --json has all",
    )
