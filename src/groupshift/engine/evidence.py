"""Seal the evidence of a run: a manifest over every file that it left, journaled, and signed where there is a
key.

Layout: ``<evidence>/<run>/{pack.json, pack.sig, journal.json, <pages>, <attempt>/…}``.
Sealing blesses nothing: what is not as it was journaled is sealed as a doubt, and stays one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from groupshift.domain.evidence import MANIFEST
from groupshift.domain.run import Json, RunState, Target
from groupshift.domain.seal import (
    AUDITED,
    JOURNAL,
    OWN,
    PACK,
    SIGNATURE,
    Approval,
    Pack,
    StoredFile,
    doubts,
    is_beside,
    pack_from_json,
    values_of,
)
from groupshift.engine.move import Sealing
from groupshift.engine.origins import Files, Known, exported, known_of, text_of
from groupshift.errors import Conflict, Rejected
from groupshift.ports.clock import Clock
from groupshift.ports.evidence import EvidenceStore, Signer
from groupshift.ports.runs import Entry, EventKind, NewEvent, Runs

Progress = Callable[[int, int], None]
"""Called with the number of files that were read and of all."""
Pages = Callable[[str, Json], Mapping[str, str]]
"""Makes the pages that are sealed with a run, text by path below its folder, such as ``report.html``: of its
name, and of what is journaled of its end (``state``, ``verdict``, ``reason``, ``next``)."""
_JOURNALED_DOUBTS = 100
"""How many doubts the journal keeps; all are in the pack."""


def tell_nobody(_read: int, _of: int) -> None:
    """Tell nobody."""


def no_pages(_run: str, _closing: Json) -> Mapping[str, str]:
    """Make no pages."""
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealer:
    """Seals runs. ``evidence`` has them as its folders; ``signer`` signs the manifest (None: nobody does)."""

    evidence: EvidenceStore
    runs: Runs
    clock: Clock
    signer: Signer | None = None
    pages: Pages = no_pages

    def may_seal(self) -> None:
        """Raise `Rejected` where there is a key that cannot sign: before a run begins, not when it ends."""
        if self.signer is not None:
            self.signer.sign(b"")

    def prepare(self, run: str, closing: Json) -> Sealing:
        """Hash all files and make what sealing will write; nothing is written. ``closing`` is what is
        journaled of the end of the run.

        Raises:
            Rejected: the run is not in the journal, or the key cannot sign.
            Broken: a file cannot be read, or was replaced while it was read.
        """
        data = exported(self.runs, run, closing)
        there = {each.path: each for each in measured(self.evidence, run)}
        known = known_of(self.evidence, run, there, data)
        own = {JOURNAL: text_of(data), **self._pages(run, closing)}
        listed = {
            path: each
            for path, each in there.items()
            if path in known.origins.demands or not (is_beside(path) or known.origins.left_over(path))
        }
        listed |= {path: _stored(path, text) for path, text in own.items()}
        files = tuple(listed[path] for path in sorted(listed))
        pack = Pack(
            run=run,
            target=str(Target(**data["target"])),
            plan_hash=str(data["plan_hash"]),
            state=str(data["state"]),
            sealed_at_ms=self.clock.now_ms(),
            files=files,
            approvals=tuple(_approvals(data)),
            versions=versions_met(self.evidence, run, files),
            brokers=brokers_met(data),
            doubts=self._doubts(run, there, known, own),
            signed=self.signer is not None,
        )
        text = pack.to_json()
        signature = self.signer.sign(text.encode()) if self.signer else ""
        body = {
            "digest": sha256_of(text),
            "files": len(files),
            "signed": bool(signature),
            "signature": sha256_of(signature) if signature else "",
            "own": {path: pack.sha256_of[path] for path in own},
            "doubts": list(pack.doubts[:_JOURNALED_DOUBTS]),
        }

        def write() -> None:
            for path, page in own.items():
                self.evidence.write_text(run, *path.split("/"), text=page)
            self.evidence.write_text(run, PACK, text=text)
            if signature or is_there(self.evidence, run, SIGNATURE):
                self.evidence.write_text(run, SIGNATURE, text=signature)

        return Sealing(body=body, write=write)

    def seal_again(self, run: str) -> Json:
        """Seal a run that is over once more, with what was written since: a page, an audit. Returns what is
        journaled of it. Of two that seal at the same moment the later one counts, and `verify` says so.

        Raises:
            Conflict: the run is open: who drives it seals it at its end.
            Rejected: it was only planned, or as `prepare`.
        """
        self._require_over(run)
        closing = exported(self.runs, run)["closing"]
        sealing = self.prepare(run, closing)
        self._append(run, NewEvent(kind=EventKind.SEALING, body=sealing.body))
        sealing.write()
        self._append(run, NewEvent(kind=EventKind.SEALED, body=sealing.body))
        return sealing.body

    def journal_audit(self, run: str) -> None:
        """Journal what an audit of consumption left below `AUDITED`: nothing else makes these files evidence.

        Raises:
            Conflict: the run is open.
        """
        self._require_over(run)
        files = {
            each.path.removeprefix(AUDITED): each.sha256
            for each in measured(self.evidence, run, below=AUDITED)
        }
        self._append(run, NewEvent(kind=EventKind.AUDITED, body={"files": files}))

    def _require_over(self, run: str) -> None:
        state = self.runs.find(run).state
        if state is RunState.PREVIEW:
            raise Rejected(f"run {run} was only planned: there is no evidence of it to seal")
        if state.is_open:
            raise Conflict(
                f"run {run} is {state}: its evidence is sealed when it ends, by who drives it; go on with: "
                f"groupshift continue {run} --execute"
            )

    def _append(self, run: str, event: NewEvent) -> None:
        self.runs.append(Entry(run=run, at_ms=self.clock.now_ms(), token=None, events=(event,)))

    def _pages(self, run: str, closing: Json) -> Mapping[str, str]:
        pages = self.pages(run, closing)
        wrong = sorted({*OWN, JOURNAL} & pages.keys())
        if wrong:
            raise Rejected(f"a page of run {run} is named {wrong[0]}, which sealing writes itself; rename it")
        return pages

    def _doubts(self, run: str, there: Files, known: Known, own: Mapping[str, str]) -> tuple[str, ...]:
        """What is not as it was journaled, or changed since the last sealing, and what was ever doubted."""
        irregular = self.evidence.irregular(run)
        if not known.sealed:
            demands = {path: each for path, each in known.origins.demands.items() if path not in own}
            loose = {path: each for path, each in there.items() if path not in own}
            return doubts((None, known.doubts), loose, irregular, replace(known.origins, demands=demands))
        former = list(known.doubts)
        pack = sealed_pack(self.evidence, run, known)
        if pack is None:
            how = "altered" if is_there(self.evidence, run, PACK) else "missing"
            former.append(f"{PACK} was {how} after it was sealed")
        signature = None if SIGNATURE in irregular else self.evidence.read_text(run, SIGNATURE)
        signatures = {str(body["signature"]) for body in (*known.sealed, *known.begun)}
        if (sha256_of(signature) if signature else "") not in signatures:
            how = "altered" if signature else "missing"
            former.append(f"{SIGNATURE} was {how} after it was sealed")
        return doubts((pack, tuple(former)), there, irregular, known.origins)


def sealed_pack(evidence: EvidenceStore, run: str, known: Known) -> Pack | None:
    """Return the pack that lies there, None where the journal does not know it."""
    if PACK not in evidence.files(run):
        return None
    text = evidence.read_text(run, PACK) or ""
    digests = {str(each["digest"]) for each in (*known.sealed, *known.begun)}
    return pack_from_json(text) if sha256_of(text) in digests else None


def is_there(evidence: EvidenceStore, run: str, path: str) -> bool:
    """Return True where anything lies at this path, a file or not."""
    return path in evidence.files(run) or path in evidence.irregular(run)


def measured(
    evidence: EvidenceStore, run: str, told: Progress = tell_nobody, *, below: str = ""
) -> Iterator[StoredFile]:
    """Hash every file of a run but the manifest and its signature; with ``below``, which ends with a slash,
    those of one folder. A file that is gone meanwhile is left out."""
    paths = [path for path in evidence.files(run) if path not in OWN and path.startswith(below)]
    for number, path in enumerate(paths, 1):
        found = evidence.measured(run, path)
        told(number, len(paths))
        if found is not None:
            yield found


def sha256_of(text: str) -> str:
    """Return the SHA-256 of a text's bytes, in hex."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _stored(path: str, text: str) -> StoredFile:
    return StoredFile(path=path, bytes=len(text.encode()), sha256=sha256_of(text))


