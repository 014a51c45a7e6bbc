"""What the verbs of a move share: planning, the runner, and how a run ends on the terminal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from groupshift.adapters.system import SystemClock
from groupshift.application.brief_text import step_text
from groupshift.bootstrap import App
from groupshift.cli import output
from groupshift.cli.live import Agreed, LiveListener, Prompted
from groupshift.cli.options import open_app, repeated, run_name, who
from groupshift.cli.runner import Runner, claim, demand_begun
from groupshift.cli.terminal import Console, styled
from groupshift.domain.foreign_text import shell
from groupshift.domain.judgement import Closing
from groupshift.domain.plan import MoveRequest, Phase, WayBack
from groupshift.domain.verdict import Verdict
from groupshift.settings import Settings


def show_plan(asked: MoveRequest, settings: Path | None, *, as_json: bool, again: str = "") -> int:
    """Plan what was asked for and show it; the exit code. Raises as `App.plan` does.

    ``again`` is the command that acts, where it is not the one of the move ``coordination``."""
    opened, _ = open_app(settings)
    with opened:
        planned = opened.plan(signed(asked))
    follow = f"groupshift run --migration {planned.migration} --execute"
    if not asked.execute:
        usual = (
            f"groupshift run --group {shell(asked.group)} --until {asked.until}{repeated(asked)} --execute"
        )
        follow = again or usual
    if as_json:
        output.print_json({**output.plain(planned), "next": follow})
    else:
        console = Console()
        output.show_planned(console, planned)
        output.next_command(console, follow)
    return 0


def show_left(opened: App, migration: str, *, as_json: bool) -> int:
    """What is left to do of a migration, and the command that does it; nothing is changed or claimed."""
    demand_begun(opened, migration)
    (found,) = opened.status(migration)
    follow = f"groupshift run --migration {migration} --execute"
    if as_json:
        output.print_json({**output.status_data(found), "next": follow})
        return 0
    console = Console()
    console.print(output.status_table(found))
    console.print("nothing was changed: without --execute this only shows where the migration stands")
    output.next_command(console, follow)
    return 0


def show_way_back(opened: App, migration: str, to: WayBack, *, as_json: bool) -> int:
    """What a rollback would do now, and the command that does it; nothing is changed or claimed."""
    stages = opened.way_back(migration, to)
    follow = f"groupshift roll-back {migration} --to {to} --execute"
    if as_json:
        output.print_json({"migration": migration, "to": to, "stages": stages, "next": follow})
        return 0
    console = Console()
    for number, stage in enumerate(stages, 1):
        console.print(f"{number}. {stage.name}: {step_text(stage.step)}")
    console.print("nothing was changed" if stages else "there is nothing to take back; nothing was changed")
    if stages:
        output.next_command(console, follow)
    return 0


def signed(asked: MoveRequest) -> MoveRequest:
    """With who asks, and a run of its own: each call of a verb plans anew."""
    return replace(asked, actor=who(), run=run_name("plan"))


def runner_of(
    opened: App, parsed: Settings, migration: str, *, yes: bool, finalise: bool
) -> tuple[Runner, Console]:
    """A runner with a claim of its own; ``yes`` answers the gates, else the person at the terminal does."""
    console = Console(stderr=True)
    listener = LiveListener(console)
    runner = Runner(
        app=opened,
        claimed=claim(opened, migration, run_name("run"), who()),
        decide=Agreed(finalise) if yes else Prompted(listener),
        listener=listener,
        clock=SystemClock(),
        settle_s=parsed.thresholds.settle_s,
    )
    console.line("migration ", styled(migration, "bold"))
    return runner, console


def finish(opened: App, migration: str, closing: Closing, console: Console, *, as_json: bool) -> int:
    """Show where the migration ended; the exit code."""
    (found,) = opened.status(migration)
    if as_json:
        output.print_json({**output.status_data(found), "closing": output.plain(closing)})
    else:
        console.print(output.status_table(found))
        output.show_closing(console, closing)
        stays = opened.leftover(migration) if closing.phase is Phase.ROLLED_BACK else None
        output.next_command(console, stays.command if stays else follow_up(migration, closing.phase))
    return 0 if closing.verdict is Verdict.PASS else 1


def follow_up(migration: str, phase: Phase) -> str:
    """The next command that makes sense in a phase."""
    return {
        Phase.PREVIEW: "the command that planned it, with --execute",
        Phase.PLANNED: f"groupshift run --migration {migration} --execute",
        Phase.APPROVED: f"groupshift run --migration {migration} --execute",
        Phase.RUNNING: f"groupshift run --migration {migration} --execute",
        Phase.MOVED: f"groupshift roll-back {migration} --execute",
        Phase.ROLLING_BACK: f"groupshift roll-back {migration} --execute",
    }.get(phase, f"groupshift report {migration}")
