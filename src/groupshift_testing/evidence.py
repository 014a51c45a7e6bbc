"""Evidence and its proof in memory: the port's contract without files and without Spark."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from groupshift.domain.evidence import MANIFEST, FileEntry, Manifest, Moment, Row
from groupshift.domain.modes import MemberKind
from groupshift.domain.run import SparkJob
from groupshift.domain.seal import StoredFile
from groupshift.domain.snapshot import TABLES
from groupshift.errors import Broken, Rejected


@dataclass(slots=True)
class MemoryEvidence:
    """`groupshift.ports.evidence.EvidenceStore` without files; `alter` is what a forger would do."""

    snapshots: dict[tuple[str, str, Moment], tuple[Manifest, Mapping[str, Sequence[Row]]]] = field(
        default_factory=dict
    )
    texts: dict[str, str] = field(default_factory=dict)

    def write(
        self, manifest_of: tuple[str, str, Moment], taken_at_ms: int, tables: Mapping[str, Sequence[Row]]
    ) -> Manifest:
        """See the port."""
        manifest = _manifest(manifest_of, taken_at_ms, tables)
        self.snapshots[manifest_of] = (manifest, tables)
        return manifest

    def alter(self, key: tuple[str, str, Moment], table: str, rows: Sequence[Row], *, rehash: bool) -> None:
        """Replace a table's rows, with or without making the manifest fit again."""
        manifest, tables = self.snapshots[key]
        forged = {**tables, table: rows}
        new = _manifest(key, manifest.taken_at_ms, forged) if rehash else manifest
        self.snapshots[key] = (new, forged)

    def manifest(self, run: str, phase: str, moment: Moment) -> Manifest | None:
        """See the port."""
        key = (run, phase, moment)
        if key not in self.snapshots:
            return None
        manifest, tables = self.snapshots[key]
        if _manifest(key, manifest.taken_at_ms, tables).digest != manifest.digest:
            raise Broken(f"a file of snapshot {phase}/{moment} is not what its manifest says")
        return manifest

    def read(self, run: str, phase: str, moment: Moment) -> Mapping[str, Sequence[Row]]:
        """See the port."""
        if self.manifest(run, phase, moment) is None:
            raise Rejected(f"there is no snapshot {phase}/{moment} of {run}")
        return self.snapshots[run, phase, moment][1]

    def path(self, run: str, *parts: str) -> str:
        """See the port."""
        return "/".join(("memory:", run, *parts))

    def write_text(self, run: str, *parts: str, text: str) -> str:
        """See the port."""
        self.texts[self.path(run, *parts)] = text
        return self.path(run, *parts)

    def read_text(self, run: str, *parts: str) -> str | None:
        """See the port."""
        text = self.texts.get(self.path(run, *parts))
        made = self._contents(run).get("/".join(parts)) if text is None else None
        return made().decode() if made else text

    def rows(self, run: str, *parts: str) -> Sequence[Row] | None:
        """See the port; a derived table is kept as the JSON text of its rows."""
        text = self.texts.get(self.path(run, *parts))
        return None if text is None else json.loads(text)

    def files(self, run: str) -> tuple[str, ...]:
        """See the port."""
        return tuple(sorted(self._contents(run)))

    def irregular(self, run: str) -> Mapping[str, str]:  # noqa: ARG002 - here are only files
        """See the port."""
        return {}

    def measured(self, run: str, path: str) -> StoredFile | None:
        """See the port."""
        made = self._contents(run).get(path)
        if made is None:
            return None
        data = made()
        return StoredFile(path=path, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())

    def _contents(self, run: str) -> dict[str, Callable[[], bytes]]:
        """What would be on disk, and how to make it: texts, and tables of snapshots with their manifests."""
        folder = self.path(run) + "/"
        contents: dict[str, Callable[[], bytes]] = {
            path.removeprefix(folder): text.encode
            for path, text in self.texts.items()
            if path.startswith(folder)
        }
        for key, (manifest, tables) in self.snapshots.items():
            if key[0] == run:
                where = f"{key[1]}/{key[2]}"
                contents[f"{where}/{MANIFEST}"] = partial(_text, key, manifest.taken_at_ms, manifest.files)
                contents |= {f"{where}/{name}": partial(_bytes, tables, name) for name in TABLES}
        return contents


