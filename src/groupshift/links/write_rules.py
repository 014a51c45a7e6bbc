"""Whether the offset of one group and partition is written to the target, which one, and why; pure.

`decide` is asked before a write, and again right before it is made; `confirm` afterwards. What is not known
is never taken for something else: a failed look skips the partition. ``write_rules.toml`` beside this module
has the sentences for people.

Source: docs/reference/cross-cluster-offsets.md §9 (steps 1 to 5, 8) and §9.1; KIP-545; KAFKA-19794.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, TypeVar

from groupshift.domain.group_protocol import EMPTY
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import GONE
from groupshift.domain.tables import table_of
from groupshift.errors import Rejected
from groupshift.links.translation import Method, Reason, Translation

ABSENT: Final = frozenset({"", GONE})
"""States of a group that the target does not have."""
ACTIVE: Final = frozenset({"Stable", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})
"""States of a group with members. Any other one but Empty says nothing."""
FILE: Final = "links/write_rules.toml"
"""The table of sentences, below the package ``groupshift``."""
_T = TypeVar("_T")


class RewindPolicy(StrEnum):
    """When an offset on the target may be lowered."""

    NEVER = "never"
    FOLLOW_SOURCE = "follow-source"
    """Where the source's commit went back since the last write, and the group is Empty."""
    FORCE = "force"
    """Always; a person has to confirm it."""


class Action(StrEnum):
    """What is done with the target's offset."""

    WRITE = "WRITE"
    SKIP = "SKIP"


_UNTRANSLATED: Final = {
    Reason.SKIP_NO_SYNC: "no_sync",
    Reason.SKIP_BEFORE_FIRST_SYNC: "before_first_sync",
    Reason.SKIP_TOPIC_RECREATED: "epoch_ended",
}
"""The sentence for each reason why there is no translated offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """What is said for people, with blanks for values; ``reason`` is None where it stands beside another."""

    what: str
    effect: str
    remedy: str = ""
    reason: Reason | None = None


SENTENCES: Final = table_of(dict[str, Sentence], FILE)
"""The sentences by their names."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A look that came to nothing, with the error of the client or the broker."""

    error: str


@dataclass(frozen=True, slots=True)
class LogRange:
    """A partition's log: first offset, and the one behind the last (the high watermark).

    Raises:
        Rejected: the numbers are no such range.
    """

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise Rejected(
                f"log start {self.start} and log end {self.end} are no range of a log; read both again"
            )


@dataclass(frozen=True, slots=True)
class TopicIds:
    """Ids of both topics; None: not known, as with brokers before 2.8."""

    source: str | None = None
    target: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What is known of one group and partition. Commits have to be read before the logs' ranges, or a group
    that goes on in between would seem to be beyond the end.

    ``target`` is None where the name cannot be mapped; ``unmapped`` then says why. ``refusal`` is what the
    filters say against it (empty: nothing). ``state`` is the group's on the target as brokers name it, empty
    where there is no such group. ``target_commit`` and ``source_commit`` are None where there is none, and -1
    where a client committed none; a log is None where the partition does not exist.

    ``translation`` is the translated offset, before it is brought into the target's log, or the reason why
    there is none; `with_translation` sets it and the next one. ``preserves_offsets``: it is proven that the
    target has each record at its source offset, so a commit beyond its log end only says that the link is
    behind.

    ``ids_before`` are those under which this very commit was first read within the log, and the translation
    was made; ``ids_now`` those of the topics now. ``source_went_back``: the source's commit is lower than at
    our last write. ``commits_without_members``: between two looks somebody else committed on the target,
    though the group has no members, as a consumer with ``assign()`` does.

    Raises:
        Rejected: the translation is a negative number, or a reason that is none for it.
    """

    group: str
    source: TopicPartition
    target: TopicPartition | None
    state: str | Failure
    target_commit: int | Failure | None
    source_commit: int | Failure | None
    source_log: LogRange | Failure | None
    target_log: LogRange | Failure | None
    translation: int | Reason | Failure = Failure("the commit was not translated")
    preserves_offsets: bool = False
    ids_before: TopicIds = TopicIds()
    ids_now: TopicIds = TopicIds()
    source_went_back: bool = False
    commits_without_members: bool = False
    unmapped: str = ""
    refusal: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.translation, int) and self.translation < 0:
            raise Rejected(
                f"group {self.group}, {self.source}: translation {self.translation} is no offset; say why "
                "there is none"
            )
        if isinstance(self.translation, Reason) and self.translation not in _UNTRANSLATED:
            raise Rejected(
                f"group {self.group}, {self.source}: {self.translation} does not say why there is no "
                f"translation; use one of {', '.join(_UNTRANSLATED)}"
            )

    def with_translation(self, translation: Translation) -> Observation:
        """Return the observation with the translation of its source commit.

        Raises:
            Rejected: another offset was translated.
        """
        if translation.committed != self.source_commit:
            raise Rejected(
                f"group {self.group}, {self.source}: offset {translation.committed} was translated, and the "
                f"commit on the source is {self.source_commit}; translate the commit that was read last"
            )
        offset, log = translation.unclamped, self.target_log
        if translation.x is not None and isinstance(log, LogRange):
            # records are read after the log's range: what a translation found there is within the log
            log = LogRange(log.start, max(log.end, translation.x))
        return replace(
            self,
            target_log=log,
            translation=translation.reason if offset is None else offset,
            preserves_offsets=translation.method is Method.IDENTITY,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do with one group and partition. ``x`` is the offset to write, or that was compared; None where
    it did not come to that. ``sentences`` are names in `SENTENCES`, that of the reason first, and ``detail``
    is a value in them. ``translated`` is the offset before it was brought into the target's log."""

    action: Action
    x: int | None
    reason: Reason
    sentences: tuple[str, ...]
    detail: str = ""
    translated: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Looks:
    """An observation in which every look came to something; ``commit`` is None for none on the target."""

    state: str
    c: int
    commit: int | None
    source: LogRange
    target: LogRange


