"""``status``, ``report`` and ``roll-back`` while two engines are in use.

A run that the new journal has goes to `groupshift.cli.runs`, any other to the verb of the old engine. This
goes when the last move is ported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from groupshift.cli import runs
from groupshift.cli.options import Execute, Json
from groupshift.cli.output import Output
from groupshift.cli.run_place import Where, place_of, placed, session
from groupshift.domain.plan import WayBack
from groupshift.domain.run import member
from groupshift.engine.status import RunStatus, statuses
from groupshift.errors import Rejected

Verb = Callable[..., int]


def verbs_of_both(old: Mapping[str, Callable[..., int]]) -> dict[str, Verb]:
    """Return the three verbs by name, with the options of the new ones; ``old`` are those of the engine
    before: ``status`` (run or None, settings, ``as_json``, ``new`` runs), ``report`` and ``roll-back``."""
    return {"status": _status(old["status"]), "report": _report(old["report"]), "roll-back": _roll_back(old)}


def _is_new(where: Where, run: str) -> bool:
    """Whether the new journal of this place has the run. Where no place is named the old verb says so."""
    if where.state is not None or where.bootstrap_servers:
        return True
    try:
        place = place_of(where, servers=False)
    except Rejected:
        return False
    return runs.knows(place, run)


def _status(old: Verb) -> Verb:
    @placed
    def status(  # noqa: PLR0913 - the options of a verb
        run: runs.AnyRun = "",
        *,
        open_only: runs.OpenOnly = False,
        move: runs.OnlyMove = "",
        group: runs.OnlyGroup = "",
        limit: runs.Limit = 20,
        previews: runs.Previews = False,
        watch: runs.Watch = False,
        as_json: Json = False,
        where: Where,
    ) -> int:
        """Show runs, or one: who has it, what it waits for, where to answer."""
        if run and not _is_new(where, run):
            return old(run, where.settings_file, as_json=as_json)
        chosen = open_only or move or group or previews or watch or where.state or where.bootstrap_servers
        if not run and not chosen:
            return old(None, where.settings_file, as_json=as_json, new=_listed(where, limit))
        return runs.status(
            run,
            open_only=open_only,
            move=move,
            group=group,
            limit=limit,
            previews=previews,
            watch=watch,
            as_json=as_json,
            where=where,
        )

    return status


def _listed(where: Where, limit: int) -> tuple[RunStatus, ...]:
    try:
        place = place_of(where, servers=False)
    except Rejected:
        return ()
    with session(place) as at:
        return statuses(at.runs, limit=limit)


def _report(old: Verb) -> Verb:
    @placed
    def report(
        run: runs.RunId,
        *,
        output: Output = None,
        audit: runs.Audit = False,
        as_json: Json = False,
        where: Where,
    ) -> int:
        """Tell what became of a run, and write its page; no server is asked."""
        if not _is_new(where, run):
            return old(run, output, where.settings_file, as_json=as_json)
        return runs.report(run, output=output, audit=audit, as_json=as_json, where=where)

    return report


def _roll_back(old: Mapping[str, Verb]) -> Verb:
    @placed
    def roll_back(  # noqa: PLR0913 - the options of a verb
        run: runs.RunId,
        *,
        to: runs.To = "",
        take_over: runs.TakeOver = False,
        accept: runs.Accept = "",
        patience: runs.Patience = 0,
        execute: Execute = False,
        yes: runs.Yes = False,
        as_json: Json = False,
        where: Where,
    ) -> int:
        """Take a run back, from any step, and prove it.

        Without --execute what would be undone is shown. Nothing was changed yet: the run ends."""
        given: dict[str, Any] = {"execute": execute, "yes": yes, "as_json": as_json}
        if not _is_new(where, run):
            back = member(WayBack, to, "--to") if to else WayBack.OLD_MEMBERS
            return old["roll-back"](run, back, where.settings_file, **given)
        given |= {"to": to, "take_over": take_over, "accept": accept, "patience": patience}
        return runs.roll_back(run, where=where, **given)

    return roll_back
