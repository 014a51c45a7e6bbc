"""Sealing the evidence of a run that changes a cluster, and holding it against its files and the journal.

Layout: ``<evidence>/<moves>/<run>/{pack.json, journal.json, report.html, <snapshot>-<claim>/…}``, as that
of a migration (`groupshift.domain.seal`), with ``pack.sig`` where a key was given.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from groupshift.application.origins import of_steps, own_files
from groupshift.application.pack import (
    Known,
    Progress,
    is_there,
    measured,
    sealable,
    verified,
    versions_named,
)
from groupshift.application.run_account import decisions
from groupshift.application.run_accounts import account_of
from groupshift.domain.seal import JOURNAL, PACK, REWRITTEN, SIGNATURE, Approval, Pack, Verification, doubts
from groupshift.errors import Rejected
from groupshift.ports.evidence import SEALED, EvidenceStore, Signer, Verifier
from groupshift.ports.journal import ClusterRun, ClusterRuns, RunStepRecord

Steps = Mapping[str, RunStepRecord]


def seal_run(
    evidence: EvidenceStore, run: ClusterRun, steps: Steps, signer: Signer | None = None
) -> Mapping[str, Any]:
    """Write journal and manifest over every file of the run, its report among them, and sign that; what is
    journaled of it.

    Raises `Transient` or `Rejected` where the evidence cannot be written or signed."""
    evidence.write_text(run.run, JOURNAL, text=exported(run, steps))
    there = {file.path: file for file in measured(evidence, run.run)}
    origins = of_steps(evidence, run.run, there, steps_data(steps))
    files = tuple(sealable(there, origins).values())
    derived = {path: file for path, file in there.items() if path not in REWRITTEN}
    pack = Pack(
        run=run.run,
        target=f"cluster {run.cluster_id}",
        plan_hash=run.plan_hash,
        state=run.state.value,
        sealed_at_ms=run.updated_at_ms,
        files=files,
        approvals=_approvals(run, steps),
        versions=versions_named(evidence, files, run.run),
        doubts=doubts((None, ()), derived, evidence.irregular(run.run), origins),
    )
    pack = replace(pack, signed=signer is not None)
    text = pack.to_json()
    signature = signer.sign(text.encode()) if signer else ""
    evidence.write_text(run.run, PACK, text=text)
    if signature or is_there(evidence, run.run, SIGNATURE):
        evidence.write_text(run.run, SIGNATURE, text=signature)
    digest = hashlib.sha256(text.encode()).hexdigest()
    own = {name: pack.sha256_of[name] for name in REWRITTEN if name in pack.sha256_of}
    return {"digest": digest, "files": len(files), "signed": bool(signature), "own": own}


def verify_run(
    evidence: EvidenceStore,
    runs: ClusterRuns,
    run_id: str,
    verifier: Verifier | None = None,
    told: Progress = lambda *_: None,
) -> Verification:
    """Hold the files of a run against its manifest, and that against the journal and its signature.

    Raises `Rejected` for a run that is not known or not sealed, `Broken` for a manifest that is gone or
    unreadable."""
    run, steps = runs.find(run_id), runs.steps(run_id)
    if SEALED not in steps:
        raise Rejected(
            f"run {run_id} has no sealed evidence: it is sealed when it is done or taken back, and it is "
            f"{run.state}; see: groupshift {run.move} status"
        )
    sealing = steps[SEALED].result
    if "signed" not in sealing:
        verifier = None  # sealed when runs were not signed yet; the journal has its digest
    there = {file.path: file for file in measured(evidence, run_id, told)}
    origins = of_steps(evidence, run_id, there, steps_data(steps))
    known = Known(
        signed=sealing.get("signed"),
        sealed=(str(sealing["digest"]),),
        origins=replace(origins, demands={**origins.demands, **own_files(there, (sealing,))}),
        plan=(run.plan, run.plan_hash),
    )
    return verified(evidence, run_id, there, known, verifier)


def exported(run: ClusterRun, steps: Steps) -> str:
    """The journal of the run as the text of ``journal.json``: the plan and every step."""
    data = {
        "version": 1,
        **asdict(run),
        "state": run.state.value,
        "events": [],
        "steps": steps_data(steps),
    }
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def steps_data(steps: Steps) -> dict[str, dict[str, Any]]:
    """Steps as plain values, but for `SEALED`, which no pack can tell of itself."""
    return {
        key: {
            "state": each.state.value,
            "at_ms": each.at_ms,
            "token": each.token,
            "intent": dict(each.intent),
            "result": dict(each.result),
        }
        for key, each in steps.items()
        if key != SEALED
    }


def _approvals(run: ClusterRun, steps: Steps) -> tuple[Approval, ...]:
    return tuple(
        Approval(
            gate=each.subject,
            choice="approve" if each.approved else "reject",
            who=each.who,
            at_ms=each.at_ms,
        )
        for each in decisions(account_of(run, steps))
        if each.approved is not None
    )