class _Skipped(Exception):
    """The partition is not written; ends `decide` at the first thing that forbids it."""

    def __init__(self, sentence: str, detail: str = "") -> None:
        super().__init__(sentence)
        self.decision = _decision(Action.SKIP, [sentence], x=None, detail=detail)


def decide(cell: Observation, *, policy: RewindPolicy = RewindPolicy.NEVER) -> Decision:
    """Return whether the offset is written, and why.

    The first of these decides: filters; the group's state on the target; looks that failed and what does not
    exist; topics created anew; no translation; a target that was cut since the translation; then the offset,
    brought into the target's log, against the target's commit.
    """
    try:
        looks = _looks_of(cell)
        translation = _translation(cell)
    except _Skipped as skipped:
        return skipped.decision
    if translation > looks.target.end and not cell.preserves_offsets:
        return _decision(Action.SKIP, ["cut_target"], x=None, translated=translation)
    x = max(min(translation, looks.target.end), looks.target.start)
    main, action = _against_commit(looks, x, policy, source_went_back=cell.source_went_back)
    clamp = "link_behind" if x < translation else "clamped_low" if x > translation else ""
    kept = SENTENCES[main].reason in {Reason.SKIP_WATERMARK, Reason.SKIP_SOURCE_REWIND}
    sentences = [main, clamp] if kept else [clamp, main]
    sentences.append("expired" if looks.c < looks.source.start else "")
    beyond_end = looks.commit is None and _offset(cell.target_commit) is not None
    sentences.append("beyond_target_end" if beyond_end else "")
    return _decision(action, [each for each in sentences if each], x=x, translated=translation)


def confirm(decision: Decision, *, state: str | Failure, target_commit: int | Failure | None) -> Decision:
    """Return the decision, or that it was raced, from what was read right after the write. A skip stays."""
    if decision.action is Action.SKIP:
        return decision
    for look in (state, target_commit):
        if isinstance(look, Failure):
            return _raced(decision, "raced_unread", look.error)
    if target_commit != decision.x:
        return _raced(decision, "raced_commit", "no offset" if target_commit is None else str(target_commit))
    if state != EMPTY and state not in ABSENT:
        return _raced(decision, "raced_members", str(state))
    return decision


def refuse(decision: Decision, sentence: str, detail: str = "") -> Decision:
    """Return the decision as a skip, for what stood against it when it was to be written: one of `SENTENCES`
    with a reason of its own."""
    offsets = {"x": decision.x, "translated": decision.translated}
    return _decision(Action.SKIP, [sentence], detail=detail, **offsets)


