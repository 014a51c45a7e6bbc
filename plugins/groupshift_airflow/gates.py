"""Gates: tasks that park until a person answers. Default, also after expiry, is to change nothing.

While a gate waits no process, slot or triggerer is held (state ``awaiting_input``). A gate that is
answered with no fails its own task, so nothing behind it can run, and the run ends red with the
sentence. Built-in rejection is not used: inside mapped groups it does not stop what follows.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import HITLBranchOperator, HITLOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from groupshift.application.brief_text import (
    APPROVE,
    DEPLOYED,
    FINALISE,
    GO_ON,
    KEEP,
    REJECT,
    ROLL_BACK,
    STOP,
    by_hand,
    links_text,
)
from groupshift.domain.evidence import Moment
from groupshift.domain.judgement import ActState, GateBrief, GateTerms, Judgement
from groupshift.domain.plan import Answer, Choice, Gate, StageName, WayBack
from groupshift.domain.verdict import Verdict
from groupshift.errors import Fenced, Transient
from groupshift_airflow import links
from groupshift_airflow.operators import UseCase, named, require_execute
from groupshift_airflow.retries import LATE

if TYPE_CHECKING:
    from airflow.sdk import Context

    from groupshift.bootstrap import App

FINGERPRINT = "fingerprint"
NOBODY = "nobody (expired)"


def person(user: Mapping[str, Any] | None) -> str:
    """Who answered, by Airflow's word."""
    return named(str((user.get("name") or user.get("id")) if user else NOBODY))


