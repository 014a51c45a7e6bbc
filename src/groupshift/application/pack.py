"""Sealing the evidence pack of a migration, and holding a sealed one against its files and the journal."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from groupshift.application.environment import Environment
from groupshift.application.journal_export import exported, snapshots_in
from groupshift.application.records import Migration, load
from groupshift.domain.evidence import MANIFEST
from groupshift.domain.pack import (
    JOURNAL,
    OWN,
    PACK,
    SIGNATURE,
    Approval,
    Check,
    Pack,
    State,
    StoredFile,
    doubts,
    held_against,
    journal_data,
    pack_from_json,
    swapped,
)
from groupshift.errors import Broken, Rejected
from groupshift.ports.evidence import EvidenceStore
from groupshift.ports.journal import Entry, Event, EventKind
from groupshift.ports.signature import Verifier

Progress = Callable[[int, int], None]
"""Called with files done and files in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What became of a pack: ``digest`` is the SHA-256 of its manifest, ``signed`` whether it carries a
    signature; ``checks`` name every file, sound ones included."""

    migration: str
    plan_hash: str
    sealed_at_ms: int
    digest: str
    signed: bool
    checks: tuple[Check, ...]

    @property
    def troubles(self) -> tuple[Check, ...]:
        """What is not sound."""
        return tuple(check for check in self.checks if not check.state.sound)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of a pack besides its own manifest: SHA-256 of each sealing, oldest first (none: not
    known), SHA-256 of each snapshot's manifest by path, the plan's JSON and hash, the prefixes of paths that
    were written again since the last sealing, and whether that was signed."""

    sealed: tuple[str, ...] = ()
    snapshots: Mapping[str, str]
    plan: tuple[str, str] | None = None
    renewed: tuple[str, ...] = ()
    signed: bool = False


def seal(env: Environment, migration: str) -> Pack:
    """See `App.seal`. Journaled before the manifest is in its place, so that no other one is believed."""
    found = load(env, migration)
    env.evidence.write_text(migration, JOURNAL, text=exported(found))
    pack = _composed(env, found)
    text = pack.to_json()
    signature = env.signer.sign(text.encode()) if env.signer else ""
    body = {"digest": _sha256(text), "files": len(pack.files), "signed": bool(signature)}
    now = pack.sealed_at_ms
    env.append(Entry(migration=migration, at_ms=now, kind=EventKind.SEALED, body=body))
    env.evidence.write_text(migration, PACK, text=text)
    if signature or env.evidence.read_text(migration, SIGNATURE):
        env.evidence.write_text(migration, SIGNATURE, text=signature)
    return pack


def compose(env: Environment, migration: str) -> Pack:
    """See `App.pack`: what sealing would write now; nothing is written."""
    return _composed(env, load(env, migration))


def _composed(env: Environment, found: Migration) -> Pack:
    files = tuple(measured(env.evidence, found.id))
    return Pack(
        migration=found.id,
        group=found.record.group,
        plan_hash=found.record.plan_hash,
        phase=found.phase.value,
        sealed_at_ms=env.clock.now_ms(),
        files=files,
        approvals=approvals(found.events),
        versions=versions_named(env.evidence, files, found.id),
        brokers=_brokers(found.events),
        doubts=_doubts(env, found, files),
    )


def verify(
    env: Environment, migration: str, verifier: Verifier | None = None, told: Progress = lambda *_: None
) -> Verification:
    """See `App.verify_evidence`."""
    found = load(env, migration)
    sealing = found.latest(EventKind.SEALED)
    known = Known(
        sealed=tuple(str(e.body["digest"]) for e in found.events if e.kind is EventKind.SEALED),
        snapshots={f"{name}/{moment}/{MANIFEST}": digest for name, moment, digest in found.snapshots()},
        plan=(found.record.plan, found.record.plan_hash),
        renewed=_renewed(found),
        signed=bool(sealing and sealing.body.get("signed")),
    )
    if not known.sealed:
        raise Rejected(
            f"migration {migration} has no sealed evidence pack: it is sealed when a run ends; "
            f"seal it now with: groupshift report {migration}"
        )
    return verified(env.evidence, migration, known, verifier, told)


