"""The plan as it is executed: what it adds to the steps, that it survives the journal, and its rollback."""

from __future__ import annotations

import pytest

from groupshift.domain.cluster import Asked, ClusterView
from groupshift.domain.group_protocol import PROTOCOLS, Kind
from groupshift.domain.run import Plan, StepRecord, StepState, plan_from
from groupshift.domain.versions import Version
from groupshift.errors import Rejected
from groupshift.log import Decoded
from groupshift.moves.downgrade.facts import DowngradeFacts, DowngradeRequest, log_facts
from groupshift.moves.downgrade.move import DowngradeMove
from groupshift.moves.downgrade.plan_and_rollback import planned, rollback
from groupshift.moves.downgrade.releases import INTER_BROKER, target_of
from groupshift.moves.downgrade.report import observed
from groupshift.moves.downgrade.rules import ask, no_go, obstacles
from support.coordinator_story import commit, consumer_group, log
from support.downgrade_clusters import broker, cluster, listed

LEFT = listed("left", Kind.CONSUMER, state="Empty")


def facts(view: ClusterView, to: str, now: str, records: list[Decoded] | None = None) -> DowngradeFacts:
    """With a log of the one native group."""
    read = log(*consumer_group("left")) if records is None else records
    target = target_of(to)
    return DowngradeFacts(view=view, target=target, log=log_facts(read, target), said=Version.parse(now))


def compacting() -> DowngradeFacts:
    """3.9.2 with its NEW coordinator to 3.4.0."""
    properties = {PROTOCOLS: "classic,consumer"}
    view = cluster(broker(1, "3.9.2", groups=[LEFT], properties=properties), features={"metadata.version": 8})
    return facts(view, "3.4.0", "3.9.2")


def lowering() -> DowngradeFacts:
    """4.3.1 with everything to 3.9.2."""
    view = cluster(
        broker(1, groups=[LEFT], properties={PROTOCOLS: "classic,streams"}),
        broker(2),
        features={"metadata.version": 22, "group.version": 1},
        group_configs={"left": {"consumer.session.timeout.ms": "50000"}},
        configs_asked=Asked.EVERY,
    )
    return facts(view, "3.9.2", "4.3.1")


def plan_of(found: DowngradeFacts, *, live: bool = False) -> Plan:
    """The plan of a run there."""
    return planned(DowngradeRequest(to=found.target.release, from_=str(found.said), live=live), found)


def named(plan: Plan) -> list[str]:
    """What is done to what."""
    return [f"{each.kind} {each.subject}" for each in plan.steps]


def done(plan: Plan, count: int) -> dict[str, StepRecord]:
    """The first steps of a plan, each read back."""
    return {
        each.key: StepRecord(key=each.key, state=StepState.DONE, token=1, at_ms=1)
        for each in plan.steps[:count]
    }


def test_the_go_comes_before_the_nodes_and_a_comparison_after_each() -> None:
    """In the one order of the plan."""
    assert named(plan_of(lowering())) == [
        "approve plan", "snapshot A", "convert-empty left", "compare B", "delete-configs left",
        "lower group.version", "lower metadata.version", "await-snapshot __cluster_metadata",
        "prove 3.9.2", "compare C0", "replace 2", "compare C2", "replace 1", "compare C1",
    ]  # fmt: skip


def test_what_is_forward_only_is_approved_and_what_it_needs_is_put_back() -> None:
    """Around the compaction."""
    found = named(plan_of(compacting()))
    begins = found.index("approve forward-only")
    assert found[begins : begins + 4] == [
        "approve forward-only", "quicken-compaction __consumer_offsets", "compact __consumer_offsets",
        "settle-compaction __consumer_offsets",
    ]  # fmt: skip


@pytest.mark.parametrize("of", [compacting, lowering])
def test_a_plan_survives_the_journal_with_its_hash(of: object) -> None:
    """And another plan has another one."""
    plan = plan_of(of())  # type: ignore[operator]
    again = plan_from(plan.text)
    assert (again, again.hash) == (plan, plan.hash)
    assert plan_of(of(), live=True).hash != plan.hash  # type: ignore[operator]


def test_the_rollback_is_the_begun_steps_last_first() -> None:
    """Nodes are compared with what was before them; what changed nothing is left out."""
    plan = plan_of(lowering())
    found = rollback(plan, done(plan, 11), 1)
    assert named(found) == [
        "approve back", "replace 2", "compare D", "raise metadata.version", "raise group.version",
        "set-configs left",
    ]  # fmt: skip
    assert (found.steps[1].args["back"], found.steps[3].args) == (True, {"to": 22})
    assert rollback(plan, done(plan, 4), 1).steps == ()


