"""A run in a real Airflow is taken over at each of its phases, on real servers.

At its first gate: `tests/airflow/test_real_refusals.py`. While its canary waits by a rollback, later by
somebody who claims the run on the command line, and does nothing for as long as the run goes on: what
reaches the journal, the evidence or a person from then on could only come from the run.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from groupshift.adapters.drivers.process import ask
from groupshift.bootstrap.moves import verified
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.run import RunState
from groupshift.ports.runs import EventKind
from groupshift.settings import load
from groupshift_sandbox.processes import wait_until
from support.real_airflow import CONF, HEARTBEAT, Real, acts_of, kinds_of, real_airflow
from support.typed_again import typed_again
from support.warm_spark import warm_spark

pytestmark = pytest.mark.timeout(2400)  # longer than a run and its rollback may take

SESSION = {"zookeeper.session.timeout.ms": "30000"}
YES = {"approve_plan": "Approve", "approve_toggle": "Approve", "last_gate": "Keep"}
DAG = "migrate_coordination"
QUIET = {**CONF, "canary_watch": 0}
LEFT_BY_SPARK = "-compare-"
"""A job that Spark had begun before ends; what it writes lies in the folder of a proof that nobody judged."""


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    """A sandbox with Airflow; proofs on the command line go to a Spark that was started once."""
    patient = dict.fromkeys((MemberKind.ZOOKEEPER, MemberKind.AWARE), SESSION)  # nobody is meant to lose one
    with real_airflow(tmp_path_factory.mktemp("sandbox"), {HEARTBEAT: "120"}, patient) as found:
        settings = found.home.settings_file
        with warm_spark(found.home.root) as submit:
            settings.write_text(settings.read_text().replace("[spark]", f'[spark]\nsubmit = "{submit}"'))
            yield found


@dataclass(frozen=True, slots=True)
class Left:
    """What there is of a run: events of the journal, files of the evidence by SHA-256, questions asked."""

    events: tuple[int, ...]
    files: dict[str, str]
    questions: int


def left_of(real: Real, dag: str, run: str) -> Left:
    """As it is now."""
    root = real.home.evidence / real.status().run
    files = {
        str(each.relative_to(root)): hashlib.sha256(each.read_bytes()).hexdigest()
        for each in sorted(root.rglob("*"))
        if each.is_file()
    }
    events = tuple(event.seq for event in real.events())
    return Left(events=events, files=files, questions=len(real.asked(dag, run)))


@dataclass
class Taking:
    """Claims the latest run once the task ``at`` of a run is in this state."""

    real: Real
    dag: str
    run: str
    at: str
    state: str
    left: Left | None = None

    def __call__(self, tasks: dict[str, str]) -> None:
        """Called with the states of the run's tasks again and again."""
        if tasks.get(self.at) != self.state or self.left is not None:
            return
        with self.real.runs() as runs:
            now = int(time.time() * 1000)
            runs.claim(self.real.status().run, "cli-over", now, anew=True, take_over=True)
        self.left = left_of(self.real, self.dag, self.run)

    def check(self, ended: str, gates: tuple[str, ...] = ()) -> None:
        """The run is red with the sentence in ``verdict`` and, where it was answered, its gate; nothing came
        of it since."""
        assert self.left is not None, f"{self.at} was never {self.state}"
        assert ended == "failed"
        tasks = self.real.api.tasks(self.dag, self.run)
        assert sorted(each for each, end in tasks.items() if end == "failed") == sorted((*gates, "verdict"))
        for task in gates:
            said = self.real.said(self.dag, self.run, task)
            assert "run cli-over took run" in said, (task, said[-2000:])
        said = self.real.said(self.dag, self.run, "verdict")
        assert "cli-over has it: look there" in said, said[-2000:]
        now = left_of(self.real, self.dag, self.run)
        assert (now.events, now.questions) == (self.left.events, self.left.questions)
        other = {
            name
            for name in {*now.files, *self.left.files}
            if now.files.get(name) != self.left.files.get(name)
        }
        assert {name for name in other if LEFT_BY_SPARK not in name} == set()


def take_over(real: Real, run: str, conf: dict[str, object], at: str, state: str) -> None:
    """Run the DAG, take its run over there; afterwards nothing of it may have gone on."""
    taking = Taking(real, DAG, run, at, state)
    gates = (at,) if state == "awaiting_input" else ()
    taking.check(real.run(DAG, run, conf, YES, taking), gates)


def back(real: Real, to: str) -> None:
    """`roll-back` on the command line."""
    run = real.status().run
    typed_again(real.home, "roll-back", run, "--to", to, "--take-over", "--execute", "--yes")
    assert real.status().state == RunState.ROLLED_BACK
    assert real.view().effective_mode is Mode.ZOOKEEPER


def close(real: Real) -> None:
    """Nothing was changed: whoever took it over ends it."""
    typed_again(real.home, "roll-back", real.status().run, "--take-over", "--execute", "--yes")
    assert real.status().state == RunState.REJECTED


