"""Sealing the evidence pack of a migration, and holding a sealed one against its files and the journal."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from groupshift.application.environment import Environment
from groupshift.application.journal_export import events_data, exported
from groupshift.application.origins import of_events, of_steps, own_files
from groupshift.application.records import Migration, load
from groupshift.domain.evidence import MANIFEST
from groupshift.domain.seal import (
    JOURNAL,
    OWN,
    PACK,
    REPORT,
    REWRITTEN,
    SIGNATURE,
    Approval,
    Check,
    Origins,
    Pack,
    State,
    StoredFile,
    Verification,
    doubted,
    doubts,
    held_against,
    is_beside,
    is_signature,
    journal_data,
    not_the_plan,
    pack_from_json,
    settled,
    unlike,
    values_of,
)
from groupshift.errors import Broken, Rejected
from groupshift.ports.evidence import EvidenceStore, Verifier
from groupshift.ports.journal import Entry, Event, EventKind

_JOURNALED_DOUBTS = 100
"""How many doubts the journal keeps; all are in the pack."""
Progress = Callable[[int, int], None]
"""Called with files done and files in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of a pack besides its own manifest: SHA-256 of each sealing, oldest first (none: not
    known), the plan's JSON and hash, where its files come from, whether it was signed when it was sealed
    last (None: not known), and the SHA-256 of that signature (empty: not known)."""

    sealed: tuple[str, ...] = ()
    plan: tuple[str, str] | None = None
    origins: Origins = field(default_factory=Origins)
    signed: bool | None = None
    signature: str = ""


def seal(env: Environment, migration: str, report: str = "") -> Pack:
    """See `App.seal`. What is to be written is journaled before it is in its place, so that nothing else is
    believed, also where a process is killed in between."""
    found = load(env, migration)
    own = {JOURNAL: exported(found), **({REPORT: report} if report else {})}
    pack = replace(_composed(env, found, own), signed=env.signer is not None)
    text = pack.to_json()
    signature = env.signer.sign(text.encode()) if env.signer else ""
    body = {
        "digest": _sha256(text),
        "files": len(pack.files),
        "signed": bool(signature),
        "signature": _sha256(signature) if signature else "",
        "own": {name: pack.sha256_of[name] for name in REWRITTEN if name in pack.sha256_of},
        "doubts": list(pack.doubts[:_JOURNALED_DOUBTS]),
    }
    begun = Entry(
        migration=migration, at_ms=pack.sealed_at_ms, kind=EventKind.SEALING, body={"own": body["own"]}
    )
    env.append(begun)
    for name, written in own.items():
        env.evidence.write_text(migration, name, text=written)
    env.append(replace(begun, kind=EventKind.SEALED, body=body))
    env.evidence.write_text(migration, PACK, text=text)
    if signature or is_there(env.evidence, migration, SIGNATURE):
        env.evidence.write_text(migration, SIGNATURE, text=signature)
    return pack


def is_there(evidence: EvidenceStore, name: str, path: str) -> bool:
    """Whether anything lies at this path, a file or not."""
    return path in evidence.files(name) or path in evidence.irregular(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The files of a migration, held against everything that was journaled: ``there`` by path, ``doubts`` a
    sentence by path about each that is not as it was, ``proven`` the paths of which something is known."""

    there: Mapping[str, StoredFile]
    doubts: Mapping[str, str]
    proven: frozenset[str]


def held(env: Environment, found: Migration) -> Held:
    """What may be shown of a migration's evidence, and what may not."""
    there = _there(env.evidence, found.id, lambda *_: None)
    origins = known_of(env.evidence, found.id, there, events_data(found.events)).origins
    said = _doubts(env, found, there, origins)
    pack = _sealed(env, found)
    listed = pack.sha256_of if pack else {}
    paths = (*there, *origins.demands, *listed)
    return Held(
        there=there,
        doubts={check.path: check.reason for check in doubted(said, paths)},
        proven=frozenset({*origins.demands, *listed}),
    )


def compose(env: Environment, migration: str) -> Pack:
    """See `App.pack`: what sealing would write now; nothing is written."""
    found = load(env, migration)
    return _composed(env, found, {JOURNAL: exported(found)})


