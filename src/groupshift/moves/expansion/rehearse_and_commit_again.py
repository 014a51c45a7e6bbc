"""Steps of an expansion that commit what the snapshot has, once where it is already and then where it
belongs, and that prove the end. What somebody else committed is never overwritten.

Before a commit each group is asked what it answers. What is answered otherwise than the snapshot says, or
lies elsewhere in the log and is newer, is somebody's commit: it is named and left alone, and a person
decides. After a commit the answers are read back, and the log is asked where they lie: a cache may answer
what no record holds. What differs is journaled with a digest of all sentences, so that who accepts accepts
exactly these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from groupshift.domain.commit_places import Topics
from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.rows import OffsetRow
from groupshift.domain.run import PASSED, Checked, Json, Outcome, Step, StepRecord, StepState
from groupshift.domain.verdict import Finding, Verdict, against
from groupshift.engine.move import Handler, Standing
from groupshift.engine.snapshots import CompareClusters, first_sentences
from groupshift.errors import Conflict
from groupshift.moves.expansion.logged_offsets import Elsewhere, held
from groupshift.moves.expansion.ports import (
    AT_A_TIME,
    COUNTED,
    DROPPED,
    Expanding,
    ExpansionPorts,
    count_of,
    counts_of,
    dropped,
    kept,
    moves,
)
from groupshift.moves.expansion.restore import (
    Key,
    NotRestored,
    agreement,
    demand_answers,
    key_of,
    read_back,
    some_groups,
    unlike,
)
from groupshift.moves.expansion.rules import audit_placement
from groupshift.moves.expansion.steps import unproven
from groupshift.ports.changes import refusal_of

_SAID = 10
"""How many sentences are journaled."""
_STATIC = "X08"
OFFSETS, LOGGED, PLACED = "E93", "E94", "E95"
"""Rules: offsets are as in the snapshot; the log holds what coordinators answer; groups lie where they
belong."""
_REMEDY = (
    "stop the members where it says 25, let this login read group and topic where it says 29 or 30, set what "
    "clients committed, restart the brokers that are named; then run it again, or leave these offsets as "
    "they are"
)


def placing(run: Expanding) -> tuple[int, ...]:
    """Return the counts by which groups may be placed now, to be tried in this order. There are two in a
    rollback where somebody else changed the topic and all that brokers answer fits both: the log tells.

    Raises `Conflict` where somebody restarted some brokers and not all."""
    if not run.going_back:
        return (count_of(run),)
    view, before = run.ports.views.look(), counts_of(run.there).before
    took_up = [node for node, counts in view.counted.items() if view.count in counts and before not in counts]
    left = sorted(node for node, counts in view.counted.items() if view.count not in counts)
    if not took_up:
        return (before,) if left or view.count == before else (before, view.count)
    if not left:
        return (view.count,)
    named = ", ".join(map(str, left))
    raise Conflict(
        f"the offsets topic has {view.count} partitions, and somebody restarted a broker, which counts them; "
        f"broker {named} does not: let no client start, restart broker {named}, then run it again, and every "
        "group gets back what the snapshot has, where that count puts it"
    )


def still_placed(run: Expanding) -> Checked:
    """Return whether brokers count as they did when it was asked for; else that step, and all after it, are
    done again."""
    kind = "restore" if run.going_back else "place"
    place = next((each for each in run.plan.steps if each.kind == kind), None)
    record = run.records.get(place.key) if place is not None else None
    if place is None or record is None or record.state is not StepState.DONE:
        return PASSED
    plan = counts_of(run.there)
    known = int(record.result.get(COUNTED, plan.before if run.going_back else plan.to))
    counts = placing(run) if run.going_back else (max(run.ports.views.look().count, known),)
    if known in counts:  # forward the topic tells: a broker that tells fewer is only late
        return PASSED
    detail = (
        f"groups are placed by {counts[0]} partitions, not by {known}: somebody else changed the topic "
        f"since step {place.key} was done; it is done again"
    )
    return Checked(outcome=Outcome.WAIT, detail=detail, redo_from=place.key)


def _sentences(said: Sequence[str]) -> dict[str, object]:
    """What is journaled of sentences: their number, and the first ones with a digest of all."""
    return {"left": len(said), "reasons": first_sentences(said)}


def _differs(rule: str, result: Json, why: str) -> Checked:
    """What is not as it should be."""
    reason = f"{why}: {'; '.join(result['reasons'])}"
    finding = Finding(rule=rule, verdict=Verdict.FAIL, reason=reason, hint=_REMEDY)
    return Checked(outcome=Outcome.FAIL, findings=(finding,))


class _Placed(Handler[ExpansionPorts]):
    """A step that counts on where brokers look for each group."""

    def allowed(self, run: Expanding, step: Step) -> Checked:
        """Whether brokers count as they did when each was asked; else that step is done again first."""
        return still_placed(run)

    def stands(self, run: Expanding, step: Step, record: StepRecord) -> Standing:
        """What another claim found and nobody read back is looked for again."""
        return Standing.AS_MET


class _Committing(_Placed):
    """What rehearsal and restoring have in common."""

    everything = False
    """Whether what is answered already is committed, too."""

    def counted(self, rows: Sequence[OffsetRow], said: Sequence[str]) -> dict[str, object]:
        """Return what is journaled: how many offsets are as in the snapshot, and what is not."""
        equal = len(rows) - min(len(said), len(rows))
        return {"offsets": len(rows), "equal": equal, **_sentences(said)}

    def check(self, run: Expanding, step: Step, record: StepRecord) -> Checked:
        """Whether every offset is answered as the snapshot has it, and lies where it belongs."""
        result = record.result
        if not result["left"]:
            return PASSED
        why = f"{result['left']} of {result['offsets']} offsets are not as in the snapshot"
        return _differs(OFFSETS, result, why)

    def committed(
        self, run: Expanding, step: Step, rows: Sequence[OffsetRow], former: Mapping[Key, Elsewhere]
    ) -> list[str]:
        """Commit those of ``rows`` that are not answered, or all where all are; read back. Some groups at a
        time, each of which is looked at and fenced right before. ``former`` is what was committed at former
        coordinators since. Returns what is not as wanted, sorted. Raises `Fenced`."""
        said: list[str] = []
        for some in some_groups(rows, lambda row: row.group, AT_A_TIME):
            run.hold(step)
            said += [_sentence(each, former) for each in self._batch(run, some, former)]
        return sorted(said)

    def _batch(
        self, run: Expanding, rows: Sequence[OffsetRow], former: Mapping[Key, Elsewhere]
    ) -> tuple[NotRestored, ...]:
        """What is not as wanted afterwards, what somebody else committed among it: an offset, an epoch or
        metadata, at the coordinator or at a former one. What lies only where another count puts it may be
        answered and is committed all the same."""
        differing = _unlike(run, rows)
        elsewhere = {key: each for key, each in former.items() if each.lost}
        theirs = tuple(
            each
            for each in differing
            if each.current is not None or unlike(former.get(key_of(each.wanted), each.wanted), each.wanted)
        )
        keep, missing = ({key_of(each.wanted) for each in ones} for ones in (theirs, differing))
        wanted = [row for row in rows if key_of(row) not in keep]
        missing |= {
            key for row in wanted if (key := key_of(row)) in elsewhere and not unlike(elsewhere[key], row)
        }
        refused = run.ports.restoring.commit(
            [row for row in wanted if self.everything or key_of(row) in missing]
        )
        if not self.everything:
            return (*read_back(run.ports.reader, wanted, refused, whole=True).differing, *theirs)
        reasons = ((row, refusal_of(refused, row)) for row in wanted)  # it is there, and would not be again
        return (*(NotRestored(wanted=row, current=None, reason=why) for row, why in reasons if why), *theirs)


class Rehearse(_Committing):
    """Commits what the snapshot has once where it is already: may this login, and does every coordinator take
    it. What nobody can commit again is named, and asked about."""

    everything = True

    def act(self, run: Expanding, step: Step, intent: Json) -> Json:
        """Commit every offset of the snapshot that somebody can commit, where its group is now. Returns
        what was refused, which groups changed since the snapshot, and what nobody can commit again."""
        rows, lasting = kept(run), dict[Key, str]()
        topics = run.ports.views.topics(sorted({row.topic for row in rows})) if rows else Topics()
        for row in rows:  # by the snapshot and what brokers tell now: nobody can commit these, whoever asks
            if why := topics.unrestorable(row.topic, row.partition, row.topic_id):
                place = f"{row.group!r} {row.topic}-{row.partition}"
                lasting[key_of(row)] = f"{place}: it cannot be committed again ({why})"
        free = [row for row in rows if key_of(row) not in lasting]
        said = [*self.committed(run, step, free, {}), *lasting.values()]
        changed = sorted({each.wanted.group for each in _unlike(run, rows)})
        result = {**self.counted(rows, said), "changed": changed[:_SAID]}
        gone = [[*key_of(row), row.offset, lasting[key_of(row)]] for row in rows if key_of(row) in lasting]
        return {**result, DROPPED: gone} if gone else result

    def check(self, run: Expanding, step: Step, record: StepRecord) -> Checked:
        """Whether all was taken. Where offsets changed since the snapshot it is no copy any more: only the
        rollback helps."""
        if changed := record.result["changed"]:
            names = ", ".join(changed)
            detail = f"offsets of {names} changed since the snapshot; take the run back, and begin anew"
            return Checked(outcome=Outcome.FAIL, detail=detail, only_rollback_helps=True)
        return super().check(run, step, record)


class Restore(_Committing):
    """Commits what the snapshot has and nobody committed since; what somebody did is left to a person. Then
    the log is asked where it lies: a broker whose answers fit several counts may put it elsewhere."""

    def act(self, run: Expanding, step: Step, intent: Json) -> Json:
        """See `Handler`. Raises `Transient` where a group does not answer."""
        result: Json = {}
        plan, gone, ports = counts_of(run.there), dropped(run), run.ports
        for count in placing(run):
            other = {COUNTED: count} if run.going_back and count != plan.before else {}
            moved = other.get(COUNTED, plan.to if run.going_back else count_of(run))
            rows = [row for row in kept(run, moved) if key_of(row) not in gone]
            former = {
                key_of(each): each
                for each in sorted(held(ports.log, count).elsewhere, key=lambda each: each.committed_ms)
                if moves(run, each.group, moved)
            }
            said, groups = self.committed(run, step, rows, former), {row.group for row in rows}
            state = ports.reader.take(sorted(groups))
            demand_answers(state)
            leaders = ports.views.look().topic.leaders
            differing = agreement(state.offsets, held(ports.log, count))
            astray = [
                f"{sentence}: broker {leaders[partition_of(group, count)]} uses no {count} partitions; "
                "restart it"
                for group, sentence in differing
                if group in groups
            ]
            result = {**self.counted(rows, [*said, *astray]), **other}
            if not astray:
                break
        return result


def _unlike(run: Expanding, rows: Iterable[OffsetRow]) -> tuple[NotRestored, ...]:
    """Raises `Transient` where a group does not answer: that is not the same as no offset."""
    return read_back(run.ports.reader, rows, whole=True).differing


def _sentence(missing: NotRestored, former: Mapping[Key, Elsewhere]) -> str:
    """What is wrong with an offset, and who committed what instead."""
    wanted, elsewhere = missing.wanted, former.get(key_of(missing.wanted))
    said = f"{wanted.group!r} {wanted.topic}-{wanted.partition}: {wanted.offset} in the snapshot"
    there = missing.current or elsewhere
    if there is None:
        return f"{said}, not committed ({missing.reason or 'it is not answered'})"
    more = " with another epoch or other metadata" if there.offset == wanted.offset else ""
    where = "since" if missing.current is not None else "at its former coordinator since"
    return f"{said}, {there.offset}{more} was committed {where}"


class CompareSnapshots(CompareClusters[ExpansionPorts]):
    """Compares as every cluster's comparison, where brokers count as they did."""

    def allowed(self, run: Expanding, step: Step) -> Checked:
        """See `Handler`."""
        return still_placed(run)


