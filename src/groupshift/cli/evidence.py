"""The verbs about evidence: the report of a migration, and whether its evidence is what was sealed."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from groupshift.application.group_report import render as document
from groupshift.application.group_report import sealed_rows
from groupshift.application.pack import verify_folder
from groupshift.bootstrap import App
from groupshift.bootstrap.connect import verifier
from groupshift.bootstrap.moves import verified
from groupshift.cli import output as render
from groupshift.cli.options import Json, MigrationId, SettingsFile, has_settings, open_app
from groupshift.cli.options import settings as parsed_settings
from groupshift.cli.output import Output, write_page
from groupshift.cli.run_report import verified_run
from groupshift.cli.terminal import Console, Table, progress_bar, styled
from groupshift.domain.foreign_text import command, visible
from groupshift.domain.seal import SIGNATURE, Pack, State, Verification
from groupshift.engine import verification
from groupshift.errors import Broken, Rejected
from groupshift.ports.evidence import Verifier

_COLOUR = {
    State.SOUND: "green",
    **dict.fromkeys((State.UNCHECKED, State.UNSEALED, State.LEFT_OVER, State.BESIDE), "yellow"),
}
PublicKey = Annotated[
    str,
    typer.Option(
        "--public-key",
        help="Check the signature with this key (PEM file). Default: evidence.public_key of the settings.",
        show_default=False,
    ),
]


def report(
    migration: MigrationId,
    output: Output = None,
    settings: SettingsFile = None,
    *,
    as_json: Json = False,
) -> int:
    """Write the report of a migration into its evidence, seal it, and list the reports of its stages.

    Exit code 5: the page was written, and says what of the evidence is gone or altered."""
    opened, _ = open_app(settings)
    with opened:
        where, pack, troubles = written(opened, migration)
        (found,) = opened.status(migration)
    if output is not None:
        write_page(output, where[1])
    shown = str(output.absolute()) if output else where[0]
    if as_json:
        stages = {each.stage.name.value: render.plain(each.validations) for each in found.stages}
        about = {"report": shown, "files": len(pack.files), "doubts": list(pack.doubts)}
        about["troubles"] = list(troubles)
        render.print_json({"migration": migration, **about, "validations": stages})
    else:
        console = Console()
        console.print(render.reports_table(found))
        console.print(f"report of the migration: {shown}")
        render.next_command(console, f"groupshift verify-evidence {migration}")
    for trouble in troubles:
        print(f"broken: {visible(trouble)}", file=sys.stderr)
    return Broken.exit_code if troubles else 0


def written(opened: App, migration: str) -> tuple[tuple[str, str], Pack, tuple[str, ...]]:
    """(path, text) of the migration's report, written into its evidence and then sealed with everything; and
    sentences about evidence that is gone or altered."""
    told = opened.account(migration)
    text = document(told, sealed_rows(opened.pack(migration)))
    pack = opened.seal(migration, text)
    unsaid = (each for each in pack.doubts if not any(each.split(" ")[0] in said for said in told.troubles))
    return (opened.report_path(migration), text), pack, (*told.troubles, *unsaid)


def verify_evidence(
    what: Annotated[str, typer.Argument(metavar="MIGRATION|RUN|FOLDER", show_default=False)],
    public_key: PublicKey = "",
    settings: SettingsFile = None,
    *,
    as_json: Json = False,
) -> int:
    """Hash every file of an evidence pack again; exit code 5 names what is missing, altered or unknown.

    RUN is a run of any move. A FOLDER (with a slash in it) is checked without the journal,
    wherever it was copied to; it has to keep its name."""
    console = Console(stderr=True)
    with progress_bar(console, "hashing") as bar:
        found, verbs = _checked(what, settings, public_key, lambda done, of: bar("hashing", done, of))
    if as_json:
        render.print_json({**render.plain(found), "sound": not found.troubles, "proven": found.proven})
    else:
        _show(Console(), found, verbs)
    return Broken.exit_code if found.troubles else 0


def _checked(
    what: str, settings: Path | None, public_key: str, told: Callable[[int, int], None]
) -> tuple[Verification, str]:
    """What became of it, and the verbs that tell more of it. A folder is what has a slash in it, whatever is
    called so in the working folder."""
    if "/" in what:
        return _of_folder(Path(what), verifier(public_key or _key_of(settings)), told), "groupshift"
    if has_settings(settings):
        found = verified(parsed_settings(settings), what, public_key, told)
        if found is not None:
            return found, "groupshift"
    of_run = verified_run(what, settings, public_key, told)
    if of_run is not None:
        return of_run[0], f"groupshift {of_run[1]}"
    opened, parsed = open_app(settings)
    with opened:
        key = verifier(public_key or parsed.evidence.public_key)
        try:
            return opened.verify_evidence(what, key, told), "groupshift"
        except Rejected as unknown:
            if what and os.path.isdir(what):  # noqa: PTH112 - it is False for what cannot be a path
                hint = f"to check the folder {what}, write it with a slash: {what}/"
                raise Rejected(f"{unknown}; {hint}") from unknown
            raise


def _key_of(settings: Path | None) -> str:
    """The public key of the settings; empty where there are none."""
    return parsed_settings(settings).evidence.public_key if has_settings(settings) else ""


def _of_folder(folder: Path, key: Verifier | None, told: Callable[[int, int], None]) -> Verification:
    from groupshift.adapters.parquet.evidence import ParquetEvidence

    try:
        where = folder.expanduser().resolve()
        there = where.is_dir()
    except (OSError, RuntimeError, ValueError) as wrong:
        raise Rejected(
            f"folder {visible(str(folder))} cannot be looked at ({wrong}): name another"
        ) from wrong
    if not there:
        raise Rejected(
            f"folder {visible(str(folder))} is not there: name a migration, or the folder of its evidence"
        )
    evidence = ParquetEvidence(where.parent)
    check = verification.verify_folder if verification.is_of_run(evidence, where.name) else verify_folder
    return check(evidence, where.name, key, told)


def _show(console: Console, found: Verification, verbs: str) -> None:
    """What is not sound, one line each; then how many were checked and what that proves."""
    counts = Counter(check.state for check in found.checks)
    shown = [check for check in found.checks if check.state is not State.SOUND]
    if shown:
        table = Table(f"evidence of {visible(found.run)}", ("file", "state", "why"))
        for check in shown:
            colour = _COLOUR.get(check.state, "red")
            table.add_row(check.path, styled(check.state, colour), check.reason)
        console.print(table)
    said = ", ".join(f"{number} {state}" for state, number in sorted(counts.items()))
    console.print(f"{len(found.checks)} checks: {said}")
    run, plan = visible(found.run), visible(found.plan_hash)
    console.print(f"pack of {run} sealed with SHA-256 {found.digest}, plan hash {plan}")
    console.print(f"signature: {_signature(found)}")
    if found.troubles:
        console.line(styled("broken", "red"), ": take no decision on this evidence before a person knows why")
        me = (found.run,) if verbs == "groupshift" else ()
        render.next_command(console, command(*verbs.split(), "status", *me))
        return
    if not found.proven:
        said = (
            ": the files fit each other; that they are those that were sealed is proven by the journal only"
        )
        console.line(styled("not proven", "yellow"), f"{said}, or by a signature and its key")
    elif found.as_sealed:
        console.line(
            styled("sound", "green"), f": every file is the one that was sealed ({_signature(found)})"
        )
    else:
        said = ": no file that was sealed was changed; those above are not part of that"
        console.line(styled("sound", "green"), said)
    render.next_command(console, command(*verbs.split(), "report", found.run))


def _signature(found: Verification) -> str:
    """What the signature says, in words."""
    if not found.signed:
        return "not signed"
    if not found.signature_checked:
        return "signed, signature not checked (give --public-key)"
    bad = any(check.path == SIGNATURE and not check.state.sound for check in found.checks)
    return "not the one of this key" if bad else "signed"
