"""Audits of consumption in the evidence of a migration, and reports that are shown from it: both are held
against what was journaled of them."""

from __future__ import annotations

from groupshift.application.environment import Environment
from groupshift.application.pack import Held, held, measured
from groupshift.application.proof import REPORT_FILE, folder
from groupshift.application.records import load
from groupshift.domain.evidence import Moment
from groupshift.domain.plan import StageName
from groupshift.domain.seal import AUDITED
from groupshift.errors import Rejected
from groupshift.ports.journal import Entry, EventKind
from groupshift.ports.spark_jobs import ProofRequest


def journal(env: Environment, request: ProofRequest) -> None:
    """Write down what a job left, where that is the audit of a migration of this journal: nothing else makes
    files below `AUDITED` evidence."""
    above, _, last = request.output.rstrip("/").rpartition("/")
    migration = above.rpartition("/")[2]
    if f"{last}/" != AUDITED or env.evidence.path(migration, last) != request.output.rstrip("/"):
        return
    found = load(env, migration)
    files = {
        file.path.removeprefix(AUDITED): file.sha256
        for file in measured(env.evidence, migration, below=AUDITED)
    }
    now = env.clock.now_ms()
    env.append(Entry(migration=found.id, at_ms=now, kind=EventKind.AUDITED, body={"files": files}))


def stage_report(env: Environment, migration: str, stage: str, moment: str) -> tuple[str, str]:
    """See `App.stage_report`."""
    found = load(env, migration)
    try:
        name, when = StageName(stage), Moment(moment)
    except ValueError:
        raise Rejected(f"there is no report of {stage}/{moment}: see groupshift status {migration}") from None
    if found.verdict(name, when) is None:
        raise Rejected(f"{stage}/{moment} of migration {migration} was not judged: it has no report")
    parts = (name.value, folder(when), REPORT_FILE)
    text = env.evidence.read_text(migration, *parts)
    if text is None:
        raise Rejected(f"the report of {stage}/{moment} of migration {migration} is gone from its evidence")
    return text, _objection(held(env, found), "/".join(parts))


def _objection(known: Held, path: str) -> str:
    if path in known.doubts:
        return known.doubts[path]
    if path not in known.proven:
        return f"{path} was judged by an older release, which journaled no hash of it: it is not proven"
    return ""
