"""Seal the evidence of a run: a manifest over every file that it left, journaled, and signed where there is a
key.

Layout: ``<evidence>/<run>/{pack.json, pack.sig, journal.json, <pages>, <attempt>/…}``.
Sealing blesses nothing: what is not as it was journaled is sealed as a doubt, and stays one.

Where the files of a run come from, its journal says: what each has to be, whatever the pack says of it. A
step leaves its files below names that begin with `Run.attempt`, and its result says what they are:

* ``folder`` with ``manifest_sha256``: a snapshot; its manifest has the SHA-256 of each of its files;
* ``commits`` with ``commits_sha256``: one file;
* ``outcome``: SHA-256 by path, below the folder of the run, or below the output of the step's Spark job.

All else that lies in the folder is a stranger's, but for what a process left that was killed in mid-act.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

from groupshift.domain.evidence import MANIFEST
from groupshift.domain.plain import from_plain
from groupshift.domain.run import Json, RunState, StepState, Target
from groupshift.domain.seal import (
    AUDITED,
    JOURNAL,
    OWN,
    PACK,
    SIGNATURE,
    Approval,
    Demand,
    Files,
    Known,
    Pack,
    StoredFile,
    doubts,
    entries_of,
    is_beside,
    pack_from_json,
    sha256_of,
    values_of,
)
from groupshift.engine.move import Sealing, attempt_stem
from groupshift.engine.run_end import decisions, said_at_end
from groupshift.errors import Broken, Conflict, Rejected
from groupshift.ports.clock import Clock
from groupshift.ports.evidence import EvidenceStore, Signer
from groupshift.ports.runs import Entry, Event, EventKind, NewEvent, Runs

VERSION = 1
"""Version of ``journal.json``."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ATTEMPT = re.compile(
    r"(?P<hidden>\.?)(?P<stem>.+-[0-9a-f]{8})-(?P<token>[0-9]{1,18})(?:\.(?P<act>[0-9]{1,7}))?"
    r"(?:-[a-z][a-z_-]*|\.commits\.json)?(?P<draft>\.part|\.[a-z0-9_]{8})?"
)
"""What a step leaves: `Run.attempt`, what writers add to it, and the drafts of writers that were killed."""
_JOURNALED_DOUBTS = 100
"""How many doubts the journal keeps; all are in the pack."""

Progress = Callable[[int, int], None]
"""Called with the number of files that were read and of all."""
Pages = Callable[[str, Json], Mapping[str, str]]
"""Makes the pages that are sealed with a run, text by path below its folder, such as ``report.html``: of its
name, and of what is journaled of its end (``state``, ``verdict``, ``reason``, ``next``)."""


def exported(runs: Runs, run: str, closing: Json | None = None) -> dict[str, Any]:
    """Return the journal of a run as JSON: the run with its plan, its steps, its events; ``closing`` is what
    is journaled of an end that is not written yet.

    Raises:
        Rejected: the run is not in the journal.
    """
    record, events = runs.find(run), runs.events(run)
    said = closing if closing is not None else said_at_end(record, events)
    return {
        "version": VERSION,
        **asdict(record),
        "state": str(said.get("state", record.state)),
        "closing": dict(said),
        "steps": {key: asdict(each) for key, each in runs.steps(run).items()},
        "events": [asdict(each) for each in events],
    }


def known_of(evidence: EvidenceStore, name: str, there: Files, data: Json) -> Known:
    """Return what the journal knows (``data`` is what `exported` returns) of the files that are there, in the
    folder ``name``.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: ``data`` is no journal of a run.
        Broken: a manifest was replaced while it was read.
    """
    events = data["events"]
    sealings = [each for each in events if each["kind"] in {EventKind.SEALING, EventKind.SEALED}]
    ended = [each for each in sealings if each["kind"] == EventKind.SEALED]
    known = Known(
        plan=(str(data["plan"]), str(data["plan_hash"])),
        sealed=tuple(each["body"] for each in ended),
        begun=_begun([each for each in sealings if each["kind"] == EventKind.SEALING], ended),
        doubts={path: str(each) for one in sealings for path, each in one["body"].get("doubts", {}).items()},
    )
    demands, outputs = _demands(evidence, name, there, data)
    left_over = _left_by(data, demands, outputs)
    drafts = {f"{path}.part" for body in known.begun for path in (*OWN, *body.get("own", {}))}
    for body in known.sealed:
        demands |= {path: Demand(sha256=str(sha256)) for path, sha256 in body.get("own", {}).items()}
    for body in known.last:  # as the last sealing left what it writes, or as one that was begun since did
        for path, sha256 in body.get("own", {}).items():
            if path in there and there[path].sha256 == sha256:
                demands[path] = Demand(sha256=sha256)
    renewed = {path for body in known.begun for path in body.get("own", {})}
    last = max((each["seq"] for each in ended), default=0)
    if any(each["kind"] == EventKind.AUDITED and each["seq"] > last for each in events):
        renewed.add(AUDITED)
    return replace(
        known,
        demands=demands,
        left_over=lambda path: path in drafts or left_over(path),
        renewed=tuple(sorted(renewed)),
    )


