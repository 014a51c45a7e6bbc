"""``groupshift status | continue | roll-back | finalise | report | watch``: runs of any move, by name.

What changes a cluster needs ``--execute``; without it a verb shows what it would do. ``status`` and
``report`` ask no server. A run that another process has is never taken over without ``--take-over`` (U2)."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from groupshift.bootstrap.connect import verifier
from groupshift.bootstrap.moves import evidence_of, page_of, sealer_of
from groupshift.cli.options import SETTINGS_VARIABLE, Execute, Json, Page, option
from groupshift.cli.output_and_next_command import Shown, tell, write_page
from groupshift.cli.requests import asked_again
from groupshift.cli.run_driving import INTERRUPTED, WAITS, Patience, TakeOver, Terms, Yes, go_on
from groupshift.cli.run_output import (
    findings_parts,
    list_table,
    section_parts,
    status_data,
    steps_data,
    steps_table,
    tell_status,
)
from groupshift.cli.run_place import Found, JournalSession, Where, place_of, placed, session
from groupshift.cli.terminal import Console
from groupshift.domain.foreign_text_quoting import command, visible
from groupshift.domain.run import Outcome, RunState
from groupshift.domain.seal import REPORT
from groupshift.engine import watch as watching
from groupshift.engine.evidence_check import verify
from groupshift.engine.move import Run, undo_of
from groupshift.engine.roll_back import begin_finalise, begin_roll_back, require_finalisable, rollback_of
from groupshift.engine.run_end import Closing, reject
from groupshift.engine.status import report_of, status_of, statuses
from groupshift.errors import Broken, GroupshiftError, Rejected, Transient
from groupshift.ports.runs import EventKind, RunRecord


def _names(incomplete: str) -> list[str]:
    """Names of runs for the shell's completion, of the place that the environment names."""
    named = os.environ.get(SETTINGS_VARIABLE)
    where = Where(settings_file=Path(named) if named else None)
    with suppress(GroupshiftError), session(place_of(where, servers=False)) as at:
        return [each.run for each in at.runs.recent(_COMPLETED) if each.run.startswith(incomplete)]
    return []


_COMPLETED = 100
"""Among how many of the latest runs the shell completes a name."""
RunId = Annotated[str, Argument(metavar="RUN", show_default=False, autocompletion=_names)]
_AUDIT = "Take up the audit of consumption that lies in its evidence."
Audit = Annotated[bool, Option("--audit", help=_AUDIT)]
_UNCHANGED = frozenset({RunState.PLANNED, RunState.APPROVED})
"""States in which nothing was changed yet."""
_EVERY_S = 2.0
"""Seconds between two looks of `status --watch`."""
_ONLY_SHOWN = "nothing was changed: without --execute this only shows what would be done"
_CODES = {Outcome.PASS: 0, Outcome.PERSON: WAITS}
"""The exit codes of `watch`; any other outcome is 1."""


@placed
def status(  # noqa: PLR0913 - the options of a verb
    run: Annotated[str, Argument(metavar="[RUN]", show_default=False, autocompletion=_names)] = "",
    *,
    open_only: Annotated[bool, Option("--open", help="Only runs that are open.")] = False,
    move: Annotated[str, option("--move", "Only runs of this move.")] = "",
    group: Annotated[str, option("--group", "Only of this group.", "-g")] = "",
    limit: Annotated[int, Option(help="How many that are over.", min=1)] = 20,
    previews: Annotated[bool, Option("--previews", help="Those that were only planned, too.")] = False,
    watch: Annotated[bool, Option("--watch", help="Show it again whenever it changes.")] = False,
    as_json: Json = False,
    where: Where,
) -> int:
    """Show runs, or one: who has it, what it waits for, where to answer.

    With --watch it is shown again whenever it changes: one run until nobody drives it any more."""
    with session(place_of(where, servers=False)) as at:
        listed = partial(statuses, at.runs, limit=limit, move=move, target=group, open_only=open_only)
        console, shown = Console(), None
        with suppress(KeyboardInterrupt) if watch else nullcontext():
            while True:
                now = (status_of(at.runs, run),) if run else listed(previews=previews)
                if watch and now != shown and console.is_terminal:
                    console.clear()
                if now != shown and run:
                    preview = now[0].state == RunState.PREVIEW
                    tell_status(now[0], as_json=as_json, following=_begins(at.find(run)) if preview else "")
                elif now != shown:
                    data = {"runs": [status_data(each) for each in now]}
                    following = f"groupshift status {now[0].run}" if now else "groupshift --help"
                    tell(data, [list_table(now) or "no run is in this journal"], following, as_json=as_json)
                if not watch or (run and not now[0].driven):
                    return 0
                shown = now
                time.sleep(_EVERY_S)
    return 0


def _begins(preview: Found) -> str:
    """The command that begins what a preview only shows."""
    return f"{asked_again(preview.move, 'run', preview.request)} --execute"


