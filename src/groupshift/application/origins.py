"""Where the files of a pack come from, by what was journaled: what each has to be, whatever the pack says.

A migration's journal has events, that of a run on a whole cluster has steps; the copy in ``journal.json`` has
either, so a folder that was carried away is held against the same.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from groupshift.application.run_account import folder_of
from groupshift.domain.evidence import MANIFEST
from groupshift.domain.seal import AUDITED, REWRITTEN, Demand, Origins, StoredFile, entries_of
from groupshift.errors import Broken
from groupshift.ports.evidence import EvidenceStore
from groupshift.ports.journal import EventKind

PROOF_FILES = re.compile(
    r"(rules\.json|verdict\.json|report\.html|spark\.log|(differences|failing_rows)\.parquet)(\.part)?"
)
"""What a proof leaves in its folder."""
_OF_RUN = re.compile(r"\.?(?P<subject>.+?)-(?P<token>\d+)(-[a-z_]+|\.commits\.json)?(\.part|\.[a-z0-9_]{8})?")
"""Folders and files that the steps of a run leave: the name of the snapshot and the claim that took it."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_There = Mapping[str, StoredFile]
Data = Mapping[str, Any]


@dataclass(slots=True)
class _Gathered:
    """What the journal demands so far."""

    evidence: EvidenceStore
    name: str
    there: _There
    demands: dict[str, Demand] = field(default_factory=dict)
    unheld: list[str] = field(default_factory=list)

    def snapshot(self, folder: str, digest: str) -> None:
        """A snapshot whose manifest was journaled, and what that names."""
        path = f"{folder}/{MANIFEST}"
        if not _SHA256.fullmatch(digest):
            return  # a store without files
        self.demands[path] = Demand(sha256=digest)
        text = self.evidence.read_text(self.name, *path.split("/")) if path in self.there else None
        hashed = hashlib.sha256((text or "").encode()).hexdigest()
        if path in self.there and self.there[path].sha256 == digest != hashed:
            raise Broken(f"{path} was replaced while it was checked: find out by whom, and check again")
        entries = entries_of(text or "")
        if entries is None:
            self.unheld.append(f"{folder}/")
            return
        for name, demand in entries.items():
            by = f"{MANIFEST} of {folder}"
            self.demands[f"{folder}/{name}"] = Demand(sha256=demand.sha256, by=by, rows=demand.rows)

    def files(self, folder: str, files: Mapping[str, Any]) -> None:
        """Files below a folder, as they were when they were journaled."""
        self.demands |= {f"{folder}{name}": Demand(sha256=str(sha256)) for name, sha256 in files.items()}


def of_events(evidence: EvidenceStore, name: str, there: _There, events: Sequence[Data]) -> Origins:
    """Of a migration, by its events (`groupshift.application.journal_export.events_data`), all but what
    sealing writes itself (`own_files`). Raises `KeyError`, `TypeError` or `ValueError` for values that are
    not events."""
    found = _Gathered(evidence, name, there)
    for folder, event in _latest(events, EventKind.SNAPSHOT, "").items():
        found.snapshot(folder, str(event["body"]["digest"]))
    judged = _latest(events, EventKind.JUDGED, "validation-")
    proofs = _latest(events, EventKind.PROOF_REQUESTED, "validation-")
    open_folders: list[str] = []
    for folder in {**judged, **proofs}:
        last, asked = judged.get(folder), proofs.get(folder)
        if last is not None and (asked is None or last["seq"] > asked["seq"]):
            if "files" in last["body"]:
                found.files(f"{folder}/", last["body"]["files"])
            else:
                found.unheld.append(f"{folder}/")
        else:
            open_folders.append(f"{folder}/")
            if asked is not None and "rules" in asked["body"]:
                found.files(f"{folder}/", {"rules.json": asked["body"]["rules"]})
    for event in events:
        if event["kind"] == EventKind.AUDITED:
            found.demands = {
                path: demand for path, demand in found.demands.items() if not path.startswith(AUDITED)
            }
            found.files(AUDITED, event["body"]["files"])

    def left_over(path: str) -> bool:
        return any(
            path.startswith(folder) and PROOF_FILES.fullmatch(path.removeprefix(folder)) is not None
            for folder in open_folders
        )

    return Origins(
        demands=found.demands,
        left_over=left_over,
        renewed=tuple(_renewed(events)),
        unheld=tuple(found.unheld),
    )


