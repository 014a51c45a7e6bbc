"""The plan as it is executed: what it adds to the steps, that it survives the journal, and its way back."""

from __future__ import annotations

import json

import pytest

from groupshift.application.downgrade_plan import RunPlan, from_json, run_plan, to_json, way_back
from groupshift.domain.cluster import Asked, ClusterView
from groupshift.domain.group_protocol import PROTOCOLS, Kind
from groupshift.domain.step import Journaled, RunAct, Stand, next_of
from groupshift.domain.versions import Version
from groupshift.errors import Rejected
from groupshift.log import Decoded
from groupshift.moves.downgrade.facts import DowngradeFacts, log_facts
from groupshift.moves.downgrade.properties import INTER_BROKER
from groupshift.moves.downgrade.releases import target_of
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


def acts(plan: RunPlan) -> list[str]:
    """What is done to what."""
    return [each.key[3:] for each in plan.steps]


def test_the_go_comes_before_the_nodes_and_a_comparison_after_each() -> None:
    """In the one order of the plan."""
    assert acts(run_plan(lowering())) == [
        "approve plan", "snapshot A", "convert-empty left", "compare B", "delete-configs left",
        "lower group.version", "lower metadata.version", "await-snapshot __cluster_metadata",
        "prove 3.9.2", "compare C0", "replace 2", "compare C2", "replace 1", "compare C1",
    ]  # fmt: skip


def test_what_is_forward_only_is_approved_and_what_it_needs_is_put_back() -> None:
    """Around the compaction."""
    found = acts(run_plan(compacting()))
    begins = found.index("approve forward-only")
    assert found[begins : begins + 4] == [
        "approve forward-only", "quicken-compaction __consumer_offsets", "compact __consumer_offsets",
        "settle-compaction __consumer_offsets",
    ]  # fmt: skip


@pytest.mark.parametrize("of", [compacting, lowering])
def test_a_plan_survives_the_journal_with_its_hash(of: object) -> None:
    """And another plan has another one."""
    plan = run_plan(of())  # type: ignore[operator]
    again = from_json(to_json(plan))
    assert (again, again.hash) == (plan, plan.hash)
    assert run_plan(of(), live=True).hash != plan.hash  # type: ignore[operator]
    for key, said in (("version", "version 9, this groupshift reads version 1"), ("move", "of downgrade")):
        with pytest.raises(Rejected, match=said):
            from_json(json.dumps({**json.loads(to_json(plan)), key: 9}))


def test_the_way_back_is_the_begun_steps_last_first() -> None:
    """Nodes are compared with what was before them; what changed nothing is left out."""
    plan = run_plan(lowering())
    begun = [each.key for each in plan.steps][:11]
    found = way_back(plan, begun)
    assert [each.key[8:] for each in found] == [
        "approve back", "replace 2", "compare D", "raise metadata.version", "raise group.version",
        "set-configs left",
    ]  # fmt: skip
    assert (found[1].args, found[3].args) == ({"back": True}, {"to": 22})
    assert way_back(plan, begun[:4]) == ()


def test_the_topic_is_put_back_on_the_way_back_too() -> None:
    """Though what was compacted stays so."""
    plan = run_plan(compacting())
    begun = [each.key for each in plan.steps if each.act is RunAct.QUICKEN]
    assert [each.act for each in way_back(plan, begun)] == [RunAct.APPROVE, RunAct.SETTLE]


def test_files_are_told_to_whoever_replaces_the_node() -> None:
    """By name, where the older release does not take them."""
    without = {
        each.subject: each.args["without"]
        for each in run_plan(lowering()).steps
        if each.act is RunAct.REPLACE
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


def test_a_fresh_step_is_done_again_by_another_process_until_a_node_is_touched() -> None:
    """The one table of transitions decides."""
    steps = run_plan(lowering()).steps
    done = {each.key: Journaled(stand=Stand.DONE, token=1) for each in steps[:10]}
    first, later = next_of(steps, done, 1), next_of(steps, done, 2)
    assert first is not None
    assert later is not None
    assert (first.step.act, later.step.act) == (RunAct.REPLACE, RunAct.PROVE)
    written = {**done, steps[10].key: Journaled(stand=Stand.INTENDED, token=1)}
    only, own = next_of(steps, written, 2), next_of(steps, written, 1)
    assert only is not None
    assert own is not None
    assert (only.step.act, own.step.act, own.doing.value) == (RunAct.PROVE, RunAct.REPLACE, "act")
    touched = {**done, steps[10].key: Journaled(stand=Stand.INTENDED, token=1, taken=True)}
    found = next_of(steps, touched, 2)
    assert found is not None
    assert (found.step.key, found.doing.value) == (steps[10].key, "act")
    every = {each.key: Journaled(stand=Stand.DONE, token=1) for each in steps}
    assert next_of(steps, every, 9) is None
