"""What an approval was given for, computed again whenever it is relied on."""

from __future__ import annotations

from collections.abc import Mapping

from groupshift.application.environment import Environment
from groupshift.application.records import Migration
from groupshift.domain.evidence import Moment
from groupshift.domain.fingerprint import Fingerprint, fingerprint
from groupshift.domain.moves import Choice, Gate
from groupshift.errors import Conflict
from groupshift.ports.journal import Event, EventKind

_YES = frozenset({Choice.APPROVE.value, Choice.FINALISE.value})


def current(env: Environment, migration: Migration) -> Fingerprint:
    """The fingerprint of the group and the evidence now. Raises `Broken` for altered evidence."""
    view = env.groups.read(migration.record.group)
    return fingerprint(view, migration.record.plan_hash, _evidence(env, migration))


def _evidence(env: Environment, migration: Migration) -> Mapping[str, str]:
    digests: dict[str, str] = {}
    for stage, moment, _ in migration.snapshots():
        manifest = env.evidence.manifest(migration.id, stage.value, Moment(moment))
        digests[f"{stage}/{moment}"] = manifest.digest if manifest else "absent"
    return digests


def shown(migration: Migration, gate: Gate, text: str) -> Fingerprint:
    """What the gate showed under this fingerprint. Raises `Conflict` when it never showed it."""
    for event in reversed(migration.events):
        if event.kind is EventKind.GATE_SHOWN and event.body["fingerprint"] == text:
            return Fingerprint.from_data(event.body["parts"])
    raise Conflict(
        f"approval void: gate {gate} of migration {migration.id} never showed fingerprint {text[:12]!r}; "
        "open the gate again"
    )


def demand_unchanged(approved: Fingerprint, now: Fingerprint, gate: str) -> None:
    """Raise `Conflict` naming what changed since it was approved."""
    changed = approved.changes(now)
    if changed:
        raise Conflict(
            f"approval void: since gate {gate} was shown, {'; '.join(changed[:5])}; "
            "look at the group and ask for approval again"
        )


def answered(migration: Migration, gate: Gate) -> Event | None:
    """The last answer at a gate."""
    for event in reversed(migration.events):
        if event.kind is EventKind.GATE_ANSWERED and event.body["gate"] == gate.value:
            return event
    return None


def demand_approved(env: Environment, migration: Migration, gate: Gate) -> None:
    """Raise `Conflict` unless the gate was approved and what was approved still holds."""
    answer = answered(migration, gate)
    if answer is None or answer.body["choice"] not in _YES:
        said = answer.body["choice"] if answer else "not answered"
        raise Conflict(
            f"gate {gate} of migration {migration.id} is {said}, so nothing may be changed; approve it first"
        )
    approved = shown(migration, gate, str(answer.body["fingerprint"]))
    demand_unchanged(approved, current(env, migration), gate)
