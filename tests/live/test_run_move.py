"""`groupshift run` on real servers: plants turn it red and take it back; kill -9 at any act does not.

One sandbox of this module's own. What the command line calls as ``spark-submit`` hands the same job with the
same arguments to a session that all tests of the run share (`warm_spark`).
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kazoo.client import KazooClient

from groupshift.adapters.drivers.process import ask
from groupshift.domain.evidence import MANIFEST
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.plan import PhaseName, Until
from groupshift.domain.run import RunState, SparkJob
from groupshift.domain.verdict import Verdict
from groupshift.engine.run_end import Closing
from groupshift.errors import Transient
from groupshift.ports.clock import CrashPoint
from groupshift.settings import Settings, load
from groupshift_sandbox.down import down
from groupshift_sandbox.home import Home
from groupshift_sandbox.ledger import read_ledgers
from groupshift_sandbox.processes import wait_until
from groupshift_sandbox.up import UpOptions, up
from support.coordination_app import GroupApp, closed, coordination_app
from support.disk_evidence import DiskEvidence, DiskProof
from support.group_log import GroupLog
from support.protocol_fleet import patiently
from support.warm_spark import Jobs, warm_spark

GROUP, TOPIC, IDLE = "orders-app", "orders", 5
RUN_S = 600.0
SETTLED = "snapshot after canary"
"""The step that begins when the canary's act has settled."""


@dataclass
class Sandbox:
    """Servers, three old members, a supervisor, and the settings of all that; ``killed`` are members."""

    home: Home
    settings: Settings
    zookeeper: KazooClient
    jobs: Jobs
    killed: set[str] = field(default_factory=set)

    def supervisor(self, **request: object) -> dict[str, object]:
        """One verb of the supervisor."""
        return ask(self.home.supervisor_socket, request)

    def slots(self) -> dict[str, dict[str, object]]:
        """The places by name."""
        found = patiently(lambda: self.supervisor(verb="slots")["slots"])
        return {slot["name"]: slot for slot in found}

    def kinds(self) -> set[object]:
        """What runs in the places."""
        return {slot["kind"] for slot in self.slots().values()}

    def settled(self, kind: str = "old") -> bool:
        """Every place runs a member of that kind."""
        return all((s["kind"], s["state"]) == (kind, "running") for s in self.slots().values())

    def znode(self, partition: int) -> str:
        """Path of a committed offset."""
        return f"/consumers/{GROUP}/offsets/{TOPIC}/{partition}"


pytestmark = pytest.mark.timeout(900)  # each moves a group there and back


def planned(app: GroupApp, until: Until) -> str:
    """A run that is planned once the group is ready."""
    wait_until(lambda: patiently(lambda: app.assess(GROUP)).ready, 60.0, "the group is ready")
    return patiently(lambda: app.plan(GROUP, until=until))


def forward(app: GroupApp, run: str) -> Closing:
    """To the end; a run that a silent server ended is gone on with, as people are told to."""
    closing = closed(patiently(lambda: app.forward(run), RUN_S))
    assert not app.at.at, f"never reached: {[*app.at.at]}"
    return closing


def compared_here(sandbox: Sandbox) -> Callable[[list[str]], int]:
    """What makes the essential comparisons of the job `validate`."""
    proof = DiskProof(DiskEvidence(sandbox.settings.evidence.root))

    def run(arguments: list[str]) -> int:
        output = dict(zip(arguments[::2], arguments[1::2], strict=True))["--output"]
        proof.run(SparkJob(job="validate.py", arguments=tuple(arguments), output=output))
        return 0

    return run


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """Up once for the module; everything is ended by process id."""
    home = Home(tmp_path_factory.mktemp("move"))
    up(home, UpOptions(airflow=False, idle=(IDLE,)), lambda _line: None)
    with home.settings_file.open("a") as settings:
        settings.write("[thresholds]\npatience_s = 30\nsettle_s = 240\n")
    jobs = Jobs()
    with warm_spark(home.root, jobs) as submit:
        text = home.settings_file.read_text().replace("[spark]", f'[spark]\nsubmit = "{submit}"')
        home.settings_file.write_text(text)
        parsed = load(home.settings_file)
        zookeeper = KazooClient(parsed.zookeeper.hosts)
        try:
            zookeeper.start(60)
            yield Sandbox(home, parsed, zookeeper, jobs)
        finally:
            zookeeper.stop()
            zookeeper.close()
            down(home)