_Key = tuple[str, str, Moment]


def _bytes(tables: Mapping[str, Sequence[Row]], name: str) -> bytes:
    return json.dumps(list(tables.get(name, ()))).encode()


def _text(key: _Key, taken_at_ms: int, files: Sequence[FileEntry]) -> bytes:
    """The manifest as it would be on disk."""
    where = {"run": key[0], "phase": key[1], "moment": key[2], "taken_at_ms": taken_at_ms}
    return json.dumps({**where, "files": [asdict(each) for each in files]}, sort_keys=True).encode()


def _manifest(key: _Key, taken_at_ms: int, tables: Mapping[str, Sequence[Row]]) -> Manifest:
    files = tuple(_entry(name, tables) for name in TABLES)
    return Manifest(
        run=key[0],
        phase=key[1],
        moment=key[2],
        taken_at_ms=taken_at_ms,
        digest=hashlib.sha256(_text(key, taken_at_ms, files)).hexdigest(),
        files=files,
    )


def _entry(name: str, tables: Mapping[str, Sequence[Row]]) -> FileEntry:
    data, rows = _bytes(tables, name), len(tables.get(name, ()))
    sha256 = hashlib.sha256(data).hexdigest()
    return FileEntry(table=name, file=name, rows=rows, bytes=len(data), sha256=sha256)


@dataclass(slots=True)
class MemoryProof:
    """In place of `SparkSubmit`: the essential comparisons of the Spark job, in Python."""

    evidence: MemoryEvidence
    runs: int = 0

    def run(self, request: SparkJob) -> None:
        """See the port."""
        self.runs += 1
        arguments = dict(zip(request.arguments[::2], request.arguments[1::2], strict=True))
        before, after = (self._snapshot(arguments[name]) for name in ("--before", "--after"))
        rules = json.loads(self.evidence.texts[arguments["--rules"]])
        findings = list(_compare(before[1], after[1], rules))
        if not findings:
            findings = [{"rule": "V00", "verdict": "pass", "reason": "no difference that is not allowed"}]
        verdict = {
            "version": 1,
            "findings": findings,
            "manifests": {"before": before[0].digest, "after": after[0].digest},
        }
        self.evidence.texts[f"{arguments['--output']}/verdict.json"] = json.dumps(verdict)

    def _snapshot(self, path: str) -> tuple[Manifest, Mapping[str, Sequence[Row]]]:
        _, run, phase, moment = path.rsplit("/", 3)
        return self.evidence.snapshots[run, phase, Moment(moment)]


def _compare(
    before: Mapping[str, Sequence[Row]], after: Mapping[str, Sequence[Row]], rules: Mapping[str, Any]
) -> Sequence[Mapping[str, str]]:
    reasons = [
        f"offset of {key} went back from {old} to {new}"
        for key, old in _offsets(before).items()
        if (new := _offsets(after).get(key, -1)) < old
    ]
    owners = [(row["topic"], row["partition"]) for row in after["owners"]]
    reasons += [
        f"partition {each} has more than one owner"
        for each in sorted(set(owners), key=str)
        if owners.count(each) > 1
    ]
    then, now = (_kinds(snapshot) for snapshot in (before, after))
    if rules["replaced"]:
        then[rules["old"]] = then.get(rules["old"], 0) - rules["replaced"]
        then[rules["new"]] = then.get(rules["new"], 0) + rules["replaced"]
    then.pop(MemberKind.VACANT.value, None)
    if {k: n for k, n in then.items() if n} != now:
        reasons.append(f"members are {now}, expected {then}")
    return [{"rule": "V01", "verdict": "fail", "reason": reason} for reason in reasons]


def _offsets(snapshot: Mapping[str, Sequence[Row]]) -> dict[str, int]:
    return {f"{r['store']}/{r['topic']}-{r['partition']}": int(r["offset"] or 0) for r in snapshot["offsets"]}


def _kinds(snapshot: Mapping[str, Sequence[Row]]) -> dict[str, int]:
    kinds = [str(row["kind"]) for row in snapshot["members"]]
    return {kind: kinds.count(kind) for kind in sorted(set(kinds))}
