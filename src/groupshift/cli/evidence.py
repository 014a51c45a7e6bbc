"""``groupshift verify-evidence``: whether the evidence of a run is what was sealed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from groupshift.bootstrap.connect import verifier
from groupshift.bootstrap.moves import verified
from groupshift.cli import output_and_next_command as render
from groupshift.cli.options import Json, SettingsFile, has_settings, option, shown
from groupshift.cli.options import settings as parsed_settings
from groupshift.cli.terminal import Table, joined, styled
from groupshift.domain.foreign_text_quoting import command, visible
from groupshift.domain.seal import SIGNATURE, State, Verification
from groupshift.engine import evidence_check
from groupshift.errors import Broken, Rejected

_NOT_PROVEN = (
    "the files fit each other; that they are those that were sealed is proven by the journal only, or by a "
    "signature and its key"
)
_KEY = "Check the signature with this key (PEM file). Default: evidence.public_key of the settings."


def verify_evidence(
    what: Annotated[str, typer.Argument(metavar="RUN|FOLDER", show_default=False)],
    public_key: Annotated[str, option("--public-key", _KEY)] = "",
    settings: SettingsFile = None,
    *,
    as_json: Json = False,
) -> int:
    """Hash every file of an evidence pack again.

    Exit code 5 names what is missing, altered or unknown. RUN is a run of any move. A FOLDER (with a slash in
    it) is checked without the journal, wherever it was copied to; it has to keep its name."""
    with shown("hashing") as bar:
        verification = _checked(what, settings, public_key, lambda done, of: bar("hashing", done, of))
    data = {**render.plain(verification), "sound": not verification.troubles, "proven": verification.proven}
    following = command("groupshift", "status" if verification.troubles else "report", verification.run)
    render.tell(data, _parts(verification), "" if as_json else following, as_json=as_json)
    return Broken.exit_code if verification.troubles else 0


def _checked(
    what: str, settings: Path | None, public_key: str, progress: Callable[[int, int], None]
) -> Verification:
    """What became of it. A folder is what has a slash in it, whatever is called so in the working folder."""
    if "/" not in what:
        of_run = verified(parsed_settings(settings), what, public_key, progress)
        if of_run is not None:
            return of_run
        unknown = f"run {visible(what)!r} is not in the journal; see: groupshift status"
        if what and os.path.isdir(what):  # noqa: PTH112 - it is False for what cannot be a path
            unknown += f"; to check the folder {what}, write it with a slash: {what}/"
        raise Rejected(unknown)
    from groupshift.adapters.parquet.evidence import ParquetEvidence

    if not public_key and has_settings(settings):
        public_key = parsed_settings(settings).evidence.public_key
    key, named = verifier(public_key), f"folder {visible(what)}"
    try:
        where = Path(what).expanduser().resolve()
        there = where.is_dir()
    except (OSError, RuntimeError, ValueError) as wrong:
        raise Rejected(f"{named} cannot be looked at ({wrong}): name another") from wrong
    if not there:
        raise Rejected(f"{named} is not there: name a run, or the folder of its evidence")
    return evidence_check.verify_folder(ParquetEvidence(where.parent), where.name, key, progress)


def _parts(verification: Verification) -> Iterator[render.Shown]:
    """What is not sound, one line each; then how many were checked and what that proves."""
    table = Table(f"evidence of {visible(verification.run)}", ("file", "state", "why"))
    for check in verification.checks:
        if check.state is not State.SOUND:
            colour = "yellow" if check.state.sound else "red"
            table.add_row(check.path, styled(check.state, colour), check.reason)
    yield table
    counts = Counter(check.state for check in verification.checks)
    listed = ", ".join(f"{number} {state}" for state, number in sorted(counts.items()))
    yield f"{len(verification.checks)} checks: {listed}"
    plan = visible(verification.plan_hash)
    yield f"pack of {visible(verification.run)} sealed with SHA-256 {verification.digest}, plan hash {plan}"
    signature = _signature(verification)
    yield f"signature: {signature}"
    word, meaning = styled("sound", "green"), f"every file is the one that was sealed ({signature})"
    if verification.troubles:
        word = styled("broken", "red")
        meaning = "take no decision on this evidence before a person knows why"
    elif not verification.proven:
        word, meaning = styled("not proven", "yellow"), _NOT_PROVEN
    elif not verification.as_sealed:
        meaning = "no file that was sealed was changed; those above are not part of that"
    yield joined(word, f": {meaning}")


def _signature(verification: Verification) -> str:
    """What the signature says, in words."""
    if not verification.signed:
        return "not signed"
    if not verification.signature_checked:
        return "signed, signature not checked (give --public-key)"
    bad = any(check.path == SIGNATURE and not check.state.sound for check in verification.checks)
    return "not the one of this key" if bad else "signed"