@pytest.fixture
def app(sandbox: Sandbox) -> Iterator[GroupApp]:
    """The move over the real adapters."""
    with coordination_app(sandbox.settings) as made:
        yield made


def rewrite(folder: Path, table: str, change: Callable[[list], list], *, rehash: bool) -> None:
    """What a forger does to one table of a snapshot."""
    file = folder / f"{table}.parquet"
    before = pq.read_table(file)
    pq.write_table(pa.Table.from_pylist(change(before.to_pylist()), schema=before.schema), file)
    if not rehash:
        return
    manifest = json.loads((folder / MANIFEST).read_text())
    for entry in manifest["files"]:
        if entry["table"] == table:
            data = file.read_bytes()
            rows = pq.read_metadata(file).num_rows
            entry |= {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data), "rows": rows}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")


def test_an_idle_offset_set_one_lower_is_named_and_taken_back(sandbox: Sandbox, app: GroupApp) -> None:
    """Plant 1: after the canary has settled, the znode of an idle partition loses one."""
    path = sandbox.znode(IDLE)
    wait_until(
        lambda: sandbox.zookeeper.get(path)[0] == b"100", 60.0, "all of the idle partition is committed"
    )
    run = planned(app, Until.CANARY)

    def lower() -> None:
        _wait_for_calm(sandbox)  # a member that takes the partition just now would heal the plant
        value = int(sandbox.zookeeper.get(path)[0])
        sandbox.zookeeper.set(path, str(value - 1).encode())

    app.at.at[SETTLED] = lower
    ended = patiently(lambda: app.forward(run), RUN_S)
    assert not app.at.at, "the plant was never made"
    assert any(f"{TOPIC}-{IDLE}" in each for each in app.failed(run)), app.failed(run)
    assert sandbox.kinds() == {"old"}
    if app.state(run) is not RunState.ROLLED_BACK:
        _prove_back(sandbox, app, run)
        return
    assert closed(ended).verdict is Verdict.FAIL


def _wait_for_calm(sandbox: Sandbox, quiet_s: float = 3.0) -> None:
    """Wait until no partition has changed its owner for a while: the last rebalance is over."""
    seen: dict[str, int] = {}
    since = time.monotonic()

    def calm() -> bool:
        nonlocal seen, since
        folder = f"/consumers/{GROUP}/owners/{TOPIC}"
        now = {
            each: sandbox.zookeeper.exists(f"{folder}/{each}")
            for each in sandbox.zookeeper.get_children(folder)
        }
        nodes = {each: stat.czxid for each, stat in now.items() if stat is not None}
        if nodes != seen:
            seen, since = nodes, time.monotonic()
        return time.monotonic() - since > quiet_s

    wait_until(calm, 60.0, "no partition changes its owner", every_s=0.2)


def _prove_back(sandbox: Sandbox, app: GroupApp, run: str) -> None:
    """The old member reads the lost record once more and commits: then the rollback is proven equal."""
    first = pq.read_table(Path(app.folder(run, "before canary")) / "offsets.parquet").to_pylist()
    wanted = next(r["offset"] for r in first if (r["partition"], r["store"]) == (IDLE, "zookeeper"))
    path = sandbox.znode(IDLE)
    wait_until(lambda: int(sandbox.zookeeper.get(path)[0]) >= wanted, 60.0, "the record is read again")
    _wait_for_calm(sandbox)
    closing = closed(patiently(lambda: app.back(run), RUN_S))
    assert closing.state is RunState.ROLLED_BACK, (closing.reason, app.failed(run))