def test_u01_taken_over_while_its_canary_waits(real: Real) -> None:
    """Nothing is measured, judged or asked beside the rollback that took it over: every event since bears the
    rollback's token."""
    over: list[str] = []

    def take(tasks: dict[str, str]) -> None:
        if tasks.get("canary.act") == "success" and not over:
            over.append(real.status().run)
            back = {"run": over[0], "to": "old_members", "take_over": True, "execute": True}
            real.api.trigger("roll_back", "over", back)

    conf = {**CONF, "until": "canary"}
    state = real.run("migrate_coordination", "taken", conf, YES, take)
    tasks = real.api.tasks("migrate_coordination", "taken")
    assert (state, over) == ("failed", [real.status().run])
    assert [task for task, end in tasks.items() if end == "failed"] == ["verdict"]
    said = real.said("migrate_coordination", "taken", "verdict")
    assert re.search("roll_back/over (has it: look there|had it last)", said), "it may have been back by then"
    assert [*real.api.follow("roll_back", "over", real.run_s)][-1] == "success"
    assert real.status().state == RunState.ROLLED_BACK
    claims = [each for each in real.events() if each.kind is EventKind.CLAIMED]
    other = next(each for each in claims if each.body["holder"] == "roll_back/over")
    theirs = {each.token for each in claims if each.body["holder"] == "roll_back/over"}
    later = {(each.token, str(each.kind)) for each in real.events() if each.seq > other.seq}
    assert {number for number, kind in later if kind != "sealed"} <= theirs
    assert len(real.asked("migrate_coordination", "taken")) == 1, "nobody was asked but for the plan"
    assert set(kinds_of(real.view())) == {MemberKind.ZOOKEEPER}


def test_u01_taken_over_while_the_others_are_replaced(real: Real) -> None:
    """The roll's act is made, its wait goes on; the migration-aware members stay for what follows."""
    take_over(real, "roll", {**QUIET, "until": "roll"}, "roll.act", "success")

    def replaced() -> bool:
        return kinds_of(real.view()) == [MemberKind.AWARE] * 2

    wait_until(replaced, 300.0, "what was begun is done", every_s=1.0)
    back(real, "zookeeper_mode")
    assert replaced(), "there was no mode to take back"


@pytest.mark.parametrize(
    ("at", "state"),
    [
        ("toggle.snapshot_before", "success"),
        ("approve_toggle", "awaiting_input"),
        ("toggle.act", "success"),
        ("toggle.compare_after", "running"),
        ("soak.wait", "running"),
    ],
)
def test_u01_taken_over_from_the_toggle_on(real: Real, at: str, state: str) -> None:
    """At its gate, while it is measured, acts and is watched; then the mode goes back."""
    conf = {**QUIET, "until": "toggle", "soak": 60 if at == "soak.wait" else 5}
    take_over(real, f"at-{at}".replace(".", "-"), conf, at, state)
    if acts_of(real.events()):
        back(real, "zookeeper_mode")
    else:
        close(real)


def test_u01_taken_over_on_its_own_way_back(real: Real) -> None:
    """A member that is gone fails the proof of the toggle; the rollback that begins by itself ends there."""

    def tell(**request: str) -> None:
        ask(real.home.supervisor_socket, request)

    held: list[str] = []
    taking = Taking(real, DAG, "way-back", "going_back", "success")

    def plant(tasks: dict[str, str]) -> None:
        if tasks.get("toggle.act") == "success" and not held:
            tell(verb="hold", slot="m2")
            tell(verb="signal", slot="m2", signal="KILL")
            held.append("m2")
        taking(tasks)

    ended = real.run(DAG, "way-back", {**QUIET, "until": "toggle"}, YES, plant)
    tasks = real.api.tasks(DAG, "way-back")
    assert tasks.pop("toggle.judge_after") == "failed"
    tell(verb="release", slot="m2")
    assert taking.left is not None
    assert ended == "failed"
    assert [task for task, end in tasks.items() if end == "failed"] == ["verdict"]
    assert left_of(real, DAG, "way-back") == taking.left
    assert "cli-over has it: look there" in real.said(DAG, "way-back", "verdict")
    wait_until(lambda: len(real.view().members) == 2, 120.0, "both members are there", every_s=1.0)
    back(real, "zookeeper_mode")


def test_u01_a_roll_back_is_taken_over_too(real: Real) -> None:
    """The DAG `roll_back` while old members take their places again; the command line ends what it began."""
    found = real.status().run
    taking = Taking(real, "roll_back", "back", "undo_members.act", "success")
    conf = {"run": found, "take_over": True, "to": "old_members", "execute": True}
    taking.check(real.run("roll_back", "back", conf, {}, taking))
    back(real, "old_members")
    assert set(kinds_of(real.view())) == {MemberKind.ZOOKEEPER}


def test_u01_taken_over_at_the_last_gate(real: Real) -> None:
    """Everything is moved and the rollback open: the answer of a person is refused, and it stays open."""
    take_over(real, "last-gate", {**QUIET, "until": "retire"}, "last_gate", "awaiting_input")
    assert set(kinds_of(real.view())) == {MemberKind.PLAIN}
    back(real, "old_members")


def test_u01_what_a_run_left_is_no_trouble_to_the_evidence(real: Real) -> None:
    """`verify-evidence` of every run that was taken over, and then back, is sound."""
    with real.runs() as runs:
        names = [each.run for each in runs.recent(100, previews=False)]
    checked = [verified(load(real.home.settings_file), each) for each in names]
    assert checked
    assert [found.troubles if found else None for found in checked] == [()] * len(checked)
