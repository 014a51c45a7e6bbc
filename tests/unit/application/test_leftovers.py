"""What a rollback leaves in Kafka: said with the command that removes it, and removed where it is safe."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from groupshift.application.group_headline import headline
from groupshift.domain.group import CommittedOffset, GroupView, KafkaGroup, KafkaMember, Member
from groupshift.domain.modes import ABSENT_MODE, MemberKind, ModeNode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.plan import Phase, Until, WayBack
from groupshift.domain.verdict import Verdict
from groupshift.errors import Conflict, Transient
from groupshift.ports.changes import unheld
from support.simulated_move import Bench, make_bench

GROUP = "orders-app"
COMMAND = f"groupshift repair offsets --group {GROUP} --execute"
FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Deleting:
    """Deletes Kafka's offsets in the simulated world, or does not."""

    def __init__(self, bench: Bench, refused: str = "", *, lazy: bool = False) -> None:
        self.bench, self.refused, self.lazy = bench, refused, lazy
        self.asked: list[str] = []

    def delete(self, groups: Collection[str], hold: Callable[[], None] = unheld) -> dict[str, str]:
        hold()
        self.asked.extend(groups)
        if self.refused:
            return dict.fromkeys(groups, self.refused)
        if not self.lazy:
            self.bench.world.kafka.clear()
        return {}


@pytest.fixture
def back() -> tuple[Bench, str]:
    """A group that went to Kafka's coordination and came back, while its members went on committing."""
    bench = make_bench()
    migration, _ = bench.move(until=Until.TOGGLE)
    closing = bench.roll_back(migration)
    assert closing.phase is Phase.ROLLED_BACK
    return bench, migration


def test_u15_the_closing_of_a_rollback_says_what_stays_in_kafka(back: tuple[Bench, str]) -> None:
    """With the number, and the command that removes it; the report offers it as a step."""
    bench, migration = back
    app = bench.app()
    (found,) = app.status(migration)
    many = len(bench.world.kafka)
    assert many
    assert f"Kafka still holds {many} committed offsets of group {GROUP}" in found.reason
    assert COMMAND in found.reason
    top = headline(app.account(migration))
    assert COMMAND in [command for _, command in top.now]
    assert not any("the group is as it was" in text for text, _ in top.now)


def test_u15_a_forced_rollback_says_it_too() -> None:
    """The run that moved the group and had to take it back."""
    bench = make_bench()
    migration, _ = bench.move(until=Until.TOGGLE)
    app = bench.app()
    token = app.claim(migration, "forced")
    app.begin_roll_back(migration, WayBack.OLD_MEMBERS, token, because="a person saw lag")
    closing = bench.roll_back(migration)
    assert (closing.phase, closing.verdict) == (Phase.ROLLED_BACK, Verdict.FAIL)
    assert COMMAND in closing.reason


def test_u15_a_rollback_to_the_mode_leaves_offsets_that_are_in_use() -> None:
    """Migration-aware members stay and commit to Kafka too: nothing is to be removed."""
    bench = make_bench()
    migration, _ = bench.move(until=Until.TOGGLE)
    closing = bench.roll_back(migration, WayBack.ZOOKEEPER_MODE)
    assert closing.phase is Phase.ROLLED_BACK
    assert "repair offsets" not in closing.reason
    assert bench.app().leftover(migration) is None
    with pytest.raises(Conflict, match="members at its Kafka coordinator"):
        bench.app().remove_stale_offsets(GROUP, Deleting(bench))  # type: ignore[arg-type]


def test_u15_stale_offsets_are_removed_and_read_back(back: tuple[Bench, str]) -> None:
    """Afterwards nothing is left, and doing it again does nothing."""
    bench, _ = back
    deleting: Any = Deleting(bench)
    removed = bench.app().remove_stale_offsets(GROUP, deleting)
    assert removed
    assert (bench.app().stale_offsets(GROUP), deleting.asked) == ((None, ""), [GROUP])
    assert bench.app().remove_stale_offsets(GROUP, deleting) is None
    assert deleting.asked == [GROUP]


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"refused": "NON_EMPTY_GROUP"}, Conflict, "NON_EMPTY_GROUP"),
        ({"lazy": True}, Transient, "after their deletion"),
    ],
)
def test_u15_what_kafka_does_not_delete_is_said(
    back: tuple[Bench, str], given: dict[str, Any], error: type[Exception], said: str
) -> None:
    """A refusal of the coordinator, and a deletion that had no effect."""
    bench, _ = back
    with pytest.raises(error, match=said):
        bench.app().remove_stale_offsets(GROUP, Deleting(bench, **given))  # type: ignore[arg-type]