class Asks(UseCase, HITLOperator):
    """Base of all gates: shows a brief, and on resume knows who chose what."""

    # Not subject and body: what the App wrote is shown as it is, never rendered as a template.
    template_fields: Sequence[str] = UseCase.template_fields

    answered = ""
    """Who answered; empty while nobody has."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"subject": "groupshift", **kwargs})

    def lost(self, fenced: Fenced) -> AirflowException:
        """Nobody is asked; who had been asked is told that the answer does not count."""
        if not self.answered:
            return super().lost(fenced)
        return AirflowFailException(f"the answer of {self.answered} is not taken: {fenced}")

    def terms(self, context: Context) -> GateTerms:
        """For how long this gate asks, and the pages about its migration."""
        within_s = int(context["params"]["gate_expiry_s"])
        return GateTerms(within_s=within_s, links=links.migration_links(self.migration))

    def ask(self, context: Context, brief: GateBrief, options: list[str] | None = None) -> Any:
        """Park with this brief and its answers; ``options`` where it names none. Does not return."""
        self.subject, self.body = brief.subject, brief.body
        self.options = [option.label for option in brief.options] or options or self.options
        self.response_timeout = timedelta(seconds=context["params"]["gate_expiry_s"])
        context["ti"].xcom_push(key=FINGERPRINT, value=brief.fingerprint)
        return HITLOperator.execute(self, context)

    def chosen(self, context: Context, event: dict[str, Any]) -> tuple[str, str, str]:
        """(choice, who, fingerprint shown)."""
        answer = HITLOperator.execute_complete(self, context, event)
        user = answer["responded_by_user"]
        self.answered = who = person(user)
        with self.app():
            pass  # an answer at a gate of a run that was taken over is for nothing
        shown = context["ti"].xcom_pull(task_ids=self.task_id, key=FINGERPRINT)
        return answer["chosen_options"][0], who, str(shown or "")


class Approval(Asks):
    """Asks for the approval of the plan or of the toggle; void when the group changed meanwhile."""

    def __init__(self, *, gate: Gate, **kwargs: Any) -> None:
        super().__init__(**{"options": [APPROVE, REJECT], "defaults": REJECT, "retries": LATE, **kwargs})
        self.gate = gate

    def execute(self, context: Context) -> Any:
        """Skip when nothing will be executed or the stage is not planned; else park. A try that begins after
        the answer, for the scheduler took the answered one for failed, does not ask again."""
        require_execute(context)
        with self.app() as app:
            if self.gate is Gate.TOGGLE:
                self.require_stage(app, StageName.TOGGLE)
            if context["ti"].try_number > 1 and app.approved(self.migration, self.gate):
                self.log.info(
                    "the %s is approved already, and what it was approved for still holds", self.gate
                )
                return None
            brief = app.brief(self.migration, self.gate, terms=self.terms(context))
        return self.ask(context, brief)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> None:
        """Journal the answer. Raises `Conflict` when the approval is void."""
        choice, who, shown = self.chosen(context, event)
        decided = Choice.APPROVE if choice == APPROVE else Choice.REJECT
        with self.app() as app:
            app.answer(self.migration, self.gate, Answer(choice=decided, who=who, fingerprint=shown))
        if decided is Choice.REJECT:
            raise AirflowFailException(f"the {self.gate} was not approved by {who}: nothing more is changed")
        self.log.info("the %s was approved by %s", self.gate, who)


class Act(Asks):
    """Makes the one change of a stage; parks with the instruction when a person has to make it."""

    def __init__(self, *, stage: str, **kwargs: Any) -> None:
        super().__init__(**{"options": [DEPLOYED, STOP], "defaults": STOP, **kwargs})
        self.stage = stage

    def execute(self, context: Context) -> Any:
        """Raises `Conflict` when fenced or void, `Rejected` when a precondition fails."""
        with self.app() as app:
            outcome = app.act(self.migration, self.stage, int(self.token))
        self.log.info("%s: %s", outcome.state, outcome.detail)
        if outcome.state is not ActState.PENDING:
            return None
        terms = self.terms(context)
        until = by_hand(self.stage, int(time.time() + (terms.within_s or 0)) * 1000)
        subject = f"Deploy by hand: stage {self.stage} of {self.migration}"
        body = f"{outcome.instruction}\n\n{until}\n\n{links_text(terms.links)}"
        return self.ask(context, GateBrief(gate=Gate.REVIEW, subject=subject, body=body, fingerprint=""))

    def execute_complete(self, context: Context, event: dict[str, Any]) -> None:
        """The sensor behind this task sees whether it really was deployed."""
        choice, who, _ = self.chosen(context, event)
        if choice != DEPLOYED:
            raise AirflowFailException(f"{who} stopped before deploying stage {self.stage}")
        self.log.info("deployed, says %s", who)


class Judge(Asks):
    """Turns a measurement into what happens next.

    Pass goes on; inconclusive asks; error is retried, then asks; fail begins the way back without
    asking. Nobody answering changes nothing more: the run ends red and the way back stays open.
    """

    def __init__(self, *, stage: str, moment: str, **kwargs: Any) -> None:
        super().__init__(**{"options": [GO_ON, ROLL_BACK, STOP], "defaults": STOP, **kwargs})
        self.stage = stage
        self.moment = moment

    def judgement(self, app: App) -> Judgement:
        """What is judged; `Rehearse` replaces it."""
        return app.judge(self.migration, self.stage, self.moment)

    def execute(self, context: Context) -> Any:
        """Judge, then react by the verdict."""
        with self.app() as app:
            judged = self.judgement(app)
            self.show(judged.findings)
            if self.moment == Moment.BEFORE and StageName(self.stage).undoes:
                return None  # what is met on the way back is written down; the act asks its own preconditions
            match judged.verdict:
                case Verdict.PASS:
                    return None
                case Verdict.FAIL:
                    self.go_back(app, "; ".join(judged.reasons))
                case Verdict.ERROR if context["ti"].try_number <= context["ti"].max_tries:
                    raise Transient(f"could not measure: {'; '.join(judged.reasons)}")
            unmeasured = judged.verdict is Verdict.ERROR
            if unmeasured and StageName(self.stage).undoes:  # neither accepted nor taken back: nothing to ask
                self.go_back(app, "; ".join(judged.reasons))
            brief = app.brief(self.migration, Gate.REVIEW, self.stage, self.terms(context))
        return self.ask(context, brief, [ROLL_BACK, STOP] if unmeasured else None)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> None:
        """Journal the answer and do what was chosen."""
        choice, who, shown = self.chosen(context, event)
        decided = {GO_ON: Choice.APPROVE, ROLL_BACK: Choice.REJECT}.get(choice, Choice.STOP)
        with self.app() as app:
            app.answer(self.migration, Gate.REVIEW, Answer(choice=decided, who=who, fingerprint=shown))
            if choice == ROLL_BACK:
                self.go_back(app, f"{who} chose to roll back")
        if choice == STOP:
            raise AirflowFailException(f"stopped by {who}: nothing more is changed, the way back is open")
        self.log.info("%s goes on", who)

    def go_back(self, app: App, reason: str) -> None:
        """Begin the way back, unless this stage already is one or nothing was changed; always raises."""
        if StageName(self.stage).undoes:
            raise AirflowFailException(f"{self.stage}: {reason}; a person has to look")
        because = f"{self.stage}: {reason}"
        undo = app.begin_roll_back(self.migration, WayBack.OLD_MEMBERS, int(self.token), because=because)
        what = f"rolling back: {', '.join(undo)}" if undo else "nothing was changed"
        raise AirflowFailException(f"{because}; {what}")


class Rehearse(Judge):
    """Proves the way back before the toggle: computes its inverse and checks it live."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(stage=StageName.TOGGLE, moment="", **kwargs)

    def judgement(self, app: App) -> Judgement:
        """Skip unless the toggle is planned."""
        self.require_stage(app, StageName.TOGGLE)
        return app.rehearse(self.migration)


class LastGate(Asks, HITLBranchOperator):
    """Finalise, or keep the way back open; nobody answering keeps it."""

    def __init__(self, *, finalise: str, keep: str, **kwargs: Any) -> None:
        mapping = {FINALISE: finalise, KEEP: keep}
        own = {"options": list(mapping), "defaults": KEEP, "options_mapping": mapping, "retries": LATE}
        super().__init__(**{**own, **kwargs})

    def execute(self, context: Context) -> Any:
        """Skip when the plan ends before anything could be finalised; else park."""
        with self.app() as app:
            if not app.has_stage(self.migration, StageName.FINALISE):
                raise AirflowSkipException(
                    "nothing to finalise: members of this plan still need the mode node"
                )
            brief = app.brief(self.migration, Gate.FINALISE, terms=self.terms(context))
        return self.ask(context, brief)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Journal the answer and branch. Raises `Conflict` when it is void."""
        choice, who, shown = self.chosen(context, event)
        decided = Choice.FINALISE if choice == FINALISE else Choice.KEEP
        with self.app() as app:
            app.answer(self.migration, Gate.FINALISE, Answer(choice=decided, who=who, fingerprint=shown))
        return self.do_branch(context=context, branches_to_execute=[self.options_mapping[choice]])
