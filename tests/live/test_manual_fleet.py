"""The driver `manual` on real servers: the run says what to deploy, the test plays the person who does it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from groupshift.domain.modes import MemberKind
from groupshift.domain.plan import PhaseName, Until
from groupshift.domain.run import Instruction, RunState, plan_from
from groupshift.engine.gates import answer
from groupshift.engine.move import Run
from groupshift.engine.progress import Asks, Moved, Waits
from groupshift.engine.replace_members import REPLACE_MEMBERS
from groupshift.engine.roll_back import begin_roll_back
from groupshift.engine.run import advance
from groupshift.errors import Fenced
from groupshift.settings import parse
from groupshift_sandbox.processes import wait_until
from support.coordination_app import GroupApp, coordination_app
from support.group_log import GroupLog
from support.group_probe import PATIENCE_S, GroupProbe
from support.patient_readers import wait_longer

PARTITIONS = 4


@dataclass(frozen=True, slots=True)
class Move:
    """One run of a group and the process that drives it step by step."""

    app: GroupApp
    group: str
    run: Run

    def kinds(self) -> dict[str, MemberKind]:
        """The members as the group knows them."""
        return {member.member_id: member.kind for member in self.app.assess(self.group).view.members}

    def await_kinds(self, wanted: dict[str, MemberKind]) -> None:
        """Wait until the group knows exactly these members."""
        wait_until(lambda: self.kinds() == wanted, PATIENCE_S, f"members {wanted}", every_s=0.5)

    def await_instruction(self, phase: PhaseName) -> str:
        """Advance until a person is told what to do in this phase; what is said."""
        told: list[str] = []

        def reached() -> bool:
            made = advance(self.run)
            match made:
                case Moved(work=Instruction(text=text)):
                    assert made.step.phase == phase
                    told.append(text)
                case Moved(work=None) | Waits():
                    pass
                case Moved(work=job):
                    self.app.submit(job)
                case Asks(question=question):
                    given = self.app.decide(question)
                    assert given is not None
                    answer(self.run, question.gate, given)
                case _:
                    raise AssertionError(made)
            return bool(told)

        wait_until(reached, 4 * PATIENCE_S, f"a person is told what to do in {phase}", every_s=0.1)
        return told[0]

    def looks(self) -> Moved | Waits:
        """One look at the step whose turn it is."""
        made = advance(self.run)
        assert isinstance(made, Moved | Waits), made
        assert made.step.kind == REPLACE_MEMBERS
        return made

    def await_settled(self) -> None:
        """Wait until the group itself shows that the person is done."""
        wait_until(lambda: isinstance(self.looks(), Moved), 4 * PATIENCE_S, "the group shows it", every_s=0.5)


@pytest.fixture
def app(cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GroupApp]:
    """The move with settings that name the driver; the requests do not."""
    wait_longer(monkeypatch)
    settings = parse(
        {
            "kafka": {"bootstrap_servers": cluster.bootstrap},
            "zookeeper": {"hosts": cluster.zookeeper},
            "fleet": {"driver": "manual"},
            "journal": {"url": f"sqlite:///{tmp_path / 'journal.db'}"},
            "evidence": {"root": str(tmp_path / "evidence")},
        }
    )
    with coordination_app(settings, spark=False) as opened:
        yield opened


def begin(app: GroupApp, group: str) -> Move:
    """A planned move of one canary, claimed."""
    wait_until(lambda: app.assess(group).ready, PATIENCE_S, "the group is ready", every_s=0.5)
    run = app.plan(group, until=Until.CANARY)
    assert plan_from(app.record(run).plan).about["driver"] == "manual"
    return Move(app, group, app.claim(run, "run-1"))


def said(instruction: str, *parts: str) -> None:
    """It tells a person what to do, where, and with what."""
    for part in parts:
        assert part in instruction


def test_a_person_deploys_the_canary_and_takes_it_back(
    app, cluster, group, topic, producer, scala_member, consume_member, kazoo, ledger, log_ends
):
    """Nothing goes on before the group shows it; ours delivers what it owns only, and no record is lost."""
    name, probe = topic(PARTITIONS), GroupProbe(kazoo, group)
    producer(name, PARTITIONS, rate=20)
    properties = {"auto.commit.interval.ms": "500"}
    old = [scala_member("1.1.1", f"m{n}-1", [name], seed=PARTITIONS, properties=properties) for n in (1, 2)]
    probe.await_shares(name, {each.member_id: 2 for each in old})
    move = begin(app, group)
    first = old[0].member_id
    said(move.await_instruction(PhaseName.CANARY), f"- {first}", "MigratingConsumer")
    assert isinstance(move.looks(), Waits)
    assert set(move.kinds().values()) == {MemberKind.ZOOKEEPER}, "the driver itself changed nothing"

    old[0].stop()
    aware = consume_member("migrating", "m1-2", [name], properties=properties)
    move.await_settled()
    move.await_kinds({aware.member_id: MemberKind.AWARE, old[1].member_id: MemberKind.ZOOKEEPER})

    former, move = move, replace(move, run=app.claim(move.run.name, "run-2"))
    assert begin_roll_back(move.run, app.move.back_to[0])
    with pytest.raises(Fenced, match="run-2"):
        advance(former.run)
    instruction = move.await_instruction(PhaseName.UNDO_MEMBERS)
    said(instruction, "ZooKeeper consumer it ran before", f"{move.run.name}:undo_members")
    aware.stop()
    again = scala_member("1.1.1", "m1-3", [name], properties=properties)
    move.await_settled()
    move.await_kinds({again.member_id: MemberKind.ZOOKEEPER, old[1].member_id: MemberKind.ZOOKEEPER})
    assert app.state(move.run.name) is RunState.ROLLING_BACK

    ends = log_ends(name, PARTITIONS)
    ledger.await_all({each: end + 10 for each, end in ends.items()})
    old_ids = [each.member_id for each in (*old, again)]
    GroupLog(cluster.home.zookeeper, group).assert_fenced(ledger.deliveries(), ends, old=old_ids)
