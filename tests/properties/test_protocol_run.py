"""Whatever happens to processes and members of a simulated group, a run of the protocol on the one engine
comes to one of its ends, and nobody is replaced twice."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from groupshift.domain.group_protocol import Protocol
from groupshift.domain.modes import MemberKind
from groupshift.domain.run import RunState
from groupshift.engine.progress import Ended, Progress, Stopped
from groupshift.errors import GroupshiftError
from groupshift.ports.clock import CrashPoint
from groupshift_testing.world import Killed, Occupant
from support.simulated_runs import Processes, make_processes

PLAIN, NATIVE = MemberKind.PLAIN, MemberKind.NATIVE
PLACES = ("m1", "m2", "m3")
KILL, TAKE_OVER, LOSE, HEAL, JOIN, LEAVE = "kill", "take over", "lose", "heal", "join", "leave"
HAPPENS = st.lists(
    st.tuples(st.integers(0, 40), st.sampled_from([KILL, KILL, TAKE_OVER, LOSE, HEAL, JOIN, LEAVE])),
    max_size=6,
)
"""After so many crash points more, what happens."""
_PROCESSES = 40


@dataclass(slots=True)
class Fate:
    """What happens at which crash point, of whichever process."""

    group: Processes
    happens: list[tuple[int, str]]
    name: str = ""
    left: int = 0

    def __post_init__(self) -> None:
        """Count to the first."""
        self.left = self.happens[0][0] if self.happens else -1

    def reached(self, _step: str, _point: CrashPoint) -> None:
        """See the port."""
        if not self.happens:
            return
        self.left -= 1
        if self.left >= 0:
            return
        _, what = self.happens.pop(0)
        self.left = self.happens[0][0] if self.happens else -1
        self._happen(what)

    def _happen(self, what: str) -> None:
        places = self.group.world.places
        match what:
            case "kill":
                raise Killed
            case "take over":
                self.group.claim(self.name, holder="other", take_over=True)
            case "lose":
                places["m3"].running = False
            case "heal":
                self.heal()
            case "join":
                places["m9"] = Occupant(kind=places["m3"].kind)
            case "leave":
                places.pop("m9", None)

    def heal(self) -> None:
        """The lost member is there again."""
        place = self.group.world.places["m3"]
        place.running = place.kind is not MemberKind.VACANT
        self.group.world.tick()


def walk(fate: Fate, *, back: bool) -> Progress | None:
    """Processes drive the run until one of them comes to its end, or the group is not as it has to be; then
    somebody puts it in order, and the next one goes on. What a judge of a rollback still finds then is
    accepted: a snapshot that it compares with may have a stranger in it, or lack somebody."""
    group, shown = fate.group, ""
    for _ in range(_PROCESSES):
        try:
            if back:
                progress = group.roll_back(fate.name, fate, take_over=True, accept=shown)
            else:
                progress = group.drive(fate.name, fate, take_over=True, accept=shown)
        except Killed:
            continue
        except GroupshiftError:
            progress = None
        if isinstance(progress, Ended):
            return progress
        shown = progress.step.key if isinstance(progress, Stopped) else ""
        group.world.places.pop("m9", None)
        fate.heal()
    raise AssertionError(f"run {fate.name} is {group.state(fate.name)} and never ends")


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(offline=st.booleans(), there=HAPPENS, back=HAPPENS)
def test_a_run_comes_to_one_of_its_ends(
    *, offline: bool, there: list[tuple[int, str]], back: list[tuple[int, str]]
) -> None:
    """All members new, or all as they were; no committed offset goes back; each change is made once."""
    group = make_processes(PLAIN)
    fate = Fate(group, there)
    fate.name = group.begin(to=Protocol.CONSUMER, offline=offline)
    committed = dict(group.world.kafka)
    walk(fate, back=False)
    group.world.places.pop("m9", None)
    state = group.state(fate.name)
    event(f"{state}")
    kinds = {group.world.places[name].kind for name in PLACES}
    assert (state, kinds) in ((RunState.MOVED, {NATIVE}), (RunState.ROLLED_BACK, {PLAIN}))
    fate.happens, fate.left = back, back[0][0] if back else -1
    walk(fate, back=True)
    group.world.places.pop("m9", None)
    assert group.state(fate.name) is RunState.ROLLED_BACK
    assert {group.world.places[name].kind for name in PLACES} == {PLAIN}
    assert all(group.world.kafka[at] >= offset for at, offset in committed.items())
    changes = [each for each in group.fleet.accepted if "roll_back" not in each]
    assert len(changes) == len({each.rpartition(":")[2] for each in changes}), "an act has one change"
