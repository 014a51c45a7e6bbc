"""The bytes of live commits, taken with every snapshot of a run and held against each other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from groupshift.application.run_work import RunWork
from groupshift.domain.equality_rules import Comparison
from groupshift.domain.step import RunStep
from groupshift.log.commit_hashes import LiveCommit, differences, live_commits

_RESTARTING = frozenset({Comparison.PROTOCOL, Comparison.PROTOCOL_BACK})
"""What restarted consumers do in between: they commit where they are when they stop."""


def keep_commits(work: RunWork, snapshot: Path) -> Mapping[str, Any]:
    """Read the log to its end and keep the hashes beside the snapshot; where they are, for the journal.

    Raises as `OffsetsLog.read` and `CommitHashes.write`."""
    path = snapshot.with_name(f"{snapshot.name}.commits.json")
    found = _now(work)
    return {
        "commits": str(path),
        "commits_sha256": work.tools.commits.write(path, found),
        "records": len(found),
    }


def committing(work: RunWork, step: RunStep) -> bool:
    """Whether consumers may have committed since the snapshot that a step compares with: by the plan, or on
    the way back, which waits for nobody."""
    return work.commits_go_on() or bool(step.args.get("anew"))


def _now(work: RunWork) -> tuple[LiveCommit, ...]:
    if not work.logged():
        return ()
    log = work.tools.log
    return live_commits(log.read(log.position()))


def differing_commits(work: RunWork, step: RunStep, taken: Mapping[str, Any]) -> list[str]:
    """Sentences of what is not byte for byte as in the base of a comparison.

    Records that were committed anew are none where commits go on, and where consumers are restarted in
    between (`_RESTARTING`). Raises `Broken` for files that were altered."""
    base = work.snapshot_of(step.args["base"])
    if "commits" not in base:
        return [f"snapshot {step.args['base']} has no hashes of records: begin a new run to have them"]
    anew = committing(work, step) or step.args["move"] in _RESTARTING
    before, after = (
        work.tools.commits.read(Path(each["commits"]), each["commits_sha256"]) for each in (base, taken)
    )
    found = differences(before, after, anew=anew)
    keeps = work.keeping()
    return [str(each) for each in found if keeps(each.now.group)]
