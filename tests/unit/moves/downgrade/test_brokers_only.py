"""Only brokers go to the older release: which nodes are replaced, what is asked of them, and what of
controllers is not."""

from __future__ import annotations

from dataclasses import replace

from groupshift.domain.cluster import ClusterView, QuorumView
from groupshift.domain.run import Plan
from groupshift.domain.verdict import Finding, Verdict
from groupshift.domain.versions import Version
from groupshift.moves.downgrade.facts import DowngradeFacts, DowngradeRequest, LogFacts
from groupshift.moves.downgrade.plan_and_rollback import planned
from groupshift.moves.downgrade.releases import target_of
from groupshift.moves.downgrade.rules import ask, obstacles
from support.downgrade_clusters import broker, cluster, listed

APART = QuorumView(leader=101, voters=(101, 102), high_watermark=70)


def facts(view: ClusterView, *, brokers_only: bool = True) -> DowngradeFacts:
    """From 4.3.1 to 3.9.2, with an empty log."""
    said, target = Version.parse("4.3.1"), target_of("3.9.2")
    return DowngradeFacts(view=view, target=target, log=LogFacts(), said=said, brokers_only=brokers_only)


def beside_controllers(level: int = 1) -> ClusterView:
    """Two brokers under two controllers, with group.version at this level."""
    features = {"metadata.version": 21, "group.version": level}
    return cluster(broker(1, groups=[listed("g")]), broker(2), features=features, quorum=APART)


def plan_of(found: DowngradeFacts) -> Plan:
    """The plan of a run there."""
    return planned(DowngradeRequest(to="3.9.2", from_="4.3.1", brokers_only=found.brokers_only), found)


def failed(found: tuple[Finding, ...]) -> set[str]:
    """Numbers of the rules that say no."""
    return {each.rule for each in found if each.verdict in {Verdict.FAIL, Verdict.ERROR}}


def test_controllers_are_not_replaced_and_the_plan_says_so() -> None:
    """Without the option they are."""
    plan = plan_of(facts(beside_controllers()))
    assert [each.subject for each in plan.steps if each.kind == "replace"] == ["1", "2"]
    said = "approve this plan: only brokers are replaced, controllers (101, 102) keep their release"
    assert plan.steps[0].does == said
    (awaited,) = (each for each in plan.steps if each.kind == "await-snapshot")
    assert awaited.proof.startswith("every broker (controllers keep their release")
    whole = plan_of(facts(beside_controllers(), brokers_only=False))
    assert [each.subject for each in whole.steps if each.kind == "replace"] == ["1", "2", "102", "101"]
    assert whole.hash != plan.hash


def test_features_are_judged_since_brokers_register_by_them_but_no_controller_dies() -> None:
    """W11 asks for group.version, H03 is about controllers; the snapshot is the brokers'."""
    found = ask(facts(beside_controllers()))
    assert failed(found) == {"W11"}
    assert failed(ask(facts(beside_controllers(), brokers_only=False))) == {"W11", "H03"}
    (awaits,) = (each for each in found if each.rule == "W13")
    assert (awaits.verdict, "on every broker for" in awaits.hint) == (Verdict.INCONCLUSIVE, True)
    assert obstacles(facts(beside_controllers()), found) == ()
    assert failed(ask(facts(beside_controllers(0)))) == set()


def test_a_change_of_the_metadata_log_forbids_it_for_brokers_too() -> None:
    """They read that log."""
    view = replace(beside_controllers(0), finalised={"metadata.version": 30})
    assert {"W12", "H04"} <= failed(ask(facts(view)))
    assert plan_of(facts(view)).steps == ()


def test_combined_nodes_and_zookeeper_have_no_controllers_that_could_stay() -> None:
    """No step answers that: no run begins."""
    combined = facts(cluster(broker(1), broker(2)))
    (said,) = (each for each in ask(combined) if each.rule == "W18")
    assert said.reason == "broker 1, 2 is a controller too: it cannot keep its release and change it"
    assert [each.rule for each in obstacles(combined, ask(combined))] == ["W18"]
    zookeeper = facts(cluster(broker(1), quorum=None, kraft=False, controller=1))
    assert "W18" in failed(ask(zookeeper))
    assert "W18" not in failed(ask(replace(combined, brokers_only=False)))
