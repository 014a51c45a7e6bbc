"""Whatever happens in whatever order to a run of the toy: its evidence is never called forged or doubted
while nobody touched it, and at the end it is sound for whoever has the folder alone."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule
from sealed_world import FORMS, DyingStore, SealedWorld, said
from test_toy_machine import ToyMachine
from toy_world import Killed

from groupshift.domain.seal import PACK, pack_from_json
from groupshift.ports.runs import EventKind


class SealedMachine(ToyMachine):
    """Processes that also die while they seal, and people who seal again."""

    kind = SealedWorld
    world: SealedWorld

    @rule(number=st.integers(1, 4), half=st.booleans(), after=st.booleans())
    def next_process_dies_at_the_sealing(self, number: int, *, half: bool, after: bool) -> None:
        """Whoever claims the run next dies at one of the files that sealing writes."""
        self.world.store = DyingStore(self.world.evidence, number, half=half, after=after)

    @precondition(lambda self: self.process is not None)
    @rule()
    def goes_as_far_as_it_can(self) -> None:
        """A process drives the run until it ends, stops or dies."""
        self._advance(300)
        self.world.store = None

    @precondition(lambda self: self.process is None and not self.world.state(self.run).is_open)
    @rule()
    def is_sealed_again(self) -> None:
        """Somebody seals a run that is over, and may die of it."""
        with suppress(Killed):
            self.world.seal_again(self.run)
        self.world.store = None

    @invariant()
    def nobody_is_accused(self) -> None:
        """What was sealed verifies at any time, also while a rollback or another sealing is under way."""
        if any(each.kind is EventKind.SEALED for each in self.world.runs.events(self.run)):
            assert said(self.world.verified(self.run)) == {}

    def _left_alone(self) -> None:
        self.world.store = None
        super()._left_alone()
        self.world.seal_again(self.run)
        for form in FORMS:
            assert said(self.world.verified(self.run, form)) == {}, form
        pack = pack_from_json(self.world.evidence.read_text(self.run, PACK) or "")
        assert pack.doubts == {}


TestSealedMachine = SealedMachine.TestCase
TestSealedMachine.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