class Verify(Handler[ExpansionPorts]):
    """Compares a snapshot, what coordinators answer, with the bytes of the log: a cache may hide what lies
    there."""

    def allowed(self, run: Expanding, step: Step) -> Checked:
        """See `Handler`."""
        return still_placed(run)

    def act(self, run: Expanding, step: Step, intent: Json) -> Json:
        """Hold the last snapshot against the bytes of the log, in Spark, in a folder of this attempt."""
        taken = run.snapshot(step.subject)
        folder = run.ports.evidence / run.name / run.attempt(step)
        verification = run.ports.verify(Path(taken.folder), taken.manifest_sha256, count_of(run), folder)
        return {
            "verification": str(folder),
            "verdict": verification.verdict.value,
            "outcome": dict(verification.files),
            **_sentences(verification.reasons),
        }

    def check(self, run: Expanding, step: Step, record: StepRecord) -> Checked:
        """Whether each offset lies where the count puts its group, as it was answered."""
        if record.result["verdict"] == Verdict.PASS:
            return PASSED
        why = f"the log is not as snapshot {step.subject}, {record.result['left']} offsets"
        return _differs(LOGGED, record.result, why)


class Audit(_Placed):
    """Reads the whole log: every group's records lie in its own partition, one broker serves it."""

    def act(self, run: Expanding, step: Step, intent: Json) -> Json:
        """Ask every rule of an audit of placement, with whether each broker's file has the new count, and
        whether the journal shows every step before this one. Returns what does not hold."""
        audit = audit_placement(run.ports.views, run.ports.log)
        findings = audit.judgement.findings
        said = [each.with_remedy for each in against(findings)]
        if not run.going_back and count_of(run) == counts_of(run.there).to:  # what was to be set is read back
            unset = (each for each in findings if each.rule == _STATIC and each.verdict is not Verdict.PASS)
            said += [each.with_remedy for each in unset]
        said += unproven(run, step)
        records = audit.facts.log.records if audit.facts.log else 0
        return {"records": records, **_sentences(said)}

    def check(self, run: Expanding, step: Step, record: StepRecord) -> Checked:
        """Whether nothing was found; else no client may start before a person has looked at it."""
        return _differs(PLACED, record.result, "keep clients stopped") if record.result["left"] else PASSED
