"""Writing an offset to the target: who is written, who is not, and the reason of each."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Rejected
from groupshift.links.translation import Reason
from groupshift.links.write_rules import (
    ABSENT,
    ACTIVE,
    SENTENCES,
    Action,
    Decision,
    Failure,
    LogRange,
    Observation,
    RewindPolicy,
    TopicIds,
    confirm,
    decide,
    explain,
    refuse,
)

NEVER, FOLLOW, FORCE = RewindPolicy
UNTRANSLATED = [Reason.SKIP_NO_SYNC, Reason.SKIP_BEFORE_FIRST_SYNC, Reason.SKIP_TOPIC_RECREATED]
DOWN = Failure("REQUEST_TIMED_OUT")


def cell(**changes: Any) -> Observation:
    """A group that is Empty on the target, at 500 of 0 to 1000; its commit 700 on the source is 600 there."""
    usual = Observation(
        group="billing",
        source=TopicPartition("orders", 3),
        target=TopicPartition("primary.orders", 3),
        state="Empty",
        target_commit=500,
        source_commit=700,
        source_log=LogRange(0, 1100),
        target_log=LogRange(0, 1000),
        translation=600,
        ids_before=TopicIds("s1", "t1"),
        ids_now=TopicIds("s1", "t1"),
    )
    return replace(usual, **changes)


def preserved(c: int, **changes: Any) -> Observation:
    """The same over a link that preserves offsets, with this commit on the source."""
    return cell(source_commit=c, translation=c, preserves_offsets=True, **changes)


def brief(decision: Decision) -> tuple[str, int | None, str]:
    """Action, offset and reason."""
    return decision.action.value, decision.x, decision.reason.value


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"state": "Dead", "target_commit": None}, ("WRITE", 600, "OK_NEW_GROUP")),
        ({"state": "", "target_commit": None}, ("WRITE", 600, "OK_NEW_GROUP")),
        ({"target_commit": 601}, ("SKIP", 600, "SKIP_WATERMARK")),
        ({"target_commit": 1000}, ("SKIP", 600, "SKIP_WATERMARK")),
        ({"target_commit": 600}, ("SKIP", 600, "OK")),
        ({"target_commit": 599}, ("WRITE", 600, "OK")),
        ({"target_commit": 0}, ("WRITE", 600, "OK")),
        ({"target_commit": -1}, ("WRITE", 600, "OK")),
        ({"target_commit": None}, ("WRITE", 600, "OK")),
        ({"target_commit": None, "translation": 0}, ("WRITE", 0, "OK")),
    ],
    ids=[
        "new group, Dead", "new group, not found", "ahead", "at the end", "at x", "behind", "at 0",
        "null offset", "new partition", "new partition, first offset",
    ],
)  # fmt: skip
def test_cluster_07_exactly_what_is_absent_null_or_behind_is_written(
    changes: dict[str, Any], wanted: tuple[str, int, str]
) -> None:
    """What is at the translated offset already is all right, and not written again."""
    assert brief(decide(cell(**changes))) == wanted


@pytest.mark.parametrize("policy", RewindPolicy)
@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("Stable", "SKIP_ACTIVE"),
        ("PreparingRebalance", "SKIP_ACTIVE"),
        ("CompletingRebalance", "SKIP_ACTIVE"),
        ("Assigning", "SKIP_ACTIVE"),
        ("Reconciling", "SKIP_ACTIVE"),
        ("Unknown", "SKIP_STATE_UNKNOWN"),
        ("NotReady", "SKIP_STATE_UNKNOWN"),
        ("EMPTY", "SKIP_STATE_UNKNOWN"),
    ],
)
def test_cluster_08_a_group_that_may_have_members_is_not_written(
    state: str, reason: str, policy: RewindPolicy
) -> None:
    """Classic and consumer protocol alike, whatever the policy; a word that is not known counts as in use."""
    active = cell(state=state, source_went_back=True)
    decision = decide(active, policy=policy)
    assert brief(decision) == ("SKIP", None, reason)
    assert f"state {state}" in explain(active, decision) or f"is {state}" in explain(active, decision)


@pytest.mark.parametrize("policy", RewindPolicy)
def test_cluster_08_a_group_without_members_that_commits_is_in_use(policy: RewindPolicy) -> None:
    """A consumer with assign() is no member; whatever its offset and the policy, it is not written over."""
    for commit in (None, 500, 800):
        assigned = cell(commits_without_members=True, target_commit=commit, source_went_back=True)
        decision = decide(assigned, policy=policy)
        assert brief(decision) == ("SKIP", None, "SKIP_ACTIVE")
        assert "a consumer with assign() commits its own progress" in explain(assigned, decision)


@pytest.mark.parametrize("policy", RewindPolicy)
@pytest.mark.parametrize(
    ("look", "names"),
    [
        ("state", "the state of the group on the target"),
        ("target_commit", "the group's commit on the target"),
        ("source_commit", "the group's commit on the source"),
        ("source_log", "the source partition's log start and end"),
        ("target_log", "the target partition's log start and end"),
        ("translation", "what the translation needs"),
    ],
)
def test_cluster_10_a_look_that_failed_skips_and_is_named(
    look: str, names: str, policy: RewindPolicy
) -> None:
    """It is never taken for an absent group or offset, so nothing is overwritten."""
    unread = cell(**{look: DOWN})
    decision = decide(unread, policy=policy)
    assert brief(decision) == ("SKIP", None, "SKIP_ADMIN_ERROR")
    assert f"{names} could not be read (REQUEST_TIMED_OUT)" in explain(unread, decision)


def test_cluster_10_a_topic_id_that_is_no_longer_read_skips() -> None:
    """The topic may be another one now."""
    for now in (TopicIds(None, "t1"), TopicIds("s1", None)):
        assert decide(cell(ids_now=now)).reason is Reason.SKIP_ADMIN_ERROR


@pytest.mark.parametrize(
    ("policy", "changes", "wanted"),
    [
        (NEVER, {"source_went_back": True}, ("SKIP", 600, "SKIP_SOURCE_REWIND")),
        (NEVER, {"source_went_back": False}, ("SKIP", 600, "SKIP_WATERMARK")),
        (FOLLOW, {"source_went_back": True}, ("WRITE", 600, "OK")),
        (FOLLOW, {"source_went_back": False}, ("SKIP", 600, "SKIP_WATERMARK")),
        (FOLLOW, {"source_went_back": True, "state": "Dead"}, ("SKIP", 600, "SKIP_SOURCE_REWIND")),
        (FOLLOW, {"source_went_back": True, "state": "Stable"}, ("SKIP", None, "SKIP_ACTIVE")),
        (FORCE, {"source_went_back": True}, ("WRITE", 600, "OK")),
        (FORCE, {"source_went_back": False}, ("WRITE", 600, "OK")),
        (FORCE, {"state": "Stable"}, ("SKIP", None, "SKIP_ACTIVE")),
        (NEVER, {"source_went_back": True, "target_commit": 400}, ("WRITE", 600, "OK")),
        (NEVER, {"source_went_back": True, "target_commit": 600}, ("SKIP", 600, "OK")),
    ],
)
def test_cluster_15_an_offset_is_lowered_by_policy_only(
    policy: RewindPolicy, changes: dict[str, Any], wanted: tuple[str, int | None, str]
) -> None:
    """The target is at 800 and the commit is 600 there. Forward it is written whatever the source did."""
    assert brief(decide(cell(**{"target_commit": 800, **changes}), policy=policy)) == wanted


def test_cluster_15_a_lowered_offset_says_how_much_is_read_again() -> None:
    """For whoever approves it."""
    for policy, names in ((FOLLOW, "follow-source"), (FORCE, "force")):
        lowered = cell(target_commit=800, source_went_back=True)
        said = explain(lowered, decide(lowered, policy=policy))
        assert "from 800 to 600" in said
        assert "reads up to 200 records again" in said
        assert f"rewind policy {names}" in said


BEHIND: dict[str, Any] = {"translation": 1200, "preserves_offsets": True}
"""A link that preserves offsets and has not come to the commit."""


@pytest.mark.parametrize(
    ("changes", "wanted", "says"),
    [
        (BEHIND, ("WRITE", 1000, "CLAMPED_HIGH"), "copied primary.orders-3 up to 1000"),
        (BEHIND | {"target_commit": 1000}, ("SKIP", 1000, "CLAMPED_HIGH"), "up to 1000"),
        ({"translation": 1000}, ("WRITE", 1000, "OK"), "gets offset 1000"),
        ({"target_log": LogRange(650, 1000)}, ("WRITE", 650, "CLAMPED_LOW"), "deleted up to 50 records"),
        ({"target_log": LogRange(600, 1000)}, ("WRITE", 600, "OK"), "gets offset 600"),
        (
            {"target_log": LogRange(650, 1000), "target_commit": 700},
            ("SKIP", 650, "SKIP_WATERMARK"),
            "deleted up to 50 records",
        ),
        (
            BEHIND | {"state": "Dead", "target_commit": None},
            ("WRITE", 1000, "CLAMPED_HIGH"),
            "does not exist on the target",
        ),
        (
            BEHIND | {"target_log": LogRange(0, 0), "target_commit": None},
            ("WRITE", 0, "CLAMPED_HIGH"),
            "up to 1200 records again",
        ),
    ],
)
def test_an_offset_outside_the_targets_log_is_brought_into_it(
    changes: dict[str, Any], wanted: tuple[str, int, str], says: str
) -> None:
    """With the offset of before, and with what it means; the brought one is held against the commit."""
    decision = decide(cell(**changes))
    assert brief(decision) == wanted
    assert decision.translated == changes.get("translation", 600)
    assert says in explain(cell(**changes), decision)


@pytest.mark.parametrize("policy", RewindPolicy)
def test_a_commit_beyond_the_targets_log_end_counts_as_none(policy: RewindPolicy) -> None:
    """The target was recreated or cut: such an offset would skip records once the log has grown (H4)."""
    beyond = cell(target_commit=1001)
    decision = decide(beyond, policy=policy)
    assert brief(decision) == ("WRITE", 600, "OK")
    assert "offset 1001 of primary.orders-3 was beyond its log end 1000" in explain(beyond, decision)
    within = cell(target_commit=1000)
    assert "was beyond" not in explain(within, decide(within, policy=policy))


@pytest.mark.parametrize(
    ("c", "changes", "wanted"),
    [
        (700, {}, ("WRITE", 700, "OK")),
        (1005, {}, ("WRITE", 1000, "CLAMPED_HIGH")),
        (1005, {"target_commit": 1000}, ("SKIP", 1000, "CLAMPED_HIGH")),
        (700, {"target_log": LogRange(800, 1000)}, ("WRITE", 800, "CLAMPED_LOW")),
    ],
)
def test_a_link_that_preserves_offsets_takes_the_commit_up_to_the_high_watermark(
    c: int, changes: dict[str, Any], wanted: tuple[str, int, str]
) -> None:
    """The commit is its own translation."""
    decision = decide(preserved(c, **changes))
    assert brief(decision) == wanted
    assert decision.translated == c


def test_a_link_that_lags_says_what_would_be_read_again() -> None:
    """And that waiting mends it, which a cut log does not."""
    lagging = preserved(1005)
    said = explain(lagging, decide(lagging))
    assert "the link has copied primary.orders-3 up to 1000, and the commit on the source is 1005" in said
    assert "up to 5 records again" in said
    assert "wait until the link has caught up" in said


@pytest.mark.parametrize(
    ("changes", "reason", "says"),
    [
        ({"translation": Reason.SKIP_NO_SYNC}, "SKIP_NO_SYNC", "no offset sync of orders-3"),
        ({"translation": Reason.SKIP_TOPIC_RECREATED}, "SKIP_TOPIC_RECREATED", "is of older logs than"),
        ({"source_commit": None}, "SKIP_NO_SYNC", "has no committed offset for orders-3"),
        ({"source_commit": -1}, "SKIP_NO_SYNC", "has no committed offset for orders-3"),
        (
            {"translation": Reason.SKIP_BEFORE_FIRST_SYNC},
            "SKIP_BEFORE_FIRST_SYNC",
            "offset 700 of orders-3",
        ),
        ({"target": None, "unmapped": "a cycle"}, "SKIP_TOPIC_MISSING", "no topic on the target (a cycle)"),
        ({"source_log": None}, "SKIP_TOPIC_MISSING", "orders-3 does not exist on the source"),
        ({"target_log": None}, "SKIP_TOPIC_MISSING", "primary.orders-3 does not exist on the target"),
        ({"refusal": "groups is empty"}, "SKIP_FILTERED", "left out by the filters (groups is empty)"),
    ],
)
def test_what_is_not_there_is_skipped_with_its_reason(
    changes: dict[str, Any], reason: str, says: str
) -> None:
    """Each with a sentence that names it."""
    decision = decide(cell(**changes))
    assert brief(decision) == ("SKIP", None, reason)
    assert says in explain(cell(**changes), decision)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ids_now": TopicIds("s2", "t1")}, "SKIP_TOPIC_RECREATED"),
        ({"ids_now": TopicIds("s1", "t2")}, "SKIP_TOPIC_RECREATED"),
        ({"ids_now": TopicIds("s2", "t1"), "ids_before": TopicIds(None, "t1")}, "OK"),
        ({"ids_before": TopicIds()}, "OK"),
        ({"ids_before": TopicIds(), "ids_now": TopicIds()}, "OK"),
        ({"source_commit": 1101}, "OK"),
        ({"source_commit": 1101, "ids_before": TopicIds(None, "t1")}, "SKIP_TOPIC_RECREATED"),
        ({"source_commit": 1101, "ids_now": TopicIds("s2", "t1")}, "SKIP_TOPIC_RECREATED"),
        ({"source_commit": 1100, "ids_before": TopicIds(None, "t1")}, "OK"),
    ],
)
def test_offsets_of_a_topic_that_is_gone_are_not_used(changes: dict[str, Any], reason: str) -> None:
    """Another id of either topic; or beyond the source's log end, unless it was within this very topic."""
    assert decide(cell(**changes)).reason == reason
    as_preserved = decide(cell(preserves_offsets=True, **changes))
    assert (as_preserved.reason is Reason.SKIP_TOPIC_RECREATED) == (reason == "SKIP_TOPIC_RECREATED")


