"""The evidence pack of a run: a manifest over every file of its folder, and how it is checked.

Layout: ``<evidence>/<run>/{pack.json, pack.sig, journal.json, report.html, <stage>/…}``. ``pack.json``
names every other file but the signature with its size and SHA-256, so whoever knows its own SHA-256 (the
journal does) or can check its signature can prove all of them, from the sealing on. Before it the journal
does: it has the SHA-256 of each snapshot's manifest, which has those of the snapshot's files, and of whatever
was judged (`Origins`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any

from groupshift.domain.evidence import MANIFEST
from groupshift.domain.foreign_json import FILE_BYTES, load_json
from groupshift.domain.plain import built
from groupshift.errors import Broken, Rejected

PACK, SIGNATURE = "pack.json", "pack.sig"
JOURNAL, REPORT = "journal.json", "report.html"
PACK_VERSION = 1
OWN = frozenset({PACK, SIGNATURE})
"""The files that the manifest cannot name."""
AUDITED = "consumption/"
"""Where the audit of consumption leaves its files, also after the last run has ended."""
_OF_SIGNATURE = {"algorithm", "public_key", "signature"}
REWRITTEN = (JOURNAL, REPORT)
"""What sealing itself writes again."""
_DESKTOP = frozenset(
    {".ds_store", "thumbs.db", "ehthumbs.db", "desktop.ini", ".directory", ".localized"}
    | {"__macosx", ".spotlight-v100", ".trashes", ".fseventsd", ".apdisk", "$recycle.bin", "lost+found"}
    | {"system volume information", ".temporaryitems", ".appledouble", ".appledb", ".appledesktop"}
    | {"network trash folder", "temporary items", "icon\r", ".volumeicon.icns"}
    | {"@eadir", "#recycle", ".@__thumb", ".com.apple.timemachine.donotpresent"}
)
"""What Finder, Explorer and file servers leave in folders that they show (in small letters)."""
_SERVED = re.compile(r"\._.*|\.nfs[0-9a-f]{16,}|\.fuse_hidden[0-9a-f]+|\.trash-[0-9]+", re.DOTALL)
"""Names of theirs that differ from file to file."""


def is_beside(path: str) -> bool:
    """Whether a desktop or a file server left this, and it is no evidence: its name says so."""
    parts = path.lower().split("/")
    return any(part in _DESKTOP or _SERVED.fullmatch(part) is not None for part in parts)


def values_of(text: str) -> Any:
    """The plain values of a JSON text. Raises `ValueError` for any other text."""
    try:
        return load_json(text, "it", at_most=FILE_BYTES)
    except Rejected as wrong:
        raise ValueError(str(wrong)) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """One file below a run's folder: ``path`` relative with ``/``, size in bytes, SHA-256 in hex."""

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
    stage: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """``pack.json``. ``versions`` maps a program to the versions met during the run, ``brokers`` are
    those that answered; ``signed`` is whether a signature was made (None: an older release did not say);
    ``doubts`` are sentences about files that changed before this sealing although
    nothing that groupshift does changes them."""

    run: str
    target: str
    plan_hash: str
    state: str
    sealed_at_ms: int
    files: tuple[StoredFile, ...]
    approvals: tuple[Approval, ...]
    versions: Mapping[str, tuple[str, ...]]
    brokers: tuple[str, ...]
    doubts: tuple[str, ...]
    signed: bool | None = None

    def to_json(self) -> str:
        """The text of ``pack.json``: ASCII, so that its bytes are the same everywhere."""
        data = {"version": PACK_VERSION, **asdict(self)}
        if self.signed is None:
            del data["signed"]
        return json.dumps(data, indent=1, sort_keys=True) + "\n"

    @property
    def sha256_of(self) -> dict[str, str]:
        """SHA-256 by path."""
        return {file.path: file.sha256 for file in self.files}


