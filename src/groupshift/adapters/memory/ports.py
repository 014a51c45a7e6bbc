"""The other ports over a simulated group: mode switch, fleet driver, evidence, proof, crash points."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from groupshift.adapters.memory.world import World
from groupshift.domain.coordination import MemberKind, Mode, ModeNode
from groupshift.domain.evidence import TABLES, FileEntry, Manifest, Moment, Row
from groupshift.domain.holder import Holder
from groupshift.domain.judgement import ProofRequest
from groupshift.domain.moves import StageName
from groupshift.errors import Broken, Conflict, Rejected
from groupshift.ports.crash import CrashPoint
from groupshift.ports.fleet import Change, ChangeStatus, Pending, Slot, SlotState, Started, settled


@dataclass(slots=True)
class MemoryModeSwitch:
    """`groupshift.ports.mode.ModeSwitch` of a simulated group."""

    world: World

    def read(self, group: str) -> ModeNode:
        """See the port."""
        return self.world.read(group).mode

    def take(self, group: str, holder: Holder) -> None:
        """See the port."""
        known = self.world.holder
        if known and known.fences(holder):
            raise Conflict(f"{holder} may not change the mode of {group} any more: {known} does")
        self.world.holder = holder

    def compare_and_set(
        self, group: str, expected: ModeNode, to: Mode, *, holder: Holder | None = None
    ) -> ModeNode:
        """See the port."""
        self._demand_holder(group, holder)
        node = self._demand(group, expected)
        wanted = to.value.encode()
        return node if node.data == wanted else self.world.write_mode(wanted)

    def delete(self, group: str, expected: ModeNode, *, holder: Holder | None = None) -> None:
        """See the port."""
        if self.world.mode.data is not None:
            self._demand_holder(group, holder)
            self._demand(group, expected)
            self.world.write_mode(None)

    def _demand_holder(self, group: str, holder: Holder | None) -> None:
        if holder is not None and holder != self.world.holder:
            raise Conflict(f"{holder} may not change the mode of {group} any more: {self.world.holder} does")

    def _demand(self, group: str, expected: ModeNode) -> ModeNode:
        node = self.read(group)
        if (node.identity, node.version) != (expected.identity, expected.version):
            raise Conflict(f"the mode node of {group} is no longer version {expected.version}")
        return node


@dataclass(slots=True)
class MemoryFleet:
    """`groupshift.ports.fleet.FleetDriver`: applies a change at once, except in held places.

    ``pending`` makes it a driver that only instructs people; ``knows`` False one that knows no slots."""

    world: World
    applied: dict[str, int] = field(default_factory=dict)
    pending: bool = False
    fences: dict[str, int] = field(default_factory=dict)
    accepted: dict[str, tuple[tuple[str, ...], MemberKind]] = field(default_factory=dict)
    placed: dict[str, str] = field(default_factory=dict)

    def slots(self, group: str) -> tuple[Slot, ...]:
        """See the port."""
        if self.pending or group != self.world.group:
            return ()
        return tuple(
            Slot(
                name=name,
                kind=occupant.kind,
                state=SlotState.RUNNING if occupant.running else SlotState.DOWN,
                member_id=self.world.identity(name),
                change_id=self.placed.get(name),
            )
            for name, occupant in sorted(self.world.places.items())
        )

    def start(self, change: Change) -> Started | Pending:
        """See the port."""
        if change.token < self.fences.get(change.fence, 0):
            raise Conflict(f"token {change.token} of {change.fence} is void: a newer run was here since")
        unknown = [name for name in change.slots if name not in self.world.places]
        if unknown and not self.pending:
            raise Rejected(f"slot {unknown[0]} is unknown")
        if self.pending:
            text = f"deploy {change.to} members on {', '.join(change.slots)}"
            return Pending(change_id=change.change_id, instruction=text)
        if self.accepted.setdefault(change.change_id, (change.slots, change.to)) != (change.slots, change.to):
            raise Rejected(f"change {change.change_id} was accepted before for something else")
        self.fences[change.fence] = change.token
        if change.change_id not in self.applied:
            self.applied[change.change_id] = 0
            self.placed |= dict.fromkeys(change.slots, change.change_id)
            self.deploy(
                [name for name in change.slots if self.world.places[name].kind != change.to], change.to
            )
        self.applied[change.change_id] += 1
        return Started(change_id=change.change_id)

    def deploy(self, slots: Sequence[str], to: MemberKind) -> None:
        """What the driver does, or a person in its place."""
        for name in slots:
            occupant = self.world.places[name]
            if not occupant.held:
                occupant.kind, occupant.running = to, True
                occupant.incarnation += 1
        self.world.tick()

    def observe(self, change: Change) -> ChangeStatus:
        """See the port."""
        if self.pending:
            return ChangeStatus(change_id=change.change_id, done=False, detail="waiting for a person")
        return settled(self.slots(change.group), change, "the simulated fleet")


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

    def manifest(self, migration: str, stage: str, moment: Moment) -> Manifest | None:
        """See the port."""
        key = (migration, stage, moment)
        if key not in self.snapshots:
            return None
        manifest, tables = self.snapshots[key]
        if _manifest(key, manifest.taken_at_ms, tables).digest != manifest.digest:
            raise Broken(f"a file of snapshot {stage}/{moment} is not what its manifest says")
        return manifest

    def read(self, migration: str, stage: str, moment: Moment) -> Mapping[str, Sequence[Row]]:
        """See the port."""
        if self.manifest(migration, stage, moment) is None:
            raise Rejected(f"there is no snapshot {stage}/{moment} of {migration}")
        return self.snapshots[migration, stage, moment][1]

    def path(self, migration: str, *parts: str) -> str:
        """See the port."""
        return "/".join(("memory:", migration, *parts))

    def write_text(self, migration: str, *parts: str, text: str) -> str:
        """See the port."""
        self.texts[self.path(migration, *parts)] = text
        return self.path(migration, *parts)

    def read_text(self, migration: str, *parts: str) -> str | None:
        """See the port."""
        return self.texts.get(self.path(migration, *parts))


def _manifest(
    key: tuple[str, str, Moment], taken_at_ms: int, tables: Mapping[str, Sequence[Row]]
) -> Manifest:
    hashes = {
        name: hashlib.sha256(json.dumps(list(tables.get(name, ()))).encode()).hexdigest() for name in TABLES
    }
    text = json.dumps([*key, taken_at_ms, hashes], sort_keys=True)
    return Manifest(
        migration=key[0],
        stage=key[1],
        moment=key[2],
        taken_at_ms=taken_at_ms,
        digest=hashlib.sha256(text.encode()).hexdigest(),
        files=tuple(
            FileEntry(table=name, file=name, rows=len(tables.get(name, ())), bytes=0, sha256=sha)
            for name, sha in hashes.items()
        ),
    )


@dataclass(slots=True)
class MemoryProof:
    """`groupshift.ports.proof.ProofRunner`: the essential comparisons of the Spark job, in Python."""

    evidence: MemoryEvidence
    runs: int = 0

    def run(self, request: ProofRequest) -> None:
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
        _, migration, stage, moment = path.split("/")
        return self.evidence.snapshots[migration, stage, Moment(moment)]


def _compare(
    before: Mapping[str, Sequence[Row]], after: Mapping[str, Sequence[Row]], rules: Mapping[str, Any]
) -> Sequence[Mapping[str, str]]:
    found = [
        f"offset of {key} went back from {old} to {new}"
        for key, old in _offsets(before).items()
        if (new := _offsets(after).get(key, -1)) < old
    ]
    owners = [(row["topic"], row["partition"]) for row in after["owners"]]
    found += [
        f"partition {each} has more than one owner"
        for each in sorted(set(owners), key=str)
        if owners.count(each) > 1
    ]
    then, now = (_kinds(snapshot) for snapshot in (before, after))
    change = rules["members"]
    if change["change"] == "replaced":
        then[change["from"]] = then.get(change["from"], 0) - change["count"]
        then[change["to"]] = then.get(change["to"], 0) + change["count"]
    if {k: n for k, n in then.items() if n} != now:
        found.append(f"members are {now}, expected {then}")
    return [{"rule": "V01", "verdict": "fail", "reason": reason} for reason in found]


def _offsets(snapshot: Mapping[str, Sequence[Row]]) -> dict[str, int]:
    return {f"{r['store']}/{r['topic']}-{r['partition']}": int(r["offset"] or 0) for r in snapshot["offsets"]}


def _kinds(snapshot: Mapping[str, Sequence[Row]]) -> dict[str, int]:
    kinds = [str(row["kind"]) for row in snapshot["members"]]
    return {kind: kinds.count(kind) for kind in sorted(set(kinds))}


class Killed(BaseException):
    """Stands for SIGKILL in tests: no handler of the code under test may catch it."""


@dataclass(slots=True)
class CrashOnce:
    """`groupshift.ports.crash.CrashPoints` that raises `Killed` the first time a point is reached."""

    stage: StageName
    point: CrashPoint
    reached_points: list[tuple[StageName, CrashPoint]] = field(default_factory=list)

    def reached(self, stage: StageName, point: CrashPoint) -> None:
        """Die, once."""
        first = (stage, point) not in self.reached_points
        self.reached_points.append((stage, point))
        if first and (stage, point) == (self.stage, self.point):
            raise Killed(f"{stage}.{point}")
