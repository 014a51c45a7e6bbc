"""The command line: what it refuses, what it prints, and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from groupshift.cli import evidence, moving, verbs
from groupshift.cli.live import LiveListener
from groupshift.cli.main import main
from groupshift.domain.evidence import Moment
from groupshift.domain.judgement import Judgement
from groupshift.domain.modes import MemberKind
from groupshift.domain.plan import Phase, Stage, StageName, Until
from groupshift.settings import Settings, parse
from support.simulated_move import Bench, make_bench


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """The command line over the simulated group; its clock does not really wait."""
    made = make_bench()
    settings = parse(
        {
            "kafka": {"bootstrap_servers": "b:9092"},
            "zookeeper": {"hosts": "z"},
            "fleet": {"driver": "manual"},
            "journal": {"url": "sqlite://"},
            "evidence": {"root": "/e"},
        }
    )

    def opened(_path: Path | None) -> tuple[object, Settings]:
        return made.app(), settings

    monkeypatch.setattr(verbs, "open_app", opened)
    monkeypatch.setattr(moving, "open_app", opened)
    monkeypatch.setattr(evidence, "open_app", opened)
    monkeypatch.setattr(moving, "SystemClock", lambda: made.clock)
    return made


def printed(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    """The JSON document on standard output."""
    return json.loads(capsys.readouterr().out)


def test_assess_says_ready_and_what_to_do_next(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0 and the next command; 1 when it is not ready."""
    assert main(["assess", "--group", "orders-app"]) == 0
    assert "groupshift run --group orders-app" in capsys.readouterr().out
    bench.world.znode.clear()
    assert main(["assess", "--group", "orders-app", "--json"]) == 1
    document = printed(capsys)
    assert document["readiness"] == "not ready"
    assert {"C05", "C11"} <= {finding["rule"] for finding in document["findings"]}