def _composed(env: Environment, found: Migration, own: Mapping[str, str]) -> Pack:
    """``own`` are the texts that sealing writes over whatever is there."""
    there = {file.path: file for file in measured(env.evidence, found.id)}
    origins = known_of(env.evidence, found.id, there, events_data(found.events)).origins
    listed = sealable(there, origins)
    listed |= {
        name: StoredFile(path=name, bytes=len(text.encode()), sha256=_sha256(text))
        for name, text in own.items()
    }
    files = tuple(listed[path] for path in sorted(listed))
    return Pack(
        run=found.id,
        target=found.record.group,
        plan_hash=found.record.plan_hash,
        state=found.phase.value,
        sealed_at_ms=env.clock.now_ms(),
        files=files,
        approvals=approvals(found.events),
        versions=versions_named(env.evidence, files, found.id),
        brokers=_brokers(found.events),
        doubts=_doubts(env, found, there, origins),
    )


def sealable(there: Mapping[str, StoredFile], origins: Origins) -> dict[str, StoredFile]:
    """The files that a manifest names: what a desktop left beside them is no evidence."""
    return {path: file for path, file in there.items() if path in origins.demands or not is_beside(path)}


def verify(
    env: Environment, migration: str, verifier: Verifier | None = None, told: Progress = lambda *_: None
) -> Verification:
    """See `App.verify_evidence`."""
    found = load(env, migration)
    if found.latest(EventKind.SEALED) is None:
        raise Rejected(
            f"migration {migration} has no sealed evidence pack: it is sealed when a run ends; "
            f"seal it now with: groupshift report {migration}"
        )
    there = _there(env.evidence, migration, told)
    known = known_of(env.evidence, migration, there, events_data(found.events))
    known = replace(known, plan=(found.record.plan, found.record.plan_hash))
    return verified(env.evidence, migration, there, known, verifier)


def verify_folder(
    evidence: EvidenceStore, name: str, verifier: Verifier | None = None, told: Progress = lambda *_: None
) -> Verification:
    """A pack away from its journal: its own ``journal.json`` says what was journaled. Without a signature
    this proves that the files belong together, not who sealed them.

    Raises `Rejected` where no pack is, `Broken` for a manifest that cannot be read."""
    if evidence.read_text(name, PACK) is None:
        raise Rejected(f"folder {name} holds no {PACK}: name the folder of one migration")
    there = _there(evidence, name, told)
    data = journal_data(evidence.read_text(name, JOURNAL) or "")
    known = None if data is None else of_export(evidence, name, there, data)
    found = verified(evidence, name, there, known or Known(), verifier)
    if known is not None or JOURNAL in {check.path for check in found.troubles}:
        return found
    reason = "nothing here says what was journaled: it is gone, or cannot be understood"
    unread = Check(path=JOURNAL, state=State.ALTERED, reason=reason)
    return replace(found, checks=settled((*found.checks, unread)))


def _there(evidence: EvidenceStore, name: str, told: Progress) -> dict[str, StoredFile]:
    return {file.path: file for file in measured(evidence, name, told)}


def verified(
    evidence: EvidenceStore,
    name: str,
    there: Mapping[str, StoredFile],
    known: Known,
    verifier: Verifier | None,
) -> Verification:
    """Hold every file that is ``there`` against the pack and against what is known of it. Raises `Broken` for
    a manifest that is gone or unreadable."""
    text = evidence.read_text(name, PACK)
    if text is None:
        raise Broken(f"{PACK} of {name} is gone although it was sealed: take no decision on this evidence")
    pack, signature = pack_from_json(text), evidence.read_text(name, SIGNATURE) or ""
    irregular = evidence.irregular(name)
    said = tuple(doubted(pack.doubts, (*there, *pack.sha256_of, *irregular, *known.origins.demands)))
    named = {check.path for check in said}
    checks = (
        *_of_manifest(text, known.sealed),
        *_of_form(text, pack),
        *_of_place(pack, name),
        *_of_signature(text, signature, verifier, _signing(known, pack)),
        *held_against(pack, there, known.origins),
        *(
            each
            for each in unlike(there, known.origins, pack)
            if each.state is State.SWAPPED or each.path not in named
        ),
        *_miscounted(evidence, name, there, known.origins),
        *not_the_plan(pack, known.plan),
        *said,
        *(
            Check(path=path, state=State.IRREGULAR, reason=_not_read(kind))
            for path, kind in irregular.items()
        ),
    )
    return Verification(
        run=pack.run,
        plan_hash=pack.plan_hash,
        sealed_at_ms=pack.sealed_at_ms,
        digest=_sha256(text),
        signed=bool(signature),
        signature_checked=bool(signature) and verifier is not None,
        checks=settled(checks),
        journaled=bool(known.sealed),
    )