def own_files(there: _There, sealings: Iterable[Data], begun: Iterable[Data] = ()) -> dict[str, Demand]:
    """What sealing wrote itself, by the bodies of the sealings, and of those that were ``begun`` since then
    and may have been interrupted: as the last one left it, or any of these; an earlier one was put back."""
    sealings = tuple(sealings)
    bodies = (*sealings[-1:], *begun)
    found: dict[str, Demand] = {}
    for body in sealings:
        found |= {path: Demand(sha256=str(sha256)) for path, sha256 in body.get("own", {}).items()}
    for path in REWRITTEN:
        written = {str(body.get("own", {}).get(path)) for body in bodies}
        if path in there and there[path].sha256 in written:
            found[path] = Demand(sha256=there[path].sha256)
    return found


def _latest(events: Iterable[Data], kind: EventKind, prefix: str) -> dict[str, Data]:
    """The last event of a kind by the folder that it is about."""
    return {
        f"{event['stage']}/{prefix}{event['body']['moment']}": event
        for event in events
        if event["kind"] == kind and event["stage"]
    }


def _renewed(events: Sequence[Data]) -> Iterable[str]:
    """Folders (as prefixes) that were written again since the last sealing, as the journal has it."""
    since = max((event["seq"] for event in events if event["kind"] == EventKind.SEALED), default=0)
    folders = {
        EventKind.SNAPSHOT: "",
        EventKind.PROOF_REQUESTED: "validation-",
        EventKind.JUDGED: "validation-",
    }
    for event in events:
        if event["seq"] > since and event["kind"] == EventKind.AUDITED:
            yield AUDITED
        elif event["seq"] > since and event["kind"] == EventKind.SEALING:
            yield from REWRITTEN
        elif event["seq"] > since and event["kind"] in folders and event["stage"]:
            yield f"{event['stage']}/{folders[EventKind(event['kind'])]}{event['body']['moment']}/"


def of_steps(evidence: EvidenceStore, name: str, there: _There, steps: Mapping[str, Data]) -> Origins:
    """Of a run on a whole cluster, by its steps: each with ``result`` and ``token`` (none in what an older
    release exported). Raises as `of_events`."""
    found = _Gathered(evidence, name, there)
    for step in steps.values():
        result = step["result"]
        if "manifest_sha256" in result:
            found.snapshot(folder_of(result), str(result["manifest_sha256"]))
        if _SHA256.fullmatch(str(result.get("commits_sha256"))):
            path = str(result["commits"]).rstrip("/").rpartition("/")[2]
            found.demands[path] = Demand(sha256=str(result["commits_sha256"]))
        found.files("", result.get("outcome", {}))
        if "verdict" in result and "outcome" not in result:
            found.unheld += _without_outcome(result)
    return Origins(
        demands=found.demands, left_over=_left_by(steps, found.demands), unheld=tuple(found.unheld)
    )


def _without_outcome(result: Data) -> tuple[str, ...]:
    """Where the outcome of a comparison lies of which an older release journaled no hashes."""
    folder = folder_of(result)
    return (f"{folder}-",) if "manifest_sha256" in result else (f"{folder}/",)


def _left_by(steps: Mapping[str, Data], journaled: Iterable[str]) -> Callable[[str], bool]:
    """Tells what a process that was killed, or one whose work was done again, left in the folder of a run;
    nothing where what lies there was journaled."""
    whole = {path.partition("/")[0] for path in journaled}
    subjects = {"log", *(key.split(" ", 2)[-1] for key in steps)}
    last = max((int(step.get("token", 0)) for step in steps.values()), default=0)

    def left_over(path: str) -> bool:
        top = path.partition("/")[0]
        named = None if top in whole else _OF_RUN.fullmatch(top)
        return named is not None and named["subject"] in subjects and 0 < int(named["token"]) <= last

    return left_over