def test_without_execute_run_only_plans(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is changed and nothing is locked."""
    assert main(["run", "--group", "orders-app", "--json"]) == 0
    document = printed(capsys)
    assert [stage["name"] for stage in document["plan"]["stages"]] == [
        "canary",
        "roll",
        "toggle",
        "soak",
    ]
    assert "--execute" in document["next"]
    assert bench.kinds() == [MemberKind.OLD] * 3
    assert bench.journal.open_of("orders-app") is None


def test_a_canary_is_chosen_by_share_and_watched(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan says what it holds; what is typed next repeats the options; a minute by default."""
    asked = ["--group", "orders-app", "--canary-share", "0.5", "--canary-watch", "30", "--json"]
    assert main(["plan", *asked]) == 0
    document = printed(capsys)
    assert document["plan"]["canary"] == {"watch_s": 30, "held": 4, "partitions": 6}
    assert document["plan"]["stages"][0]["step"]["slots"] == ["m1", "m2"]
    assert "--canary-share 0.5 --canary-watch 30" in document["next"]
    assert main(["plan", "--group", "orders-app"]) == 0
    assert "2 of 6 partitions (33 %); it is watched for 60 s" in " ".join(capsys.readouterr().out.split())
    assert main(["run", *asked, "--canary", "2"]) == 2
    assert "choose one" in capsys.readouterr().err


def test_run_moves_and_roll_back_takes_back(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole way there and back on the command line, with the progress on standard error."""
    arguments = ["run", "--group", "orders-app", "--execute", "--yes", "--soak", "2", "--json"]
    assert main(arguments) == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert document["closing"]["phase"] == "moved"
    assert "act toggle: done" in captured.err
    migration = str(document["migration"])
    for verb in (["status"], ["status", migration], ["report", migration]):
        assert main(verb) == 0
    assert "groupshift roll-back" in capsys.readouterr().out
    assert main(["roll-back", migration, "--execute", "--yes"]) == 0
    assert bench.kinds() == [MemberKind.OLD] * 3
    assert bench.app().status(migration)[0].phase is Phase.ROLLED_BACK


def test_a_failed_run_ends_with_one_and_the_reason(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """The plant is named, the table shows the failed stage."""
    bench.world.places["m3"].held = True
    assert main(["run", "--group", "orders-app", "--execute", "--yes"]) == 1
    shown = capsys.readouterr().err
    assert "after roll: fail" in shown
    assert "m3" in shown


def test_a_gate_without_a_terminal_waits_for_a_person(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 6, nothing changed, and the run can be continued by a person or with --yes."""
    assert main(["run", "--group", "orders-app", "--execute"]) == 6
    assert "--yes" in capsys.readouterr().err
    (record,) = bench.journal.recent(9)
    assert record.phase is Phase.PLANNED
    assert main(["run", "--migration", record.migration, "--execute", "--yes"]) == 0


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["run"], 2, "--group"),
        (["run", "--group", "g", "--migration", "m"], 2, "either"),
        (["status", "nothing"], 2, "'nothing' is not in the journal"),
        (["assess", "--group", "a/b"], 2, "group 'a/b'"),
        (["run", "--group", "nobody", "--execute", "--yes"], 2, "known neither"),
        (["no-such-verb"], 2, "no-such-verb"),
        (["run", "--group", "g", "--until", "moon"], 2, "moon"),
    ],
)
def test_bad_input_is_one_sentence_and_code_two(
    bench: Bench, arguments: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """On standard error, without a traceback."""
    assert main(arguments) == code
    captured = capsys.readouterr()
    assert says in captured.err
    assert "Traceback" not in captured.err


def test_a_second_run_and_a_plan_only_are_refused(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """By the name of the open migration; a preview is never run."""
    bench.plan(until=Until.CANARY)
    assert main(["run", "--group", "orders-app", "--execute", "--yes"]) == 2
    assert "open migration" in capsys.readouterr().err
    preview = bench.plan(execute=False, run="look")
    assert main(["run", "--migration", preview, "--execute", "--yes"]) == 2
    assert "--execute" in capsys.readouterr().err


def test_someone_elses_write_is_a_conflict(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 3: the mode node was changed between the approval of the toggle and its act."""
    judged = LiveListener.judged
    approved: list[object] = []

    def meddle(self: LiveListener, stage: Stage, moment: Moment, found: Judgement) -> None:
        judged(self, stage, moment, found)
        if stage.name is StageName.TOGGLE:
            approved.append(moment)
            if len(approved) == 2:  # the rehearsal, the gate, then the proof before the act
                bench.world.write_mode(b"zookeeper")

    monkeypatch.setattr(LiveListener, "judged", meddle)
    assert main(["run", "--migration", bench.plan(), "--execute", "--yes"]) == 3
    assert "approval void" in capsys.readouterr().err


def test_validate_compares_again(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """Of snapshots that are there."""
    migration, _ = bench.move(Until.CANARY)
    assert main(["validate", migration, "canary", "after", "--json"]) == 0
    assert printed(capsys)["verdict"] == "pass"
    assert main(["validate", migration, "toggle"]) == 2


def test_help_names_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    """For those who write scripts."""
    assert main(["--help"]) == 0
    assert "waiting for a person" in " ".join(capsys.readouterr().out.split())


def test_no_settings_at_all_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the two ways to get some."""
    monkeypatch.delenv("GROUPSHIFT_SETTINGS", raising=False)
    monkeypatch.setenv("GROUPSHIFT_HOME", str(tmp_path))
    assert main(["status"]) == 2
    assert "groupshift sandbox up" in capsys.readouterr().err


def _everything(bench: Bench, migration: str) -> tuple[object, ...]:
    """Journal, claims, evidence and group."""
    journal = bench.journal
    return (
        journal.events(migration),
        journal.claims(migration),
        journal.find(migration).phase,
        dict(bench.evidence.snapshots),
        bench.kinds(),
        bench.world.mode.data,
    )


@pytest.mark.parametrize("yes", [[], ["--yes"], ["--yes", "--json"], ["--yes", "--finalise"]])
def test_u03_run_of_a_migration_does_nothing_without_execute(
    bench: Bench, yes: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever is agreed to beforehand: what is left is shown, with the command that does it."""
    migration = bench.plan()
    before = _everything(bench, migration)
    assert main(["run", "--migration", migration, *yes]) == 0
    assert _everything(bench, migration) == before
    shown = " ".join(capsys.readouterr().out.split())
    assert f"groupshift run --migration {migration} --execute" in shown


@pytest.mark.parametrize("yes", [[], ["--yes"], ["--yes", "--json"]])
@pytest.mark.parametrize("to", ["old_members", "zookeeper_mode"])
def test_u03_roll_back_does_nothing_without_execute(
    bench: Bench, yes: list[str], to: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The stages that would undo what was done are shown, and the command that undoes it."""
    migration, _ = bench.move()
    before = _everything(bench, migration)
    assert main(["roll-back", migration, "--to", to, *yes]) == 0
    assert _everything(bench, migration) == before
    shown = " ".join(capsys.readouterr().out.split())
    assert "undo_toggle" in shown
    assert ("undo_members" in shown) is (to == "old_members")
    assert f"groupshift roll-back {migration} --to {to} --execute" in shown
    assert main(["roll-back", migration, "--to", to, "--execute", "--yes"]) == 0


def test_u03_roll_back_of_what_never_acted_says_so(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing to do, nothing to type."""
    migration = bench.plan()
    before = _everything(bench, migration)
    assert main(["roll-back", migration]) == 0
    assert _everything(bench, migration) == before
    shown = capsys.readouterr().out
    assert "there is nothing to take back" in shown
    assert "next:" not in shown


def test_u03_every_next_command_that_acts_names_execute(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is pasted does what it says, in every phase."""
    from groupshift.cli.moving import follow_up

    for phase in (Phase.PLANNED, Phase.APPROVED, Phase.RUNNING, Phase.MOVED, Phase.ROLLING_BACK):
        assert "--execute" in follow_up("m-1", phase)
    assert main(["plan", "--group", "orders-app", "--execute"]) == 0
    assert "--execute" in capsys.readouterr().out.rpartition("next:")[2]


def _verbs_with(option: str) -> dict[str, set[str]]:
    """Every verb that has this option, with all of its options."""
    import typer

    from groupshift.cli.verbs import app

    found: dict[str, set[str]] = {}

    def walk(name: str, command: object) -> None:
        for each, sub in getattr(command, "commands", {}).items():
            walk(f"{name} {each}".strip(), sub)
        options = {text for each in getattr(command, "params", ()) for text in each.opts}
        if option in options:
            found[name] = options

    walk("", typer.main.get_command(app))
    return found


def test_u03_every_verb_that_can_be_agreed_to_beforehand_needs_execute() -> None:
    """``--yes`` answers questions; it never is the order to act."""
    verbs = _verbs_with("--yes")
    assert {"run", "roll-back", "protocol run", "downgrade run", "expansion back"} <= set(verbs)
    assert [name for name, options in verbs.items() if "--execute" not in options] == []
