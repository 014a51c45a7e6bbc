"""Who is expected and missing, and who is there and does nothing: rules over several looks."""

from __future__ import annotations

from dataclasses import replace

from groupshift.domain.group_protocol import KafkaGroup, Kind, Protocol, ProtocolView
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.verdict import Finding, Verdict
from groupshift.moves.protocol.liveness import MemberLook, MemberWatch, present
from support.protocol_groups import broker, classic, consumer, member, view

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
FEATURE_OFF = broker(features={"group.version": 0})


def look(at_s: float, group: KafkaGroup, *at, committed=None, ends=None) -> MemberLook:
    """A look at ``at_s`` seconds; offsets as given."""
    seen = replace(view(group, *at), taken_at_ms=int(at_s * 1000))
    return MemberLook(view=seen, committed=committed or {}, ends=ends or {})


def watched(watch: MemberWatch, *looks: MemberLook) -> dict[str, tuple[Finding, ...]]:
    """The findings that did not pass after all these looks, by rule."""
    for each in looks:
        watch = watch.after(each)
    found: dict[str, tuple[Finding, ...]] = {}
    for finding in watch.findings():
        if finding.verdict is not Verdict.PASS:
            found[finding.rule] = (*found.get(finding.rule, ()), finding)
    return found


def owner(number: int, *at: TopicPartition, **other: object):
    """A native member with these partitions."""
    return member(Protocol.CONSUMER, number, epoch=3, assigned=frozenset(at), **other)


def test_nothing_is_said_before_the_first_look() -> None:
    """An empty watch proves nothing, and has no findings."""
    assert MemberWatch(expected={"c1": 1}).findings() == ()


def test_an_expected_member_that_stays_away_is_named_after_the_bound_and_not_before() -> None:
    """c9 never comes: 4.9 s are not enough, 5 s are."""
    watch = MemberWatch(expected={"c0": 1, "c9": 1})
    group = consumer(2)
    assert watched(watch, look(0, group), look(4.9, group)) == {}
    (finding,) = watched(watch, look(0, group), look(4.9, group), look(5, group))["PM01"]
    assert (finding.verdict, finding.reason) == (
        Verdict.FAIL,
        "c9 is not in group g, for 5 s or more",
    )
    assert "-150" in finding.hint


def test_a_member_that_comes_in_time_or_comes_back_is_not_missing() -> None:
    """The clock of a name starts anew when it was there."""
    watch, some, all_of_them = MemberWatch(expected={"c1": 1}), consumer(1), consumer(2)
    assert watched(watch, look(0, some), look(4, all_of_them), look(9, all_of_them)) == {}
    away_again = [look(0, some), look(4, all_of_them), look(5, some), look(9, some)]
    assert watched(watch, *away_again) == {}
    assert set(watched(watch, *away_again, look(10, some))) == {"PM01"}


def test_a_member_is_found_by_client_id_instance_id_or_member_id() -> None:
    """Each of its names counts it once, even where two are equal."""
    group = consumer(0, members=(member(Protocol.CONSUMER, 1, instance_id="i1", client_id="m1"),))
    assert dict(present(group.members)) == {"i1": 1, "m1": 1}
    watch = MemberWatch(expected={"i1": 1, "m1": 1})
    assert watched(watch, look(0, group), look(60, group)) == {}


def test_a_name_that_is_expected_twice_needs_two_members() -> None:
    """One of two with the same client id is missing."""
    twins = tuple(member(Protocol.CONSUMER, number, client_id="app") for number in (1, 2))
    watch = MemberWatch(expected={"app": 2})
    whole, half = consumer(0, members=twins), consumer(0, members=twins[:1])
    assert watched(watch, look(0, whole), look(9, whole)) == {}
    (finding,) = watched(watch, look(0, half), look(9, half))["PM01"]
    assert finding.reason.startswith("1 of 2 members named app are in group g")


def test_who_was_there_at_an_earlier_look_and_is_gone_is_a_warning() -> None:
    """Nobody said that it is expected: it may have been stopped on purpose."""
    found = watched(MemberWatch(), look(0, consumer(2)), look(1, consumer(1)), look(6, consumer(1)))
    ((finding,),) = found.values()
    assert (finding.rule, finding.verdict) == ("PM02", Verdict.INCONCLUSIVE)
    assert finding.reason == "c1 is not in group g, for 5 s or more; it was before"
    assert finding.hint.startswith("unless it was stopped: ")


def test_with_the_feature_off_the_members_last_seen_are_named_at_once_and_nobody_is_called_missing() -> None:
    """The coordinator lists the group as it was and describes nobody: that is no absence."""
    before, after = consumer(2), consumer(0, state="Stable")
    looks = look(0, before), look(1, after, FEATURE_OFF), look(60, after, FEATURE_OFF)
    found = watched(MemberWatch(expected={"c0": 1}), *looks)
    ((finding,),) = found.values()
    assert (finding.rule, finding.verdict) == ("PM03", Verdict.FAIL)
    assert "feature group.version is finalised at 0" in finding.reason
    assert finding.reason.endswith("a fatal -150: c0, c1")


