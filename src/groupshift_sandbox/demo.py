"""The demo of coordination: a group moves through Airflow, goes back, and what was delivered is proven."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groupshift.audit.ownership import history
from groupshift.audit.txnlog import merge, parse
from groupshift.bootstrap.moves import journal, submit
from groupshift.domain.plan import Until
from groupshift.domain.run import SparkJob
from groupshift.domain.verdict import Verdict
from groupshift.engine.status import status_of
from groupshift.errors import Broken, Transient
from groupshift.ports.runs import Runs
from groupshift.settings import Settings, load
from groupshift_sandbox.airflow import ZOOKEEPER
from groupshift_sandbox.airflow_api import AirflowApi, Question
from groupshift_sandbox.demo_table import Row, hand_overs, phases, rows
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import log_ends
from groupshift_sandbox.ledger import delivered, read_ledgers
from groupshift_sandbox.processes import known, stop, wait_until
from groupshift_sandbox.state import SandboxState
from groupshift_sandbox.up import UpOptions, up

GROUP = "orders-app"
TOPIC = "orders"
MOVE = "coordination"
_ANSWERS = ("Keep", "Approve")
"""What the demo answers by itself; any other question means that something did not pass."""
_OTHERWISE = "Roll back"
_RUN_S = 1200.0
_PERSON_S = 24 * 3600.0
_DRAIN_S = 60.0
_OPEN_S = 8.0
"""How long a gate was open before it is answered. Airflow hears from its executor that the task parked; where
the answer is there before that, it takes the task for lost and tries it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """``soak_s`` seconds of soak, ``canary_watch_s`` of watching the canary (more than 4 commit intervals of
    5 s: the last look is not always at its end); ``person``: gates are left to the person in the UI."""

    members: int = 3
    partitions: int = 6
    rate: float = 20.0
    soak_s: int = 20
    canary_watch_s: int = 30
    until: Until = Until.TOGGLE
    person: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """``rows`` one a phase; ``audit`` as ``audit.json`` holds it; ``dag_runs`` Airflow's final states."""

    run: str
    verdict: str
    rows: tuple[Row, ...]
    audit: dict[str, Any]
    audit_report: str
    dag_runs: dict[str, str]

    @property
    def passed(self) -> bool:
        """True only when every verdict is pass, the audit's too, and both DAG runs ended green."""
        verdicts = {row.phase.verdict for row in self.rows} | {Verdict(self.audit["verdict"])}
        green = set(self.dag_runs.values()) == {"success"}
        return bool(self.rows) and verdicts == {Verdict.PASS} and self.verdict == "pass" and green


