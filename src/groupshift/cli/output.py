"""What commands print and write: tables for people, JSON for programs, reports, and the next command."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from groupshift.application.brief_text import canary_text, step_text
from groupshift.application.status import MigrationStatus, StageProgress
from groupshift.cli.place import again
from groupshift.cli.terminal import Console, Table, styled
from groupshift.domain.evidence import Moment
from groupshift.domain.foreign_text import json_text, visible
from groupshift.domain.judgement import Assessment, Closing, Planned, Readiness
from groupshift.domain.plan import Phase, Plan
from groupshift.domain.verdict import NOT_ASKED, Finding, Verdict
from groupshift.errors import Rejected

COLOUR = {
    Verdict.PASS: "green",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.ERROR: "magenta",
    Verdict.FAIL: "red",
}
_READY = {Readiness.READY: "green", Readiness.NOT_READY: "red", Readiness.UNKNOWN: "magenta"}
_PHASE = {Phase.MOVED: "green", Phase.FINALISED: "green", Phase.ROLLED_BACK: "cyan", Phase.REJECTED: "yellow"}


def plain(value: object) -> Any:
    """Dataclasses, enums, tuples, sets and bytes as what JSON knows."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {entry.name: plain(getattr(value, entry.name)) for entry in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(plain(each) for each in value)
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


def print_json(data: Mapping[str, Any]) -> None:
    """One JSON document on standard output; what comes ``next`` is asked of the same place."""
    if isinstance(data.get("next"), str):
        data = {**data, "next": again(data["next"])}
    print(json_text(json.dumps(plain(data), indent=2, ensure_ascii=False)))


def next_command(console: Console, command: str) -> None:
    """What to do next, at the same place."""
    console.line(styled("next:", "dim"), " ", styled(again(command), "bold"))


def verdict_text(verdict: Verdict | None) -> Text:
    """A verdict in its colour; a dash for none."""
    return styled("-", "") if verdict is None else styled(verdict, COLOUR[verdict])


def findings_table(findings: Iterable[Finding], title: str) -> Table:
    """One row a finding, passed ones included."""
    table = Table(title, ("rule", "verdict", "reason", "hint"))
    for finding in findings:
        verdict = verdict_text(finding.verdict) if finding.asked else NOT_ASKED
        table.add_row(finding.rule, verdict, finding.reason, finding.hint)
    return table


def show_assessment(console: Console, assessment: Assessment) -> None:
    """Findings and readiness."""
    view = assessment.view
    console.print(findings_table(assessment.findings, f"group {visible(view.group)}"))
    ready = assessment.readiness
    console.line(
        styled(ready, _READY[ready]),
        f": {len(view.members)} members, {len(view.partitions)} partitions, {view.effective_mode} mode",
    )


def plan_table(plan: Plan) -> Table:
    """The stages of a plan."""
    to = f"to the {plan.to} protocol {plan.way}, " if plan.to else ""
    table = Table(
        f"plan for group {visible(plan.group)}, {to}until {plan.until}",
        ("#", "stage", "step", "gate", "way back"),
    )
    for number, stage in enumerate(plan.stages, 1):
        back = step_text(stage.step.inverse) if stage.step.inverse else "-"
        table.add_row(str(number), stage.name, step_text(stage.step), stage.gate or "-", back)
    return table


def show_planned(console: Console, planned: Planned) -> None:
    """A plan with its hash."""
    console.print(plan_table(planned.plan))
    if canary_text(planned.plan):
        console.print(canary_text(planned.plan))
    for note in planned.plan.notes:
        console.print(note)
    console.line("migration ", styled(planned.migration, "bold"), f", plan hash {planned.plan_hash}")


def show_closing(console: Console, closing: Closing) -> None:
    """How a run ended."""
    console.line(verdict_text(closing.verdict), " ", styled(closing.phase, "bold"), f": {closing.reason}")


def status_table(status: MigrationStatus) -> Table:
    """The stages of one migration."""
    table = Table(
        f"migration {status.migration}", ("stage", "step", "act", "before", "after", "began (UTC)", "took")
    )
    for progress in status.stages:
        table.add_row(
            progress.stage.name,
            step_text(progress.stage.step),
            progress.act or "-",
            verdict_text(progress.verdict(Moment.BEFORE)),
            verdict_text(progress.verdict(Moment.AFTER)),
            _clock(progress.began_at_ms),
            _took(progress),
        )
    return table


def list_table(found: Iterable[MigrationStatus]) -> Table:
    """The latest migrations."""
    table = Table("migrations", ("migration", "group", "until", "phase", "verdict", "reason"))
    for each in found:
        phase = styled(each.phase, _PHASE.get(each.phase, "blue"))
        table.add_row(each.migration, each.group, each.until, phase, verdict_text(each.verdict), each.reason)
    return table


def reports_table(status: MigrationStatus) -> Table:
    """Every validation with the path of its report."""
    table = Table(f"reports of {status.migration}", ("stage", "moment", "verdict", "report"))
    for progress in status.stages:
        for each in progress.validations:
            table.add_row(progress.stage.name, each.moment, verdict_text(each.verdict), each.report)
    return table


def status_data(status: MigrationStatus) -> dict[str, Any]:
    """A migration for programs; the events are those of the journal."""
    data: dict[str, Any] = plain(status)
    return data


def _clock(at_ms: int | None) -> str:
    return "-" if at_ms is None else datetime.fromtimestamp(at_ms / 1000, tz=UTC).strftime("%H:%M:%S")


def _took(progress: StageProgress) -> str:
    ends = [each.judged_at_ms for each in progress.validations if each.moment is Moment.AFTER]
    if not ends or progress.began_at_ms is None:
        return "-"
    return f"{(ends[-1] - progress.began_at_ms) / 1000:.1f} s"


Output = Annotated[
    Path | None,
    typer.Option("--output", help="Write the page here too (one HTML file).", show_default=False),
]


def write_page(path: Path, text: str) -> None:
    """Write beside the target, then rename onto it. Raises `Rejected` or `Transient` where that cannot be."""
    from groupshift.adapters.parquet.evidence import unwritable
    from groupshift.foreign_files import made_anew

    try:
        part = path.with_name(f"{path.name}.part")
        made_anew(part)
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise unwritable(f"--output {path}", error) from error
    except ValueError as error:
        raise Rejected(f"--output {path} cannot be written ({error}): name a file") from error
