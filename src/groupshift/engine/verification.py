"""Hold the evidence of a run against its manifest, its journal and its signature; or a folder alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from groupshift.domain.run import Json
from groupshift.domain.seal import (
    JOURNAL,
    PACK,
    SIGNATURE,
    Check,
    Pack,
    State,
    Verification,
    doubted,
    held_against,
    is_signature,
    journal_data,
    not_the_plan,
    pack_from_json,
    settled,
    unlike,
)
from groupshift.engine.evidence import (
    Files,
    Known,
    Progress,
    exported,
    known_of,
    measured,
    sealed_pack,
    sha256_of,
    tell_nobody,
)
from groupshift.errors import Broken, Rejected
from groupshift.ports.evidence import EvidenceStore, Verifier
from groupshift.ports.runs import Runs


def verify(
    evidence: EvidenceStore,
    runs: Runs,
    run: str,
    verifier: Verifier | None = None,
    told: Progress = tell_nobody,
) -> Verification:
    """Hold every file of a run against its manifest and against the journal. What a sealing left that did not
    come to its end, and what was written since the last one, is named and is no fault.

    Raises:
        Rejected: the run is not in the journal, or was never sealed.
        Broken: the manifest is gone or cannot be understood.
    """
    data = exported(runs, run)
    state = runs.find(run).state
    if not known_of(evidence, run, {}, data).sealed:
        following = f"groupshift {'continue' if state.is_open else 'report'} {run}"
        raise Rejected(
            f"run {run} has no sealed evidence: it is sealed when it ends, and it is {state}; go on with: "
            f"{following}"
        )
    there = {each.path: each for each in measured(evidence, run, told)}
    return _verified(evidence, run, there, known_of(evidence, run, there, data), verifier)


def verify_folder(
    evidence: EvidenceStore, name: str, verifier: Verifier | None = None, told: Progress = tell_nobody
) -> Verification:
    """Hold a folder of evidence, wherever it was copied to, against its own ``journal.json``. Without a
    signature that proves that the files belong together, not who sealed them.

    Raises:
        Rejected: the folder holds no pack.
        Broken: the manifest cannot be understood.
    """
    if evidence.read_text(name, PACK) is None:
        raise Rejected(f"folder {name} holds no {PACK}: name the folder of one run")
    there = {each.path: each for each in measured(evidence, name, told)}
    known = _known_of_folder(evidence, name, there, journal_data(evidence.read_text(name, JOURNAL) or ""))
    found = _verified(evidence, name, there, known or Known(), verifier)
    if known is not None or JOURNAL in {check.path for check in found.troubles}:
        return found
    reason = "nothing here says what was journaled: it is gone, or cannot be understood"
    unread = Check(path=JOURNAL, state=State.ALTERED, reason=reason)
    return replace(found, checks=settled((*found.checks, unread)))


def objection(evidence: EvidenceStore, runs: Runs, run: str, path: str) -> str:
    """Return why a file of a run must not be relied on, in one sentence; empty where it is the one that was
    journaled or sealed. Only this file is read."""
    found = evidence.measured(run, path) if path in evidence.files(run) else None
    there = {path: found} if found is not None else {}
    known = known_of(evidence, run, there, exported(runs, run))
    pack = sealed_pack(evidence, run, known) if known.sealed else None
    listed = pack.sha256_of if pack else {}
    said = (*known.doubts, *(pack.doubts if pack else ()))
    for each in said:
        if each.startswith(f"{path} "):
            return each
    demand = known.origins.demands.get(path)
    wanted = demand.sha256 if demand else listed.get(path)
    if found is None:
        return f"{path} is not there"
    if wanted is None:
        return f"{path} was neither journaled nor sealed: nothing is known of it"
    return "" if wanted == found.sha256 else f"{path} was altered: it is not the one that was journaled"


def _known_of_folder(evidence: EvidenceStore, name: str, there: Files, data: Json | None) -> Known | None:
    """What ``journal.json`` says; None where it cannot be understood. It knows no sealing of itself."""
    try:
        known = known_of(evidence, name, there, data or {})
        own = {path for body in known.sealed for path in body.get("own", {})}
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    demands = {path: each for path, each in known.origins.demands.items() if path not in own}
    origins = replace(known.origins, demands=demands, renewed=())
    return Known(origins=origins, plan=known.plan)


def _verified(
    evidence: EvidenceStore, name: str, there: Files, known: Known, verifier: Verifier | None
) -> Verification:
    text = evidence.read_text(name, PACK)
    if text is None:
        raise Broken(f"{PACK} of {name} is gone although it was sealed: take no decision on this evidence")
    pack, signature = pack_from_json(text), evidence.read_text(name, SIGNATURE) or ""
    irregular, demands = evidence.irregular(name), known.origins.demands
    said = tuple(doubted((*pack.doubts, *known.doubts), (*there, *pack.sha256_of, *irregular, *demands)))
    named = {check.path for check in said}
    checks = (
        *_of_manifest(text, known),
        *_of_form(text, pack, name),
        *_of_signature(text, signature, verifier, _body(text, pack, known), known),
        *held_against(pack, there, known.origins),
        *(
            each
            for each in unlike(there, known.origins, pack)
            if each.state is State.SWAPPED or each.path not in named
        ),
        *_miscounted(evidence, name, there, known),
        *not_the_plan(pack, known.plan),
        *said,
        *(
            Check(path=path, state=State.IRREGULAR, reason=f"{kind} is in its place, and was not read")
            for path, kind in irregular.items()
        ),
    )
    return Verification(
        run=pack.run,
        plan_hash=pack.plan_hash,
        sealed_at_ms=pack.sealed_at_ms,
        digest=sha256_of(text),
        signed=bool(signature),
        signature_checked=bool(signature) and verifier is not None,
        checks=settled(checks),
        journaled=bool(known.sealed),
    )


def _of_manifest(text: str, known: Known) -> Iterator[Check]:
    digest, sealed = sha256_of(text), [str(body["digest"]) for body in known.sealed]
    if not sealed or digest == sealed[-1]:
        yield Check(path=PACK, state=State.SOUND)
    elif digest in {body["digest"] for body in known.begun}:
        yield Check(path=PACK, state=State.UNSEALED, reason=_INTERRUPTED)
    elif digest in sealed:
        reason = "it is that of an earlier sealing: somebody put it back, or two sealed at the same moment"
        yield Check(path=PACK, state=State.SWAPPED, reason=reason)
    else:
        reason = f"the journal knows it as {sealed[-1][:12]}… and it is {digest[:12]}…"
        yield Check(path=PACK, state=State.SWAPPED, reason=reason)


_INTERRUPTED = "a sealing that was journaled and did not come to its end wrote it: seal it once more"


def _of_form(text: str, pack: Pack, name: str) -> Iterator[Check]:
    if text != pack.to_json():
        reason = "it is not as it was written, though it says the same: somebody wrote it anew"
        yield Check(path=PACK, state=State.SWAPPED, reason=reason)
    if pack.run != name:
        reason = f"it is the pack of {pack.run}, and lies in the folder {name}: it was copied here"
        yield Check(path=PACK, state=State.SWAPPED, reason=reason)


def _miscounted(evidence: EvidenceStore, name: str, there: Files, known: Known) -> Iterator[Check]:
    """Parquet files with other rows than a manifest promises."""
    for path, demand in known.origins.demands.items():
        if demand.rows is not None and path in there and there[path].sha256 == demand.sha256:
            rows = evidence.row_count(name, path)
            if rows != demand.rows:
                has = "cannot be read" if rows is None else f"has {rows} rows"
                reason = f"it {has}, and {demand.by} promises {demand.rows} rows"
                yield Check(path=path, state=State.ALTERED, reason=reason)


def _body(text: str, pack: Pack, known: Known) -> Json:
    """What the journal has of the sealing that wrote this pack; of the last one where it wrote none of it;
    what the pack says where there is no journal."""
    digest = sha256_of(text)
    of_it = [body for body in known.last if body["digest"] == digest]
    return (*known.sealed[-1:], *of_it)[-1] if known.sealed else {"signed": pack.signed, "signature": ""}


def _of_signature(
    text: str, signature: str, verifier: Verifier | None, body: Json, known: Known
) -> Iterator[Check]:
    sha256 = sha256_of(signature) if signature else ""
    state, reason = State.SOUND, ""
    if known.begun and sha256 != body["signature"] and sha256 in {each["signature"] for each in known.last}:
        state, reason = State.UNSEALED, _INTERRUPTED
    elif body["signed"] and not signature:
        state, reason = State.UNSIGNED, f"it was signed when it was sealed, and {SIGNATURE} is gone"
    elif body["signed"] is False and signature:
        state = State.UNLISTED
        reason = "it was not signed when it was sealed: somebody added this signature"
    elif signature and not is_signature(signature):
        state, reason = State.FORGED, "it is not as signatures are written: it was altered"
    elif signature and body["signature"] and sha256 != body["signature"]:
        state = State.FORGED
        reason = f"the journal knows it as {body['signature'][:12]}… and it is {sha256[:12]}…"
    elif signature and verifier is None:
        state = State.UNCHECKED
        reason = "it is signed, and no public key was given to check it: signature not checked"
    elif verifier is not None and not signature:
        state, reason = State.UNSIGNED, "a public key was given and the pack is not signed"
    elif verifier is not None and not verifier.holds(text.encode(errors="replace"), signature):
        state, reason = State.FORGED, f"this key did not sign this {PACK}"
    if signature or state is not State.SOUND:
        yield Check(path=SIGNATURE, state=state, reason=reason)
