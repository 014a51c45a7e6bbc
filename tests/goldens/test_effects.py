"""What each move does to the outside world is what it did when the goldens were written.

The goldens were recorded once, before the engines became one, and are never edited: a renamed rule, act or
read is a line in ``renames.toml``. To record a move that has no golden yet::

    python -m goldens.test_effects      (in tests/, with the interpreter of .venv)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

from goldens import cluster_stories, coordination_stories, driven_stories, group_stories, run_stories
from groupshift.domain.group_protocol import Protocol, Way
from groupshift.domain.modes import MemberKind
from groupshift.domain.plan import Choice, MoveName, Until
from groupshift.log.releases import Coordinator
from support.effects import KEPT, RENAMES, Recorder, deviations, differences, document, kept, renamed


def _of_group(make: Callable[[], group_stories.Told], story: group_stories.Story) -> Callable[[], Recorder]:
    def record() -> Recorder:
        bench = make()
        story(bench)
        group_stories.rules_of(bench.journal, bench.recorder)
        return bench.recorder

    return record


def _of_cluster(
    make: Callable[[], cluster_stories.Told], story: cluster_stories.Story
) -> Callable[[], Recorder]:
    def record() -> Recorder:
        told = make()
        story(told)
        return told.recorder

    return record


_DRIVEN = {cluster_stories.FROM_43: driven_stories.from_43, cluster_stories.FROM_39: driven_stories.from_39}
STORIES: dict[str, dict[str, Callable[[], Recorder]]] = {
    "coordination": {
        name: _of_group(group_stories.coordination, story)
        for name, story in group_stories.COORDINATION.items()
    },
    "protocol": {
        name: _of_group(lambda kind=kind: group_stories.protocol(kind), story)
        for name, (kind, story) in group_stories.PROTOCOL.items()
    },
    "downgrade": {
        name: _of_cluster(_DRIVEN[make], story) for name, (make, story) in cluster_stories.DOWNGRADE.items()
    },
    "expansion": {name: _of_cluster(*each) for name, each in cluster_stories.EXPANSION.items()},
}


def _of_run(make: Callable[[], Any], story: Callable[[Any], None]) -> Callable[[], Recorder]:
    def record() -> Recorder:
        told = make()
        story(told)
        return told.recorder

    return record


_OLD_COORDINATORS = "from 5 to 8 partitions, old coordinators"
ENGINE: dict[str, dict[str, Callable[[], Recorder]]] = {
    "coordination": {
        name: _of_run(coordination_stories.coordination, story)
        for name, story in coordination_stories.COORDINATION.items()
    },
    "expansion": {
        name: _of_cluster(
            partial(
                driven_stories.expansion, Coordinator.OLD if name == _OLD_COORDINATORS else Coordinator.NEW
            ),
            story,
        )
        for name, (_, story) in cluster_stories.EXPANSION.items()
    },
    "protocol": {
        name: _of_run(lambda kind=kind: run_stories.protocol(kind), story)
        for name, (kind, story) in run_stories.PROTOCOL.items()
    },
}
"""Moves that the one engine drives, too, until it drives all."""


def _retired(bench: group_stories.Told) -> str:
    return bench.plan(until=Until.RETIRE)


def _finalised(bench: group_stories.Told) -> str:
    bench.last_choice = Choice.FINALISE
    return bench.plan(until=Until.RETIRE)


def _spoken(way: Way) -> Callable[[group_stories.Told], str]:
    def plan(bench: group_stories.Told) -> str:
        values = {"move": MoveName.PROTOCOL, "to": Protocol.CONSUMER, "way": way, "soak_s": 0}
        return bench.plan(until=Until.ROLL, **values)

    return plan


def _classic() -> group_stories.Told:
    return group_stories.protocol(MemberKind.PLAIN)


KILLED: dict[str, Callable[[], dict[str, list[str]]]] = {
    "coordination there": lambda: group_stories.killed(group_stories.coordination, _finalised),
    "coordination back": lambda: group_stories.killed(group_stories.coordination, _retired, back=True),
    "protocol online there": lambda: group_stories.killed(_classic, _spoken(Way.ONLINE)),
    "protocol online back": lambda: group_stories.killed(_classic, _spoken(Way.ONLINE), back=True),
    "protocol offline there": lambda: group_stories.killed(_classic, _spoken(Way.OFFLINE)),
    "protocol offline back": lambda: group_stories.killed(_classic, _spoken(Way.OFFLINE), back=True),
    "downgrade to 3.9 there": lambda: cluster_stories.killed(driven_stories.from_43),
    "downgrade to 3.4 there": lambda: cluster_stories.killed(driven_stories.from_39),
    "downgrade back": lambda: cluster_stories.killed(driven_stories.from_43, cluster_stories.turned_back),
    "expansion there": lambda: cluster_stories.killed(cluster_stories.expansion),
    "expansion back": lambda: cluster_stories.killed(cluster_stories.expansion, cluster_stories.turned_back),
}


ENGINE_KILLED: dict[str, Callable[[], dict[str, list[str]]]] = {
    "expansion there": lambda: cluster_stories.killed(driven_stories.expansion),
    "expansion back": lambda: cluster_stories.killed(driven_stories.expansion, cluster_stories.turned_back),
    **coordination_stories.KILLED,
    **run_stories.KILLED,
}


def _story_names() -> list[tuple[str, str]]:
    return [(move, name) for move, stories in STORIES.items() for name in stories]


@pytest.mark.parametrize(("move", "name"), _story_names())
def test_a_move_does_and_decides_what_it_did(move: str, name: str) -> None:
    """The same changes in the same order, by at least the same reads, with the same verdicts; and a process
    can be killed at no fewer points of an act."""
    assert deviations(kept(move)[name], STORIES[move][name](), RENAMES) == []


def test_the_engine_is_asked_for_every_story_of_a_move() -> None:
    """None is left out."""
    assert {move: stories.keys() for move, stories in ENGINE.items()} == {
        move: STORIES[move].keys() for move in ENGINE
    }


@pytest.mark.parametrize(
    ("move", "name"), [(move, name) for move, stories in ENGINE.items() for name in stories]
)
def test_the_engine_does_and_decides_what_the_move_did(move: str, name: str) -> None:
    """As the old engine."""
    assert deviations(kept(move)[name], ENGINE[move][name](), RENAMES) == []


@pytest.mark.parametrize("name", KILLED)
def test_a_move_that_was_killed_does_what_it_did(name: str) -> None:
    """At each crash point of each act, and then gone on with by another process."""
    _hold_kills(name, KILLED[name]())


@pytest.mark.parametrize("name", ENGINE_KILLED)
def test_what_was_killed_on_the_engine_does_what_it_did(name: str) -> None:
    """At each crash point of each act, and then gone on with by another process."""
    _hold_kills(name, ENGINE_KILLED[name]())


def _hold_kills(name: str, now: Mapping[str, list[str]]) -> None:
    done: dict[str, list[str]] = {}
    for each in kept("killed")[name]:
        done |= dict.fromkeys(each["at"], each["do"])
    wanted = {renamed(at, RENAMES): [{"do": do, "reads": []} for do in lines] for at, lines in done.items()}
    assert wanted.keys() <= now.keys()
    wrong = {
        at: differences(lines, [{"do": do, "reads": []} for do in now[at]], RENAMES)
        for at, lines in wanted.items()
    }
    assert {at: said for at, said in wrong.items() if said} == {}


def _recorded(stories: Mapping[str, Callable[[], Recorder]]) -> str:
    return document({name: record().golden() for name, record in stories.items()})


def _recorded_kills() -> str:
    """Crash points after which the same was done stand together."""
    parts = []
    for name, kill in KILLED.items():
        together: dict[tuple[str, ...], list[str]] = {}
        for at, lines in kill().items():
            together.setdefault(tuple(lines), []).append(at)
        kills = ",\n".join(
            "  " + json.dumps({"at": at, "do": list(lines)}, indent=1).replace("\n", "\n  ")
            for lines, at in together.items()
        )
        parts.append(f" {json.dumps(name)}: [\n{kills}\n ]")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def record_missing() -> None:
    """Write goldens that are not there; one that is there is never written again."""
    KEPT.mkdir(exist_ok=True)
    wanted: dict[str, Callable[[], str]] = {
        move: lambda stories=stories: _recorded(stories) for move, stories in STORIES.items()
    }
    for name, made in {**wanted, "killed": _recorded_kills}.items():
        path = KEPT / f"{name}.json"
        if not path.exists():
            path.write_text(made())
            print(f"{path} is recorded")


if __name__ == "__main__":
    record_missing()
