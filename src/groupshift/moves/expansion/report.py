"""What people read of an expansion.

Of an assessment: what each broker uses, what this and other counts cost, the load by partition now and then,
and which groups move. Of a run: what became of the groups, what to do now, and its own parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from groupshift.domain.cluster import COUNT, configured
from groupshift.domain.run import Json, RunState, Step, StepState
from groupshift.domain.verdict import Verdict
from groupshift.domain.verdict import counted as passed
from groupshift.engine import questions
from groupshift.engine.move import Run
from groupshift.moves.expansion.facts import PlacementFacts
from groupshift.moves.expansion.load import Mover, PartitionLoad
from groupshift.moves.expansion.ports import COUNTED, ExpansionPorts, counts_of
from groupshift.moves.expansion.rules import Placement
from groupshift.report.history import (
    History,
    NodeInterval,
    StepHistory,
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


def overview(found: Placement, named: int = _NAMED) -> Iterator[questions.Section]:
    """Yield the parts of an assessment; all partitions are on the page, all groups in `overview_data`."""
    facts = found.facts
    yield _brokers(facts)
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
        yield _load(facts.log.loads, facts.after)
    more = len(facts.movers) - named
    said = [f"{len(facts.movers):,} of {len(facts.hashed.groups):,} groups move."]
    yield questions.Section(
        title="Groups that move",
        sentences=(*said, *([f"{more:,} more than these; --json has all"] if more > 0 else ())),
        head=("group", "from partition", "to partition") if facts.movers else (),
        rows=tuple((each.group, str(each.before), str(each.after)) for each in facts.movers[:named]),
    )


def overview_data(found: Placement) -> Json:
    """Return the same as data, with every partition and every group; no loads where the log was not read. Of
    a partition then nothing is said of what is overwritten or deleted: it stays where it lies."""
    facts, live = found.facts, ("partition", "groups", "live_records", "live_bytes")
    return {
        "from": facts.before,
        "to": facts.to,
        "partitions": facts.view.count,
        "uses": {str(each): sorted(counts) for each, counts in facts.told.items()},
        "costs": facts.costs,
        "moving": facts.movers,
        "load": {
            "now": facts.log.loads if facts.log else (),
            "then": [{name: getattr(each, name) for name in live} for each in facts.after],
        },
    }


def _brokers(facts: PlacementFacts) -> questions.Section:
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
    return questions.Section(
        title=f"__consumer_offsets: {facts.view.count} partitions",
        head=("broker", "coordinator", "uses", "configured", "leads", "groups listed"),
        rows=tuple(rows),
    )


def _load(before: Sequence[PartitionLoad], after: Sequence[PartitionLoad]) -> questions.Section:
    """The busiest partition and the mean, now and then."""
    heads = ("groups: busiest", "mean", "records: busiest", "mean", "bytes: busiest", "mean")
    return questions.Section(
        title="Live load by partition",
        head=("", "partitions", *heads),
        rows=tuple(
            (moment, str(len(loads)), *_measured(loads))
            for moment, loads in (("now", before), ("then", after))
        ),
    )


def _measured(loads: Sequence[PartitionLoad]) -> Iterator[str]:
    for measure in _MEASURES.values():
        values = list(map(measure, loads))
        yield from (f"{max(values):,}", f"{sum(values) / len(values):,.1f}")


def render(found: Placement) -> str:
    """The assessment as an HTML document, with pictures of the load; it needs nothing besides itself."""
    facts, log, findings = found.facts, found.facts.log, found.judgement.findings
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
    groups = len(facts.hashed.groups)
    at_a_glance = glance(
        ("partitions now", facts.view.count),
        ("brokers count", facts.in_force),
        ("partitions then", facts.to),
        ("groups", groups),
        ("groups that move", f"{len(facts.movers)} of {groups}"),
        ("records in the log", None if log is None else log.records),
        ("groups with residue", None if log is None else len(log.residue)),
    )
    word = "it may begin" if found.clean else "it may not begin"
    page = Page(
        title=f"__consumer_offsets from {facts.before} to {facts.to} partitions",
        top=Headline(verdict=found.judgement.verdict, word=word),
        lead=f"Cluster {cluster.cluster_id}, looked at {moment_utc(cluster.taken_at_ms)}",
        sections=[
            at_a_glance,
            section("What the rules say", rules if bad else Word(f"{passed(findings, 'rules')}.", tag="p")),
            section("Load by partition", *_loads(log.loads, facts.after)) if log else None,
            *sections_of(tuple(overview(found, _SHOWN))),
        ],
    )
    return render_page(page)


def _loads(before: Sequence[PartitionLoad], after: Sequence[PartitionLoad]) -> Iterator[Part]:
    shades = {"now": colour(0), "then": colour(1)}
    hint = "Live is the newest record of each key; the two rows of a picture have one scale."
    yield Word(hint, "hint", tag="p")
    yield Legend(shades)
    for name, measure in _MEASURES.items():
        rows = [
            Row(name=moment, values=[measure(load) for load in loads], shade=shades[moment])
            for moment, loads in (("now", before), ("then", after))
        ]
        yield Word(name.capitalize(), tag="h3")
        yield bars(name, rows)


UNKNOWN = "not asked yet"
_HALT = ("No client may start before it is done, or taken back.", "")
_OVER = frozenset({RunState.FINALISED, RunState.MOVED, RunState.ROLLED_BACK})


def page(_run: Run[ExpansionPorts], history: History, _kept: Kept | None) -> PageParts:
    """Return the parts of the page of a run."""
    plan = counts_of(history.plan)
    return PageParts(
        title=f"__consumer_offsets from {plan.before} to {plan.to} partitions",
        sentence=_sentence(history),
        now=_now(history),
        first=[_glance(history), _counts(history)],
        own=[section("Groups that move", *_moving(history))],
        wrong=_wrong,
    )


def _movers(history: History) -> tuple[Mover, ...]:
    return tuple(
        Mover(group=str(group), before=int(before), after=int(after))
        for group, before, after in history.about["movers"]
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
    asked = (each for each in history.steps if each.step.kind in {"place", "restore"})
    return next((int(found) for each in asked if (found := each.result.get(COUNTED))), 0)


def _closed(history: History) -> bool:
    """Whether there is only the way forward, as far as the journal can tell: this run made partitions, or a
    broker was to be restarted."""
    plan = counts_of(history.plan)
    made = any(
        each.record is not None and each.record.state in {StepState.ACTED, StepState.DONE}
        for each in history.of_kind("create-partitions")
    )
    restarting = any(each.begun for each in history.of_kind("restart"))
    return restarting or (made and plan.partitions != plan.to)


def _deleted(history: History) -> bool:
    return any(each.begun for each in history.of_kind("delete-groups"))


def _restored(history: History) -> int | None:
    """How many offsets were committed again and read back as they were; None while none were."""
    found = [each for each in history.steps if each.step.kind == "restore" and "equal" in each.result]
    return int(found[-1].result["equal"]) if found else None


def _expiring(history: History) -> int:
    """How many offsets of groups that move had an expiry of their own, which a new commit has not."""
    return sum(int(each.result.get("expiring", 0)) for each in history.of_kind("agree"))


def _away_ms(history: History) -> int | None:
    """How long no client was allowed: from the drain to the end, or so far; None while there was no drain."""
    since = next((each.at_ms for each in history.of_kind("drain") if each.done), 0)
    return history.ended_ms - since if since else None


def _sentence(history: History) -> str:
    plan, state = counts_of(history.plan), history.state
    topic = f"__consumer_offsets of cluster {history.about['cluster_id']}"
    if state in _OVER:
        wrong = "; ".join(
            f"{_wrong(each.step)}: {'; '.join(each.reasons)} (accepted by {each.who})"
            for each in history.accepted
        )
        proven = f"But not all is as it has to be: {wrong}." if wrong else _proven(history)
        return f"{_ended(history, topic)} {proven}"
    return way_sentence(history, (topic, f"{plan.to} partitions"), _restarts(history))


def _ended(history: History, topic: str) -> str:
    """What became of it, without what nobody asked: the count that the topic has after a rollback."""
    plan = counts_of(history.plan)
    if not history.state.goes_back:
        audited = all(each.step.kind != "audit" for each in history.accepted)
        brokers = ", and every broker counts them" if audited else ""
        return f"{topic} has {counted(history)} partitions now, from {plan.before}{brokers}."
    said = f"The way of {topic} to {plan.to} partitions was taken back"
    if other := _made_by_another(history):
        made = f"{other} partitions, which somebody else made and brokers took up"
        return f"{said}: what was deleted is committed again, by {made}."
    return f"{said}: {'what was deleted is committed again' if _deleted(history) else 'nothing was changed'}."


def _restarts(history: History) -> str:
    steps = history.of_kind("restart")
    return f"{sum(each.done for each in steps)} of {len(steps)} brokers are restarted"


def _proven(history: History) -> str:
    """How much was committed again, and compared."""
    equal = [each for each in compared(history) if each.verdict is Verdict.PASS]
    groups = max((each.groups or 0 for each in equal), default=0)
    offsets = _restored(history)
    if offsets is None and not equal:
        return "Groups were not compared."
    said = "" if offsets is None else f"{offsets:,} offsets were committed again and read back; "
    return f"{said}{len(equal)} comparisons of {groups:,} groups found nothing lost and no offset changed."


def _now(history: History) -> tuple[tuple[str, str], ...]:
    run, why = history.record.run, history.trouble
    if history.state in _OVER:
        return _after(history)
    command = f"groupshift continue {run} --execute"
    back, go_on = f"groupshift roll-back {run} --execute", ("To go on where it stands:", command)
    match history.state:
        case RunState.REJECTED | RunState.PREVIEW:
            again = f"groupshift expansion run --to {counts_of(history.plan).to}"
            return (("To plan it again:", again),)
        case RunState.ROLLING_BACK:
            return (("To go on with the rollback:", command),)
        case _ if _closed(history):
            cured = "; once the cause is cured" if why else ""
            return ((f"No client may start yet, and there is only the way forward{cured}:", command),)
        case _:
            halt = (_HALT,) if _deleted(history) else ()
            both = (("To take it back:", back), go_on)
            return (*halt, *(both if why else both[::-1]))


def _after(history: History) -> tuple[tuple[str, str], ...]:
    """What to do when a run is over."""
    run = history.record.run
    check = ("To prove that nobody changed this evidence since:", f"groupshift verify-evidence {run}")
    other = _made_by_another(history)
    if wrong := {each.step.kind for each in history.accepted}:
        return (*_corrected(wrong, other), check)
    if history.state.goes_back:
        started = "Clients may start" if other else "Clients may start: every group is where it was"
        return ((f"{started}.", ""), *_corrected(wrong, other), check)
    look = "For as long as offsets are kept, look for commits that came late, and for offsets that fell:"
    return (("Clients may start.", ""), (look, f"groupshift watch {run}"), check)


def _corrected(wrong: Collection[str], other: int) -> Iterator[tuple[str, str]]:
    """What has to be cured of what steps of these kinds found wrong, and of another count than the plan's;
    the log first."""
    if "audit" in wrong:
        yield "Restart no broker and start no client before this is clean:", "groupshift audit placement"
    if other:
        yield f"Set {COUNT}={other} in the file of every broker.", ""
    if set(wrong) - {"audit", "place"}:
        yield "Correct what differs before its clients start: the offsets of before are in snapshot S.", ""


def _glance(history: History) -> Section:
    plan, found, away = counts_of(history.plan), compared(history), _away_ms(history)
    offsets, audits = _restored(history), history.of_kind("audit")
    return glance(
        ("partitions before", plan.before),
        ("partitions to be", counted(history)),
        ("nobody consumed for", duration(away) if away is not None else None),
        ("brokers", len(plan.brokers)),
        ("groups", max((each.groups or 0 for each in found), default=0) or None),
        ("groups that move", f"{len(plan.moving):,}"),
        ("offsets committed again", None if offsets is None else f"{offsets:,}"),
        ("of them with an expiry of their own, which is lost", _expiring(history) or None),
        ("comparisons equal", f"{sum(each.verdict is Verdict.PASS for each in found)} of {len(found)}"),
        ("records in the log at the end", _records(audits)),
        ("steps read back", f"{sum(each.done for each in history.steps)} of {len(history.steps)}"),
    )


def _records(audits: tuple[StepHistory, ...]) -> str | None:
    """As the last audit read them."""
    found = audits[-1].result.get("records") if audits else None
    return None if found is None else f"{found:,}"


def count_lanes(history: History) -> tuple[NodeInterval, ...]:
    """Return the count by which each broker coordinates, from the plan to what was journaled last; the one
    that is restarted first is the first. What a broker counts after its restart is known when each was asked
    (`UNKNOWN` before)."""
    asked = history.of_kind("place")
    after = str(counted(history)) if all(each.done for each in asked) else UNKNOWN
    return node_intervals(history, "restart", str(counts_of(history.plan).before), lambda _step: after)


def _counts(history: History) -> Section:
    plan = counts_of(history.plan)
    counts = dict.fromkeys((str(plan.before), str(plan.to), str(counted(history))))
    shades = {count: colour(number) for number, count in enumerate(counts)}
    note = (
        "A bar is the count of partitions by which a broker finds groups, by the journal; grey is the time "
        "from the step before its restart until it was back and in sync, and until each broker was asked "
        "which count it uses. A sign below is a comparison of all groups."
    )
    title, every = "Counts of the brokers over time", {**shades, UNKNOWN: "#999"}
    return section(
        "Brokers and their counts",
        note,
        Legend(shades, {str(plan.to): "partitions"}),
        node_lanes(history, title, "broker", count_lanes(history), every),
    )


def _moving(history: History) -> Iterator[Part]:
    """How many groups leave each partition, how many come, and which."""
    plan, movers = counts_of(history.plan), _movers(history)
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