def test_what_the_source_has_deleted_is_counted() -> None:
    """The commit lies before the source's log start: the count is said beside the reason."""
    expired = cell(source_log=LogRange(750, 1100))
    decision = decide(expired)
    assert brief(decision) == ("WRITE", 600, "OK")
    assert "the source has deleted up to 50 records" in explain(expired, decision)
    assert "expired" not in decide(cell(source_log=LogRange(700, 1100))).sentences


@pytest.mark.parametrize(
    ("state", "commit", "wanted", "says"),
    [
        ("Empty", 600, ("WRITE", 600, "OK"), "gets offset 600"),
        ("Empty", 599, ("WRITE", 600, "RACED"), "and then 599 was read back"),
        ("Empty", 650, ("WRITE", 600, "RACED"), "and then 650 was read back"),
        ("Empty", None, ("WRITE", 600, "RACED"), "and then no offset was read back"),
        ("Stable", 600, ("WRITE", 600, "RACED"), "had members (state Stable)"),
        ("Unknown", 600, ("WRITE", 600, "RACED"), "had members (state Unknown)"),
        (DOWN, 600, ("WRITE", 600, "RACED"), "could not be read back (REQUEST_TIMED_OUT)"),
        ("Empty", DOWN, ("WRITE", 600, "RACED"), "could not be read back (REQUEST_TIMED_OUT)"),
    ],
)
def test_a_write_that_reads_back_differently_was_raced(
    state: str | Failure, commit: int | Failure | None, wanted: tuple[str, int, str], says: str
) -> None:
    """By another offset or by a member; what cannot be read back is not called all right."""
    decision = confirm(decide(cell()), state=state, target_commit=commit)
    assert brief(decision) == wanted
    assert says in explain(cell(), decision)


