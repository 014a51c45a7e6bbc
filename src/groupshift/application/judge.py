"""Judge: the Spark job's verdict, the live rules and the canary's watch become one verdict."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from groupshift.application import canary
from groupshift.application.environment import Environment
from groupshift.application.observe import patient
from groupshift.application.origins import PROOF_FILES
from groupshift.application.pack import measured
from groupshift.application.proof import VERDICT_FILE, baseline, folder
from groupshift.application.records import Migration, findings_data, findings_from, load
from groupshift.domain.evidence import Moment
from groupshift.domain.judgement import Judgement
from groupshift.domain.plan import Stage, StageName
from groupshift.domain.seal import values_of
from groupshift.domain.verdict import Finding, Verdict
from groupshift.errors import Broken, Rejected
from groupshift.ports.journal import Entry, EventKind


def judge(env: Environment, migration: str, name: StageName, moment: Moment) -> Judgement:
    """See `App.judge`."""
    found = load(env, migration)
    stage = found.stage(name)
    if stage is None:
        raise Rejected(f"migration {migration} has no stage {name}; see groupshift status {migration}")
    files = _files(env, found, name, moment)
    before = _judged_files(found, name, moment)
    findings = (
        *_proven(env, found, stage, (moment, files)),
        *_meddled(before, files, f"{name}/{folder(moment)}"),
        *_soaked(found, stage),
        *(canary.judged(env, found) if moment is Moment.AFTER and canary.is_watched(found, name) else ()),
        *_live(env, found, stage, moment),
    )
    judged = Judgement(findings=findings)
    env.append(
        Entry(
            migration=migration,
            at_ms=env.clock.now_ms(),
            kind=EventKind.JUDGED,
            stage=name,
            body={
                "moment": moment.value,
                "verdict": judged.verdict.value,
                "findings": findings_data(findings),
                "files": dict(files if before is None else before),
            },
        )
    )
    return judged


def _files(env: Environment, found: Migration, name: StageName, moment: Moment) -> Mapping[str, str]:
    """SHA-256 of every file that the proof of a moment left, by its path below the proof's folder."""
    below = f"{name}/{folder(moment)}/"
    files = measured(env.evidence, found.id, below=below)
    named = {file.path.removeprefix(below): file.sha256 for file in files}
    return {path: sha256 for path, sha256 in named.items() if PROOF_FILES.fullmatch(path)}


def _meddled(before: Mapping[str, str] | None, now: Mapping[str, str], where: str) -> Iterator[Finding]:
    """A proof that was judged before, and is another one now."""
    other = sorted(each for each in {*(before or now), *now} if (before or now).get(each) != now.get(each))
    if other:
        yield Finding(
            rule="J04",
            verdict=Verdict.FAIL,
            reason=f"{where}/{other[0]} is not the one that was judged before, and nothing was proven since",
            hint="the evidence was altered after it was judged: find out by whom",
        )


def _judged_files(found: Migration, name: StageName, moment: Moment) -> Mapping[str, str] | None:
    """What the last judgement of a moment journaled of its files, if nothing was asked to be proven since."""
    about = (
        event
        for event in reversed(found.events)
        if event.kind in {EventKind.JUDGED, EventKind.PROOF_REQUESTED}
        and event.stage is name
        and event.body["moment"] == moment.value
    )
    last = next(about, None)
    return None if last is None or last.kind is not EventKind.JUDGED else last.body.get("files")


def _live(env: Environment, found: Migration, stage: Stage, moment: Moment) -> tuple[Finding, ...]:
    """After a stage: its rules, asked of the live group. Before one, the act itself asks."""
    if moment is Moment.BEFORE:
        return ()
    wanted = found.wanted(stage.name)
    _, judged = patient(env, found.record.group, found.plan.driver, stage.after, wanted)
    return judged.findings


def _proven(
    env: Environment, found: Migration, stage: Stage, about: tuple[Moment, Mapping[str, str]]
) -> tuple[Finding, ...]:
    """What the Spark job found, if it looked at exactly these snapshots, and what is read is what was
    hashed (``about``: the moment, and the hashes of its files)."""
    moment, files = about
    try:
        doubts = tuple(_doubts(env, found, stage.name, moment))
    except Broken as altered:
        return (Finding(rule="J02", verdict=Verdict.FAIL, reason=str(altered)),)
    text = env.evidence.read_text(found.id, stage.name.value, folder(moment), VERDICT_FILE)
    if text is None:
        return (_unproven(stage.name, moment, "the Spark job has not written verdict.json"),)
    data = _parsed(text)
    if hashlib.sha256(text.encode()).hexdigest() != files.get(VERDICT_FILE):
        return (_unproven(stage.name, moment, "verdict.json was written while it was judged"),)
    if data is None:
        return (_unproven(stage.name, moment, "verdict.json is not what the Spark job writes"),)
    if dict(data["manifests"]) != _digests(env, found, stage.name, moment):
        return (_unproven(stage.name, moment, "verdict.json is about other snapshots"), *doubts)
    return (*findings_from(data["findings"]), *doubts)


def _unproven(stage: StageName, moment: Moment, why: str) -> Finding:
    return Finding(
        rule="J01",
        verdict=Verdict.ERROR,
        reason=f"stage {stage}/{moment} is not proven: {why}",
        hint="run the validation again",
    )


def _parsed(text: str) -> Mapping[str, Any] | None:
    try:
        data = values_of(text)
        findings_from(data["findings"])
        complete = bool(data["findings"]) and isinstance(data["manifests"], dict)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return data if complete else None


def _digests(env: Environment, found: Migration, stage: StageName, moment: Moment) -> Mapping[str, str]:
    compared = {"before": baseline(found, stage, moment), "after": (stage, moment)}
    manifests = {
        role: env.evidence.manifest(found.id, name.value, when) for role, (name, when) in compared.items()
    }
    return {role: manifest.digest if manifest else "" for role, manifest in manifests.items()}


def _doubts(env: Environment, found: Migration, stage: StageName, moment: Moment) -> Iterator[Finding]:
    """Snapshots whose manifest is not the one that was journaled when they were taken."""
    journaled = {(name, when): digest for name, when, digest in found.snapshots()}
    for name, when in dict.fromkeys((baseline(found, stage, moment), (stage, moment))):
        manifest = env.evidence.manifest(found.id, name.value, when)
        if manifest is None or manifest.digest != journaled[name, when]:
            yield Finding(
                rule="J03",
                verdict=Verdict.FAIL,
                reason=f"the manifest of snapshot {name}/{when} is not the one that was journaled",
                hint="the evidence was replaced after it was taken: find out by whom",
            )


def _soaked(found: Migration, stage: Stage) -> tuple[Finding, ...]:
    """A live rule that failed during the soak stays failed, whatever the group looks like now."""
    failed = found.latest(EventKind.SOAK_FAILED)
    if stage.name is not StageName.SOAK or failed is None:
        return ()
    return findings_from(failed.body["findings"])
