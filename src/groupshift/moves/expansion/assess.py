"""Where the groups of a cluster are coordinated: an audit of what is, and a plan for another partition count.
Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from groupshift.domain.cluster import PlacementView
from groupshift.domain.commit_places import Topics
from groupshift.domain.judgement import Judgement
from groupshift.domain.verdict import Verdict
from groupshift.errors import Rejected
from groupshift.moves.expansion.facts import PlacementFacts, fitting, in_force, told_counts
from groupshift.moves.expansion.load import (
    Cost,
    LoggedPlaces,
    LogReading,
    Mover,
    PartitionLoad,
    worth_comparing,
)
from groupshift.moves.expansion.rules import Use, ask, bugs
from groupshift.ports.cluster import PlacementViews
from groupshift.ports.log import LogProgress, OffsetsLog

MOST = 100_000
"""More partitions than a cluster takes of one topic."""
_ASKED_DIRECTLY = 200
"""How many groups that two brokers may serve are asked about at each broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementAudit:
    """What was met and every finding."""

    facts: PlacementFacts
    judgement: Judgement

    @property
    def clean(self) -> bool:
        """Whether no rule failed and all could be measured (inconclusive is a warning)."""
        return self.judgement.verdict in {Verdict.PASS, Verdict.INCONCLUSIVE}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedExpansion:
    """Which groups move, what this count and others cost, load by partition now (``before``: as it lies in
    the log) and then (``after``: live records), and every finding; no loads where the log was not read."""

    facts: PlacementFacts
    to: int
    movers: tuple[Mover, ...]
    costs: tuple[Cost, ...]
    before: tuple[PartitionLoad, ...]
    after: tuple[PartitionLoad, ...]
    judgement: Judgement

    @property
    def open(self) -> bool:
        """Whether a run may begin."""
        return self.judgement.verdict in {Verdict.PASS, Verdict.INCONCLUSIVE}


def audit_placement(
    views: PlacementViews, log: OffsetsLog | None, told: LogProgress | None = None
) -> PlacementAudit:
    """Look at every broker, then read the whole log of the offsets topic (None: leave that out).

    Raises as `PlacementViews.look` and `OffsetsLog.read`."""
    view = views.look()
    facts = _facts(views, view, _reading(view, log, told))
    suspected = list(facts.several_owners)[:_ASKED_DIRECTLY]
    if suspected:
        facts = replace(facts, view=replace(view, owned=views.owners(suspected)))
    return PlacementAudit(facts=facts, judgement=Judgement(findings=ask(facts, Use.AUDIT)))


def plan_expansion(
    views: PlacementViews, log: OffsetsLog | None, to: int, told: LogProgress | None = None
) -> PlannedExpansion:
    """What going to ``to`` partitions would do. Raises as `audit_placement`, and `Rejected` for a count that
    the topic cannot be given."""
    view = views.look()
    reading = _reading(view, log, told)
    facts = _facts(views, view, reading, to)
    _demand_more(facts, to)
    hashed, before = facts.hashed, facts.before
    return PlannedExpansion(
        facts=facts,
        to=to,
        movers=facts.movers,
        costs=tuple(hashed.cost(before, each) for each in _compared(before, to, view.count)),
        before=facts.log.loads if facts.log else (),
        after=reading.loads_after(to) if reading else (),
        judgement=Judgement(findings=(*ask(facts, Use.PLAN), *bugs(facts))),
    )


def _compared(before: int, to: int, count: int) -> Collection[int]:
    return [each for each in worth_comparing(before, to) if each == to or each >= count]


def _demand_more(facts: PlacementFacts, to: int) -> None:
    """Raises `Rejected` for a count that is not more than there are, unless brokers have not taken up the
    count of the topic yet."""
    count = facts.view.count
    if to > MOST:
        raise Rejected(f"--to {to}: no cluster takes more than {MOST:,} partitions of one topic; name fewer")
    if not count:
        raise Rejected(
            f"--to {to}: there is no offsets topic to expand; set offsets.topic.num.partitions={to} at all "
            "brokers before the first group commits"
        )
    if to < count or (to == count and facts.before == count and count in facts.fitting):
        raise Rejected(
            f"--to {to}: __consumer_offsets has {count} partitions already and a count can only grow; "
            f"name more, such as {2 * facts.before}"
        )


def _reading(view: PlacementView, log: OffsetsLog | None, told: LogProgress | None) -> LogReading | None:
    if log is None:
        return None
    return LogReading().take(log.read(log.position(), None, told) if view.count else ())


def _facts(
    views: PlacementViews, view: PlacementView, reading: LogReading | None, to: int | None = None
) -> PlacementFacts:
    if reading is None or not view.count:
        return PlacementFacts(view=view, log=reading.places(1, 0) if reading else None, to=to)
    telling = any(len(counts) > 1 for counts in view.counted.values())
    more = {"newest": telling, "erased": view.old, "old": view.old, "commits": True}
    places = reading.places(view.count, view.count, **more)
    topics = _topics(views, places)
    found = fitting(told_counts(view, places.newest))
    if view.count not in found and telling and _forgotten(views, view, places):
        return PlacementFacts(view=view, log=places, to=to, log_tells=False, topics=topics)
    count = in_force(view, found)
    if count is not None and count != view.count:
        places = reading.places(count, view.count, **more)
    return PlacementFacts(view=view, log=places, to=to, topics=topics)


def _topics(views: PlacementViews, places: LoggedPlaces) -> Topics:
    """What brokers tell of every topic with a commit."""
    committed = {each.topic for each in places.commits} | {each.topic for each in places.elsewhere}
    return views.topics(committed) if committed else Topics()


def _forgotten(views: PlacementViews, view: PlacementView, places: LoggedPlaces) -> bool:
    """Whether a coordinator that the log believes to use a former count answers for no group that lies only
    there: it was restarted, and counts what the topic has. An OLD one's cache answers either way."""
    only_there = sorted({each.group for each in places.elsewhere if each.lost})[:_ASKED_DIRECTLY]
    return not view.old and bool(only_there) and not views.answering(only_there)
