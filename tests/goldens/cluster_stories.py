"""What is recorded of moves of a whole cluster: downgrade and expansion, over simulated brokers."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from groupshift.domain.group_protocol import Kind
from groupshift.domain.rows import OffsetRow
from groupshift.errors import GroupshiftError
from groupshift.log.releases import Coordinator
from groupshift.ports.driver import ForPerson, Replacement
from support.effects import Recorded, Recorder, another, names, settings
from support.simulated_downgrade import Group, Killed, World
from support.simulated_expansion import Expansible

CRASHES = 1000
"""More crash points than a story has."""


def _restarted(result: object, replacement: Replacement) -> str:
    wanted = f"broker {replacement.node_id} with release {replacement.release}"
    told = settings(replacement.properties) if replacement.properties else "its own settings"
    how = "ask a person to restart" if isinstance(result, ForPerson) else "restart"
    return f"{how} {wanted}, coordinator {replacement.coordinator}, {told}"


def _taken(folder: Path) -> str:
    """The name of a snapshot; the claim that took it is behind its last dash."""
    return folder.name.rpartition("-")[0]


def _verdict(found: Any) -> str:
    """The verdict of a comparison, and the rules that it names."""
    if found is None:
        return "nothing"
    rules = {rule for reason in found.reasons for rule in re.findall(r"\b[A-Z]{1,2}\d\d\b", reason)}
    return " ".join((found.verdict.value, *sorted(rules)))


def _verified(result: Any, snapshot: Path, *_rest: object) -> str:
    return f"compare {_taken(snapshot)} with the offsets log: {_verdict(result)}"


def _rows(rows: Iterable[OffsetRow]) -> str:
    found = sorted(f"{row.group} {row.topic}-{row.partition}={row.offset}" for row in rows)
    return names(found)


def _expansion_ports(tools: Any, recorder: Recorder) -> Mapping[str, object]:
    def deleted(_result: object, groups: Collection[str], *_hold: object) -> str:
        return f"delete groups {names(sorted(groups))}"

    def committed_rows(call: Callable[..., Any]) -> Callable[..., Any]:
        def commit(rows: Iterable[OffsetRow]) -> Any:
            kept = list(rows)
            return call(kept)

        return commit

    class Restoring:
        """Rows may come one by one."""

        commit = staticmethod(committed_rows(tools.restoring.commit))
        delete = staticmethod(tools.restoring.delete)
        close = staticmethod(getattr(tools.restoring, "close", lambda: None))

    topic = Recorded(
        tools.topic,
        recorder,
        reads={"check": "controller", "lacks": "brokers", "cluster_lacks": "brokers"},
        acts={"expand": lambda _, count: f"expand the offsets topic to {count} partitions"},
    )
    restoring = Recorded(
        Restoring,
        recorder,
        acts={"commit": lambda _, rows: f"commit {_rows(rows)}", "delete": deleted},
    )
    verify = Recorded(tools.verify, recorder, acts={"__call__": _verified})
    return {"topic": topic, "restoring": restoring, "verify": verify}


FROM_43, FROM_39 = "two nodes of 4.3.1", "one node of 3.9.2"
"""The clusters of downgrades (`goldens.driven_stories`): to 3.9.2, and to 3.4.0, where the log has to be
compacted."""


def told_refusal(told: Any, call: Callable[[], object]) -> None:
    """A call that is expected to be refused."""
    try:
        call()
    except GroupshiftError as refused:
        told.recorder.refused(refused)


Story = Callable[[Any], None]


def there(told: Any) -> None:
    """All the way."""
    told.go_on(told.begin())


def back_from(subject: str) -> Story:
    """As far as an approval that is refused, and back."""

    def story(told: Any) -> None:
        told.no = {subject}
        run = told.begin()
        told.go_on(run)
        told.no = set()
        told_refusal(told, lambda: told.turn_back(run))
        told.go_on(run)

    return story


def _prepared(prepare: Callable[[Any], None], then: Story = there) -> Story:
    def story(told: Any) -> None:
        prepare(told.world)
        told_refusal(told, lambda: then(told))

    return story


def _failed_and_back(prepare: Callable[[Any], None], repair: Callable[[Any], None]) -> Story:
    def story(told: Any) -> None:
        prepare(told.world)
        run = told.begin()
        told.go_on(run)
        repair(told.world)
        told_refusal(told, lambda: told.turn_back(run))
        told.go_on(run)

    return story


def _taken_over(told: Any) -> None:
    run = told.begin()

    told.at["plan"] = lambda: told.take_over(run)
    told_refusal(told, lambda: told.go_on(run))


def _dies(world: Any) -> None:
    world.dies = {2}


def _loses(world: World) -> None:
    world.lose = {"simple"}


def _has_members(world: World) -> None:
    world.groups["busy"] = Group(kind=Kind.CONSUMER, members=2)


def _shares(world: World) -> None:
    world.groups["shared"] = Group(kind=Kind.SHARE, members=1)


def _restarts_skipped(world: Expansible) -> None:
    world.unset = {3}


def _commits_refused(world: Expansible) -> None:
    world.uncommitted = {"g1": "GROUP_AUTHORIZATION_FAILED (30)"}


def _nothing(_world: object) -> None:
    """As it is."""


def turned_back(told: Any, before: str = "") -> None:
    """Killed when everything but the last act that can be undone is done (``before``: another act); it goes
    back when gone on with."""
    run = told.begin()
    with suppress(Killed):
        told.go_on(run, before=before or told.last_act)
    told.turn_back(run)


def there_and_back(told: Any, before: str = "") -> None:
    """As `turned_back`, and all the way back."""
    turned_back(told, before)
    told.go_on(told.latest())


def _killed_and_changed(before: str, change: Callable[[Any], None]) -> Story:
    """Killed when this act is about to be journaled; before somebody goes on, the cluster changes."""

    def story(told: Any) -> None:
        run = told.begin()
        with suppress(Killed):
            told.go_on(run, before=before)
        told.recorder.did(f"killed before {before}, and the cluster changes")
        change(told.world)
        told_refusal(told, lambda: told.go_on(run))

    return story


def _no_way_back(told: Any) -> None:
    run = told.begin()
    with suppress(Killed):
        told.go_on(run, before="restart")
    told_refusal(told, lambda: told.turn_back(run))
    told.go_on(run)


DOWNGRADE: dict[str, tuple[str, Story]] = {
    "from 4.3.1 to 3.9.2": (FROM_43, there),
    "from 3.9.2 to 3.4.0": (FROM_39, there),
    "killed before the last broker, and back": (FROM_43, there_and_back),
    "plan is rejected": (FROM_43, _prepared(_nothing, back_from("plan"))),
    "what only goes forward is rejected, and back": (FROM_39, back_from("forward-only")),
    "a group is lost, and back": (FROM_43, _failed_and_back(_loses, lambda world: world.lose.clear())),
    "a broker dies, and back": (FROM_43, _failed_and_back(_dies, lambda world: world.dies.clear())),
    "a group has members": (FROM_43, _prepared(_has_members)),
    "a share group is there": (FROM_43, _prepared(_shares)),
    "a driver that only instructs": (FROM_43, _prepared(lambda world: setattr(world, "knows", False))),
    "another process takes over": (FROM_43, _taken_over),
    "a group gets members before the feature is lowered": (
        FROM_43,
        _killed_and_changed("lower", _has_members),
    ),
    "a share group comes before the first broker": (FROM_43, _killed_and_changed("replace", _shares)),
}
"""Downgrades, by what happens."""

EXPANSION: dict[str, tuple[Coordinator, Story]] = {
    "from 5 to 8 partitions, new coordinators": (Coordinator.NEW, there),
    "from 5 to 8 partitions, old coordinators": (Coordinator.OLD, there),
    "killed before partitions are made, and back": (Coordinator.NEW, there_and_back),
    "killed after partitions were made, and the rollback is closed": (Coordinator.NEW, _no_way_back),
    "plan is rejected": (Coordinator.NEW, _prepared(_nothing, back_from("plan"))),
    "a group has members": (Coordinator.NEW, _prepared(lambda world: world.members.add("g3"))),
    "commits are refused, and back": (
        Coordinator.NEW,
        _failed_and_back(_commits_refused, lambda world: world.uncommitted.clear()),
    ),
    "a broker dies, and the rollback is closed": (
        Coordinator.NEW,
        _failed_and_back(_dies, lambda world: world.dies.clear()),
    ),
    "the controller refuses": (Coordinator.NEW, _prepared(lambda world: setattr(world, "refuses", "no"))),
    "a file keeps the former count": (Coordinator.NEW, _prepared(_restarts_skipped)),
    "a driver that only instructs": (
        Coordinator.NEW,
        _prepared(lambda world: setattr(world, "knows", False)),
    ),
    "another process takes over": (Coordinator.NEW, _taken_over),
    "somebody commits before groups are deleted": (
        Coordinator.NEW,
        _killed_and_changed("delete-groups", lambda world: world.commit_as_client("g4", 999, 1)),
    ),
    "somebody commits before the groups are restored": (
        Coordinator.NEW,
        _killed_and_changed("restore", lambda world: world.commit_as_client("g4", 999, 1)),
    ),
}
"""Expansions, by what happens."""


def killed(make: Callable[[], Any], walk: Story = there) -> dict[str, list[str]]:
    """What was done in all, by the crash point at which the first process ended; the second goes on.
    ``walk`` begins a run and brings it to where it is killed next."""
    found: dict[str, list[str]] = {}
    for number in range(1, CRASHES):
        told = make()
        run = _walked(told, walk)
        told.recorder.lines.clear()
        try:
            told.go_on(run, kill_at=number)
        except Killed:
            at = told.recorder.last_crash
            told.go_on(run)
            found[another(at, found)] = [line["do"] for line in told.recorder.lines]
        else:
            break
    return found


def _walked(told: Any, walk: Story) -> Any:
    if walk is there:
        return told.begin()
    walk(told)
    return told.latest()