def test_a_skip_is_not_confirmed() -> None:
    """Nothing was written, so nothing is read back."""
    skipped = decide(cell(state="Stable"))
    assert confirm(skipped, state="Stable", target_commit=5) is skipped


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (6, 5)])
def test_numbers_that_are_no_log_are_refused(start: int, end: int) -> None:
    """Before anything is decided by them."""
    with pytest.raises(Rejected, match=f"log start {start} and log end {end} are no range"):
        LogRange(start, end)


def test_a_negative_translation_is_refused() -> None:
    """MirrorMaker's -1 has a word of its own."""
    with pytest.raises(Rejected, match="billing, orders-3: translation -1 is no offset"):
        cell(translation=-1)


@pytest.mark.parametrize("reason", sorted(set(Reason) - set(UNTRANSLATED)))
def test_a_reason_that_says_nothing_of_a_translation_is_refused(reason: Reason) -> None:
    """It would come to a report as the reason of something else."""
    with pytest.raises(Rejected, match=f"orders-3: {reason} does not say why .* use one of SKIP_NO_SYNC,"):
        cell(translation=reason)


def test_an_observation_without_a_translation_is_not_written() -> None:
    """Whoever forgets it does no harm."""
    usual = {each.name: getattr(cell(), each.name) for each in fields(Observation)}
    del usual["translation"]
    forgotten = Observation(**usual)
    decision = decide(forgotten)
    assert brief(decision) == ("SKIP", None, "SKIP_ADMIN_ERROR")
    assert "the commit was not translated" in explain(forgotten, decision)