def _signing(known: Known, pack: Pack) -> Known:
    """Whether it was signed: as the journal has it, else as the pack says."""
    return known if known.signed is not None else replace(known, signed=pack.signed)


def _not_read(kind: str) -> str:
    return f"{kind} is in its place; evidence is files only, so nothing behind it was read"


def _of_form(text: str, pack: Pack) -> Iterator[Check]:
    if text != pack.to_json():
        reason = "it is not as it was written, though it says the same: somebody wrote it anew"
        yield Check(path=PACK, state=State.SWAPPED, reason=reason)


def _of_place(pack: Pack, name: str) -> Iterator[Check]:
    if pack.run != name:
        reason = f"it is the pack of {pack.run}, and lies in the folder {name}: it was copied here"
        yield Check(path=PACK, state=State.SWAPPED, reason=reason)


def _miscounted(
    evidence: EvidenceStore, name: str, there: Mapping[str, StoredFile], origins: Origins
) -> Iterator[Check]:
    """Parquet files with other rows than a manifest promises."""
    for path, demand in origins.demands.items():
        if demand.rows is not None and path in there and there[path].sha256 == demand.sha256:
            rows = evidence.row_count(name, path)
            if rows != demand.rows:
                has = "cannot be read" if rows is None else f"has {rows} rows"
                reason = f"it {has}, and {demand.by} promises {demand.rows} rows"
                yield Check(path=path, state=State.ALTERED, reason=reason)


def _of_manifest(text: str, sealed: tuple[str, ...]) -> Iterator[Check]:
    if not sealed or _sha256(text) == sealed[-1]:
        yield Check(path=PACK, state=State.SOUND)
    elif _sha256(text) in sealed:
        reason = "it is that of an earlier sealing: sealing was interrupted, or an old manifest was put back"
        yield Check(path=PACK, state=State.SWAPPED, reason=reason)
    else:
        reason = f"the journal knows it as {sealed[-1][:12]}… and it is {_sha256(text)[:12]}…"
        yield Check(path=PACK, state=State.SWAPPED, reason=reason)


def _of_signature(text: str, signature: str, verifier: Verifier | None, known: Known) -> Iterator[Check]:
    holds = verifier is not None and signature and verifier.holds(text.encode(errors="replace"), signature)
    if known.signed and not signature:
        reason = f"it was signed when it was sealed, and {SIGNATURE} is gone"
        yield Check(path=SIGNATURE, state=State.UNSIGNED, reason=reason)
    elif known.signed is False and signature:
        reason = "it was not signed when it was sealed: somebody added this signature"
        yield Check(path=SIGNATURE, state=State.UNLISTED, reason=reason)
    elif signature and not is_signature(signature):
        reason = "it is not as signatures are written: it was altered"
        yield Check(path=SIGNATURE, state=State.FORGED, reason=reason)
    elif known.signature and _sha256(signature) != known.signature:
        found = f"the journal knows it as {known.signature[:12]}… and it is {_sha256(signature)[:12]}…"
        reason = f"{found}: it was replaced, or sealing was interrupted"
        yield Check(path=SIGNATURE, state=State.FORGED, reason=reason)
    elif verifier is None:
        if signature:
            reason = "it is signed, and no public key was given to check it: signature not checked"
            yield Check(path=SIGNATURE, state=State.UNCHECKED, reason=reason)
    elif not signature:
        reason = "a public key was given and the pack is not signed"
        yield Check(path=SIGNATURE, state=State.UNSIGNED, reason=reason)
    elif holds:
        yield Check(path=SIGNATURE, state=State.SOUND)
    else:
        reason = f"this key did not sign this {PACK}"
        yield Check(path=SIGNATURE, state=State.FORGED, reason=reason)


def known_of(
    evidence: EvidenceStore, name: str, there: Mapping[str, StoredFile], events: Sequence[Mapping[str, Any]]
) -> Known:
    """What the journal of a migration knows, by its events."""
    sealings = [event["body"] for event in events if event["kind"] == EventKind.SEALED]
    since = max((event["seq"] for event in events if event["kind"] == EventKind.SEALED), default=0)
    begun = [e["body"] for e in events if e["kind"] == EventKind.SEALING and e["seq"] > since]
    last: Mapping[str, Any] = sealings[-1] if sealings else {}
    origins = of_events(evidence, name, there, events)
    return Known(
        sealed=tuple(str(body["digest"]) for body in sealings),
        origins=replace(origins, demands={**origins.demands, **own_files(there, sealings, begun)}),
        signed=last.get("signed"),
        signature=str(last.get("signature", "")),
    )


