"""The evidence pack of a run: a manifest over every file of its folder, and how it is checked.

Layout: ``<evidence>/<run>/{pack.json, pack.sig, journal.json, report.html, <phase>/…}``. ``pack.json``
names every other file but the signature with its size and SHA-256, so whoever knows its own SHA-256 (the
journal does) or can check its signature can prove all of them, from the sealing on. Before it the journal
does: it has the SHA-256 of each snapshot's manifest, which has those of the snapshot's files, and of whatever
was judged (`Known`).

Two witnesses speak of each file: the pack that names it, and the journal that demands a SHA-256 of it.
`file_check` is the one table of what their words come to; `doubts` turns what is wrong at a sealing into
sentences that stay in every later pack.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any

from groupshift.domain.evidence import MANIFEST
from groupshift.domain.foreign_json import FILE_BYTES, load_json
from groupshift.domain.partitions import grouped
from groupshift.domain.plain import built
from groupshift.domain.run import Json
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
    """Return True where a desktop or a file server left this: its name, or that of a folder, says so."""
    parts = path.lower().split("/")
    return any(part in _DESKTOP or _SERVED.fullmatch(part) is not None for part in parts)


def sha256_of(text: str) -> str:
    """Return the SHA-256 of a text's UTF-8 bytes, in hex. What is no character has a digest, too."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def values_of(text: str) -> Any:
    """Return the plain values of a JSON text.

    Raises:
        ValueError: the text is no JSON within the bounds of `load_json`.
    """
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
    """An answer at a gate: who said what when (epoch ms)."""

    gate: str
    choice: str
    who: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """``pack.json``: the manifest of a run's evidence.

    ``versions`` maps a program to the versions met during the run, ``brokers`` are those that answered;
    ``signed`` is whether a signature was made; ``doubts`` are sentences, by path, about files that changed
    before this sealing although nothing that groupshift does changes them."""

    run: str
    target: str
    plan_hash: str
    state: str
    sealed_at_ms: int
    files: tuple[StoredFile, ...]
    approvals: tuple[Approval, ...]
    versions: Mapping[str, tuple[str, ...]]
    brokers: tuple[str, ...]
    doubts: Mapping[str, str]
    signed: bool

    def to_json(self) -> str:
        """The text of ``pack.json``: ASCII, so that its bytes are the same everywhere."""
        return json.dumps({"version": PACK_VERSION, **asdict(self)}, indent=1, sort_keys=True) + "\n"

    @property
    def sha256_of(self) -> dict[str, str]:
        """SHA-256 by path."""
        return {file.path: file.sha256 for file in self.files}


def pack_from_json(text: str) -> Pack:
    """Return what `Pack.to_json` wrote.

    Raises:
        Broken: another version wrote the text, or it has not exactly the fields of a pack.
    """
    try:
        data = values_of(text)
        version = data.pop("version")
        pack: Pack = built(Pack, data)
        odd = data.keys() != {each.name for each in fields(Pack)} or len(pack.sha256_of) != len(pack.files)
    except (ValueError, KeyError, TypeError, AttributeError) as wrong:
        raise Broken(
            f"{PACK} cannot be understood ({wrong!r:.200}): it was altered, so this evidence proves nothing"
        ) from wrong
    if odd:
        raise Broken(f"{PACK} cannot be understood (a field too many, or a file twice): it was altered")
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
    """Written since the last sealing by a phase or an audit that is journaled; the next sealing names it."""
    LEFT_OVER = "left over"
    """Left by a process that was killed or is still at work; nothing was decided on it."""
    BESIDE = "beside the evidence"
    """Left by a desktop or a file server: no evidence, and never signed."""

    @property
    def sound(self) -> bool:
        """True where this is no reason to doubt the evidence."""
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
        """True where every file is the one that was sealed, and nothing lies beside them."""
        return self.proven and all(check.state in {State.SOUND, State.UNCHECKED} for check in self.checks)

    @property
    def proven(self) -> bool:
        """True where anything but the folder itself (the journal, or a key) was asked what was sealed."""
        return self.journaled or self.signature_checked


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What one file has to be, by who knows it besides the pack: ``by`` is the journal, or the manifest of a
    snapshot."""

    sha256: str
    by: str = "the journal"

    def met_by(self, now: StoredFile | None) -> bool:
        """Return True where this is the file that is there now."""
        return now is not None and now.sha256 == self.sha256


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the journal knows of the files of a run, whatever the pack says of them.

    * ``demands``: by path what each file has to be;
    * ``left_over``: tells of a path whether a killed process, or one still at work, may have left it;
    * ``renewed``: prefixes of paths that were written again since the last sealing;
    * ``plan``: the plan's JSON, and the hash that people approved;
    * ``sealed``: the bodies of the sealings, oldest first;
    * ``begun``: those of sealings that did not come to their end before the last one began;
    * ``doubts``: by path every doubt that was ever journaled.
    """

    demands: Mapping[str, Demand] = field(default_factory=dict)
    left_over: Callable[[str], bool] = lambda _path: False
    renewed: tuple[str, ...] = ()
    plan: tuple[str, str] | None = None
    sealed: tuple[Json, ...] = ()
    begun: tuple[Json, ...] = ()
    doubts: Mapping[str, str] = field(default_factory=dict)

    @property
    def last(self) -> tuple[Json, ...]:
        """The bodies that what lies there may be of, although nobody forged it."""
        return (*self.sealed[-1:], *self.begun)