def test_the_topic_is_put_back_in_a_rollback_too() -> None:
    """Though what was compacted stays so."""
    plan = plan_of(compacting())
    begun = {key: each for key, each in done(plan, 99).items() if "quicken-compaction" in key}
    assert named(rollback(plan, begun, 1)) == ["approve back", "settle-compaction __consumer_offsets"]


def test_who_only_assesses_sees_the_cluster_the_log_and_every_step() -> None:
    """As data, and for people; the plan asks nobody what the brokers run."""
    seen = observed(DowngradeRequest(to="3.9.2"), lowering())
    cluster_is, way = seen.sections
    assert [each["act"] for each in seen.data["steps"]] == [
        "approve", "snapshot", "convert-empty", "compare", "delete-configs", "lower", "lower",
        "await-snapshot", "edit-properties", "prove", "compare", "replace", "compare", "replace", "compare",
    ]  # fmt: skip
    assert seen.data["features"] == {"metadata.version": 22, "group.version": 1}
    assert seen.data["groups"]["left"]["types"] == {Kind.CONSUMER}
    assert seen.data["log"]["new_types"]
    (said,) = cluster_is.sentences
    assert said.startswith("features: group.version 1, metadata.version 4.0-IV0 (22); groups: ")
    assert way.rows[2][3] == "let one classic member join group 'left' and leave, without committing"


def test_a_run_reads_the_log_at_its_brokers_and_is_told_what_they_run() -> None:
    """A copy of the log is for who only assesses."""
    for request, said in (
        (DowngradeRequest(to="3.9.2"), "say what the brokers run with --from"),
        (DowngradeRequest(to="3.9.2", from_="4.3.1", segments="copy"), "leave --segments out"),
    ):
        with pytest.raises(Rejected, match=said):
            planned(request, lowering())


def test_files_are_told_to_whoever_replaces_the_node() -> None:
    """By name, where the older release does not take them."""
    without = {
        each.subject: each.args["without"] for each in plan_of(lowering()).steps if each.kind == "replace"
    }
    assert without == {"1": [PROTOCOLS], "2": []}


def test_only_what_a_step_answers_may_be_wrong_at_the_beginning() -> None:
    """Then nothing may be wrong any more but what the new files leave out."""
    for of, rules in ((lowering, {"W07", "W10", "W11", "W14"}), (compacting, {"W07", "W16", "W17"})):
        found = of()
        findings = ask(found)
        assert rules <= {each.rule for each in no_go(found, findings)} | {"W14"}
        assert obstacles(found, findings) == ()
    ready = facts(cluster(broker(properties={PROTOCOLS: "classic,streams"})), "3.9.2", "4.3.1", [])
    assert no_go(ready, ask(ready)) == ()


@pytest.mark.parametrize(
    ("view", "to", "rule"),
    [
        (cluster(features={"metadata.version": 30}), "4.2.1", "W12"),
        (cluster(broker(groups=[listed("s", Kind.SHARE)])), "3.9.2", "W06"),
        (cluster(features={"metadata.version": 21, "kraft.version": 1}), "3.8.1", "W11"),
        (cluster(broker(properties={"controller.quorum.bootstrap.servers": "c:1"})), "3.8.1", "W14"),
        (cluster(broker(1, "3.9.2", properties={INTER_BROKER: "3.9"}), features={}, kraft=False, quorum=None,
                 controller=1), "3.5.2", "W14"),
    ],
)  # fmt: skip
def test_what_no_step_answers_is_an_obstacle(view: ClusterView, to: str, rule: str) -> None:
    """A change of the metadata log, groups that the target does not have, a feature that nobody lowers, a
    file that needs more than leaving out, a version that ZooKeeper mode needs lowered first."""
    now = "3.9.2" if not view.kraft else "4.3.1"
    found = facts(view, to, now, log(commit("g")))
    assert rule in {each.rule for each in obstacles(found, ask(found))}


def test_u09_a_gate_says_how_many_nodes_are_replaced_and_whether_commits_may_go_on() -> None:
    """Up to the next question, by the plan that is asked for."""
    plan, live = plan_of(lowering()), plan_of(lowering(), live=True)
    move, nodes = DowngradeMove(), [each for each in plan.steps if each.kind == "replace"]
    many = (
        "2 nodes are replaced, one after the other; groups look for another coordinator, which takes seconds."
    )
    assert move.pause(plan, plan.steps) == f"{many} Nobody may commit meanwhile."
    assert move.pause(live, live.steps) == f"{many} Commits may go on meanwhile."
    assert move.pause(plan, nodes[:1]).startswith("1 node is replaced; ")
    assert move.pause(plan, plan.steps[:3]).startswith("no node is replaced before you are asked again.")