def of_export(
    evidence: EvidenceStore, name: str, there: Mapping[str, StoredFile], data: Mapping[str, Any]
) -> Known | None:
    """What ``journal.json`` of a folder says: of a migration, or of a run on a whole cluster; None where it
    cannot be understood."""
    try:
        plan = (str(data["plan"]), str(data["plan_hash"]))
        if "run" in data and "cluster_id" in data:
            return Known(plan=plan, origins=of_steps(evidence, name, there, data["steps"]))
        return Known(plan=plan, origins=of_events(evidence, name, there, data["events"]))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def measured(
    evidence: EvidenceStore, name: str, told: Progress = lambda *_: None, *, below: str = ""
) -> Iterator[StoredFile]:
    """Every file of a migration but the manifest and its signature, hashed now; of one folder with ``below``,
    which ends with a slash."""
    paths = [path for path in evidence.files(name) if path not in OWN and path.startswith(below)]
    for number, path in enumerate(paths, 1):
        file = evidence.measured(name, path)
        told(number, len(paths))
        if file is not None:
            yield file


def approvals(events: tuple[Event, ...]) -> tuple[Approval, ...]:
    """Every answer at a gate, in order."""
    return tuple(
        Approval(
            gate=str(event.body["gate"]),
            choice=str(event.body["choice"]),
            who=str(event.body["who"]),
            at_ms=event.at_ms,
            stage=event.stage.value if event.stage else "",
        )
        for event in events
        if event.kind is EventKind.GATE_ANSWERED
    )


def _doubts(
    env: Environment, found: Migration, there: Mapping[str, StoredFile], origins: Origins
) -> tuple[str, ...]:
    """What is not as it was journaled, or changed since the last sealing although nothing that was journaled
    since changes it."""
    irregular = env.evidence.irregular(found.id)
    last = found.latest(EventKind.SEALED)
    if last is None:
        return doubts((None, ()), there, irregular, origins)
    former: list[str] = [str(each) for each in last.body.get("doubts", ())]
    pack = _sealed(env, found)
    if pack is None:
        how = "altered" if is_there(env.evidence, found.id, PACK) else "missing"
        former.append(f"{PACK} was {how} after it was sealed at {last.at_ms}")
    signature = None if SIGNATURE in irregular else env.evidence.read_text(found.id, SIGNATURE)
    sealings = [event.body for event in found.events if event.kind is EventKind.SEALED]
    signatures = {str(body["signature"]) for body in sealings if "signature" in body}
    if signatures and (_sha256(signature) if signature else "") not in signatures:
        how = "altered" if signature else "missing"
        former.append(f"{SIGNATURE} was {how} after it was sealed at {last.at_ms}")
    return doubts((pack, tuple(former)), there, irregular, origins)


def _sealed(env: Environment, found: Migration) -> Pack | None:
    """The pack that lies there, if the journal knows it."""
    if PACK not in env.evidence.files(found.id):
        return None
    text = env.evidence.read_text(found.id, PACK) or ""
    digests = {str(each.body["digest"]) for each in found.events if each.kind is EventKind.SEALED}
    return pack_from_json(text) if _sha256(text) in digests else None


def versions_named(
    evidence: EvidenceStore, files: tuple[StoredFile, ...], migration: str
) -> dict[str, tuple[str, ...]]:
    """Versions named by manifests of snapshots and by verdicts, each once."""
    seen: dict[str, set[str]] = {}
    for file in files:
        if file.path.endswith((f"/{MANIFEST}", "/verdict.json")):
            for name, version in _named(evidence.read_text(migration, *file.path.split("/"))).items():
                seen.setdefault(str(name), set()).add(str(version))
    return {name: tuple(sorted(found)) for name, found in sorted(seen.items())}


def _named(text: str | None) -> Mapping[str, Any]:
    try:
        found = values_of(text or "")["versions"]
    except (ValueError, KeyError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def _brokers(events: tuple[Event, ...]) -> tuple[str, ...]:
    met = {
        str(each)
        for event in events
        if event.kind is EventKind.SNAPSHOT
        for each in event.body.get("brokers", ())
    }
    return tuple(sorted(met))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
