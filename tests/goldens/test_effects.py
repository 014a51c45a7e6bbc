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

from goldens import cluster_stories, coordination_stories, driven_stories, run_stories
from support.effects import KEPT, RENAMES, Recorder, deviations, differences, document, kept, renamed

_DRIVEN = {cluster_stories.FROM_43: driven_stories.from_43, cluster_stories.FROM_39: driven_stories.from_39}


def _of(make: Callable[[], Any], story: Callable[[Any], None]) -> Callable[[], Recorder]:
    def record() -> Recorder:
        told = make()
        story(told)
        return told.recorder

    return record


STORIES: dict[str, dict[str, Callable[[], Recorder]]] = {
    "coordination": {
        name: _of(coordination_stories.coordination, story)
        for name, story in coordination_stories.COORDINATION.items()
    },
    "protocol": {
        name: _of(partial(run_stories.protocol, kind), story)
        for name, (kind, story) in run_stories.PROTOCOL.items()
    },
    "downgrade": {
        name: _of(_DRIVEN[make], story) for name, (make, story) in cluster_stories.DOWNGRADE.items()
    },
    "expansion": {
        name: _of(partial(driven_stories.expansion, kind), story)
        for name, (kind, story) in cluster_stories.EXPANSION.items()
    },
}
KILLED: dict[str, Callable[[], dict[str, list[str]]]] = {
    **coordination_stories.KILLED,
    **run_stories.KILLED,
    "downgrade to 3.9 there": lambda: cluster_stories.killed(driven_stories.from_43),
    "downgrade to 3.4 there": lambda: cluster_stories.killed(driven_stories.from_39),
    "downgrade back": lambda: cluster_stories.killed(driven_stories.from_43, cluster_stories.turned_back),
    "expansion there": lambda: cluster_stories.killed(driven_stories.expansion),
    "expansion back": lambda: cluster_stories.killed(driven_stories.expansion, cluster_stories.turned_back),
}


def _story_names() -> list[tuple[str, str]]:
    return [(move, name) for move, stories in STORIES.items() for name in stories]


@pytest.mark.parametrize("move", STORIES)
def test_each_golden_has_its_story(move: str) -> None:
    """None is left out."""
    assert kept(move).keys() == STORIES[move].keys()
    assert kept("killed").keys() == KILLED.keys()


@pytest.mark.parametrize(("move", "name"), _story_names())
def test_a_move_does_and_decides_what_it_did(move: str, name: str) -> None:
    """The same changes in the same order, by at least the same reads, with the same verdicts; and a process
    can be killed at no fewer points of an act."""
    assert deviations(kept(move)[name], STORIES[move][name](), RENAMES) == []


@pytest.mark.parametrize("name", KILLED)
def test_a_move_that_was_killed_does_what_it_did(name: str) -> None:
    """At each crash point of each act, and then gone on with by another process."""
    _hold_kills(name, KILLED[name]())


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
