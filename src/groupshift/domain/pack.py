"""The evidence pack of a migration: a manifest over every file of its folder, and how it is checked.

Layout: ``<evidence>/<migration>/{pack.json, pack.sig, journal.json, report.html, <stage>/…}``. ``pack.json``
names every other file but the signature with its size and SHA-256, so whoever knows its own SHA-256 (the
journal does) or can check its signature can prove all of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from groupshift.errors import Broken

PACK, SIGNATURE = "pack.json", "pack.sig"
JOURNAL, REPORT = "journal.json", "report.html"
PACK_VERSION = 1
OWN = frozenset({PACK, SIGNATURE})
"""The files that the manifest cannot name."""
AUDITED = "consumption/"
"""Where the audit of consumption leaves its files, also after the last run has ended."""
RENEWED = (JOURNAL, REPORT, AUDITED)
"""What sealing or a new audit writes again: its change between two sealings says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """One file below a migration's folder: ``path`` relative with ``/``, size in bytes, SHA-256 in hex."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """An answer at a gate: who said what when (epoch ms); ``stage`` only where one was reviewed."""

    gate: str
    choice: str
    who: str
    at_ms: int
    stage: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """``pack.json``. ``versions`` maps a program to the versions met during the migration, ``brokers`` are
    those that answered; ``doubts`` are sentences about files that changed before this sealing although
    nothing that groupshift does changes them."""

    migration: str
    group: str
    plan_hash: str
    phase: str
    sealed_at_ms: int
    files: tuple[StoredFile, ...]
    approvals: tuple[Approval, ...] = ()
    versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    brokers: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    def to_json(self) -> str:
        """The text of ``pack.json``: ASCII, so that its bytes are the same everywhere."""
        data = {"version": PACK_VERSION, **asdict(self)}
        return json.dumps(data, indent=1, sort_keys=True) + "\n"

    @property
    def sha256_of(self) -> dict[str, str]:
        """SHA-256 by path."""
        return {file.path: file.sha256 for file in self.files}


def pack_from_json(text: str) -> Pack:
    """The inverse of `Pack.to_json`. Raises `Broken` for a text that it did not write."""
    try:
        data = json.loads(text)
        version = data.pop("version")
        pack = Pack(
            **{
                **data,
                "files": tuple(StoredFile(**each) for each in data["files"]),
                "approvals": tuple(Approval(**each) for each in data["approvals"]),
                "versions": {str(name): tuple(found) for name, found in data["versions"].items()},
                "brokers": tuple(data["brokers"]),
                "doubts": tuple(data["doubts"]),
            }
        )
    except (ValueError, KeyError, TypeError, AttributeError) as wrong:
        raise Broken(
            f"{PACK} cannot be understood ({wrong!r}): it was altered, so this evidence proves nothing"
        ) from wrong
    if version != PACK_VERSION:
        raise Broken(f"{PACK} has version {version!r}, not {PACK_VERSION}: use the groupshift that sealed it")
    return pack


class State(StrEnum):
    """What is said of one file when it is held against what is known of it."""

    SOUND = "sound"
    MISSING = "missing"
    ALTERED = "altered"
    UNLISTED = "unlisted"
    """There, and in no manifest."""
    SWAPPED = "swapped"
    """A manifest that is whole, and not the one that was journaled."""
    DOUBTED = "doubted"
    """Changed before the last sealing."""
    UNSIGNED = "unsigned"
    FORGED = "forged"
    """The signature is not that of the key."""
    UNCHECKED = "unchecked"
    """Signed, and no public key was given."""
    UNSEALED = "unsealed"
    """Written since the last sealing by a stage or an audit that is known; the next sealing names it."""

    @property
    def sound(self) -> bool:
        """Whether this is no reason to doubt the evidence."""
        return self in {State.SOUND, State.UNCHECKED, State.UNSEALED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What one file is found to be, and why in one sentence (empty when it is sound)."""

    path: str
    state: State
    reason: str = ""


def held_against(pack: Pack, found: Iterable[StoredFile], renewed: tuple[str, ...] = ()) -> tuple[Check, ...]:
    """Every file of the manifest and every file that is there, by path; `OWN` are left out. What was written
    since below one of the ``renewed`` prefixes, and a new audit, is unsealed, not altered."""
    there = {file.path: file for file in found if file.path not in OWN}
    listed = {file.path: file for file in pack.files}
    checks = (_check(path, listed.get(path), there.get(path)) for path in sorted({*listed, *there}))
    return tuple(_excused(check, renewed) for check in checks)


def _excused(check: Check, renewed: tuple[str, ...]) -> Check:
    anew = check.state in {State.ALTERED, State.UNLISTED} and check.path.startswith(renewed)
    if anew or (check.state is State.UNLISTED and check.path.startswith(AUDITED)):
        reason = "it was written since the last sealing; seal again with: groupshift report"
        return Check(path=check.path, state=State.UNSEALED, reason=reason)
    return check


def _check(path: str, listed: StoredFile | None, there: StoredFile | None) -> Check:
    if listed is None:
        reason = f"it is in no manifest: {PACK} was sealed without it"
        return Check(path=path, state=State.UNLISTED, reason=reason)
    if there is None:
        return Check(path=path, state=State.MISSING, reason=f"{PACK} names it and it is gone")
    if there == listed:
        return Check(path=path, state=State.SOUND)
    reason = f"its SHA-256 is {there.sha256[:12]}… and {PACK} says {listed.sha256[:12]}…"
    if there.bytes != listed.bytes:
        reason += f"; {there.bytes} bytes where there were {listed.bytes}"
    return Check(path=path, state=State.ALTERED, reason=reason)


def swapped(
    pack: Pack,
    journaled: Mapping[str, str],
    plan: tuple[str, str] | None = None,
    now: Mapping[str, str] | None = None,
) -> tuple[Check, ...]:
    """What the journal knows better than the manifest. ``journaled`` maps the path of a snapshot's manifest
    to the SHA-256 journaled when it was taken; ``plan`` is the plan's JSON and the hash people approved;
    ``now`` are SHA-256 of files written since the sealing."""
    listed = {**pack.sha256_of, **(now or {})}
    found = [
        Check(
            path=path,
            state=State.SWAPPED,
            reason=f"the journal knows this snapshot's manifest as {digest[:12]}…: it was replaced",
        )
        for path, digest in journaled.items()
        if path in listed and listed[path] != digest
    ]
    if plan and not hashlib.sha256(plan[0].encode()).hexdigest() == plan[1] == pack.plan_hash:
        reason = f"the plan is not the one of hash {pack.plan_hash[:12]}…, which was approved"
        found.append(Check(path=JOURNAL, state=State.SWAPPED, reason=reason))
    return tuple(found)


def doubts(former: Pack, found: Iterable[StoredFile], renewed: Iterable[str]) -> tuple[str, ...]:
    """Sentences about files of the former sealing that are gone or other now, though not ``renewed``
    (prefixes of paths that were written again on purpose); and what was doubted before."""
    allowed = (*RENEWED, *renewed)
    fresh = (
        f"{check.path} was {check.state} after it was sealed at {former.sealed_at_ms}"
        for check in held_against(former, found)
        if check.state in {State.MISSING, State.ALTERED} and not check.path.startswith(allowed)
    )
    return tuple(dict.fromkeys((*former.doubts, *fresh)))


def journal_data(text: str) -> Mapping[str, Any] | None:
    """``journal.json`` as plain values, None for what groupshift did not write."""
    try:
        data = json.loads(text)
        usable = {"plan", "plan_hash", "events"} <= set(data)
    except (ValueError, TypeError):
        return None
    return data if usable else None