def test_cluster_11_a_target_that_was_cut_since_the_translation_is_not_written() -> None:
    """Its end would skip what was copied since the cut."""
    cut = cell(translation=1001)
    decision = decide(cut, policy=RewindPolicy.FORCE)
    assert brief(decision) == ("SKIP", None, "SKIP_TOPIC_RECREATED")
    assert "1001 is beyond the log end 1000" in explain(cut, decision)


REACHED = {
    Reason.OK: cell(),
    Reason.OK_NEW_GROUP: cell(state="Dead", target_commit=None),
    Reason.SKIP_ACTIVE: cell(state="Stable"),
    Reason.SKIP_STATE_UNKNOWN: cell(state="Unknown"),
    Reason.SKIP_WATERMARK: cell(target_commit=601),
    Reason.SKIP_SOURCE_REWIND: cell(target_commit=601, source_went_back=True),
    Reason.SKIP_NO_SYNC: cell(translation=Reason.SKIP_NO_SYNC),
    Reason.SKIP_BEFORE_FIRST_SYNC: cell(translation=Reason.SKIP_BEFORE_FIRST_SYNC),
    Reason.SKIP_TOPIC_MISSING: cell(target_log=None),
    Reason.SKIP_TOPIC_RECREATED: cell(ids_now=TopicIds("s2", "t1")),
    Reason.SKIP_FILTERED: cell(refusal="groups is empty"),
    Reason.SKIP_ADMIN_ERROR: cell(state=DOWN),
    Reason.CLAMPED_HIGH: cell(**BEHIND),
    Reason.CLAMPED_LOW: cell(target_log=LogRange(601, 1000)),
}