class Demo:
    """One demo in one home. ``told`` gets one line for each thing that happened."""

    def __init__(self, home: Home, options: DemoOptions, tell: Callable[[str], None]) -> None:
        self._home = home
        self._options = options
        self._tell = tell
        self._asked: dict[str, float] = {}

    def prepare(self) -> str:
        """Bring everything up; returns the address of Airflow's UI."""
        options = self._options
        up(
            self._home,
            UpOptions(members=options.members, partitions=options.partitions, rate=options.rate),
            self._tell,
        )
        return SandboxState(self._home).addresses()["airflow"]

    def move(self) -> DemoResult:
        """There, back, and the proof. Raises `Broken` when Airflow began no run."""
        api = AirflowApi(url=SandboxState(self._home).addresses()["airflow"])
        stamp = time.strftime("%Y%m%d-%H%M%S")
        options, settings = self._options, load(self._home.settings_file)
        there = {
            "group": GROUP,
            "canary_watch": options.canary_watch_s,
            "soak": options.soak_s,
            "until": options.until.value,
            "execute": True,
        }
        ends = {"migrate_coordination": self._run(api, "migrate_coordination", f"demo-{stamp}", there)}
        with journal(settings) as runs:
            run = self._begun(runs)
            back = {"run": run, "to": "old_members", "zookeeper_conn_id": ZOOKEEPER, "execute": True}
            ends["roll_back"] = self._run(api, "roll_back", f"demo-{stamp}", back)
            self._drain(settings)
            report = self._audit(settings, run)
            return DemoResult(
                run=run,
                verdict=status_of(runs, run).verdict,
                rows=tuple(self._rows(runs, run)),
                audit=json.loads((report / "audit.json").read_text()),
                audit_report=str(report / "report.html"),
                dag_runs=ends,
            )

    def _run(self, api: AirflowApi, dag: str, run: str, conf: dict[str, Any]) -> str:
        """Trigger a DAG, tell its progress, answer its gates; returns the final state."""
        wait_until(lambda: api.knows(dag), 120.0, f"Airflow knows the DAG {dag}", every_s=1.0)
        self._tell(f"{dag}: run {run} triggered  {api.url}/dags/{dag}/runs/{run}")
        api.trigger(dag, run, conf)
        states: dict[str, str] = {}
        deadline = _PERSON_S if self._options.person else _RUN_S
        state = "queued"
        for now in api.follow(dag, run, deadline):
            state = now
            for question in api.questions(dag, run):
                self._answer(api, question)
            self._progress(dag, api.tasks(dag, run), states)
        self._tell(f"{dag}: {state}")
        return state

    def _answer(self, api: AirflowApi, question: Question) -> None:
        key = f"{question.run}/{question.dag}/{question.task}"
        new, now = key not in self._asked, time.monotonic()
        opened = self._asked.setdefault(key, now)
        if self._options.person:
            if new:
                self._tell(f"waiting for you: {question.subject}  {api.url}/required_actions")
            return
        if now < opened + _OPEN_S:
            return
        wanted = (each for word in _ANSWERS for each in question.options if each.startswith(word))
        choice = next(wanted, _OTHERWISE)
        self._tell(f"gate: {question.subject}: the demo answers {choice!r}")
        api.answer(question, choice)
        del self._asked[key]

    def _progress(self, dag: str, tasks: dict[str, str], states: dict[str, str]) -> None:
        for task, state in tasks.items():
            if state in {"success", "failed", "upstream_failed"} and states.get(task) != state:
                self._tell(f"{dag}: {task} {'done' if state == 'success' else state}")
            states[task] = state

    def _begun(self, runs: Runs) -> str:
        latest = runs.recent(1, move=MOVE, previews=False)
        if not latest:
            raise Broken(f"no run of {GROUP} was journaled; look at the run's log in Airflow")
        return latest[0].run

    def _drain(self, settings: Settings) -> None:
        """Stop the producer and wait until every record was delivered: the audit then sees all of it."""
        producer = known(self._home, "producer")
        if producer is not None:
            stop(producer)
        ends = log_ends(settings.kafka.bootstrap_servers, TOPIC, self._options.partitions)

        def everything() -> bool:
            times = delivered(read_ledgers(self._home.ledgers, GROUP))
            counts = defaultdict(Counter, times)
            return all(counts[at][end - 1] for at, end in ends.items() if end)

        self._tell("producer stopped; waiting until every record is delivered")
        try:
            wait_until(everything, _DRAIN_S, "every record delivered", every_s=0.5)
        except Transient:
            self._tell("not every record was delivered; the audit says which")

    def _audit(self, settings: Settings, run: str) -> Path:
        """Run the consumption audit over everything the members ever did; returns its folder."""
        self._tell("auditing every delivery against ZooKeeper's transaction log")
        output = self._home.evidence / "consumption" / run
        arguments = (
            *("--ledgers", str(self._home.ledgers), "--zookeeper-log", str(self._home.zookeeper)),
            *("--group", GROUP, "--output", str(output)),
            *("--brokers", settings.kafka.bootstrap_servers),
        )
        submit(settings)(SparkJob(job="audit_consumption", arguments=arguments, output=str(output)))
        return output

    def _rows(self, runs: Runs, run: str) -> list[Row]:
        logs = sorted((self._home.zookeeper / "version-2").glob("log.*"))
        transactions = merge(parse(path.read_bytes(), path.name) for path in logs)
        owners = history(transactions, GROUP)
        made = phases(runs.find(run), runs.events(run))
        return rows(made, hand_overs(owners.intervals), read_ledgers(self._home.ledgers, GROUP))
