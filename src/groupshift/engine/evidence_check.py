"""Hold the evidence of a run against its manifest, its journal and its signature; or a folder alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from groupshift.domain.run import Json
from groupshift.domain.seal import (
    JOURNAL,
    OWN,
    PACK,
    SIGNATURE,
    Check,
    Files,
    Known,
    Pack,
    State,
    Verification,
    file_check,
    is_signature,
    pack_from_json,
    settled,
    sha256_of,
    values_of,
)
from groupshift.engine.evidence import Progress, exported, known_of, measured, tell_nobody
from groupshift.errors import Broken, Rejected
from groupshift.ports.evidence import EvidenceStore, Verifier
from groupshift.ports.runs import Runs


def verify(
    evidence: EvidenceStore,
    runs: Runs,
    run: str,
    verifier: Verifier | None = None,
    progress: Progress = tell_nobody,
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
    there = {each.path: each for each in measured(evidence, run, progress)}
    return _verified(evidence, run, there, known_of(evidence, run, there, data), verifier)


def verify_folder(
    evidence: EvidenceStore, name: str, verifier: Verifier | None = None, progress: Progress = tell_nobody
) -> Verification:
    """Hold a folder of evidence, wherever it was copied to, against its own ``journal.json``. Without a
    signature that proves that the files belong together, not who sealed them.

    Raises:
        Rejected: the folder holds no pack.
        Broken: the manifest cannot be understood.
    """
    if evidence.read_text(name, PACK) is None:
        raise Rejected(f"folder {name} holds no {PACK}: name the folder of one run")
    there = {each.path: each for each in measured(evidence, name, progress)}
    try:
        known = known_of(evidence, name, there, values_of(evidence.read_text(name, JOURNAL) or ""))
        own = {path for body in known.sealed for path in body.get("own", {})}
    except (KeyError, TypeError, ValueError, AttributeError):
        verification = _verified(evidence, name, there, Known(), verifier)
        if JOURNAL in {check.path for check in verification.troubles}:
            return verification
        reason = "nothing here says what was journaled: it is gone, or cannot be understood"
        unread = Check(path=JOURNAL, state=State.ALTERED, reason=reason)
        return replace(verification, checks=settled((*verification.checks, unread)))
    demands = {path: each for path, each in known.demands.items() if path not in own}
    alone = Known(demands=demands, left_over=known.left_over, plan=known.plan)  # no sealing of itself
    return _verified(evidence, name, there, alone, verifier)


def _verified(
    evidence: EvidenceStore, name: str, there: Files, known: Known, verifier: Verifier | None
) -> Verification:
    text = evidence.read_text(name, PACK)
    if text is None:
        raise Broken(f"{PACK} of {name} is gone although it was sealed: take no decision on this evidence")
    pack, signature = pack_from_json(text), evidence.read_text(name, SIGNATURE) or ""
    irregular, listed = evidence.irregular(name), {file.path: file for file in pack.files}
    paths = {*listed, *there, *known.demands}
    doubted = {**pack.doubts, **known.doubts}
    doubtful = {path for path in doubted if listed.get(path) in {None, there.get(path)}}
    checks = [*_of_pack(text, pack, name, known), *_of_signature(text, signature, verifier, pack, known)]
    for path in sorted(paths - OWN):
        check = file_check(path, listed.get(path), there.get(path), known)
        if path not in doubtful or check.state not in {State.ALTERED, State.MISSING}:
            checks.append(check)
    checks += (Check(path=path, state=State.DOUBTED, reason=each) for path, each in doubted.items())
    for path, kind in irregular.items():
        reason = f"{kind} is in its place, and was not read"
        checks.append(Check(path=path, state=State.IRREGULAR, reason=reason))
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


_INTERRUPTED = "a sealing that was journaled and did not come to its end wrote it: seal it once more"


def _of_pack(text: str, pack: Pack, name: str, known: Known) -> Iterator[Check]:
    """What is said of the manifest itself, and of the plan that it names."""
    digest, sealed = sha256_of(text), [str(body["digest"]) for body in known.sealed]
    state, reason = State.SOUND, ""
    if sealed and digest in {body["digest"] for body in known.begun} - {sealed[-1]}:
        state, reason = State.UNSEALED, _INTERRUPTED
    elif sealed and digest != sealed[-1]:
        state, reason = State.SWAPPED, f"the journal knows it as {sealed[-1][:12]}… and it is {digest[:12]}…"
        if digest in sealed:
            reason = (
                "it is that of an earlier sealing: somebody put it back, or two sealed at the same moment"
            )
    yield Check(path=PACK, state=state, reason=reason)
    if text != pack.to_json():
        reason = "it is not as it was written, though it says the same: somebody wrote it anew"
        yield Check(path=PACK, state=State.SWAPPED, reason=reason)
    if pack.run != name:
        reason = f"it is the pack of {pack.run}, and lies in the folder {name}: it was copied here"
        yield Check(path=PACK, state=State.SWAPPED, reason=reason)
    if known.plan is not None and not sha256_of(known.plan[0]) == known.plan[1] == pack.plan_hash:
        reason = f"the plan is not the one of hash {pack.plan_hash[:12]}…, which was approved"
        yield Check(path=JOURNAL, state=State.SWAPPED, reason=reason)


def _of_signature(
    text: str, signature: str, verifier: Verifier | None, pack: Pack, known: Known
) -> Iterator[Check]:
    """What is said of the signature: by the sealing that wrote this pack, by the last one where none did, by
    the pack itself where there is no journal; and by the key."""
    body: Json = {"signed": pack.signed, "signature": ""}
    if known.sealed:
        of_it = [each for each in known.last if each["digest"] == sha256_of(text)]
        body = (known.sealed[-1], *of_it)[-1]
    sha256 = sha256_of(signature) if signature else ""
    state, reason = State.SOUND, ""
    if known.begun and sha256 != body["signature"] and sha256 in {each["signature"] for each in known.last}:
        state, reason = State.UNSEALED, _INTERRUPTED
    elif not signature and (body["signed"] or verifier is not None):
        when = "it was signed when it was sealed" if body["signed"] else "a public key was given"
        state, reason = State.UNSIGNED, f"{when}, and {SIGNATURE} is not there"
    elif not body["signed"] and signature:
        state, reason = State.UNLISTED, "it was not signed when it was sealed: somebody added this signature"
    elif signature and not is_signature(signature):
        state, reason = State.FORGED, "it is not as signatures are written: it was altered"
    elif signature and body["signature"] and sha256 != body["signature"]:
        state = State.FORGED
        reason = f"the journal knows it as {body['signature'][:12]}… and it is {sha256[:12]}…"
    elif signature and verifier is None:
        state = State.UNCHECKED
        reason = "it is signed, and no public key was given to check it: signature not checked"
    elif verifier is not None and not verifier.holds(text.encode(errors="replace"), signature):
        state, reason = State.FORGED, f"this key did not sign this {PACK}"
    if signature or state is not State.SOUND:
        yield Check(path=SIGNATURE, state=state, reason=reason)
