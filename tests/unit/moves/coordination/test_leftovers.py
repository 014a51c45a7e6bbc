"""What a rollback leaves in Kafka: said with the command that removes it, and removed where it is safe."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from groupshift.cli import repair
from groupshift.cli.main import main
from groupshift.domain.foreign_text_quoting import command, visible
from groupshift.domain.group import GroupView, Member
from groupshift.domain.group_protocol import KafkaGroup, KafkaMember
from groupshift.domain.modes import ABSENT_MODE, MemberKind, ModeNode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.plan import WayBack
from groupshift.domain.rows import OffsetRow
from groupshift.domain.run import RunState
from groupshift.domain.verdict import Verdict
from groupshift.engine.progress import Ended
from groupshift.engine.roll_back import begin_roll_back
from groupshift.engine.status import status_of
from groupshift.errors import Conflict, Transient
from groupshift.moves.coordination.repair_leftover_offsets import (
    Leftover,
    against_removal,
    leftover,
    remove_stale_offsets,
    stale_offsets,
)
from groupshift.ports.changes import unheld
from support.coordination_runs import CoordinationProcesses, make_coordination

GROUP = "orders-app"
COMMAND = f"groupshift repair offsets --group {GROUP} --execute"
FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Deleting:
    """Deletes Kafka's offsets in the simulated world, or does not."""

    def __init__(self, group: CoordinationProcesses, refused: str = "", *, lazy: bool = False) -> None:
        self.group, self.refused, self.lazy = group, refused, lazy
        self.asked: list[str] = []

    def delete(self, groups: Collection[str], hold: Callable[[], None] = unheld) -> dict[str, str]:
        """See the port."""
        hold()
        self.asked.extend(groups)
        if self.refused:
            return dict.fromkeys(groups, self.refused)
        if not self.lazy:
            self.group.world.kafka.clear()
        return {}

    def close(self) -> None:
        """See the port."""


@pytest.fixture
def back() -> CoordinationProcesses:
    """A group that went to Kafka's coordination and came back, while its members went on committing."""
    group = make_coordination()
    name = moved(group)
    assert isinstance(group.roll_back(name), Ended)
    assert group.state(name) is RunState.ROLLED_BACK
    return group


def moved(group: CoordinationProcesses) -> str:
    """A run that moved the group."""
    name = group.begin()
    group.drive(name)
    assert group.state(name) is RunState.MOVED
    return name


def stale(group: CoordinationProcesses) -> tuple[Leftover | None, str]:
    """What Kafka holds now, and why it stays."""
    return stale_offsets(group.ports().side, group.runs, GROUP)


def remove(group: CoordinationProcesses, deleting: Any) -> Leftover | None:
    """Remove it."""
    return remove_stale_offsets(group.ports().side, group.runs, GROUP, deleting)


def test_u15_the_closing_of_a_rollback_says_what_stays_in_kafka(back: CoordinationProcesses) -> None:
    """With the number, and the command that removes it as the next one."""
    (record,) = back.runs.recent(1)
    status = status_of(back.runs, record.run)
    many = len(back.world.kafka)
    assert many
    assert f"Kafka still holds {many} committed offsets of group {GROUP}" in status.reason
    assert status.following == COMMAND


def test_u15_a_forced_rollback_says_it_too() -> None:
    """The run that moved the group and had to take it back."""
    group = make_coordination()
    name = moved(group)
    begin_roll_back(group.claim(name, holder="forced"), WayBack.OLD_MEMBERS, "a person saw lag")
    ended = group.drive(name, holder="forced")
    assert isinstance(ended, Ended)
    assert (ended.closing.state, ended.closing.verdict) == (RunState.ROLLED_BACK, Verdict.FAIL)
    assert ended.closing.following == COMMAND


