"""What is recorded of moves of one group: coordination and protocol, over simulated members."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from groupshift.application.environment import Environment
from groupshift.domain.group_protocol import Protocol, Way
from groupshift.domain.judgement import Assessment, GateBrief
from groupshift.domain.modes import MemberKind
from groupshift.domain.plan import Choice, Gate, MoveName, StageName, Until, WayBack
from groupshift.errors import GroupshiftError
from groupshift.ports.clock import CrashPoint
from groupshift.ports.driver import Change
from groupshift.ports.group import GroupSide
from groupshift.ports.journal import Entry, EventKind, Journal
from groupshift_testing.world import Killed
from support.effects import Recorded, Recorder, another, names
from support.simulated_move import Bench, make_bench
from support.simulated_protocol import make_protocol_bench

CRASHES = 400
"""More crash points than a story has."""


@dataclass(slots=True)
class KillAt:
    """Records the crash points that are reached, and ends the process at the n-th (0: never)."""

    recorder: Recorder
    left: int = 0

    def reached(self, stage: StageName, point: CrashPoint) -> None:
        """See the port."""
        self.recorder.crash(str(stage), point)
        self.left -= 1
        if self.left == 0:
            raise Killed


def recorded(env: Environment, recorder: Recorder, kill_at: int = 0) -> Environment:
    """The same environment with its ports recorded, in a process that ends at its n-th crash point (0:
    never)."""

    def groups(port: object) -> Recorded:
        return Recorded(port, recorder, reads={"read": "group"})

    def fleets(opened: Callable[[str], object]) -> Callable[[str], Recorded]:
        reads = {"slots": "places", "observe": "change of members", "took_up": "change of members"}
        return lambda driver: Recorded(opened(driver), recorder, reads=reads, acts={"start": _replaced})

    def side(opened: Callable[[], GroupSide]) -> Callable[[], GroupSide]:
        def open_again() -> GroupSide:
            found = opened()
            return replace(found, groups=groups(found.groups), fleets=fleets(found.fleets))

        return open_again

    mode = {"take": _fenced, "compare_and_set": _set, "delete": _deleted}
    evidence = {"write": _snapshot_taken}
    return replace(
        env,
        groups=groups(env.groups),
        ledger=Recorded(env.ledger, recorder, reads={"last_delivered": "ledger", "tenures": "ledger"}),
        mode=Recorded(env.mode, recorder, reads={"read": "mode node"}, acts=mode),
        fleets=fleets(env.fleets),
        evidence=Recorded(env.evidence, recorder, reads={"read": "snapshots"}, acts=evidence),
        proof=Recorded(env.proof, recorder, acts={"run": lambda *_: "compare snapshots"}),
        journal=Recorded(env.journal, recorder, acts={"append": _journaled}),
        crash=KillAt(recorder, kill_at),
        sides={move: side(opened) for move, opened in env.sides.items()},
    )


def assessed(recorder: Recorder, found: Assessment) -> None:
    """Record what assess said."""
    rules = {finding.rule: finding.verdict.value for finding in reversed(found.findings)}
    recorder.did(f"assess: {found.readiness}", rules=rules)


@dataclass(slots=True)
class Told(Bench):
    """A bench whose ports are recorded; each process ends at its own crash point, if any."""

    recorder: Recorder = field(default_factory=Recorder)
    kills: Iterator[int] = field(default_factory=lambda: iter(()))

    def environment(self, crash: object = None) -> Environment:
        """See `Bench`."""
        del crash
        return recorded(Bench.environment(self), self.recorder, next(self.kills, 0))

    def plan(self, **values: object) -> str:
        """Assess, plan, and return the id."""
        assessed(self.recorder, self.app().assess(self.request(**values)))
        return Bench.plan(self, **values)


def _replaced(_result: object, change: Change) -> str:
    if not change.slots:
        return "fence the driver of members"
    taken_back = f", undoing {len(change.undoes)} changes" if change.undoes else ""
    return f"replace members at {names(change.slots)} by {change.to}{taken_back}"


def _fenced(_result: object, _group: str, holder: Any) -> str:
    return f"fence the mode node with token {holder.token}"


def _set(result: Any, _group: str, expected: Any, to: Any, *, holder: Any = None) -> str:
    del holder
    before = "no version" if expected.data is None else f"version {expected.version}"
    after = "" if result is None else f", now version {result.version}"
    return f"set the mode node to {to} over {before}{after}"


def _deleted(_result: object, _group: str, expected: Any, *, holder: Any = None) -> str:
    del holder
    return f"delete the mode node at version {expected.version}"


def _snapshot_taken(_result: object, of: tuple[str, str, object], *_rest: object) -> str:
    return f"snapshot {of[2]} {of[1]}"


_JOURNALED: Mapping[EventKind, Callable[[Entry], str]] = {
    EventKind.JUDGED: lambda entry: f"judge {entry.body['moment']} {entry.stage}: {entry.body['verdict']}",
    EventKind.REHEARSED: lambda _: "rehearse the rollback",
    EventKind.GATE_ANSWERED: lambda entry: f"{entry.body['gate']} gate: {entry.body['choice']}",
    EventKind.VOIDED: lambda entry: f"approval of {entry.stage} is void",
    EventKind.ROLL_BACK_BEGUN: lambda entry: f"begin the rollback to {entry.body['to']}",
    EventKind.KEPT: lambda _: "keep the rollback open",
    EventKind.CLOSED: lambda entry: f"end {entry.phase or ''} {entry.body.get('verdict', '')}".rstrip(),
    EventKind.SOAK_STARTED: lambda _: "soak begins",
    EventKind.SOAK_FAILED: lambda _: "soak failed",
    EventKind.SEALED: lambda _: "seal the evidence",
}


def _journaled(_result: object, entry: Entry) -> str | None:
    made = _JOURNALED.get(entry.kind)
    return made(entry) if made else None


def rules_of(journal: Journal, recorder: Recorder) -> None:
    """Put the rules of each judgement beside its line."""
    judged = [
        {finding["rule"]: finding["verdict"] for finding in event.body["findings"]}
        for record in reversed(journal.recent(9))
        for event in journal.events(record.migration)
        if event.kind in {EventKind.JUDGED, EventKind.REHEARSED}
    ]
    lines = [line for line in recorder.lines if line["do"].startswith(("judge ", "rehearse "))]
    for line, rules in zip(lines, judged, strict=True):
        line["rules"] = dict(sorted(rules.items()))


def _told(bench: Bench) -> Told:
    shared = ("clock", "world", "fleet", "journal", "evidence", "proof")
    return Told(**{name: getattr(bench, name) for name in shared})


def coordination(kind: MemberKind = MemberKind.OLD) -> Told:
    """Three old members, six partitions."""
    return _told(make_bench(kind))


def protocol(kind: MemberKind) -> Told:
    """Three members of one protocol."""
    return _told(make_protocol_bench(kind))


Story = Callable[[Told], None]


def _there(until: Until, choice: Choice = Choice.KEEP) -> Story:
    def story(bench: Told) -> None:
        bench.last_choice = choice
        bench.move(until)

    return story


def _there_and_back(until: Until, *to: WayBack) -> Story:
    def story(bench: Told) -> None:
        migration, _ = bench.move(until)
        for number, way in enumerate(to):
            bench.roll_back(migration, way, run=f"back-{number}")

    return story


def _refused(values: dict[str, object], prepare: Callable[[Told], None] = lambda _: None) -> Story:
    def story(bench: Told) -> None:
        prepare(bench)
        try:
            bench.move(**values)  # type: ignore[arg-type]
        except GroupshiftError as refused:
            bench.recorder.refused(refused)

    return story


def _declined(gate: Gate) -> Story:
    def story(bench: Told) -> None:
        answer = bench.decide

        def decide(brief: GateBrief) -> Choice:
            return Choice.REJECT if brief.gate is gate else answer(brief)

        migration = bench.plan(until=Until.TOGGLE)
        runner = bench.runner(migration, "cli-1")
        runner.decide = decide
        runner.forward()

    return story


def _failing(at: str, plant: Callable[[Told], None], until: Until = Until.TOGGLE) -> Story:
    def story(bench: Told) -> None:
        bench.watcher.at[at] = lambda: plant(bench)
        bench.move(until)

    return story


def _lose_member(bench: Told) -> None:
    bench.world.places["m3"].running = False


def _taken_over(bench: Told) -> None:
    migration = bench.plan(until=Until.TOGGLE)
    first = bench.runner(migration, "cli-1")

    def take_over() -> None:
        bench.app().claim(migration, "cli-2")

    bench.watcher.at["acted canary done"] = take_over
    try:
        first.forward()
    except GroupshiftError as fenced:
        bench.recorder.refused(fenced)


def _killed_and_changed(number: int) -> Story:
    """Killed at the n-th crash point; before somebody goes on, a member is lost."""

    def story(bench: Told) -> None:
        migration = bench.plan(until=Until.TOGGLE)
        bench.kills = iter((number,))
        with suppress(Killed):
            bench.runner(migration, "cli-1").forward()
        bench.recorder.did(f"killed at {bench.recorder.last_crash}, and a member is lost")
        _lose_member(bench)
        try:
            bench.runner(migration, "cli-2").forward()
        except GroupshiftError as refused:
            bench.recorder.refused(refused)

    return story


INTENDED = 2
"""The second crash point of an act: it is journaled, and not made yet."""
COORDINATION: dict[str, Story] = {
    "there until canary": _there(Until.CANARY),
    "there until roll": _there(Until.ROLL),
    "there until toggle": _there(Until.TOGGLE),
    "there until retire, finalised": _there(Until.RETIRE, Choice.FINALISE),
    "there until canary, and back": _there_and_back(Until.CANARY, WayBack.OLD_MEMBERS),
    "there until roll, and back": _there_and_back(Until.ROLL, WayBack.OLD_MEMBERS),
    "there until toggle, and back": _there_and_back(Until.TOGGLE, WayBack.OLD_MEMBERS),
    "there until toggle, back to zookeeper mode, then to old members": _there_and_back(
        Until.TOGGLE, WayBack.ZOOKEEPER_MODE, WayBack.OLD_MEMBERS
    ),
    "there until retire, and back": _there_and_back(Until.RETIRE, WayBack.OLD_MEMBERS),
    "refused, the canary is larger than the group": _refused({"canary": 9}),
    "refused, the group is not there": _refused({"group": "nobody"}),
    "refused, a member is gone": _refused({}, _lose_member),
    "plan is rejected": _declined(Gate.PLAN),
    "toggle is rejected": _declined(Gate.TOGGLE),
    "a member is lost at the canary": _failing("acted canary done", _lose_member),
    "a member is lost at the roll": _failing("acted roll done", _lose_member),
    "a member is lost at the toggle": _failing("acted toggle done", _lose_member),
    "a member is lost while the group soaks": _failing("stage soak", _lose_member),
    "another run takes over": _taken_over,
    "killed before the canary's act": _killed_and_changed(INTENDED),
    "killed before the roll's act": _killed_and_changed(INTENDED + 4),
    "killed before the toggle's act": _killed_and_changed(INTENDED + 8),
}
"""Moves of coordination, by what happens."""


def _protocol(way: Way, to: Protocol, *back: WayBack) -> Story:
    def story(bench: Told) -> None:
        values = {"move": MoveName.PROTOCOL, "to": to, "way": way, "soak_s": 0}
        migration, _ = bench.move(Until.ROLL, **values)
        for number, _each in enumerate(back):
            bench.roll_back(migration, WayBack.OLD_MEMBERS, run=f"back-{number}")

    return story


def _protocol_fails(bench: Told) -> None:
    bench.watcher.at["acted canary done"] = lambda: _lose_member(bench)
    bench.move(Until.ROLL, move=MoveName.PROTOCOL, to=Protocol.CONSUMER, soak_s=0)


UP, DOWN = Protocol.CONSUMER, Protocol.CLASSIC
PROTOCOL: dict[str, tuple[MemberKind, Story]] = {
    f"{way} to {to}{', and back' if back else ''}": (kind, _protocol(way, to, *back))
    for way in Way
    for to, kind in ((UP, MemberKind.PLAIN), (DOWN, MemberKind.NATIVE))
    for back in ((), (WayBack.OLD_MEMBERS,))
} | {
    "refused, all members speak it": (
        MemberKind.NATIVE,
        _refused({"move": MoveName.PROTOCOL, "to": UP, "until": Until.ROLL, "soak_s": 0}),
    ),
    "refused, the group is not there": (
        MemberKind.PLAIN,
        _refused({"move": MoveName.PROTOCOL, "to": UP, "until": Until.ROLL, "group": "nobody"}),
    ),
    "a member is lost at the canary": (MemberKind.PLAIN, _protocol_fails),
}
"""Moves of the protocol, with the members' kind at the start."""


def killed(
    make: Callable[[], Told], plan: Callable[[Told], str], *, back: bool = False
) -> dict[str, list[str]]:
    """What was done in all, by the crash point at which the first process ended; the second one goes on.
    ``plan`` plans and returns the id; ``back``: the rollback is killed, not the way there."""
    found: dict[str, list[str]] = {}
    for number in range(1, CRASHES):
        bench = make()
        migration = plan(bench)
        if back:
            bench.runner(migration, "there").forward()
        bench.recorder.lines.clear()
        bench.kills = iter((number,))
        try:
            _walk(bench, migration, "first", back=back)
        except Killed:
            at = bench.recorder.last_crash
            _walk(bench, migration, "second", back=back)
            found[another(at, found)] = [line["do"] for line in bench.recorder.lines]
        else:
            break
    return found


def _walk(bench: Told, migration: str, run: str, *, back: bool) -> None:
    runner = bench.runner(migration, run)
    if back:
        runner.back(WayBack.OLD_MEMBERS)
    else:
        runner.forward()