def pack_from_json(text: str) -> Pack:
    """The inverse of `Pack.to_json`. Raises `Broken` for a text that it did not write."""
    try:
        data = values_of(text)
        version = data.pop("version")
        pack: Pack = built(Pack, data)
        wrong_in = sorted(data.keys() - {each.name for each in fields(Pack)})
        if len(pack.sha256_of) != len(pack.files):
            wrong_in.append("a file twice")
    except (ValueError, KeyError, TypeError, AttributeError) as wrong:
        raise Broken(
            f"{PACK} cannot be understood ({wrong!r:.200}): it was altered, so this evidence proves nothing"
        ) from wrong
    if wrong_in:
        raise Broken(f"{PACK} cannot be understood (it has {', '.join(wrong_in):.200}): it was altered")
    if version != PACK_VERSION:
        raise Broken(
            f"{PACK} has version {version!r:.20}, not {PACK_VERSION}: use the groupshift that sealed it"
        )
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
    IRREGULAR = "irregular"
    """A link, a pipe or a device where a file belongs: what is behind it was not looked at."""
    UNCHECKED = "unchecked"
    """Signed, and no public key was given."""
    UNSEALED = "unsealed"
    """Written since the last sealing by a stage or an audit that is journaled; the next sealing names it."""
    LEFT_OVER = "left over"
    """Left by a process that was killed or is still at work; nothing was decided on it."""
    BESIDE = "beside the evidence"
    """Left by a desktop or a file server: no evidence, and never signed."""

    @property
    def sound(self) -> bool:
        """Whether this is no reason to doubt the evidence."""
        return self in {State.SOUND, State.UNCHECKED, State.UNSEALED, State.LEFT_OVER, State.BESIDE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What one file is found to be, and why in one sentence (empty when it is sound)."""

    path: str
    state: State
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What became of a pack: ``digest`` is the SHA-256 of its manifest, ``signed`` whether it carries a
    signature, ``signature_checked`` whether that was held against a public key; ``checks`` name every file,
    sound ones included; ``journaled`` is whether the journal knew its manifest."""

    run: str
    plan_hash: str
    sealed_at_ms: int
    digest: str
    signed: bool
    signature_checked: bool
    checks: tuple[Check, ...]
    journaled: bool = False

    @property
    def troubles(self) -> tuple[Check, ...]:
        """What is not sound."""
        return tuple(check for check in self.checks if not check.state.sound)

    @property
    def as_sealed(self) -> bool:
        """Whether every file is the one that was sealed, and nothing lies beside them."""
        return self.proven and all(check.state in {State.SOUND, State.UNCHECKED} for check in self.checks)

    @property
    def proven(self) -> bool:
        """Whether anything but the folder itself, the journal or a key, was asked what was sealed."""
        return self.journaled or self.signature_checked


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What one file has to be, by who knows it besides the pack: ``by`` is the journal, or the manifest of a
    snapshot, ``rows`` what that says of a Parquet file (None: nothing)."""

    sha256: str
    by: str = "the journal"
    rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Origins:
    """Where the files of a pack come from. ``demands`` says by path what each has to be; ``left_over`` tells
    of a path whether a killed process, or one still at work, may have left it; ``renewed`` are prefixes of
    paths written again since the last sealing, ``unheld`` those of which an older release journaled nothing.
    """

    demands: Mapping[str, Demand] = field(default_factory=dict)
    left_over: Callable[[str], bool] = lambda _path: False
    renewed: tuple[str, ...] = ()
    unheld: tuple[str, ...] = ()


_Files = Mapping[str, StoredFile]


def held_against(pack: Pack, there: _Files, origins: Origins) -> tuple[Check, ...]:
    """Every file of the manifest and every file that is there, by path; `OWN` are left out. What was written
    since by what is known is no fault."""
    listed = {file.path: file for file in pack.files}
    paths = sorted({*listed, *there} - OWN)
    return tuple(_excused(_check(path, listed.get(path), there.get(path)), there, origins) for path in paths)


def _excused(check: Check, there: _Files, origins: Origins) -> Check:
    """The check, or why it is no fault."""
    path, demand, now = check.path, origins.demands.get(check.path), there.get(check.path)
    known = demand is not None and now is not None and demand.sha256 == now.sha256
    new = check.state is State.UNLISTED
    left = demand is None and path not in {*REWRITTEN} and origins.left_over(path)
    if check.state is State.SOUND and not left:
        return check
    if known and (new or path.startswith(origins.renewed)):
        reason = "it was written since the last sealing; seal again with: groupshift report"
        return Check(path=path, state=State.UNSEALED, reason=reason)
    if left and (new or check.state is State.SOUND or path.startswith(origins.renewed)):
        reason = "a process that was killed left it, or one is at work; nothing was decided on it"
        return Check(path=path, state=State.LEFT_OVER, reason=reason)
    if new and is_beside(path):
        reason = "a desktop or a file server left it; it is no evidence and is not signed"
        return Check(path=path, state=State.BESIDE, reason=reason)
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


def unlike(there: _Files, origins: Origins, pack: Pack | None = None) -> Iterator[Check]:
    """Files that are not what the journal, or a manifest that the journal knows, says of them, although they
    are as the ``pack`` says (which may have been sealed over them), or it says nothing."""
    listed = {} if pack is None else pack.sha256_of
    for path, demand in sorted(origins.demands.items()):
        now = there.get(path)
        if path in listed and (now is None or now.sha256 != listed[path]):
            continue
        if now is None:
            yield Check(path=path, state=State.MISSING, reason=f"{demand.by} names it and it is not there")
        elif now.sha256 != demand.sha256:
            manifest = path.rpartition("/")[2] == MANIFEST
            what = "this snapshot's manifest" if manifest else "it"
            reason = (
                f"{demand.by} knows {what} as {demand.sha256[:12]}…: "
                f"it was {'replaced' if manifest else 'altered'}"
            )
            yield Check(path=path, state=State.SWAPPED if manifest else State.ALTERED, reason=reason)


def strangers(there: Iterable[str], origins: Origins) -> tuple[str, ...]:
    """Paths that neither the journal nor a manifest that it knows names, and no process of ours left."""
    return tuple(
        path
        for path in sorted(there)
        if path not in {*OWN, JOURNAL, *origins.demands}
        and not path.startswith(origins.unheld)
        and not is_beside(path)
        and not origins.left_over(path)
    )


def settled(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Each once; a file is sound only where nothing else is said of it, and what is no file of ours is not
    called missing besides."""
    found = tuple(dict.fromkeys(checks))
    said = {check.path for check in found if check.state is not State.SOUND}
    odd = {check.path for check in found if check.state is State.IRREGULAR}
    worse = {check.path for check in found if check.state not in {State.SOUND, State.UNLISTED}}
    return tuple(
        check
        for check in found
        if not (check.state is State.SOUND and check.path in said)
        and not (check.state is State.MISSING and check.path in odd)
        and not (check.state is State.UNLISTED and check.path in worse)
    )


def doubts(
    former: tuple[Pack | None, tuple[str, ...]], there: _Files, irregular: Mapping[str, str], origins: Origins
) -> tuple[str, ...]:
    """Sentences about what cannot be sealed as sound, each beginning with the path: what was doubted before
    (``former`` is the pack sealed last and what the journal knows as doubted), what was altered since, what
    is not as it was journaled, what nobody journaled, and what is no file."""
    pack, before = former
    fresh: list[str] = []
    if pack is not None:
        before = (*pack.doubts, *before)
        fresh += (
            f"{check.path} was {check.state} after it was sealed at {pack.sealed_at_ms}"
            for check in held_against(pack, there, origins)
            if check.state in {State.MISSING, State.ALTERED} and _is_doubt(check, there, origins)
        )
    fresh += (
        f"{check.path} was {check.state} before it was sealed: {check.reason}"
        for check in unlike(there, origins)
    )
    known = pack.sha256_of if pack is not None else {}
    fresh += (
        f"{path} was added before it was sealed: nothing that was journaled made it"
        for path in strangers(there, origins)
        if path not in known
    )
    fresh += (f"{path} was {kind} when it was sealed" for path, kind in irregular.items())
    paths = (*there, *irregular, *origins.demands, *known)
    said = {_subject(each, paths) for each in before}
    return tuple(dict.fromkeys((*before, *(each for each in fresh if _subject(each, paths) not in said))))


def _is_doubt(check: Check, there: _Files, origins: Origins) -> bool:
    """Whether a change since the last sealing is not what the journal knows it to be by now."""
    demand, now = origins.demands.get(check.path), there.get(check.path)
    return demand is None or now is None or demand.sha256 != now.sha256


def _subject(doubt: str, paths: Iterable[str]) -> str:
    """The path that a sentence of `doubts` is about: the longest that it begins with, else its first word."""
    begun = [path for path in paths if doubt.startswith(f"{path} ")]
    return max(begun, key=len, default=doubt.partition(" ")[0])


def doubted(said: Iterable[str], paths: Iterable[str]) -> Iterator[Check]:
    """What a pack says of itself that it doubts."""
    known = tuple(paths)
    for doubt in said:
        yield Check(path=_subject(doubt, known), state=State.DOUBTED, reason=doubt)


def not_the_plan(pack: Pack, plan: tuple[str, str] | None) -> Iterator[Check]:
    """A plan (its JSON and the hash people approved) that is not the one of the pack."""
    if plan and not hashlib.sha256(plan[0].encode(errors="replace")).hexdigest() == plan[1] == pack.plan_hash:
        reason = f"the plan is not the one of hash {pack.plan_hash[:12]}…, which was approved"
        yield Check(path=JOURNAL, state=State.SWAPPED, reason=reason)


def is_signature(text: str) -> bool:
    """Whether a text is in the form in which signatures are written, whoever made it."""
    try:
        found = values_of(text)
        return set(found) == _OF_SIGNATURE and text == json.dumps(found, indent=1) + "\n"
    except (ValueError, TypeError):
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """What the manifest of a snapshot says of one file."""

    file: str
    sha256: str
    rows: int


def entries_of(text: str) -> Mapping[str, Demand] | None:
    """What the manifest of a snapshot demands of the files beside it, by name; None for a text that is no
    manifest, or names a file outside its own folder."""
    try:
        found = {
            entry.file: Demand(sha256=entry.sha256, by=MANIFEST, rows=entry.rows)
            for entry in built(tuple[_Entry, ...], values_of(text)["files"])
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return None if any("/" in name or name in {"", ".", ".."} for name in found) else found


def journal_data(text: str) -> Mapping[str, Any] | None:
    """``journal.json`` as plain values, None for what groupshift did not write."""
    try:
        data = values_of(text)
        usable = {"plan", "plan_hash", "events"} <= set(data)
    except (ValueError, TypeError):
        return None
    return data if usable and isinstance(data, dict) else None
