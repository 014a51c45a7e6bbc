"""The demo of coordination: a group moves through Airflow, goes back, and what was delivered is proven."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from groupshift.audit.ownership import history
from groupshift.audit.txnlog import merge, parse
from groupshift.bootstrap.moves import journal, submit
from groupshift.domain.foreign_text_quoting import command
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.plan import Until
from groupshift.domain.run import SparkJob
from groupshift.engine.status import status_of
from groupshift.errors import Broken, Transient
from groupshift.settings import Settings, load
from groupshift_sandbox.airflow import USERS, ZOOKEEPER
from groupshift_sandbox.airflow_api import AirflowApi, Question
from groupshift_sandbox.demo_table import DemoResult, Proof, hand_overs, phases, rows
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import log_ends
from groupshift_sandbox.ledger import Delivery, lost, read_ledgers
from groupshift_sandbox.processes import known, stop, wait_until
from groupshift_sandbox.state import SandboxState
from groupshift_sandbox.up import UpOptions, up

GROUP = "orders-app"
TOPIC = "orders"
MOVE = "coordination"
_ANSWERS = ("Keep", "Approve")
"""What the demo answers by itself; any other question means that something did not pass."""
_OTHERWISE = "Roll back"
_CANARY_WATCH_S = 30
"""More than 4 commit intervals of 5 s: the last look at a canary is not always at its end."""
_RUN_S = 1200.0
_PERSON_S = 24 * 3600.0
_DRAIN_S = 120.0
_STOP_S = 40.0
_OPEN_S = 8.0
"""How long a gate was open before it is answered. Airflow hears from its executor that the task parked; where
the answer is there before that, it takes the task for lost and tries it again."""
Tell = Callable[[str], None]
"""Gets one line for each thing that happened."""


@dataclass(slots=True, kw_only=True)
class Demo:
    """One demo in one home: ``soak_s`` seconds of soak; ``person``: gates are left to a person in the UI."""

    home: Home
    tell: Tell
    members: int = 3
    partitions: int = 6
    soak_s: int = 20
    until: Until = Until.TOGGLE
    person: bool = False
    _opened: dict[str, float] = field(default_factory=dict)

    def prepare(self) -> None:
        """Bring everything up, and say where Airflow's UI is."""
        up(self.home, UpOptions(members=self.members, partitions=self.partitions), self.tell)
        logins = " or ".join(f"{user} / {user}" for user in USERS)
        self.tell(f"Airflow: {SandboxState(self.home).addresses()['airflow']}  login {logins}")

    def move(self) -> DemoResult:
        """There, back, and the proof. Raises `Broken` when Airflow began no run."""
        api = AirflowApi(url=SandboxState(self.home).addresses()["airflow"])
        stamp = time.strftime("%Y%m%d-%H%M%S")
        settings = load(self.home.settings_file)
        there = {
            "group": GROUP,
            "canary_watch": _CANARY_WATCH_S,
            "soak": self.soak_s,
            "until": self.until.value,
            "execute": True,
        }
        moved = self._run(api, "migrate_coordination", f"demo-{stamp}", there)
        with journal(settings) as runs:
            latest = runs.recent(1, move=MOVE, previews=False)
            if not latest:
                raise Broken(f"no run of {GROUP} was journaled; look at the run's log in Airflow")
            run = latest[0].run
            back = {"run": run, "to": "old_members", "zookeeper_conn_id": ZOOKEEPER, "execute": True}
            moved_back = self._run(api, "roll_back", f"demo-{stamp}", back)
            ledgers = self.home.ledgers
            bootstrap = settings.kafka.bootstrap_servers
            drained(self.home, bootstrap, self.partitions, lambda: read_ledgers(ledgers, GROUP), self.tell)
            report = self._audit(settings, run)
            made = phases(runs.find(run), runs.events(run))
            verdict = status_of(runs, run).verdict
        logs = sorted((self.home.zookeeper / "version-2").glob("log.*"))
        owners = history(merge(parse(path.read_bytes(), path.name) for path in logs), GROUP)
        audit: dict[str, Any] = json.loads((report / "audit.json").read_text())
        delivered = (
            f"lost {audit['lost']}, twice {audit['duplicates']} (unexplained {audit['unexplained']}), "
            f"overlapping owners {audit['overlaps']}"
        )
        proofs = (
            Proof(
                what="DAG runs",
                there=moved,
                back=moved_back,
                holds=moved == moved_back == "success",
            ),
            Proof(what="every delivery", back=delivered, holds=audit["verdict"] == "pass"),
        )
        reports = {row.name: f"{row.output}/report.html" for row in made if row.output}
        return DemoResult(
            run=run,
            verdict=verdict,
            rows=tuple(rows(made, hand_overs(owners.intervals), read_ledgers(ledgers, GROUP))),
            proofs=proofs,
            report=command("groupshift", "report", run, "--settings", str(self.home.settings_file)),
            reports={**reports, "audit": str(report / "report.html")},
            consumers=True,
        )

    def _run(self, api: AirflowApi, dag: str, run: str, conf: dict[str, Any]) -> str:
        """Trigger a DAG, tell its progress, answer its gates; returns the final state."""
        wait_until(lambda: api.knows(dag), 120.0, f"Airflow knows the DAG {dag}", every_s=1.0)
        self.tell(f"{dag}: run {run} triggered  {api.url}/dags/{dag}/runs/{run}")
        api.trigger(dag, run, conf)
        states: dict[str, str] = {}
        state = "queued"
        for now in api.follow(dag, run, _PERSON_S if self.person else _RUN_S):
            state = now
            for question in api.questions(dag, run):
                self._answer(api, question)
            for task, task_state in api.tasks(dag, run).items():
                ended = task_state in {"success", "failed", "upstream_failed"}
                if ended and states.get(task) != task_state:
                    self.tell(f"{dag}: {task} {'done' if task_state == 'success' else task_state}")
                states[task] = task_state
        self.tell(f"{dag}: {state}")
        return state

    def _answer(self, api: AirflowApi, question: Question) -> None:
        key = f"{question.run}/{question.dag}/{question.task}"
        new, now = key not in self._opened, time.monotonic()
        opened = self._opened.setdefault(key, now)
        if self.person:
            if new:
                self.tell(f"waiting for you: {question.subject}  {api.url}/required_actions")
            return
        if now < opened + _OPEN_S:
            return
        wanted = (each for word in _ANSWERS for each in question.options if each.startswith(word))
        choice = next(wanted, _OTHERWISE)
        self.tell(f"gate: {question.subject}: the demo answers {choice!r}")
        api.answer(question, choice)
        del self._opened[key]

    def _audit(self, settings: Settings, run: str) -> Path:
        """Run the consumption audit over everything the members ever did; returns its folder."""
        self.tell("auditing every delivery against ZooKeeper's transaction log")
        output = self.home.evidence / "consumption" / run
        arguments = (
            *("--ledgers", str(self.home.ledgers), "--zookeeper-log", str(self.home.zookeeper)),
            *("--group", GROUP, "--output", str(output)),
            *("--brokers", settings.kafka.bootstrap_servers),
        )
        submit(settings)(SparkJob(job="audit_consumption", arguments=arguments, output=str(output)))
        return output


def drained(
    home: Home, bootstrap: str, partitions: int, deliveries: Callable[[], Sequence[Delivery]], tell: Tell
) -> dict[TopicPartition, int]:
    """End the producer, and wait until every record was delivered to somebody, which a proof says else; the
    log ends."""
    producer = known(home, "producer")
    if producer is not None:
        stop(producer, _STOP_S)
    ends = log_ends(bootstrap, TOPIC, partitions)
    tell("producer stopped; waiting until every record is delivered")
    try:
        wait_until(lambda: not lost(deliveries(), ends), _DRAIN_S, "every record is delivered", every_s=0.5)
    except Transient:
        tell("not every record was delivered; the table says how many")
    return ends
