"""The driver `manual` on real servers: the run says what to deploy, the test plays the person who does it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from groupshift.bootstrap import App, build
from groupshift.domain.judgement import ActOutcome, ActState
from groupshift.domain.modes import MemberKind
from groupshift.domain.plan import Answer, Choice, Gate, MoveRequest, Phase, StageName, Until, WayBack
from groupshift.errors import Conflict
from groupshift.settings import parse
from groupshift_sandbox.processes import wait_until
from support.group_log import GroupLog
from support.group_probe import PATIENCE_S, GroupProbe
from support.patient_readers import wait_longer

PARTITIONS = 4


@dataclass(frozen=True, slots=True)
class Move:
    """One migration of a group and the App that drives it."""

    app: App
    group: str
    migration: str

    def kinds(self) -> dict[str, MemberKind]:
        """The members as the group knows them."""
        view = self.app.assess(MoveRequest(group=self.group)).view
        return {member.member_id: member.kind for member in view.members}

    def await_kinds(self, wanted: dict[str, MemberKind]) -> None:
        """Wait until the group knows exactly these members."""
        wait_until(lambda: self.kinds() == wanted, PATIENCE_S, f"members {wanted}", every_s=0.5)

    def await_settled(self, stage: StageName) -> None:
        """Wait until the group itself shows that the person is done."""
        wait_until(lambda: self.app.watch(self.migration, stage).settled, PATIENCE_S, stage, every_s=0.5)


@pytest.fixture
def app(cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    """An App whose settings name the driver; the requests do not."""
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
    with build(settings) as opened:
        yield opened


def begin(app: App, group: str) -> tuple[Move, int]:
    """A planned and approved move of one canary, and the token of the run that drives it."""
    request = MoveRequest(
        group=group, driver="", until=Until.CANARY, soak_s=0, canary_watch_s=0, execute=True, actor="test"
    )
    wait_until(lambda: app.assess(request).ready, PATIENCE_S, "the group is ready", every_s=0.5)
    planned = app.plan(request)
    assert planned.plan.driver == "manual"
    brief = app.brief(planned.migration, Gate.PLAN)
    answer = Answer(choice=Choice.APPROVE, who="ann", fingerprint=brief.fingerprint)
    app.answer(planned.migration, Gate.PLAN, answer)
    return Move(app, group, planned.migration), app.claim(planned.migration, "run-1")


def asked_of_a_person(outcome: ActOutcome, *parts: str) -> None:
    """The outcome tells a person what to do, where, and with what."""
    assert outcome.state is ActState.PENDING
    for part in parts:
        assert part in outcome.instruction


def test_a_person_deploys_the_canary_and_takes_it_back(
    app, cluster, group, topic, producer, scala_member, consume_member, kazoo, ledger, log_ends
):
    """Nothing goes on before the group shows it; ours delivers what it owns only, and no record is lost."""
    name, probe = topic(PARTITIONS), GroupProbe(kazoo, group)
    producer(name, PARTITIONS, rate=20)
    properties = {"auto.commit.interval.ms": "500"}
    old = [scala_member("1.1.1", f"m{n}-1", [name], seed=PARTITIONS, properties=properties) for n in (1, 2)]
    probe.await_shares(name, {each.member_id: 2 for each in old})
    move, token = begin(app, group)
    first = old[0].member_id
    asked_of_a_person(app.act(move.migration, StageName.CANARY, token), f"- {first}", "MigratingConsumer")
    assert not app.watch(move.migration, StageName.CANARY).settled
    assert set(move.kinds().values()) == {MemberKind.OLD}, "the driver itself changed nothing"

    old[0].stop()
    aware = consume_member("migrating", "m1-2", [name], properties=properties)
    move.await_settled(StageName.CANARY)
    move.await_kinds({aware.member_id: MemberKind.AWARE, old[1].member_id: MemberKind.OLD})

    newer = app.claim(move.migration, "run-2")
    assert app.begin_roll_back(move.migration, WayBack.OLD_MEMBERS, newer) == ("undo_members",)
    with pytest.raises(Conflict, match=f"token {token}"):
        app.act(move.migration, StageName.UNDO_MEMBERS, token)
    outcome = app.act(move.migration, StageName.UNDO_MEMBERS, newer)
    asked_of_a_person(outcome, "ZooKeeper consumer it ran before", f"{move.migration}:undo_members")
    aware.stop()
    again = scala_member("1.1.1", "m1-3", [name], properties=properties)
    move.await_settled(StageName.UNDO_MEMBERS)
    move.await_kinds({again.member_id: MemberKind.OLD, old[1].member_id: MemberKind.OLD})
    assert app.status(move.migration)[0].phase is Phase.ROLLING_BACK

    ends = log_ends(name, PARTITIONS)
    ledger.await_all({each: end + 10 for each, end in ends.items()})
    old_ids = [each.member_id for each in (*old, again)]
    GroupLog(cluster.home.zookeeper, group).assert_fenced(ledger.deliveries(), ends, old=old_ids)