def _begun(begun: Collection[Json], ended: Collection[Json]) -> tuple[Json, ...]:
    """What a killed process wrote, a slow one whose run was taken over meanwhile, or one of two at once."""
    sealed = {each["body"]["digest"]: each["seq"] for each in ended}
    last = max(sealed, key=sealed.__getitem__, default=None)
    since = max((each["seq"] for each in begun if each["body"]["digest"] == last), default=0)
    return tuple(
        each["body"]
        for each in begun
        if each["body"]["digest"] != last and sealed.get(each["body"]["digest"], since + 1) > since
    )


def _demands(
    evidence: EvidenceStore, name: str, there: Files, data: Json
) -> tuple[dict[str, Demand], set[str]]:
    """What each file that steps and audits left has to be, by path, and the folders of Spark jobs."""
    demands: dict[str, Demand] = {}
    outputs: set[str] = set()

    def below(path: object) -> str:
        """A path below the folder of the run, wherever that lay when it was journaled."""
        plain = str(path).rstrip("/")
        _, separator, inner = plain.rpartition(f"/{data['run']}/")
        return inner if separator else plain.rpartition("/")[2]

    for result in _results(data):
        digest = str(result.get("manifest_sha256"))
        if _SHA256.fullmatch(digest):
            folder = below(result["folder"])
            manifest = Demand(sha256=digest)
            if demands.get(f"{folder}/{MANIFEST}") != manifest:
                demands[f"{folder}/{MANIFEST}"] = manifest
                demands |= _of_snapshot(evidence, name, there, folder, manifest)
        if _SHA256.fullmatch(str(result.get("commits_sha256"))):
            demands[below(result["commits"])] = Demand(sha256=str(result["commits_sha256"]))
        job, outcome = result.get("spark_job"), result.get("outcome")
        if base := below(job["output"]) if isinstance(job, Mapping) else "":
            outputs.add(base)
        if isinstance(outcome, Mapping):
            within = all(str(path).startswith(f"{base}/") for path in outcome)
            folder = f"{base}/" if base and not within else ""
            demands |= {f"{folder}{path}": Demand(sha256=str(sha256)) for path, sha256 in outcome.items()}
    for event in data["events"]:
        if event["kind"] == EventKind.AUDITED:
            demands = {path: each for path, each in demands.items() if not path.startswith(AUDITED)}
            files = event["body"]["files"].items()
            demands |= {f"{AUDITED}{path}": Demand(sha256=str(sha256)) for path, sha256 in files}
    return demands, outputs


def _of_snapshot(
    evidence: EvidenceStore, name: str, there: Files, folder: str, manifest: Demand
) -> Mapping[str, Demand]:
    """What the manifest of a snapshot demands; nothing where it is not the one that was journaled."""
    path = f"{folder}/{MANIFEST}"
    if not manifest.met_by(there.get(path)):
        return {}
    text = evidence.read_text(name, *path.split("/")) or ""
    if sha256_of(text) != manifest.sha256:
        raise Broken(f"{path} was replaced while it was checked: find out by whom, and check again")
    return entries_of(text, folder)


def _results(data: Json) -> Iterator[Json]:
    """What acts and looks came to, in their order, and at last what is journaled of each step now: what a
    step left before it was done again is evidence, too."""
    acted: dict[str, Json] = {}
    for event in data["events"]:
        if event["kind"] == EventKind.ACTED:
            acted[event["step"]] = event["body"]
            yield event["body"]
        elif event["kind"] in {EventKind.CHECKED, EventKind.JUDGED} and event["body"].get("result"):
            yield {**acted.get(event["step"], {}), **event["body"]["result"]}
    for step in data["steps"].values():
        yield step["result"]


