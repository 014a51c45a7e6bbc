"""The plan of an expansion as data."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupshift.application.expansion_plan import from_json, run_plan, to_json, way_back
from groupshift.domain.step import RunAct
from groupshift.errors import Rejected
from support.placement_clusters import at, facts, view

GROUPS = [f"g{number}" for number in range(20)]
PLAN = run_plan(facts(view(5), at(GROUPS, 5), to=8), 8)


def test_a_plan_is_the_same_after_the_journal() -> None:
    """And equal plans have equal hashes; another count another one."""
    assert from_json(to_json(PLAN)) == PLAN
    assert from_json(to_json(PLAN)).hash == PLAN.hash
    assert run_plan(facts(view(5), at(GROUPS, 5), to=10), 10).hash != PLAN.hash
    with pytest.raises(Rejected, match=r"of the move .downgrade.; name a run of expansion"):
        from_json(to_json(PLAN).replace('"move":"expansion"', '"move":"downgrade"'))


def test_nothing_is_taken_away_before_it_was_proven_and_approved() -> None:
    """The order of the steps; the controller's broker is restarted last."""
    acts = [each.act for each in PLAN.steps]
    assert acts == [
        RunAct.DRAIN, RunAct.SNAPSHOT, RunAct.AGREE, RunAct.APPROVE, RunAct.COMPARE, RunAct.PROVE,
        RunAct.REHEARSE, RunAct.DELETE_GROUPS, RunAct.CREATE_PARTITIONS, RunAct.RESTART, RunAct.RESTART,
        RunAct.RESTART, RunAct.PLACE, RunAct.RESTORE, RunAct.COMPARE, RunAct.VERIFY, RunAct.AUDIT,
    ]  # fmt: skip
    assert [each.subject for each in PLAN.steps if each.act is RunAct.RESTART] == ["2", "3", "1"]
    fresh = {each.act for each in PLAN.steps if each.fresh}
    assert fresh == {RunAct.COMPARE, RunAct.PROVE, RunAct.REHEARSE}


def test_what_is_approved_names_counts_brokers_and_every_group_that_moves() -> None:
    """Groups that stay are not touched, and not named."""
    met = PLAN.met
    assert met["partitions in use"] == met["partitions of the topic"] == "5"
    assert met["broker 1"] == "4.3.0 to before 4.4.0, new"
    assert {name.split()[1] for name in met if name.startswith("group ")} == set(PLAN.moving)
    assert 0 < len(PLAN.moving) < len(GROUPS)


def test_the_way_back_is_open_until_a_broker_restarts() -> None:
    """Before the deletion there is nothing to undo."""
    keys = {each.act: each.key for each in PLAN.steps}
    before = [keys[act] for act in (RunAct.DRAIN, RunAct.SNAPSHOT, RunAct.REHEARSE)]
    assert way_back(PLAN, before) == ()
    deleted = [*before, keys[RunAct.DELETE_GROUPS]]
    assert [each.act for each in way_back(PLAN, deleted)] == [
        RunAct.APPROVE, RunAct.RESTORE, RunAct.COMPARE, RunAct.AUDIT,
    ]  # fmt: skip
    assert way_back(PLAN, [*deleted, keys[RunAct.RESTART]]) == ()


def test_old_coordinators_are_why_groups_are_deleted() -> None:
    """The step says it."""
    old = run_plan(facts(view(5, release="3.5.2"), at(GROUPS, 5), to=8), 8)
    (step,) = [each for each in old.steps if each.act is RunAct.DELETE_GROUPS]
    assert "an OLD coordinator would answer what stays there" in step.does
    assert replace(old, to=9) != old
