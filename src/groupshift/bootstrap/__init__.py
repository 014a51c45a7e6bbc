"""The composition root: settings become an `App`; nothing else chooses an implementation."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from groupshift.application import (
    account,
    act,
    assess,
    claim,
    close,
    derived,
    finalise,
    gates,
    judge,
    pack,
    plan,
    proof,
    rehearse,
    roll_back,
    snapshot,
    soak,
    status,
    watch,
)
from groupshift.application.account import Account
from groupshift.application.environment import Environment
from groupshift.application.pack import Progress
from groupshift.application.records import move_of
from groupshift.application.status import MigrationStatus
from groupshift.bootstrap.connect import connect
from groupshift.domain.evidence import Manifest, Moment
from groupshift.domain.judgement import (
    ASK,
    ActOutcome,
    Assessment,
    Closing,
    GateBrief,
    GateTerms,
    Judgement,
    Planned,
    StageStatus,
)
from groupshift.domain.leftover import Leftover
from groupshift.domain.modes import Holder
from groupshift.domain.plan import Answer, Gate, MoveRequest, Stage, StageName, WayBack
from groupshift.domain.seal import REPORT, Pack, Verification
from groupshift.domain.secrets import without_login
from groupshift.ports.evidence import Verifier
from groupshift.ports.spark_jobs import ProofRequest
from groupshift.settings import Settings


class App:
    """Every use case of groupshift, ready to call; every method is safe to repeat.

    All methods raise `Transient` when ZooKeeper, Kafka, the fleet driver or the journal does not answer
    within its bounded retries (repeat the call), `Rejected` for input that cannot be used (nothing was
    changed) and `Broken` when evidence was altered. Ids are strings; ``stage``, ``moment``, ``gate`` and
    ``to`` take the enum or its text. Close it, or use it as a context manager.
    """

    def __init__(self, environment: Environment) -> None:
        self._env = environment

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close_connections()

    def close_connections(self) -> None:
        """Close every connection; the App cannot be used afterwards."""
        for closing in self._env.closing:
            closing()

    def assess(self, request: MoveRequest) -> Assessment:
        """Read the group and ask every rule of assess, passed ones included. Changes nothing."""
        return assess.assess(self._env.of(request.move), self._with_driver(request))

    def plan(self, request: MoveRequest) -> Planned:
        """Assess, plan and journal (phase ``planned``; without ``execute``: ``preview``).

        The same ``request.run`` gets the same migration again. Raises `Rejected` when the group is not
        ready, has an open migration already, or a value of the request cannot be used."""
        return plan.plan(self._env.of(request.move), self._with_driver(request))

    def _with_driver(self, request: MoveRequest) -> MoveRequest:
        """With the driver that the settings name where the request names none."""
        return request if request.driver else replace(request, driver=self._env.driver)

    def _of(self, migration: str) -> Environment:
        """The environment as the move of this migration meets it."""
        return self._env.of(move_of(self._env, migration))

    def planned(self, migration: str) -> Planned:
        """The journaled plan."""
        return plan.planned(self._env, migration)

    def has_stage(self, migration: str, stage: StageName | str) -> bool:
        """Whether the plan, or the way back once begun, contains this stage."""
        return status.has_stage(self._env, migration, StageName(stage))

    def claim(self, migration: str, run: str) -> int:
        """A fencing token for ``run``; rising. A claim by another run fences this one's acts."""
        return claim.claim(self._env, migration, run)

    def under(self, migration: str, token: int) -> App:
        """These use cases as the run calls them that claimed ``migration`` with this token; what is open
        stays this App's to close. Each does, journals and asks nothing once another run took over.

        All raise `Fenced` then, naming that run; so does this."""
        held = replace(self._env, held=Holder(migration=migration, token=token))
        claim.demand_held(held, migration)
        return App(held)

    def brief(
        self,
        migration: str,
        gate: Gate | str,
        stage: StageName | str | None = None,
        terms: GateTerms = ASK,
    ) -> GateBrief:
        """What a person needs to decide, as Markdown, the answers that are offered, and the fingerprint of
        the group and evidence.

        ``stage`` names what is reviewed (gate ``review`` only)."""
        about = StageName(stage) if stage else None
        return gates.brief(self._of(migration), migration, Gate(gate), about, terms)

    def answer(self, migration: str, gate: Gate | str, answer: Answer) -> None:
        """Journal an answer. Raises `Conflict` (approval void, naming what changed) when an approval's
        fingerprint is no longer true or too old; a rejection is always taken."""
        gates.answer(self._of(migration), migration, Gate(gate), answer)

    def approved(self, migration: str, gate: Gate | str) -> bool:
        """Whether this gate was approved, and what it was approved for still holds."""
        return gates.approved(self._of(migration), migration, Gate(gate))

    def rehearse(self, migration: str) -> Judgement:
        """Compute the inverse of the toggle and check the preconditions of both directions live."""
        return rehearse.rehearse(self._of(migration), migration)

    def snapshot(self, migration: str, stage: StageName | str, moment: Moment | str) -> Manifest:
        """Read group and ledgers and write the evidence; a snapshot that an act or a judgement already
        relied on is returned, not taken again."""
        return snapshot.snapshot(self._of(migration), migration, StageName(stage), Moment(moment))

    def proof(self, migration: str, stage: StageName | str, moment: Moment | str) -> ProofRequest:
        """The Spark job to run: ``before`` compares the previous snapshot of the migration with this
        one (continuity; the first one with itself), ``after`` compares before with after.

        Raises `Broken` when a file of a snapshot is not what its manifest says."""
        return proof.proof(self._of(migration), migration, StageName(stage), Moment(moment))

    def prove(self, request: ProofRequest) -> None:
        """Run the Spark job through spark-submit and wait for it (bounded). What an audit of consumption
        leaves in the evidence of a migration is journaled."""
        if self._env.held is not None:
            claim.demand_held(self._env, self._env.held.migration)
        self._env.proof.run(request)
        derived.journal(self._env, request)

    def act(self, migration: str, stage: StageName | str, token: int) -> ActOutcome:
        """Make the one change of this stage: journal the intent, act, journal, read back.

        Raises `Conflict` when the token is fenced, the approval is void or another actor changed the
        mode node; `Rejected` when a precondition fails. A repetition continues where a killed one
        stopped and never acts twice; ``unchanged`` for a stage the plan does not have."""
        return act.act(self._of(migration), migration, StageName(stage), token)

    def watch(self, migration: str, stage: StageName | str) -> StageStatus:
        """Whether what `act` started has settled in the live group (one look, never blocks)."""
        return watch.watch(self._of(migration), migration, StageName(stage))

    def judge(self, migration: str, stage: StageName | str, moment: Moment | str) -> Judgement:
        """Verdict of the Spark job and of the live rules together; journaled.

        Without a verdict of exactly these snapshots the verdict is ``error``."""
        return judge.judge(self._of(migration), migration, StageName(stage), Moment(moment))

    def soak(self, migration: str) -> StageStatus:
        """One look of the soak: settled when its time is over, or at once when a live rule failed
        (`judge` of stage ``soak`` then says so)."""
        return soak.soak(self._of(migration), migration)

    def finalise(self, migration: str, token: int) -> Closing:
        """Remove the mode node if retire is proven (phase ``finalised``); else keep it and say why
        (phase ``moved``)."""
        return finalise.finalise(self._of(migration), migration, token)

    def keep(self, migration: str, token: int) -> Closing:
        """Keep the way back open: phase ``moved``."""
        return finalise.keep(self._of(migration), migration, token)

    def way_back(self, migration: str, to: WayBack | str) -> tuple[Stage, ...]:
        """The undo stages that `begin_roll_back` would begin now, in order; nothing is written.

        Raises `Rejected` as it does."""
        return roll_back.way_back(self._of(migration), migration, WayBack(to))

    def begin_roll_back(
        self, migration: str, to: WayBack | str, token: int, *, because: str = ""
    ) -> tuple[str, ...]:
        """Enter phase ``rolling_back`` and return the undo stages needed, in order (may be empty).

        ``because`` is the reason when a run has to go back (it then ends red), empty when asked for.

        Raises `Rejected` when there is nothing to take back (never acted, finalised, or a later
        migration of the group exists)."""
        return roll_back.begin(self._of(migration), migration, (WayBack(to), because), token)

    def close(self, migration: str, token: int) -> Closing:
        """End the run: phase, verdict and reason. A verdict other than pass means a red run."""
        return close.close(self._of(migration), migration, token)

    def status(self, migration: str | None = None) -> tuple[MigrationStatus, ...]:
        """One migration with its stages, or the latest migrations, newest first."""
        return status.status(self._env, migration)

    def account(self, migration: str) -> Account:
        """Everything the report of a migration shows: read from journal, evidence and ledgers only."""
        return account.account(self._env, migration)

    def leftover(self, migration: str) -> Leftover | None:
        """What a migration that was rolled back left in Kafka; None where that is nothing."""
        return self.account(migration).leftover

    def pack(self, migration: str) -> Pack:
        """What sealing the migration's evidence would write now; nothing is written."""
        return pack.compose(self._env, migration)

    def seal(self, migration: str, report: str = "") -> Pack:
        """Write the manifest over every file of the migration's evidence, journal its SHA-256 and sign it
        where the settings name a key; with a ``report`` (its HTML), write that before. `close` seals too.
        What is not as it was journaled is doubted in the pack, for ever after."""
        return pack.seal(self._env, migration, report)

    def report_path(self, migration: str) -> str:
        """Where the report of a migration is, for people: a path, or a URI without a login."""
        return without_login(self._env.evidence.path(migration, REPORT))

    def stage_report(self, migration: str, stage: str, moment: str) -> tuple[str, str]:
        """The report of a judged moment, as the Spark job wrote it, and why it cannot be relied on (empty: it
        is the one that was judged).

        Raises `Rejected` where nothing was judged or no report is, `Broken` for a link in its place."""
        return derived.stage_report(self._env, migration, stage, moment)

    def verify_evidence(
        self, migration: str, verifier: Verifier | None = None, told: Progress = lambda *_: None
    ) -> Verification:
        """Hash every file again and hold it against the manifest, the journal and the signature.

        Raises `Rejected` for a pack that was never sealed, `Broken` when its manifest is gone."""
        return pack.verify(self._env, migration, verifier, told)


def build(settings: Settings) -> App:
    """Ready use cases over the real adapters; connections open at first use.

    Raises `Transient` when the journal cannot be opened."""
    return App(connect(settings))