@pytest.mark.parametrize("reason", REACHED)
def test_each_reason_is_reached_and_says_what_it_means(reason: Reason) -> None:
    """What is the case, what it means, and, where something is to be done, what."""
    decision = decide(REACHED[reason])
    assert decision.reason is reason
    said = explain(REACHED[reason], decision)
    assert "billing" in said
    assert SENTENCES[decision.sentences[0]].remedy or reason in {Reason.OK, Reason.OK_NEW_GROUP}


def test_the_vocabulary_is_closed_and_each_word_has_a_sentence() -> None:
    """`decide` reaches all but one, which only a look after the write can say."""
    assert {*REACHED, Reason.RACED} == set(Reason)
    assert {sentence.reason for sentence in SENTENCES.values()} == {*Reason, None}


WORDS = st.sampled_from([*sorted(ABSENT), *sorted(ACTIVE), "Empty", "Empty", "Unknown", "NotReady"])
SMALL = st.integers(0, 30)
LOGS = st.tuples(SMALL, SMALL).map(lambda pair: LogRange(min(pair), max(pair)))
IDS = st.builds(
    TopicIds, source=st.sampled_from([None, "s1", "s1", "s2"]), target=st.sampled_from([None, "t1"])
)
CELLS = st.builds(
    Observation,
    group=st.just("billing"),
    source=st.just(TopicPartition("orders", 3)),
    target=st.sampled_from([TopicPartition("primary.orders", 3)] * 5 + [None]),
    state=st.one_of(WORDS, WORDS, st.just(DOWN)),
    target_commit=st.one_of(st.none(), st.integers(-1, 40), st.integers(-1, 40), st.just(DOWN)),
    source_commit=st.one_of(SMALL, SMALL, SMALL, st.sampled_from([None, -1, DOWN])),
    source_log=st.one_of(LOGS, LOGS, LOGS, st.sampled_from([None, DOWN])),
    target_log=st.one_of(LOGS, LOGS, LOGS, st.sampled_from([None, DOWN])),
    translation=st.one_of(st.integers(0, 40), st.integers(0, 40), st.sampled_from([*UNTRANSLATED, DOWN])),
    preserves_offsets=st.booleans(),
    ids_before=IDS,
    ids_now=IDS,
    source_went_back=st.booleans(),
    commits_without_members=st.sampled_from([False, False, False, True]),
    refusal=st.sampled_from(["", "", "", "groups is empty"]),
)  # fmt: skip