def test_a_member_killed_and_held_down_is_named_and_taken_back(sandbox: Sandbox, app: GroupApp) -> None:
    """Plant 2: its driver is told not to restart it. The live rules say so: nothing is compared in Spark."""
    run = planned(app, Until.CANARY)

    def kill() -> None:
        sandbox.killed.add(str(sandbox.slots()["m3"]["member_id"]))
        sandbox.supervisor(verb="hold", slot="m3")
        sandbox.supervisor(verb="signal", slot="m3", signal="KILL")

    app.at.at[SETTLED] = kill
    app.at.at[PhaseName.UNDO_MEMBERS] = lambda: _release(sandbox)
    with sandbox.jobs.by(compared_here(sandbox)):
        closing = forward(app, run)
    assert (closing.state, closing.verdict) == (RunState.ROLLED_BACK, Verdict.FAIL), closing
    assert any("m3" in each for each in app.failed(run)), app.failed(run)
    assert sandbox.kinds() == {"old"}


def _release(sandbox: Sandbox) -> None:
    sandbox.supervisor(verb="release", slot="m3")
    wait_until(lambda: sandbox.slots()["m3"]["state"] == "running", 60.0, "m3 is back")


def test_a_second_owner_in_the_evidence_is_named_and_taken_back(sandbox: Sandbox, app: GroupApp) -> None:
    """Plant 3: an owner row duplicated with another member, and the manifest made to fit."""
    run = planned(app, Until.CANARY)

    def forge() -> None:
        def twice(rows: list) -> list:
            return [*rows, {**rows[0], "member_id": rows[-1]["member_id"], "czxid": 1}]

        rewrite(Path(app.folder(run, "after canary")), "owners", twice, rehash=True)

    app.at.at["job after canary"] = forge
    closing = forward(app, run)
    assert (closing.state, closing.verdict) == (RunState.ROLLED_BACK, Verdict.FAIL), closing
    rules = {each.split(":")[0] for each in app.failed(run)}
    assert "J03" in rules, "the journal knows another manifest"
    compared = Path(sandbox.settings.evidence.root) / run
    reports = [each.parent.name for each in compared.rglob("report.html")]
    assert any("canary-compare-after" in each for each in reports), reports
    assert sandbox.kinds() == {"old"}


def test_an_altered_file_is_refused_before_spark_compares(sandbox: Sandbox, app: GroupApp) -> None:
    """Plant 4: one file changed, its manifest not; no report is made of it and nothing is changed."""
    run = planned(app, Until.CANARY)

    def tamper() -> None:
        folder = Path(app.folder(run, "before canary"))
        rewrite(folder, "offsets", lambda rows: rows[:-1], rehash=False)

    app.at.at["compare before"] = tamper
    closing = forward(app, run)
    assert (closing.state, closing.verdict) == (RunState.REJECTED, Verdict.FAIL), closing
    assert "offsets.parquet has SHA-256" in closing.reason
    compared = Path(sandbox.settings.evidence.root) / run
    assert not list(compared.glob("*/report.html")), "no comparison was made"
    assert "J02" in {each.split(":")[0] for each in app.failed(run)}
    assert sandbox.kinds() == {"old"}


ACTS = ("canary/replace_members", "roll/replace_members", "toggle/set_mode")
ACTS_BACK = ("toggle/set_mode", "canary/replace_members")
"""Each is named after the first act that it takes back."""


def groupshift(sandbox: Sandbox, arguments: list[str], crash: str = "", whom: str = "self") -> int:
    """Run the command line in a process of its own; the return code, negative when killed.

    With ``whom`` ``parent`` a shell stands for the supervisor of the task: it dies first."""
    command = [sys.executable, "-m", "groupshift.cli.main", *arguments]
    if whom == "parent":
        command = ["/bin/sh", "-c", '"$@" & wait $!', "sh", *command]
    hooks = {"GROUPSHIFT_TEST_HOOKS": "1", "GROUPSHIFT_CRASH_AT_STEP": crash, "GROUPSHIFT_CRASH_WHOM": whom}
    settings = {"GROUPSHIFT_SETTINGS": str(sandbox.home.settings_file)}
    with (sandbox.home.logs / "run.log").open("ab") as log:
        done = subprocess.run(
            command,
            env={**os.environ, **settings, **(hooks if crash else {})},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            timeout=RUN_S,
            check=False,
        )
    return done.returncode