def _left_by(data: Json, journaled: Iterable[str], outputs: Iterable[str]) -> Callable[[str], bool]:
    """Return what tells of a path whether a process that was killed left it: it lies below the name of an
    attempt of which nothing was journaled, whose step was begun by that claim and whose act did not come to
    its end; or it is a job's that left no answer."""
    whole = {path.partition("/")[0] for path in journaled}
    jobs = {path.partition("/")[0] for path in outputs}
    cut_off = _cut_off(data)
    claims = {attempt[:2] for attempt in cut_off}

    def left_over(path: str) -> bool:
        top = path.partition("/")[0]
        named = None if top in whole else _ATTEMPT.fullmatch(top)
        if named is None:
            return False
        by = (named["stem"], int(named["token"]))
        is_draft = bool(named["hidden"] or named["draft"])
        return top in jobs or (*by, int(named["act"] or 1)) in cut_off or (is_draft and by in claims)

    return left_over


def _cut_off(data: Json) -> frozenset[tuple[str, int, int]]:
    """The attempts (stem of the step, token, number of the act) that were begun and did not return."""
    begun: Counter[tuple[str, int]] = Counter()
    acted: Counter[tuple[str, int]] = Counter()
    last: dict[tuple[str, int], int] = {}
    again: dict[str, int] = {}
    for event in data["events"]:
        by = (str(event["step"]), int(event["token"]))
        if event["kind"] in {EventKind.INTENDED, EventKind.RESUMED}:
            begun[by] += 1
            again[by[0]] = event["seq"]
        elif event["kind"] == EventKind.ACTED:
            acted[by] += 1
            last[by] = event["seq"]
    open_steps = {key for key, step in data["steps"].items() if step["state"] == StepState.INTENDED}
    return frozenset(
        (attempt_stem(step), token, acted[step, token] + 1)
        for step, token in begun
        if begun[step, token] > acted[step, token]
        or again[step] > last.get((step, token), 0)
        or step in open_steps
    )


