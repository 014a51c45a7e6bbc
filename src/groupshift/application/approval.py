"""What an approval was given for, computed again whenever it is relied on."""

from __future__ import annotations

import re
from collections.abc import Mapping

from groupshift.application.environment import Environment
from groupshift.application.records import Migration
from groupshift.domain.evidence import Moment
from groupshift.domain.group import Fingerprint, GroupView, changes, fingerprint
from groupshift.domain.group_protocol import Kind
from groupshift.domain.plan import Choice, Gate, Stage
from groupshift.errors import Conflict, Rejected, Void
from groupshift.ports.journal import Event, EventKind
from groupshift.settings import ApprovalSettings

REBALANCE_S = 30
"""How long a look for an approval waits for the end of a rebalance."""
_LOOKS_AGAIN_S = 0.5
_YES = frozenset({Choice.APPROVE.value, Choice.FINALISE.value})


_ACCOUNT = re.compile(r"(?P<claimed>.*) \(uid [0-9]+(?:, (?P<account>.*))?\)", re.DOTALL)


def require_approver(approval: ApprovalSettings, who: str, requester: str, gate: str) -> None:
    """Raises `Rejected` unless ``who`` may say yes at this gate of what ``requester`` asked for. The one rule
    for every gate of every move. Nobody needs to be allowed to say no."""
    person = identity(who)
    if approval.approvers and person not in approval.approvers:
        raise Rejected(
            f"gate {gate}: {who} may not approve, nothing was changed; the setting approval.approvers names "
            f"{', '.join(approval.approvers)}: let one of them answer"
        )
    if approval.four_eyes and person == identity(requester):
        raise Rejected(
            f"gate {gate}: {who} asked for this and may not approve it (setting approval.four_eyes), nothing "
            "was changed: let another person answer, by running the same command"
        )


def identity(who: str) -> str:
    """The account or the user that ``who`` is, whatever name it claims (see `groupshift.cli.options.who`)."""
    found = _ACCOUNT.fullmatch(who)
    return (found["account"] or found["claimed"]) if found else who


def current(env: Environment, migration: Migration) -> Fingerprint:
    """The fingerprint of the group and the evidence now. Raises `Broken` for altered evidence."""
    view = _told(env, migration.record.group)
    return fingerprint(view, migration.record.plan_hash, _evidence(env, migration))


def _told(env: Environment, group: str) -> GroupView:
    """The group when its coordinator tells what each member subscribes to: of a classic group that rebalances
    it tells nothing, and an approval given for that would be void a second later. As it is then, when that
    lasts longer than `REBALANCE_S`."""
    end = env.clock.now_ms() + REBALANCE_S * 1000
    while True:
        view = env.groups.read(group)
        if not _hides(view) or env.clock.now_ms() >= end:
            return view
        env.clock.sleep(_LOOKS_AGAIN_S)


def _hides(view: GroupView) -> bool:
    classic = view.protocol is not None and view.protocol.group.kind is Kind.CLASSIC
    return classic and not all(each.subscription for each in view.members)


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


def voided(migration: Migration) -> Event | None:
    """The last approval that became void and was not answered anew since."""
    void = migration.latest(EventKind.VOIDED)
    answer = answered(migration, Gate(void.body["gate"])) if void else None
    return None if answer and void and answer.seq > void.seq else void


def outdated(
    env: Environment, migration: Migration, stage: Stage, met: Mapping[str, str] | None
) -> tuple[str, ...]:
    """What makes the approval of an act void that was intended and not taken up by anybody; empty while it
    holds: the group is as it was approved, or, further on in the plan, its members are those ``met`` when
    the act was intended (None in journals that do not tell).

    Raises `Conflict` when the gate is not approved at all."""
    gate = stage.gate or Gate.PLAN
    void, now = voided(migration), current(env, migration)
    if void is not None and void.stage is stage.name:
        return tuple(void.body["changes"])
    changed = _approved(migration, gate).changes(now)
    if not changed or stage.gate is not None:
        return changed
    return () if met is None else changes({"members": met}, now.parts)


def void(gate: Gate, changed: tuple[str, ...]) -> Void:
    """The error that says so."""
    return Void(
        f"approval void: since gate {gate} was answered, {'; '.join(changed[:5])}; nothing was changed: look "
        f"at the group and answer gate {gate} again"
    )


def demand_approved(env: Environment, migration: Migration, gate: Gate) -> None:
    """Raise `Conflict` unless the gate was approved and what was approved still holds."""
    demand_unchanged(_approved(migration, gate), current(env, migration), gate)


def _approved(migration: Migration, gate: Gate) -> Fingerprint:
    """What was approved. Raises `Conflict` when nothing was."""
    answer = answered(migration, gate)
    if answer is None or answer.body["choice"] not in _YES:
        said = answer.body["choice"] if answer else "not answered"
        raise Conflict(
            f"gate {gate} of migration {migration.id} is {said}, so nothing may be changed; approve it first"
        )
    return shown(migration, gate, str(answer.body["fingerprint"]))