def _approvals(data: Json) -> Iterator[Approval]:
    """Who answered at a gate, and who accepted what, in order."""
    for event in data["events"]:
        body, said = event["body"], ""
        if event["kind"] == EventKind.GATE_ANSWERED:
            said = str(body["choice"])
        elif event["kind"] == EventKind.ACCEPTED:
            said = f"accepted ({body['verdict']})"
        if said:
            yield Approval(gate=event["step"], choice=said, who=str(body["who"]), at_ms=event["at_ms"])


def brokers_met(data: Json) -> tuple[str, ...]:
    """Return the brokers that answered, by what `exported` returns."""
    met = (each["result"].get("brokers", ()) for each in data["steps"].values())
    return tuple(sorted({str(each) for found in met for each in found}))


def versions_met(
    evidence: EvidenceStore, run: str, files: tuple[StoredFile, ...]
) -> dict[str, tuple[str, ...]]:
    """Return the versions that manifests of snapshots and verdicts name, each once."""
    met: dict[str, set[str]] = {}
    for file in files:
        if file.path.endswith((f"/{MANIFEST}", "/verdict.json")):
            for name, version in _named(evidence.read_text(run, *file.path.split("/"))).items():
                met.setdefault(str(name), set()).add(str(version))
    return {name: tuple(sorted(found)) for name, found in sorted(met.items())}


def _named(text: str | None) -> Mapping[str, Any]:
    try:
        found = values_of(text or "")["versions"]
    except (ValueError, KeyError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}