Files = Mapping[str, StoredFile]
"""Files as they lie there, by path."""


def file_check(path: str, listed: StoredFile | None, now: StoredFile | None, known: Known) -> Check:
    """Return what one file is, by the pack (``listed``; None: it does not name it), by what is there ``now``
    (None: nothing) and by the journal. What was written since the sealing by what is known is no fault."""
    demand = known.demands.get(path)
    written_since = listed is None or path.startswith(known.renewed)
    left = demand is None and path not in REWRITTEN and known.left_over(path)
    state, reason = State.SOUND, ""
    if left and (written_since or now == listed):
        state = State.LEFT_OVER
        reason = "a process that was killed left it, or one is at work; nothing was decided on it"
    elif now is None:
        by = PACK if listed is not None or demand is None else demand.by
        state, reason = State.MISSING, f"{by} names it and it is gone"
    elif demand is not None and not demand.met_by(now) and (listed is None or now == listed):
        state, reason = State.ALTERED, f"{demand.by} knows it as {demand.sha256[:12]}…: it was altered"
        if path.rpartition("/")[2] == MANIFEST:
            state = State.SWAPPED
            reason = f"{demand.by} knows this snapshot's manifest as {demand.sha256[:12]}…: it was replaced"
    elif demand is not None and demand.met_by(now) and written_since and now != listed:
        state = State.UNSEALED
        reason = "it was written since the last sealing; seal again with: groupshift report"
    elif listed is None and is_beside(path):
        state = State.BESIDE
        reason = "a desktop or a file server left it; it is no evidence and is not signed"
    elif listed is None:
        state, reason = State.UNLISTED, f"it is in no manifest: {PACK} was sealed without it"
    elif now != listed:
        state = State.ALTERED
        reason = f"its SHA-256 is {now.sha256[:12]}… and {PACK} says {listed.sha256[:12]}…"
        if now.bytes != listed.bytes:
            reason += f"; {now.bytes} bytes where there were {listed.bytes}"
    return Check(path=path, state=state, reason=reason)


_WORSE = {
    State.SOUND: frozenset(State) - {State.SOUND},
    State.UNLISTED: frozenset(State) - {State.SOUND, State.UNLISTED},
    State.MISSING: frozenset({State.IRREGULAR}),
}
"""What replaces a state that is said of the same path."""


def settled(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Return each check once. Of one path a worse word replaces a weaker one: sound counts where nothing else
    is said, unlisted where nothing worse is, and what is no file of ours is not called missing besides."""
    distinct = tuple(dict.fromkeys(checks))
    states = grouped((check.path, check.state) for check in distinct)
    return tuple(each for each in distinct if not _WORSE.get(each.state, set()) & set(states[each.path]))


def doubts(
    pack: Pack | None, before: Mapping[str, str], there: Files, irregular: Mapping[str, str], known: Known
) -> dict[str, str]:
    """Return a sentence by path about each file that cannot be sealed as sound.

    They are what was doubted before (``pack`` is the one sealed last, ``before`` what else is known as
    doubted), what changed since that pack, what is not as it was journaled, what nobody journaled, and what
    is no file (``irregular``: its kind by path). What is doubted once stays as it was said."""
    listed = {} if pack is None else {file.path: file for file in pack.files}
    sealed = f"after it was sealed at {pack.sealed_at_ms}" if pack else ""
    fresh = {}
    for path in sorted({*listed, *known.demands, *(there.keys() - {JOURNAL})} - OWN):
        demand, now = known.demands.get(path), there.get(path)
        check = file_check(path, listed.get(path), now, known)
        if not (check.state.sound or (demand is not None and demand.met_by(now))):
            when = sealed if path in listed else "before it was sealed"
            what = f"was {check.state} {when}: {check.reason}"
            if check.state is State.UNLISTED:
                what = "was added before it was sealed: nothing that was journaled names it"
            fresh[path] = f"{path} {what}"
    fresh |= {path: f"{path} was {kind} when it was sealed" for path, kind in irregular.items()}
    said = {**(pack.doubts if pack else {}), **before}
    return said | {path: doubt for path, doubt in fresh.items() if path not in said}


def is_signature(text: str) -> bool:
    """Return True for a text in the form in which signatures are written, whoever made it."""
    try:
        values = values_of(text)
        return set(values) == _OF_SIGNATURE and text == json.dumps(values, indent=1) + "\n"
    except (ValueError, TypeError):
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """What the manifest of a snapshot says of one file."""

    file: str
    sha256: str


def entries_of(text: str, folder: str) -> Mapping[str, Demand]:
    """Return what the manifest of the snapshot in ``folder`` demands of the files beside it, by path; nothing
    for a text that is no manifest, or names a file outside its own folder."""
    try:
        entries: tuple[_Entry, ...] = built(tuple[_Entry, ...], values_of(text)["files"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
    if any("/" in entry.file or entry.file in {"", ".", ".."} for entry in entries):
        return {}
    by = f"{MANIFEST} of {folder}"
    return {f"{folder}/{entry.file}": Demand(sha256=entry.sha256, by=by) for entry in entries}