def repeated(sandbox: Sandbox, arguments: list[str], *crash: str) -> int:
    """`groupshift`, again while a server does not answer it in time, as people are told to."""
    codes: list[int] = []

    def ended() -> bool:
        codes.append(groupshift(sandbox, arguments, *crash))
        return codes[-1] != Transient.exit_code

    wait_until(ended, RUN_S, f"{arguments} is answered", every_s=0.5)
    return codes[-1]


def kill_at_every_point(sandbox: Sandbox, acts: tuple[str, ...], arguments: list[str]) -> int:
    """Repeat the same command, killed at each point of each act, task and supervisor in turn. What leads to a
    kill is compared in this process, in no time; all that comes after the last one in Spark."""
    points = [f"{act}.{point}" for act in acts for point in CrashPoint]
    with sandbox.jobs.by(compared_here(sandbox)):
        for turn, point in enumerate(points):
            whom = ("self", "parent")[turn % 2]
            code = repeated(sandbox, arguments, point, whom)
            assert code == -signal.SIGKILL, f"{point} ({whom}) ended with {code}, was never reached"
    return repeated(sandbox, arguments)


@pytest.mark.timeout(1800)
def test_killed_at_every_point_of_every_act_it_reaches_the_same_end(sandbox: Sandbox, app: GroupApp) -> None:
    """There and back again with 20 kills: each member replaced once, the mode written once each way."""
    run = planned(app, Until.TOGGLE)
    before = {name: slot["member_id"] for name, slot in sandbox.slots().items()}
    writes = mode_version(sandbox)
    code = kill_at_every_point(sandbox, ACTS, ["continue", run, "--execute", "--yes", "--take-over"])
    log = (sandbox.home.logs / "run.log").read_text()[-3000:]
    assert code == 0, log
    assert app.state(run) is RunState.MOVED
    assert sandbox.settled("aware")
    assert incarnations(sandbox) == {name: number(member) + 1 for name, member in before.items()}
    assert mode_version(sandbox) == writes + 1, "the mode node was written once"
    code = kill_at_every_point(sandbox, ACTS_BACK, ["roll-back", run, "--execute", "--yes", "--take-over"])
    assert code == 0, (sandbox.home.logs / "run.log").read_text()[-3000:]
    assert app.state(run) is RunState.ROLLED_BACK
    assert sandbox.settled("old")
    assert incarnations(sandbox) == {name: number(member) + 2 for name, member in before.items()}
    assert mode_version(sandbox) == writes + 2


def number(member: object) -> int:
    """The incarnation in a member id."""
    return int(str(member).rpartition("-")[2])


def incarnations(sandbox: Sandbox) -> dict[str, int]:
    """How often each place was filled."""
    return {name: number(slot["member_id"]) for name, slot in sandbox.slots().items()}


def mode_version(sandbox: Sandbox) -> int:
    """The version of the mode node: 0 after its first write, -1 when there is none."""
    stat = sandbox.zookeeper.exists(f"/consumers/{GROUP}/migration/mode")
    return -1 if stat is None else int(stat.version)


def test_the_group_lost_nothing_in_all_of_this(sandbox: Sandbox) -> None:
    """Every record that was committed past was delivered to somebody, per partition, without a gap; what an
    old member that was killed had committed past and not printed (§6.6) is no loss of ours."""
    ends: dict[TopicPartition, int] = {}
    for each in read_ledgers(sandbox.home.ledgers):
        ends[each.partition] = max(ends.get(each.partition, 0), each.offset + 1)
    assert len(ends) == 6
    log = GroupLog(sandbox.home.zookeeper, GROUP)
    log.assert_delivered(lambda: read_ledgers(sandbox.home.ledgers), ends, old=sandbox.killed)
