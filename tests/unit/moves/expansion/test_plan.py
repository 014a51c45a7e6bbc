"""The plan of an expansion as data, and counts and names at their bounds."""

from __future__ import annotations

import pytest

from groupshift.cli.main import main
from groupshift.domain.group_partition_and_count import partition_of, probe_names
from groupshift.domain.requests import request_of
from groupshift.domain.run import IRREVERSIBLE, Plan, StepRecord, StepState, plan_from
from groupshift.domain.verdict import Judgement
from groupshift.errors import Rejected
from groupshift.moves.expansion.facts import ExpansionRequest
from groupshift.moves.expansion.plan_and_rollback import planned, rollback
from groupshift.moves.expansion.rules import Placement
from support.placement_clusters import at, facts, leading, view

GROUPS = [f"g{number}" for number in range(20)]


def plan_of(to: int = 8, release: str = "") -> Plan:
    """The plan of a cluster whose topic has five partitions."""
    cluster = view(5, release=release) if release else view(5)
    found = Placement(facts=facts(cluster, at(GROUPS, 5), to=to), judgement=Judgement(findings=()))
    return planned(found, 60)


def test_a_plan_is_the_same_after_the_journal() -> None:
    """And equal plans have equal hashes; another count another one."""
    assert plan_from(plan_of().text) == plan_of()
    assert plan_of().hash != plan_of(10).hash


def test_nothing_is_taken_away_before_it_was_proven_and_approved() -> None:
    """The order of the steps; the controller's broker is restarted last."""
    steps = plan_of().steps
    assert [each.kind for each in steps] == [
        "drain", "snapshot", "agree", "approve", "compare", "prove", "rehearse", "delete-groups",
        "create-partitions", "restart", "restart", "restart", "place", "restore", "compare", "verify",
        "audit",
    ]  # fmt: skip
    assert [each.subject for each in steps if each.kind == "restart"] == ["2", "3", "1"]
    assert {each.kind for each in steps if each.repeat} == {"compare", "prove", "rehearse"}
    assert steps[0].patience_s == 60


def test_what_is_approved_names_counts_brokers_and_every_group_that_moves() -> None:
    """Groups that stay are not touched, and not named."""
    about = plan_of().about
    met, moving = about["met"], {group for group, _, _ in about["movers"]}
    assert met["partitions"] == {"in use": "5", "of the topic": "5"}
    assert met["broker"]["1"] == "4.3.0 to before 4.4.0, new"
    assert set(met["group"]) == moving
    assert 0 < len(moving) < len(GROUPS)


def test_a_rollback_gives_deleted_groups_back() -> None:
    """Before the deletion there is nothing to undo; from the first restart on nothing can be."""
    plan = plan_of()
    steps = {each.kind: each for each in plan.steps}

    def undone(*kinds: str) -> list[str]:
        begun = {
            steps[kind].key: StepRecord(
                key=steps[kind].key, state=StepState.DONE, token=1, at_ms=0, intent={}, result={}
            )
            for kind in kinds
        }
        return [each.kind for each in rollback(plan, begun, 1).steps]

    before = ("drain", "snapshot", "rehearse")
    assert undone(*before) == []
    assert undone(*before, "delete-groups") == ["approve", "restore", "compare", "audit"]
    assert {steps[kind].undo for kind in ("restart", "place", "restore")} == {IRREVERSIBLE}


def test_old_coordinators_are_why_groups_are_deleted() -> None:
    """The step says it."""
    (step,) = [each for each in plan_of(release="3.5.2").steps if each.kind == "delete-groups"]
    assert "an OLD coordinator would answer what stays there" in step.does


def test_a_count_that_no_cluster_takes_is_refused() -> None:
    """Before anything is made of it."""
    with pytest.raises(Rejected, match="to"):
        request_of(ExpansionRequest, {"to": 100_001})


@pytest.mark.parametrize("hours", ["inf", "nan"])
def test_a_time_that_is_none_is_refused(hours: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With the option, before a broker is asked."""
    where = ("--bootstrap-servers", "127.0.0.1:1", "--timeout", "1")
    assert main(["repair", "placement", "--within", hours, *where]) == 2
    assert "--within" in capsys.readouterr().err


@pytest.mark.parametrize("count", [31, 62, 93, 310])
def test_probes_hit_every_partition_where_31_divides_the_count(count: int) -> None:
    """31 is the factor of Java's hash: names that only count up do not."""
    names = probe_names(leading(count))
    assert {partition_of(each, count) for each in names} == set(range(count))
