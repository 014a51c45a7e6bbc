"""What the pages show, as plain values; no HTML and no web framework here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from groupshift.application.event_text import event_text
from groupshift.domain.step import DeleteModeNode, ReplaceMembers, SetMode, Soak, Step
from groupshift.ports.journal import Event, EventKind

if TYPE_CHECKING:
    from groupshift.application.status import MigrationStatus, StageProgress

_QUIET = frozenset(
    {
        EventKind.PROOF_REQUESTED,
        EventKind.SNAPSHOT,
        EventKind.READ_BACK,
        EventKind.OBSERVED,
        EventKind.SEALING,
    }
)
"""Kinds that the stages table, or the event after them, tells already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """One judged moment of a stage; ``report`` is the address of its report below the page."""

    moment: str
    verdict: str
    report: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRow:
    """One line of the stages table."""

    name: str
    step: str
    act: str
    began: str
    proofs: tuple[Proof, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """One line of the journal: when, what, at which stage, said how."""

    at: str
    kind: str
    stage: str
    text: str


def stage_rows(found: MigrationStatus) -> tuple[StageRow, ...]:
    """All stages of the plan, then those of the way back."""
    return tuple(_stage_row(progress) for progress in found.stages)


def event_rows(events: Iterable[Event]) -> tuple[EventRow, ...]:
    """What happened, oldest first, without what the stages table tells already."""
    return tuple(
        EventRow(
            at=moment(event.at_ms),
            kind=event.kind.value.replace("_", " "),
            stage=event.stage.value if event.stage else "",
            text=event_text(event),
        )
        for event in events
        if event.kind not in _QUIET
    )


def moment(at_ms: int | None) -> str:
    """Epoch milliseconds as UTC text, empty for None."""
    return "" if at_ms is None else datetime.fromtimestamp(at_ms / 1000, tz=UTC).strftime("%F %T UTC")


def made_by(found: MigrationStatus, run: str) -> bool:
    """Whether this run has claimed the migration."""
    return any(event.kind is EventKind.CLAIMED and event.body.get("run") == run for event in found.events)


def _stage_row(progress: StageProgress) -> StageRow:
    name = progress.stage.name.value
    return StageRow(
        name=name,
        step=step_text(progress.stage.step),
        act=_act_text(progress),
        began=moment(progress.began_at_ms),
        proofs=tuple(
            Proof(
                moment=each.moment.value,
                verdict=each.verdict.value,
                report=f"reports/{name}/{each.moment.value}",
            )
            for each in progress.validations
        ),
    )


def _act_text(progress: StageProgress) -> str:
    """How far the act is; a soak has none."""
    if progress.step:
        return progress.act
    return "none" if isinstance(progress.stage.step, Soak) else "not begun"


def step_text(step: Step) -> str:
    """A step in words."""
    match step:
        case ReplaceMembers():
            return f"{', '.join(step.slots)}: {step.old} → {step.new}"
        case SetMode():
            return f"mode → {step.to}"
        case Soak():
            return f"watch for {step.seconds} s"
        case DeleteModeNode():
            return "remove the mode node"