def explain(cell: Observation, decision: Decision) -> str:
    """Return the decision in words: what is the case, what it means for the group, what to do next."""
    source, target = (
        log if isinstance(log, LogRange) else LogRange(0, 0) for log in (cell.source_log, cell.target_log)
    )
    c, commit = _offset(cell.source_commit), _offset(cell.target_commit)
    x, translated = decision.x or 0, decision.translated or 0
    values: dict[str, Any] = {
        "group": cell.group,
        "source": cell.source,
        "target": cell.target,
        "state": cell.state,
        "c": c,
        "commit": commit,
        "x": x,
        "translated": translated,
        "s_start": source.start,
        "s_end": source.end,
        "t_start": target.start,
        "t_end": target.end,
        "detail": decision.detail,
        "back": (commit or 0) - x,
        "ahead": translated - x,
        "deleted": x - translated,
        "expired": source.start - (c or 0),
    }
    said = []
    for sentence in (SENTENCES[name] for name in decision.sentences):
        remedy = f"; {sentence.remedy}" if sentence.remedy else ""
        said.append(f"{sentence.what}: {sentence.effect}{remedy}".format(**values))
    return ". ".join(said)


def _offset(commit: int | Failure | None) -> int | None:
    """The committed offset; None where there is none, or a client committed -1."""
    return commit if isinstance(commit, int) and commit >= 0 else None


def _looks_of(cell: Observation) -> _Looks:
    """Everything that was read. Raises `_Skipped` at the first thing that forbids a write, step by step."""
    if cell.refusal:
        raise _Skipped("filtered", cell.refusal)
    state = _read("the state of the group on the target", cell.state)
    if state != EMPTY and state not in ABSENT:
        raise _Skipped("active" if state in ACTIVE else "state_unknown")
    if cell.commits_without_members:
        raise _Skipped("active_without_members")
    if cell.target is None:
        raise _Skipped("no_name", cell.unmapped)
    commit = _offset(_read("the group's commit on the target", cell.target_commit))
    c = _offset(_read("the group's commit on the source", cell.source_commit))
    source = _read("the source partition's log start and end", cell.source_log)
    target = _read("the target partition's log start and end", cell.target_log)
    if source is None or target is None:
        raise _Skipped("no_source" if source is None else "no_target")
    if c is None:
        raise _Skipped("no_commit")
    _require_same_topics(cell)
    if c > source.end and cell.ids_before.source is None:
        # a log that was cut, only if the commit is known to have been within this very topic
        raise _Skipped("beyond_source_end")
    if commit is not None and commit > target.end:
        commit = None  # of an older log: it would have records skipped (§9.1)
    return _Looks(state=state, c=c, commit=commit, source=source, target=target)


def _read(look: str, value: _T | Failure) -> _T:
    """What a look came to."""
    if isinstance(value, Failure):
        raise _Skipped("unread", f"{look} could not be read ({value.error})")
    return value


def _require_same_topics(cell: Observation) -> None:
    """Raise `_Skipped` where the commit or the translation is one of a topic that is gone."""
    before, now = cell.ids_before, cell.ids_now
    for side, old, new in (("source", before.source, now.source), ("target", before.target, now.target)):
        if old is not None and new is None:
            raise _Skipped("unread", f"the topic id on the {side}, known before, could not be read")
        if old is not None and old != new:
            raise _Skipped(f"recreated_{side}")


def _translation(cell: Observation) -> int:
    translation = cell.translation
    if isinstance(translation, Reason):
        raise _Skipped(_UNTRANSLATED[translation])
    return _read("what the translation needs", translation)


def _against_commit(
    looks: _Looks, x: int, policy: RewindPolicy, *, source_went_back: bool
) -> tuple[str, Action]:
    """The sentence and the action for an offset beside the target's commit: never lower, but by policy."""
    commit, new = looks.commit, looks.state in ABSENT
    if commit is None or commit < x:
        return ("new_group" if new and commit is None else "ok"), Action.WRITE
    if commit == x:
        return "at_x", Action.SKIP
    if policy is RewindPolicy.FORCE:
        return "forced", Action.WRITE
    if source_went_back and policy is RewindPolicy.FOLLOW_SOURCE:
        return ("source_rewind_not_empty", Action.SKIP) if new else ("rewound", Action.WRITE)
    return ("source_rewind" if source_went_back else "ahead"), Action.SKIP


def _decision(action: Action, sentences: list[str], **more: Any) -> Decision:
    reason = SENTENCES[sentences[0]].reason
    if reason is None:
        raise Rejected(f"{FILE}: {sentences[0]} has no reason; give it one")
    return Decision(action=action, reason=reason, sentences=tuple(sentences), **more)


def _raced(decision: Decision, sentence: str, detail: str) -> Decision:
    offsets = {"x": decision.x, "translated": decision.translated}
    return _decision(Action.WRITE, [sentence], detail=detail, **offsets)