def test_u15_a_rollback_to_the_mode_leaves_offsets_that_are_in_use() -> None:
    """Migration-aware members stay and commit to Kafka too: nothing is to be removed."""
    group = make_coordination()
    ended = group.roll_back(moved(group), to=WayBack.ZOOKEEPER_MODE)
    assert isinstance(ended, Ended)
    assert "Kafka still holds" not in ended.closing.reason
    with pytest.raises(Conflict, match="members at its Kafka coordinator"):
        remove(group, Deleting(group))


def test_u15_stale_offsets_are_removed_and_read_back(back: CoordinationProcesses) -> None:
    """Afterwards nothing is left, and doing it again does nothing."""
    deleting = Deleting(back)
    assert remove(back, deleting)
    assert (stale(back), deleting.asked) == ((None, ""), [GROUP])
    assert remove(back, deleting) is None
    assert deleting.asked == [GROUP]


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"refused": "NON_EMPTY_GROUP"}, Conflict, "NON_EMPTY_GROUP"),
        ({"lazy": True}, Transient, "after their deletion"),
    ],
)
def test_u15_what_kafka_does_not_delete_is_said(
    back: CoordinationProcesses, given: dict[str, Any], error: type[Exception], said: str
) -> None:
    """A refusal of the coordinator, and a deletion that had no effect."""
    with pytest.raises(error, match=said):
        remove(back, Deleting(back, **given))


def test_u15_an_open_run_keeps_its_offsets(back: CoordinationProcesses) -> None:
    """A new one may rely on them."""
    name = back.begin()
    with pytest.raises(Conflict, match=f"nothing was removed: run {name} of group {GROUP} is open"):
        remove(back, Deleting(back))


def _view(**changed: Any) -> GroupView:
    old = Member(member_id="m1", kind=MemberKind.ZOOKEEPER)
    at = OffsetRow(group="g", **FIRST._asdict(), offset=35_097)
    view = GroupView(
        group=GROUP,
        taken_at_ms=0,
        exists=True,
        mode=ModeNode(data=b"zookeeper", version=1, czxid=1, mzxid=1),
        ids=("m1",),
        members=(old,),
        zookeeper_offsets=(at,),
        kafka_offsets=(replace(at, offset=24_377),),
    )
    return replace(view, **changed)


BEYOND = OffsetRow(group="g", **FIRST._asdict(), offset=35_098)
KAFKA_MODE = ModeNode(data=b"kafka", version=1, czxid=1, mzxid=1)
JOINED = KafkaGroup(state="Stable", members=(KafkaMember(member_id="x", client_id="billing", host="h"),))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, ""),
        ({"members": (), "ids": ()}, ""),
        ({"mode": KAFKA_MODE, "ids": (), "members": ()}, "kafka mode"),
        ({"mode": KAFKA_MODE}, "kafka mode"),
        ({"kafka": JOINED}, "billing"),
        ({"members": (Member(member_id="m1", kind=MemberKind.AWARE),)}, "of kind aware"),
        ({"problems": ("offset of orders/0 is not a number",)}, "not read whole"),
        ({"zookeeper_offsets": ()}, "the only one"),
        ({"mode": ABSENT_MODE, "members": (), "ids": ()}, "no member now and no mode node"),
        ({"mode": ABSENT_MODE}, ""),
        ({"kafka_offsets": (BEYOND,)}, "ahead of ZooKeeper at orders-0 (35,098 and 35,097)"),
        ({"kafka_offsets": (BEYOND,), "members": (), "ids": ()}, "ahead of ZooKeeper"),
    ],
)
def test_u15_only_offsets_that_nobody_continues_from_may_be_removed(
    changed: dict[str, Any], said: str
) -> None:
    """Kafka mode, a member of Kafka's, an aware member, an unread node, the only or the higher offset, and a
    group as finalise leaves it while its members are away stand against."""
    against = against_removal(_view(**changed))
    assert (said in against) if said else against == ""