@placed
def continue_(run: RunId, *, terms: Terms, as_json: Json = False, where: Where) -> int:
    """Go on with an open run, forward or back.

    Without --execute it is only shown."""
    with session(place_of(where)) as at:
        journaled = at.find(run)
        state, status = journaled.record.state, status_of(at.runs, run)
        if state is RunState.PREVIEW:
            raise Rejected(f"run {run} was only planned and never acts; begin one with: {_begins(journaled)}")
        if not terms.execute or not state.is_open:
            how = f" --accept {shlex.quote(terms.accept)}" if terms.accept else ""
            how += " --take-over" if terms.take_over and status.driven else ""
            accepting = f"groupshift continue {run}{how} --execute" if how and state.is_open else ""
            tell_status(status, as_json=as_json, following=accepting)
            return 0
        with journaled.ports() as ports:
            return go_on(journaled, ports, terms, as_json=as_json)


@placed
def roll_back(
    run: RunId,
    *,
    to: Annotated[str, option("--to", "How far back; default: as the run would by itself.")] = "",
    terms: Terms,
    as_json: Json = False,
    where: Where,
) -> int:
    """Take a run back, from any step, and prove it.

    Without --execute what would be undone is shown. Nothing was changed yet: the run ends."""
    with session(place_of(where)) as at:
        journaled = at.find(run)
        state = journaled.record.state
        with journaled.ports() as ports:
            far = to or journaled.move.falls_back_to(journaled.reader(ports))
            if not terms.execute:
                _show_rollback(journaled.reader(ports), far, as_json=as_json)
                return 0

            def turn(claimed: Run[Any]) -> Closing | None:
                """Turn the claimed run round; one that changed nothing yet is ended instead."""
                if state in _UNCHANGED:
                    return reject(claimed, f"taken back by {claimed.options.who} before anything was changed")
                if not begin_roll_back(claimed, far):
                    raise Rejected(
                        f"run {run} is {state} and changed nothing: there is nothing to take back; "
                        f"see: groupshift status {run}"
                    )
                return None

            code = go_on(journaled, ports, terms, as_json=as_json, then=turn, back=True)
        taken_back = at.runs.find(run).state is RunState.REJECTED
        return 0 if taken_back and code != INTERRUPTED else code


def _show_rollback(run: Run[Any], to: str, *, as_json: bool) -> None:
    """What a rollback would do now, and the command that does it; where the target does not answer, what
    the journal alone says."""
    silent = ""
    try:
        plan = rollback_of(run, to)
        steps = plan.steps if plan else ()
    except Transient as why:
        silent = str(why)
        steps = undo_of(run.there, run.begun)
    if not steps and run.record.state is RunState.ROLLING_BACK:
        steps = run.plan.steps
    said, following = _ONLY_SHOWN, f"groupshift roll-back {run.name} --to {to} --execute"
    if run.record.state in _UNCHANGED:
        said = "nothing was changed: rolling back ends the run, and its target is free"
    elif not steps:
        said = "there is nothing to take back; nothing was changed"
        following = f"groupshift status {run.name}"
    parts: list[Shown] = [steps_table(f"rollback of {run.name} to {to}", steps)]
    if silent:
        parts.append(f"the target does not answer, so this is what the journal says: {silent}")
    data = {"run": run.name, "to": to, "steps": steps_data(steps), "silent": silent, "said": said}
    tell(data, [*parts, said], following, as_json=as_json)


@placed
def finalise(
    run: RunId,
    *,
    take_over: TakeOver = False,
    patience: Patience = 0,
    execute: Execute = False,
    yes: Yes = False,
    as_json: Json = False,
    where: Where,
) -> int:
    """Make what a run leaves for the end, as it cannot be undone.

    Without --execute it is shown."""
    with session(place_of(where)) as at:
        journaled = at.find(run)
        with journaled.ports() as ports:
            reader = journaled.reader(ports)
            steps = require_finalisable(reader)
            if not execute:
                steps = steps or tuple(each for each in reader.there.steps if each.optional)
                table = steps_table(f"what finalising {run} makes", steps)
                following = f"groupshift finalise {run} --execute"
                data = {"run": run, "steps": steps_data(steps)}
                tell(data, (table, _ONLY_SHOWN), following, as_json=as_json)
                return 0

            terms = Terms(yes=yes, take_over=take_over, patience=patience)
            return go_on(journaled, ports, terms, as_json=as_json, then=begin_finalise)