@settings(max_examples=1_500)
@given(some=CELLS, policy=st.sampled_from(RewindPolicy))
def test_whatever_is_observed_a_write_is_safe(some: Observation, policy: RewindPolicy) -> None:
    """Only to a group without members, only within the target's log, and lower by policy only."""
    decision = decide(some, policy=policy)
    assert "billing" in explain(some, decision)
    event(decision.reason)
    assert (decision.reason in {Reason.SKIP_WATERMARK, Reason.OK, Reason.OK_NEW_GROUP,
                                Reason.SKIP_SOURCE_REWIND, Reason.CLAMPED_HIGH, Reason.CLAMPED_LOW}
            ) == (decision.x is not None)  # fmt: skip
    if decision.action is Action.SKIP:
        return
    assert some.state == "Empty" or some.state in ABSENT
    log, x, commit = some.target_log, decision.x, some.target_commit
    assert isinstance(log, LogRange)
    assert log.start <= x <= log.end
    assert DOWN not in {commit, some.source_commit, some.source_log}
    assert not some.refusal
    assert not some.commits_without_members
    if commit is not None and commit <= log.end and x <= commit:
        assert x < commit
        assert policy is FORCE or (policy is FOLLOW and some.source_went_back and some.state == "Empty")


@given(some=CELLS, policy=st.sampled_from(RewindPolicy))
def test_a_write_is_made_once(some: Observation, policy: RewindPolicy) -> None:
    """With the offset written and nothing else changed there is nothing left to write."""
    decision = decide(some, policy=policy)
    if decision.action is Action.WRITE:
        after = replace(some, state="Empty", target_commit=decision.x)
        again = decide(after, policy=policy)
        assert (again.action, again.x) == (Action.SKIP, decision.x)
        assert not again.reason.startswith("SKIP")


def test_every_sentence_is_said_and_has_values_for_its_blanks() -> None:
    """None is left over from a rule that is gone."""
    went_back = cell(target_commit=601, source_went_back=True)
    written = decide(cell())
    more = [
        decide(cell(target_commit=600)),
        decide(cell(commits_without_members=True)),
        decide(cell(translation=Reason.SKIP_TOPIC_RECREATED)),
        decide(went_back, policy=FOLLOW),
        decide(replace(went_back, state="Dead"), policy=FOLLOW),
        decide(went_back, policy=FORCE),
        decide(cell(source_commit=None)),
        decide(cell(target=None)),
        decide(cell(source_log=None)),
        decide(cell(ids_now=TopicIds("s1", "t2"))),
        decide(cell(source_commit=1101, ids_before=TopicIds())),
        decide(cell(translation=1001)),
        decide(cell(source_log=LogRange(701, 1100))),
        decide(cell(target_commit=1001)),
        confirm(written, state="Empty", target_commit=1),
        confirm(written, state="Stable", target_commit=600),
        confirm(written, state=DOWN, target_commit=600),
        refuse(written, "refused", "UNKNOWN_MEMBER_ID"),
        refuse(written, "went_back_since_plan", "650"),
    ]
    decisions = [*map(decide, REACHED.values()), *more]
    assert {name for decision in decisions for name in decision.sentences} == set(SENTENCES)
    for name in SENTENCES:
        decision = Decision(action=Action.SKIP, x=1, reason=Reason.OK, sentences=(name,))
        assert "{" not in explain(cell(), decision)
