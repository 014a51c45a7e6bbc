"""What a process reads of the journal: no more than it needs, and never less than there is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from toy_move.target import Target
from toy_world import World, nobody

from groupshift.domain.run import StepRecord
from groupshift.engine.move import Run
from groupshift.errors import Fenced
from groupshift.ports.runs import Claim, Entry, Event
from support.memory_runs import MemoryRuns


@dataclass
class Watched(MemoryRuns):
    """A journal that notes what it was asked for, and the numbers of the events that it told."""

    questions: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def held(self, run: str) -> Claim | None:
        """See the port."""
        self.questions.append("held")
        return super().held(run)

    def append(self, entry: Entry) -> None:
        """See the port."""
        self.questions.append("append")
        super().append(entry)

    def steps(self, run: str) -> Mapping[str, StepRecord]:
        """See the port."""
        self.questions.append("steps")
        return super().steps(run)

    def events(self, run: str, *, after: int = 0) -> tuple[Event, ...]:
        """See the port."""
        found = super().events(run, after=after)
        self.numbers.extend(each.seq for each in found)
        return found


def _reader(world: World, name: str) -> Run[Target]:
    nothing: Any = None
    return Run.reader(world.move, world.tools(), nothing, name)


def test_a_process_reads_each_event_once_and_the_steps_once_between_writes(tmp_path: Path) -> None:
    """A run that is watched for days has thousands of events, and each look asks for some of them."""
    runs = Watched()
    world = World(tmp_path, runs=runs)
    name = world.begin().run
    runs.questions.clear()
    runs.numbers.clear()
    world.drive(name)
    assert len(runs.numbers) > 50
    assert runs.numbers == sorted(set(runs.numbers))
    assert runs.questions.count("steps") > 20
    assert ("steps", "steps") not in set(zip(runs.questions, runs.questions[1:], strict=False))


def test_a_process_sees_what_somebody_else_wrote_meanwhile(tmp_path: Path) -> None:
    """Whether it only reads, or lost the run to another process, which it is told at its next look."""
    world = World(tmp_path)
    name = world.begin().run
    process, reader = world.claim(name, decide=nobody), _reader(world, name)
    assert not reader.records
    before = process.events()
    assert not process.records
    world.drive(name, take_over=True)
    assert len(reader.records) == len(reader.plan.steps)
    assert process.events() == reader.events() == world.runs.events(name)
    assert len(process.events()) > len(before)
    with pytest.raises(Fenced):
        process.refresh()
    assert len(process.records) == len(reader.records)