def test_an_empty_or_classic_group_does_not_mind_the_feature() -> None:
    """Nobody there speaks the consumer protocol."""
    for group in (consumer(0), classic(2)):
        assert watched(MemberWatch(), look(0, group, FEATURE_OFF)) == {}


def test_a_coordinator_that_loads_says_nothing_about_members() -> None:
    """Nor does a group that vanishes for a moment while its type changes count, if it is back in time."""
    loading = KafkaGroup(group="g", kind=Kind.UNKNOWN, state="Loading")
    watch = MemberWatch(expected={"c0": 1})
    assert watched(watch, look(0, loading), look(60, loading)) == {}
    gone = KafkaGroup(group="g", kind=Kind.ABSENT)
    assert (
        watched(watch, look(0, consumer(1)), look(1, gone), look(2, classic(1)), look(60, classic(1))) == {}
    )
    assert set(watched(watch, look(0, consumer(1)), look(1, gone), look(6, gone))) == {"PM01"}


def test_a_member_whose_offsets_stand_while_the_log_grows_is_named_with_its_partitions() -> None:
    """c1 holds both; the one that goes on is not named."""
    group = consumer(0, members=(owner(1, T0, T1),))
    looks = [look(at, group, committed={T0: 5, T1: at}, ends={T0: 6 + at, T1: at + 1}) for at in (0, 4, 8)]
    assert watched(MemberWatch(), *looks[:2]) == {}
    (finding,) = watched(MemberWatch(), *looks)["PM04"]
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert finding.reason.startswith("c1 holds t-0, and nothing was committed there for 8 s or more")


def test_a_partition_without_any_commit_counts_as_standing() -> None:
    """From the moment that the first look saw it so."""
    group = consumer(0, members=(owner(1, T0),))
    assert set(watched(MemberWatch(), look(0, group, ends={T0: 3}), look(9, group, ends={T0: 4}))) == {"PM04"}


def test_an_idle_log_a_new_owner_or_a_fresh_record_is_no_silence() -> None:
    """What stands is behind a log that grows, under one owner, for the whole time."""
    one, other = (consumer(0, members=(owner(number, T0),)) for number in (1, 2))
    behind = {"committed": {T0: 5}, "ends": {T0: 9}}
    assert watched(MemberWatch(), look(0, one, **behind), look(60, one, **behind)) == {}
    grown = {"committed": {T0: 5}, "ends": {T0: 12}}
    assert (
        watched(MemberWatch(), look(0, one, **behind), look(5, other, **grown), look(9, other, **grown)) == {}
    )
    caught_up = {"committed": {T0: 9}, "ends": {T0: 9}}
    late = {"committed": {T0: 9}, "ends": {T0: 10}}
    assert (
        watched(MemberWatch(), look(0, one, **caught_up), look(60, one, **late), look(62, one, **late)) == {}
    )


def test_a_look_without_offsets_neither_clears_nor_accuses() -> None:
    """What stood goes on standing; that offsets cannot be read is said."""
    group = consumer(0, members=(owner(1, T0),))
    blind = replace(look(4, group), unread="a transaction is open")
    found = watched(MemberWatch(), look(0, group, ends={T0: 3}), blind)
    assert [each.reason for each in found["PM04"]] == [
        "committed offsets cannot be read: a transaction is open"
    ]
    assert set(watched(MemberWatch(), look(0, group, ends={T0: 3}), blind, look(9, group, ends={T0: 4}))) == {
        "PM04"
    }


def test_a_group_that_is_listed_and_that_its_coordinator_does_not_know_has_moved() -> None:
    """The members of before are named at once, and missing after the bound; not listed, it is just gone."""
    gone = KafkaGroup(group="g", kind=Kind.ABSENT)
    lists = broker_look(view(gone), Kind.CONSUMER)
    moved = replace(look(1, gone), view=replace(lists, taken_at_ms=1000))
    (finding,) = watched(MemberWatch(), look(0, consumer(2)), moved)["PM05"]
    assert finding.verdict is Verdict.FAIL
    assert finding.reason.startswith("group g is listed by broker 1, and its coordinator (broker 1) does not")
    assert finding.reason.endswith("a fatal -150: c0, c1")
    later = replace(moved, view=replace(lists, taken_at_ms=7000))
    assert set(watched(MemberWatch(), look(0, consumer(2)), moved, later)) == {"PM02", "PM05"}
    assert "PM05" not in watched(MemberWatch(), look(0, consumer(2)), look(1, gone))


def broker_look(seen: ProtocolView, lists: Kind) -> ProtocolView:
    """The same view with a first broker that lists the group so."""
    first, *others = seen.brokers
    return replace(seen, brokers=(replace(first, lists=lists, state="Stable"), *others))