def verify_folder(
    evidence: EvidenceStore, name: str, verifier: Verifier | None = None, told: Progress = lambda *_: None
) -> Verification:
    """A pack away from its journal: its own ``journal.json`` says what was journaled. Without a signature
    this proves that the files belong together, not who sealed them.

    Raises `Rejected` where no pack is, `Broken` for a manifest that cannot be read."""
    if evidence.read_text(name, PACK) is None:
        raise Rejected(f"folder {name} holds no {PACK}: name the folder of one migration")
    return verified(evidence, name, _of_export(evidence, name), verifier, told)


def verified(
    evidence: EvidenceStore, name: str, known: Known, verifier: Verifier | None, told: Progress
) -> Verification:
    """Hash every file again and compare. Raises `Broken` for a manifest that is gone or unreadable."""
    text = evidence.read_text(name, PACK)
    if text is None:
        raise Broken(f"{PACK} of {name} is gone although it was sealed: take no decision on this evidence")
    pack, signature = pack_from_json(text), evidence.read_text(name, SIGNATURE) or ""
    found = tuple(measured(evidence, name, told))
    anew = {file.path: file.sha256 for file in found if file.path.startswith(known.renewed)}
    checks = [
        *_of_manifest(text, known.sealed),
        *_of_signature(text, signature, verifier, known),
        *held_against(pack, found, known.renewed),
        *swapped(pack, known.snapshots, known.plan, anew),
        *(Check(path=said.split(" ")[0], state=State.DOUBTED, reason=said) for said in pack.doubts),
    ]
    return Verification(
        migration=pack.migration,
        plan_hash=pack.plan_hash,
        sealed_at_ms=pack.sealed_at_ms,
        digest=_sha256(text),
        signed=bool(signature),
        checks=tuple(checks),
    )


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
    if known.signed and not signature:
        reason = f"it was signed when it was sealed, and {SIGNATURE} is gone"
        yield Check(path=SIGNATURE, state=State.UNSIGNED, reason=reason)
    elif verifier is None:
        if signature:
            reason = "it is signed, and no public key was given to check it"
            yield Check(path=SIGNATURE, state=State.UNCHECKED, reason=reason)
    elif not signature:
        reason = "a public key was given and the pack is not signed"
        yield Check(path=SIGNATURE, state=State.UNSIGNED, reason=reason)
    elif verifier.holds(text.encode(), signature):
        yield Check(path=SIGNATURE, state=State.SOUND)
    else:
        reason = f"this key did not sign this {PACK}"
        yield Check(path=SIGNATURE, state=State.FORGED, reason=reason)


def measured(evidence: EvidenceStore, name: str, told: Progress = lambda *_: None) -> Iterator[StoredFile]:
    """Every file of a migration but the manifest and its signature, hashed now."""
    paths = [path for path in evidence.files(name) if path not in OWN]
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


def _doubts(env: Environment, found: Migration, files: tuple[StoredFile, ...]) -> tuple[str, ...]:
    """What changed since the last sealing although nothing that was journaled since changes it."""
    last = found.latest(EventKind.SEALED)
    if last is None:
        return ()
    text = env.evidence.read_text(found.id, PACK)
    sealed = {str(event.body["digest"]) for event in found.events if event.kind is EventKind.SEALED}
    if text is None or _sha256(text) not in sealed:
        return (f"{PACK} was {'missing' if text is None else 'altered'} after it was sealed at {last.at_ms}",)
    return doubts(pack_from_json(text), files, _renewed(found))


def _renewed(found: Migration) -> tuple[str, ...]:
    """Folders (as prefixes) of snapshots and validations that were made since the last sealing."""
    last = found.latest(EventKind.SEALED)
    since = last.seq if last else 0
    return tuple(
        f"{event.stage}/{folder}{event.body['moment']}/"
        for kind, folder in ((EventKind.SNAPSHOT, ""), (EventKind.PROOF_REQUESTED, "validation-"))
        for event in found.events
        if event.kind is kind and event.seq > since
    )


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
        found = json.loads(text or "")["versions"]
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


def _of_export(evidence: EvidenceStore, name: str) -> Known:
    """What ``journal.json`` of a folder says; nothing where it is gone (the manifest then misses it)."""
    data = journal_data(evidence.read_text(name, JOURNAL) or "")
    if data is None:
        return Known(snapshots={})
    return Known(snapshots=snapshots_in(data), plan=(str(data["plan"]), str(data["plan_hash"])))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
