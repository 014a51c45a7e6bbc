"""What people read of a run, from the journal alone, and of an assessment.

An assessment tells who is in the group, and what its coordinator will answer on the way (the table of answers
of docs/reference/protocol-answers.md). How long reading pauses is from what was measured on real brokers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from groupshift.domain.foreign_text_quoting import shell
from groupshift.domain.group_protocol import Protocol, Way
from groupshift.domain.protocol import preflight
from groupshift.domain.protocol.answers import forecast
from groupshift.domain.protocol.preflight import ProtocolFacts
from groupshift.domain.run import Plan, RunState, Step
from groupshift.engine.group import LiveGroup
from groupshift.engine.group_move import group_sections
from groupshift.engine.move import Run
from groupshift.engine.questions_and_approvers import Observed, Section
from groupshift.engine.replace_members import REPLACE_MEMBERS
from groupshift.moves.protocol.facts import ProtocolPorts, ProtocolRequest
from groupshift.report import group_page
from groupshift.report.group_history import group_history_of
from groupshift.report.kept_evidence import Kept
from groupshift.report.run_history import History
from groupshift.report.run_page import PageParts, sections_of

_ROLLING = {
    Protocol.CONSUMER: "each partition rests for about 5 to 10 s, not all at the same time",
    Protocol.CLASSIC: "each partition rests for about 5 to 9 s, all of them together for up to 3 s",
}
_OFFLINE = {
    Protocol.CONSUMER: "all partitions rest for about 11 to 18 s, with static members for 47 to 60 s",
    Protocol.CLASSIC: "all partitions rest for about 8 to 14 s, with static members for 50 to 57 s",
}
"""Longest gaps in the 216 moves of protocol-on-real-brokers.md, with stock settings: from the median to the
maximum."""


def _reached(plan: Plan) -> str:
    """Who speaks the wanted protocol when the run is over, as a clause."""
    who = "all members speak" if plan.about["whole"] else "the canary speaks"
    return f"{who} the {plan.about['to']} protocol"


def observed(request: ProtocolRequest, live: LiveGroup) -> Observed:
    """Return who is in the group, and what its coordinator will answer on the way; nothing is foretold of
    what is no group of consumers."""
    view = live.facts.view.protocol
    if view is None:
        return Observed()
    aim = request.aim
    facts = ProtocolFacts(view=view, to=aim.to, way=aim.way)
    alien = not preflight.movable(preflight.RULES.ask(facts, preflight.FIRST))
    answers = () if alien else forecast(aim.to, aim.way, view.group, view.settings)
    group = view.group
    epoch = f", epoch {group.epoch}" if group.epoch is not None else ""
    said = f"Type {group.kind}, {group.state}{epoch}; members: {len(group.members)}"
    head = ("member", "client id", "instance id", "host", "speaks", "epoch", "partitions")
    rows = tuple(
        (
            *(each.member_id, each.client_id, each.instance_id or "", each.host, each.speaks or "not told"),
            *("" if each.epoch is None else str(each.epoch), str(len(each.assigned))),
        )
        for each in group.members
    )
    sections = [Section(title="Members", sentences=(said,), head=head if rows else (), rows=rows)]
    if answers:
        heads = ("row", "outcome", "type after", "error", "because", "what helps")
        shown = tuple(
            (each.number, each.outcome.value, each.kind or "", str(each.code or ""), each.reason, each.remedy)
            for each in answers
        )
        sections.append(Section(title="What the coordinator will answer", head=heads, rows=shown))
    documents = tuple({**asdict(each), "event": each.event, "code": each.code} for each in answers)
    return Observed(sections=tuple(sections), data={"answers": documents, "view": view})


def closing(run: Run[ProtocolPorts], state: RunState) -> tuple[str, str]:
    """Return where the run has led to, as a clause; empty where the engine's own says it. The next command is
    the usual one."""
    if state is RunState.ROLLED_BACK:
        return f"rolled back to the {Protocol(run.there.about['to']).other} protocol, proven equal", ""
    return (f"{_reached(run.there)}; the rollback is open" if state is RunState.MOVED else ""), ""


def pause(plan: Plan, ahead: Sequence[Step]) -> str:
    """Return how long reading is expected to pause, from what was measured."""
    if not any(each.kind == REPLACE_MEMBERS for each in ahead):
        return "no member is replaced, so reading does not pause before you are asked again."
    table = _OFFLINE if plan.about["way"] == Way.OFFLINE else _ROLLING
    said = table[Protocol(plan.about["to"])]
    page = "docs/reference/protocol-on-real-brokers.md"
    return f"{said} (measured with stock settings, {page}), besides your own restarts."


def report_sections(run: Run[ProtocolPorts]) -> tuple[Section, ...]:
    """Return the move's own parts: what it was to do, and what each judge said."""
    about = run.there.about
    group, to, driver = about["group"], about["to"], about["driver"]
    said = f"Group {group} moves to the {to} protocol, {about['way']}, by the driver {driver}."
    return group_sections(run, (said,))


def page(run: Run[ProtocolPorts], history: History, kept: Kept | None) -> PageParts:
    """Return the parts of the page of a run."""
    group, about = group_history_of(history, kept), history.about
    offline = " --offline" if about["way"] == Way.OFFLINE else ""
    again = f"protocol VERB --group {shell(group.group)} --to {about['to']}{offline}"
    return PageParts(
        title=f"Group {group.group}",
        sentence=group_page.sentence(group, _reached(history.plan)),
        now=group_page.to_do(group, again),
        first=group_page.sections_of_group(group, group_page.protocol_now(group)),
        own=sections_of(report_sections(run)[:1]),
        compares=False,
    )