@pytest.mark.parametrize(
    ("kafka", "zookeeper", "said"),
    [
        ({FIRST: 24_377}, {FIRST: 35_097}, "up to 10,720 records behind ZooKeeper (orders-0)"),
        ({FIRST: 5, SECOND: 1}, {FIRST: 7, SECOND: 9}, "up to 8 records behind ZooKeeper (orders-1)"),
        ({FIRST: 9}, {FIRST: 7}, "would begin up to 2 records ahead of ZooKeeper (orders-0)"),
        ({FIRST: 9}, {}, "holds 1 committed offset of"),
    ],
)
def test_u15_the_sentence_names_the_furthest_partition(
    kafka: dict[TopicPartition, int], zookeeper: dict[TopicPartition, int], said: str
) -> None:
    """In records, with thousands apart; nothing is said of a group without offsets in Kafka."""
    found = leftover("a b", kafka, zookeeper)
    assert found is not None
    assert said in found.sentence
    assert found.command == "groupshift repair offsets --group 'a b' --execute"
    assert leftover("a b", {}, zookeeper) is None


@pytest.mark.parametrize("options", [[], ["--execute"]])
def test_u15_the_command_removes_nothing_without_execute(
    back: CoordinationProcesses,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
) -> None:
    """It says what it would remove, and then what it removed."""
    deleting = Deleting(back)
    monkeypatch.setattr(repair, "settings", lambda _file: SimpleNamespace(kafka=None))
    monkeypatch.setattr(repair, "journal", lambda _settings: nullcontext(back.runs))
    monkeypatch.setattr(repair, "zookeeper_side", lambda _settings: nullcontext(back.ports().side))
    monkeypatch.setattr(repair, "offset_restoring", lambda *_, **__: deleting)
    many, execute = len(back.world.kafka), bool(options)
    code = main(["repair", "offsets", "--group", GROUP, "--json", *options])
    said = json.loads(capsys.readouterr().out)
    assert (code, said["removed"], len(said["offsets"])) == (0 if execute else 1, execute, many)
    after = f"groupshift coordination assess --group {GROUP}"
    assert said["next"] == (after if execute else COMMAND)
    assert len(back.world.kafka) == (0 if execute else many)
    assert deleting.asked == ([GROUP] if execute else [])


@pytest.mark.parametrize("group", ["a\nb", "x;id", "\x1b[31m", "\u202eppa"])
def test_f05_the_command_that_removes_leftovers_names_the_group_it_is_about(group: str) -> None:
    """Pasted into a shell it is one word, and what a terminal cannot show is written by its code point."""
    found = Leftover(group=group, offsets={FIRST: 7})
    assert found.command == command("groupshift", "repair", "offsets", "--group", group, "--execute")
    assert found.command == visible(found.command)


@pytest.mark.parametrize(
    ("kafka", "zookeeper", "said", "unsaid"),
    [
        ({FIRST: 1_009}, {FIRST: 7}, "up to 1,002 records ahead of ZooKeeper (orders-0)", "read them again"),
        (
            {FIRST: 5, SECOND: 12},
            {FIRST: 7, SECOND: 9},
            "up to 3 records ahead of ZooKeeper (orders-1)",
            "nobody commits",
        ),
        ({FIRST: 7}, {FIRST: 7}, "nobody commits to them any more", "ahead of"),
    ],
)
def test_u15_offsets_that_are_ahead_are_said_to_skip_records(
    kafka: dict[TopicPartition, int], zookeeper: dict[TopicPartition, int], said: str, unsaid: str
) -> None:
    """A plain Kafka consumer would never read these: worse than reading some again."""
    found = leftover("g", kafka, zookeeper)
    assert found is not None
    assert said in found.sentence
    assert unsaid not in found.sentence
    assert ("would skip" in found.sentence) is ("ahead" in said)
    assert ("up to 2 records behind ZooKeeper (orders-0)" in found.sentence) is (len(kafka) > 1)