@placed
def report(
    run: RunId, *, output: Page = None, audit: Audit = False, as_json: Json = False, where: Where
) -> int:
    """Tell what became of a run, and write its page; no server is asked.

    The page of a run that is over was sealed with it, and stays as it is until an audit is added. Exit code
    5: something of the evidence is gone or altered."""
    with session(place_of(where, servers=False)) as at:
        journaled = at.find(run)
        state = journaled.record.state
        sections = report_of(journaled.reader())
        status = status_of(at.runs, run)
        page = _written(at, journaled.record, audit=audit)
    if output is not None:
        write_page(output, page.text)
    written = str(output.absolute()) if output else page.where
    following = f"groupshift watch {run}" if state is RunState.MOVED else "groupshift status"
    if state.is_open:
        following = status.following
    elif page.sealed:
        folder = str(Path(page.where).parent)
        following = command("groupshift", "verify-evidence", run if where.state is None else folder)
    document = {"sections": sections, "report": written, "sealed": page.sealed, "troubles": page.troubles}
    parts: list[Shown] = [*section_parts(sections), *([f"page: {written}"] if written else [])]
    tell({**status_data(status), **document}, parts, following, as_json=as_json)
    for trouble in page.troubles:
        print(f"broken: {visible(trouble)}", file=sys.stderr)
    return Broken.exit_code if page.troubles else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _WrittenPage:
    """``where`` the page lies (empty: nowhere) and whether it is sealed; ``troubles`` are sentences about
    evidence that is gone or altered. Where there are any, ``text`` is a page that says them."""

    where: str
    text: str
    sealed: bool
    troubles: tuple[str, ...] = ()


def _written(at: JournalSession, record: RunRecord, *, audit: bool = False) -> _WrittenPage:
    """Write the page of a run beside its evidence. That of a run that is over is sealed with it: it is
    written again only where an audit was added since, or where it was sealed without one. ``audit`` takes
    up what an audit of consumption left.

    Raises:
        Conflict: an audit is to be taken up, and the run is open.
        Rejected: the evidence cannot be opened, or its move is not installed.
        Transient: the page cannot be written.
    """
    settings, run = at.place.settings, record.run
    if audit:
        sealer_of(at.runs, settings).journal_audit(run)
    keeps = settings.evidence.root and record.state is not RunState.PREVIEW
    if not keeps or record.state.is_open:
        text, kept = page_of(at.runs, settings, run)
        where = evidence_of(settings).write_text(run, REPORT, text=text) if keeps else ""
        troubles = tuple(kept.troubles if kept else ())
        return _WrittenPage(where=where, text=text, sealed=False, troubles=troubles)
    evidence = evidence_of(settings)
    about = [each for each in at.runs.events(run) if each.kind in {EventKind.SEALED, EventKind.AUDITED}]
    if not about or about[-1].kind is EventKind.AUDITED or REPORT not in about[-1].body.get("own", {}):
        sealer_of(at.runs, settings).seal_again(run)
    unsound = verify(evidence, at.runs, run, verifier(settings.evidence.public_key)).troubles
    troubles = tuple(f"{each.path}: {each.reason or each.state.value}" for each in unsound)
    sound = REPORT in evidence.files(run) and all(each.path != REPORT for each in unsound)
    where = evidence.path(run, REPORT) if sound else ""
    stored = evidence.read_text(run, REPORT) if sound and not troubles else None
    text = page_of(at.runs, settings, run, troubles=troubles)[0] if stored is None else stored
    return _WrittenPage(where=where, text=text, sealed=sound, troubles=troubles)


@placed
def watch(
    run: RunId,
    *,
    within: Annotated[float, Option(help="Seconds to look until it holds.", min=0)] = 0,
    seconds: Annotated[float, Option("--for", help="Seconds to look for as long as it holds.", min=0)] = 0,
    every: Annotated[float, Option(help="Seconds between two looks.", min=0.1)] = 1,
    as_json: Json = False,
    where: Where,
) -> int:
    """Judge again what a run that is over left.

    For as long as that can change. Exit code 1: it does not hold."""
    looks = watching.Looks(within_s=within, for_s=seconds, every_s=every)
    with session(place_of(where)) as at:
        journaled = at.find(run)
        with journaled.ports() as ports:
            checked = watching.watch(journaled.move, at.tools, ports, run, looks=looks)
    outcome, detail = checked.outcome, checked.detail
    verb = "report" if outcome is Outcome.PASS else "watch"
    if outcome is Outcome.FAIL and journaled.record.state is RunState.MOVED:
        verb = "roll-back"
    data = {"run": run, "outcome": outcome, "detail": detail, "findings": checked.findings}
    parts: list[Shown] = [*(findings_parts(checked.findings, f"run {run}") if checked.findings else ())]
    parts.append(f"{outcome}: {detail or 'what the run left is as it was'}")
    tell(data, parts, f"groupshift {verb} {run}", as_json=as_json)
    return _CODES.get(outcome, 1)


VERBS: Mapping[str, Callable[..., int]] = {
    verb.__name__.rstrip("_").replace("_", "-"): verb
    for verb in (status, continue_, roll_back, finalise, report, watch)
}
"""The verbs on runs, in the order of their help."""