def test_u15_an_open_migration_keeps_its_offsets(back: tuple[Bench, str]) -> None:
    """A new one may rely on them."""
    bench, _ = back
    bench.plan(until=Until.TOGGLE, run="another")
    with pytest.raises(Conflict, match="is open"):
        bench.app().remove_stale_offsets(GROUP, Deleting(bench))  # type: ignore[arg-type]


def _view(**changed: Any) -> GroupView:
    old = Member(member_id="m1", kind=MemberKind.OLD)
    at = CommittedOffset(partition=FIRST, offset=35_097)
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


BEYOND = CommittedOffset(partition=FIRST, offset=35_098)
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
    from groupshift.domain.leftover import against_removal

    against = against_removal(_view(**changed))
    assert (said in against) if said else against == ""


@pytest.mark.parametrize(
    ("kafka", "zookeeper", "said"),
    [
        ({FIRST: 24_377}, {FIRST: 35_097}, "up to 10,720 records behind ZooKeeper (orders-0)"),
        ({FIRST: 5, SECOND: 1}, {FIRST: 7, SECOND: 9}, "up to 8 records behind ZooKeeper (orders-1)"),
        ({FIRST: 9}, {FIRST: 7}, "would begin there"),
        ({FIRST: 9}, {}, "holds 1 committed offset of"),
    ],
)
def test_u15_the_sentence_names_the_furthest_partition(
    kafka: dict[TopicPartition, int], zookeeper: dict[TopicPartition, int], said: str
) -> None:
    """In records, with thousands apart; nothing is said of a group without offsets in Kafka."""
    from groupshift.domain.leftover import leftover

    found = leftover("a b", kafka, zookeeper)
    assert found is not None
    assert said in found.sentence
    assert found.command == "groupshift repair offsets --group 'a b' --execute"
    assert leftover("a b", {}, zookeeper) is None


@pytest.mark.parametrize("options", [[], ["--execute"]])
def test_u15_the_command_removes_nothing_without_execute(
    back: tuple[Bench, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
) -> None:
    """It says what it would remove, and then what it removed."""
    from groupshift.cli import repair
    from groupshift.cli.main import main

    bench, _ = back
    app = bench.app()
    deleting = Deleting(bench)
    deleting.close = lambda: None  # type: ignore[attr-defined]
    monkeypatch.setattr(
        repair, "open_app", lambda _: (_Entered(app), SimpleNamespace(kafka=None)), raising=False
    )
    monkeypatch.setattr(repair, "offset_restoring", lambda *_, **__: deleting)
    many, execute = len(bench.world.kafka), bool(options)
    code = main(["repair", "offsets", "--group", GROUP, "--json", *options])
    said = json.loads(capsys.readouterr().out)
    assert (code, said["removed"], len(said["offsets"])) == (0 if execute else 1, execute, many)
    assert len(bench.world.kafka) == (0 if execute else many)
    assert deleting.asked == ([GROUP] if execute else [])


class _Entered(nullcontext[Any]):
    """The App as what is entered, without closing what the test goes on with."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.enter_result, name)


@pytest.mark.parametrize("group", ["a\nb", "x;id", "\x1b[31m", "\u202eppa"])
def test_f05_the_command_that_removes_leftovers_names_the_group_it_is_about(group: str) -> None:
    """Pasted into a shell it is one word, and what a terminal cannot show is written by its code point."""
    from groupshift.domain.foreign_text import command, visible
    from groupshift.domain.leftover import Leftover

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
    from groupshift.domain.leftover import leftover

    found = leftover("g", kafka, zookeeper)
    assert found is not None
    assert said in found.sentence
    assert unsaid not in found.sentence
    assert ("would skip" in found.sentence) is ("ahead" in said)
    assert ("up to 2 records behind ZooKeeper (orders-0)" in found.sentence) is (len(kafka) > 1)