def tell_nobody(_read: int, _of: int) -> None:
    """Tell nobody of progress: the default of what calls a `Progress`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealer:
    """Seals runs. ``evidence`` has them as its folders; ``signer`` signs the manifest (None: nobody does)."""

    evidence: EvidenceStore
    runs: Runs
    clock: Clock
    signer: Signer | None = None
    pages: Pages = lambda _run, _closing: {}

    def may_seal(self) -> None:
        """Check that the key can sign: before a run begins, not when it ends.

        Raises:
            Rejected: there is a key, and it cannot sign.
        """
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
        journal = json.dumps(data, indent=1, sort_keys=True) + "\n"
        own = {JOURNAL: journal, **self.pages(run, closing)}
        listed = {
            path: each
            for path, each in there.items()
            if path in known.demands or not (is_beside(path) or known.left_over(path))
        }
        for path, page in own.items():
            listed[path] = StoredFile(path=path, bytes=len(page.encode()), sha256=sha256_of(page))
        files = tuple(listed[path] for path in sorted(listed))
        pack = Pack(
            run=run,
            target=str(Target(**data["target"])),
            plan_hash=str(data["plan_hash"]),
            state=str(data["state"]),
            sealed_at_ms=self.clock.now_ms(),
            files=files,
            approvals=tuple(
                Approval(gate=event.step, choice=choice, who=who, at_ms=event.at_ms)
                for event, choice, who in decisions(from_plain(Event, each) for each in data["events"])
                if event.step
            ),
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
            "doubts": dict(islice(pack.doubts.items(), _JOURNALED_DOUBTS)),
        }

        def write() -> None:
            for path, page in {**own, PACK: text}.items():
                self.evidence.write_text(run, *path.split("/"), text=page)
            if signature or SIGNATURE in (*self.evidence.files(run), *self.evidence.irregular(run)):
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
        sealing = self.prepare(run, exported(self.runs, run)["closing"])
        self._append(run, EventKind.SEALING, sealing.body)
        sealing.write()
        self._append(run, EventKind.SEALED, sealing.body)
        return sealing.body

    def journal_audit(self, run: str) -> None:
        """Journal what an audit of consumption left below `AUDITED`: nothing else makes these files evidence.

        Raises:
            Conflict: the run is open.
            Rejected: it was only planned.
            Broken: a file cannot be read.
        """
        self._require_over(run)
        measurements = measured(self.evidence, run, below=AUDITED)
        files = {each.path.removeprefix(AUDITED): each.sha256 for each in measurements}
        self._append(run, EventKind.AUDITED, {"files": files})

    def _require_over(self, run: str) -> None:
        """Raise `Rejected` for a run that was only planned, `Conflict` for an open one."""
        state = self.runs.find(run).state
        if state is RunState.PREVIEW:
            raise Rejected(f"run {run} was only planned: there is no evidence of it to seal")
        if state.is_open:
            raise Conflict(
                f"run {run} is {state}: its evidence is sealed when it ends, by who drives it; go on with: "
                f"groupshift continue {run} --execute"
            )

    def _append(self, run: str, kind: EventKind, body: Json) -> None:
        event = NewEvent(kind=kind, body=body)
        self.runs.append(Entry(run=run, at_ms=self.clock.now_ms(), token=None, events=(event,)))

    def _doubts(self, run: str, there: Files, known: Known, own: Collection[str]) -> dict[str, str]:
        """What is not as it was journaled, or changed since the last sealing, and what was ever doubted."""
        irregular = self.evidence.irregular(run)
        if not known.sealed:
            demands = {path: each for path, each in known.demands.items() if path not in own}
            loose = {path: each for path, each in there.items() if path not in own}
            return doubts(None, known.doubts, loose, irregular, replace(known, demands=demands))
        former = dict(known.doubts)
        pack = sealed_pack(self.evidence, run, known)
        if pack is None:
            how = "altered" if PACK in (*self.evidence.files(run), *irregular) else "missing"
            former.setdefault(PACK, f"{PACK} was {how} after it was sealed")
        signature = None if SIGNATURE in irregular else self.evidence.read_text(run, SIGNATURE)
        signatures = {str(body["signature"]) for body in (*known.sealed, *known.begun)}
        if (sha256_of(signature) if signature else "") not in signatures:
            how = "altered" if signature else "missing"
            former.setdefault(SIGNATURE, f"{SIGNATURE} was {how} after it was sealed")
        return doubts(pack, former, there, irregular, known)


def sealed_pack(evidence: EvidenceStore, run: str, known: Known) -> Pack | None:
    """Return the pack that lies there, None where the journal does not know it.

    Raises:
        Broken: the journal knows it, and it cannot be understood.
    """
    text = evidence.read_text(run, PACK) or "" if PACK in evidence.files(run) else ""
    digests = {str(each["digest"]) for each in (*known.sealed, *known.begun)}
    return pack_from_json(text) if sha256_of(text) in digests else None


def measured(
    evidence: EvidenceStore, run: str, progress: Progress = tell_nobody, *, below: str = ""
) -> Iterator[StoredFile]:
    """Hash every file of a run but the manifest and its signature; with ``below``, which ends with a slash,
    those of one folder. A file that is gone meanwhile is left out.

    Raises:
        Broken: a file, or the folder, cannot be read.
    """
    paths = [path for path in evidence.files(run) if path not in OWN and path.startswith(below)]
    for number, path in enumerate(paths, 1):
        file = evidence.measured(run, path)
        progress(number, len(paths))
        if file is not None:
            yield file


def brokers_met(data: Json) -> tuple[str, ...]:
    """Return the brokers that answered, each once, by what `exported` returns."""
    met = (each["result"].get("brokers", ()) for each in data["steps"].values())
    return tuple(sorted({str(each) for names in met for each in names}))


def versions_met(
    evidence: EvidenceStore, run: str, files: Iterable[StoredFile]
) -> dict[str, tuple[str, ...]]:
    """Return the versions that manifests of snapshots and verdicts name: by program, each once, sorted. A
    text that is none of ours names none."""
    met: dict[str, set[str]] = {}
    for file in files:
        if file.path.endswith((f"/{MANIFEST}", "/verdict.json")):
            try:
                versions = values_of(evidence.read_text(run, *file.path.split("/")) or "")["versions"].items()
            except (ValueError, KeyError, TypeError, AttributeError):
                continue
            for name, version in versions:
                met.setdefault(str(name), set()).add(str(version))
    return {name: tuple(sorted(texts)) for name, texts in sorted(met.items())}
