"""By which count real brokers coordinate, before and after a careless expansion from 5 to 8 partitions, as
tests that coordinators of both kinds have to pass. A module imports them and gives a fixture ``audits``."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupshift.cli.main import main
from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.verdict import Verdict
from groupshift.moves.expansion.rules import Placement
from groupshift_sandbox.elections import lead_as_preferred
from groupshift_sandbox.layout import unchanged
from groupshift_sandbox.rolling import replace_node
from support.placement_story import (
    AFTER,
    BEFORE,
    FURTHER,
    GROUPS,
    MOVING,
    OFFSETS,
    Asked,
    Audits,
    answered,
    asked,
    audited,
    counts,
    overwrite,
    said,
)

_REJECTED = 2


def test_a_cluster_at_rest_is_clean(audits: Audits) -> None:
    """Every broker counts five, every record is at home."""
    assert counts(audits.before) == {1: (BEFORE,), 2: (BEFORE,), 3: (BEFORE,)}
    assert audits.before.clean, audits.before.judgement.reasons
    assert audits.before.facts.log is not None
    assert audits.before.facts.log.residue == frozenset()


def test_coordinator_13_nobody_restarted(audits: Audits) -> None:
    """Eight partitions, and all brokers still count five: the groups that the next restart would move are
    named, to the last."""
    found = audits.expanded
    assert (found.facts.view.count, counts(found)) == (AFTER, {1: (BEFORE,), 2: (BEFORE,), 3: (BEFORE,)})
    ((verdict, reason),) = said(found, "X04")
    assert verdict is Verdict.FAIL
    assert "8 partitions and all brokers count 5: the count was changed and no broker was restarted" in reason
    assert [each.group for each in found.facts.moving_at_restart] == sorted(MOVING)
    assert said(found, "X07") == [(Verdict.PASS, "every live record lies in its group's partition")]
    assert not found.clean
    (code, assessed), moved = audits.planned.assessed, sorted(g for g in GROUPS if _moves(g, BEFORE, FURTHER))
    assert (code, assessed["ready"]) == (0, True), "an expansion cures it"
    judged = {(each["rule"], each["verdict"]): each["reason"] for each in assessed["findings"]}
    assert judged["X04", "inconclusive"] == reason
    code, plan = audits.planned.begun
    assert (code, plan["state"]) == (0, "preview")
    assert [group for group, _, _ in plan["about"]["movers"]] == moved
    _nothing_changed(audits.planned)


def test_coordinator_14_one_restarted(audits: Audits) -> None:
    """Exactly that broker deviates, and groups are served by two brokers: each of those, asked directly, says
    so itself. A run further on is refused, and nothing is changed."""
    found = audits.mixed
    assert counts(found) == {1: (BEFORE,), 2: (BEFORE,), 3: (AFTER,)}
    failed = {each.rule for each in found.judgement.findings if each.verdict is Verdict.FAIL}
    assert {"X04", "X05"} <= failed
    assert [reason for _, reason in said(found, "X04")] == [
        "broker 1 counts 5, and __consumer_offsets has 8 partitions",
        "broker 2 counts 5, and __consumer_offsets has 8 partitions",
    ]
    two = {group: nodes for group, nodes in found.facts.not_one_owner.items() if len(nodes) > 1}
    assert two
    assert {group: found.facts.view.owned[group] for group in two} == two
    none = {group for group, nodes in found.facts.not_one_owner.items() if not nodes}
    assert {group: found.facts.view.owned[group] for group in none} == dict.fromkeys(none, ())
    code, assessed = audits.refused.assessed
    assert (code, assessed["ready"]) == (1, False)
    against = [each for each in assessed["findings"] if each["rule"] in assessed["obstacles"]]
    assert [each["reason"] for each in against if each["rule"] == "X04"] == [
        reason for _, reason in said(found, "X04")
    ]
    assert all(each["hint"] for each in against)
    code, refused = audits.refused.begun
    assert code == _REJECTED, refused
    assert "not ready, nothing was journaled" in " ".join(refused["error"].split())
    _nothing_changed(audits.refused)


def _moves(group: str, before: int, after: int) -> bool:
    return partition_of(group, before) != partition_of(group, after)


def _nothing_changed(found: Asked) -> None:
    """No run is in the journal, no leader another one, and no record in the log of the topic; the next audit
    holds what brokers count."""
    assert found.runs == ()
    assert found.after == found.before


def test_coordinator_15_leaders_that_coincide(audits: Audits) -> None:
    """A moving group whose two partitions have one leader looks right at every broker; other names do not."""
    leaders = audits.mixed.facts.view.topic.leaders
    named, owned = audits.hidden
    assert named, "three leaders and many groups: some coincide"
    assert all(set(nodes) == {leaders[partition_of(group, AFTER)]} for group, nodes in named.items()), (
        "asked by itself, every broker names the same one for such a group"
    )
    assert all(len(nodes) == 1 for nodes in owned.values())
    assert counts(audits.mixed)[3] == (AFTER,), "names of other partitions tell"
    assert counts(audits.mixed)[1] == counts(audits.mixed)[2] == (BEFORE,)


def test_all_restarted_and_what_they_lost(audits: Audits, capsys: pytest.CaptureFixture[str]) -> None:
    """Brokers agree; the log has every offset, elsewhere. NEW answers -1 for every group that moved; OLD
    for some of them."""
    found = audits.restarted
    assert counts(found) == {1: (AFTER,), 2: (AFTER,), 3: (AFTER,)}
    log = found.facts.log
    assert log is not None
    assert {each.group for each in log.elsewhere} == set(MOVING)
    assert all(each.lost and each.offset == 100 for each in log.elsewhere)
    lost = {group for group, offset in audits.answered.items() if offset == -1}
    if found.facts.view.old:  # one cache for all partitions: it depends on what each broker loaded, and when
        assert lost
        assert lost <= set(MOVING)
    else:
        assert lost == set(MOVING)
    assert {audits.answered[group] for group in set(GROUPS) - lost} == {100}
    code, document = asked(
        capsys, "audit", "placement", "--bootstrap-servers", audits.cluster.bootstrap, "--timeout", "60"
    )
    assert (code, document["verdict"], document["in_force"]) == (1, "fail", AFTER)
    assert document["brokers"]["1"]["counts"] == [AFTER]
    assert len(document["log"]["elsewhere"]) == len(MOVING)
    assert all(each["lost"] for each in document["log"]["elsewhere"])


def test_what_was_lost_is_brought_back(audits: Audits, capsys: pytest.CaptureFixture[str]) -> None:
    """NEW: every offset that was lost is answered again; one that a client overwrote is left alone, and a
    second run has nothing to do. OLD: what its caches would prefer gets tombstones, too, and a restart."""
    where = ("--bootstrap-servers", audits.cluster.bootstrap, "--timeout", "60")
    overwritten = min(MOVING)
    overwrite(audits.cluster, overwritten, 7)
    code, document = asked(capsys, "repair", "placement", *where)
    assert (code, document["executed"]) == (1, False)
    assert document["counts"] == {"restore": len(MOVING) - 1, "overwritten": 1, "conflict": 0}
    old = audits.restarted.facts.view.old
    for restored in (len(MOVING) - 1, 0):
        code, document = asked(capsys, "repair", "placement", "--execute", *where)
        assert (code, document["restored"], document["not_restored"]) == (0, restored, [])
        assert document["strays_left"] == {}
        assert len(document["erased"]) == (len(MOVING) if old and restored else 0)
    if old:
        assert document["next"].startswith("restart brokers that run since before 20")
        for node in audits.cluster.brokers:
            replace_node(audits.cluster, node.node_id, unchanged)
        lead_as_preferred(audits.cluster, OFFSETS)
        assert audited(audits.cluster).clean
    else:
        _flagged(audited(audits.cluster))
    assert answered(audits.cluster) == {**dict.fromkeys(GROUPS, 100), overwritten: 7}


def _flagged(found: Placement) -> None:
    """What NEW coordinators keep where five partitions put it is residue: listed twice, by two brokers where
    they lead the two partitions, deleted when it expires, and no failure."""
    log, leaders = found.facts.log, found.facts.view.topic.leaders
    assert log is not None
    assert (found.clean, log.residue) == (True, set(MOVING))
    assert {group for group, nodes in found.facts.listing.items() if len(nodes) > 1} == set(MOVING)
    twice = {group for group, nodes in found.facts.listing.items() if len(set(nodes)) > 1}
    assert twice == {
        group
        for group in MOVING
        if leaders[partition_of(group, BEFORE)] != leaders[partition_of(group, AFTER)]
    }
    for rule, text in (
        ("X06", f"{len(twice)} groups are listed by two brokers"),
        ("X07", "residue of another"),
    ):
        told = said(found, rule)
        assert {verdict for verdict, _ in told} == {Verdict.INCONCLUSIVE}
        assert any(text in reason for _, reason in told), told


def test_what_another_count_would_cost(
    audits: Audits, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """After the repair the plan names the groups, the cost of others, the load then, and what hinders it."""
    bootstrap = ("--bootstrap-servers", audits.cluster.bootstrap, "--timeout", "60")
    page = tmp_path / "plan.html"
    code, document = asked(capsys, "expansion", "assess", "--to", "12", "--output", str(page), *bootstrap)
    observed = document["observed"]
    assert (observed["from"], observed["to"]) == (AFTER, 12)
    assert {each["count"]: each["multiple"] for each in observed["costs"]} == {
        12: False, 16: True, 24: True, 32: True,
    }  # fmt: skip
    moving = [group for group in GROUPS if partition_of(group, AFTER) != partition_of(group, 12)]
    assert [each["group"] for each in observed["moving"]] == sorted(moving)
    assert sum(each["groups"] for each in observed["load"]["then"]) == len(GROUPS)
    failed = {each["rule"] for each in document["findings"] if each["verdict"] == "fail"}
    # NEW: residue of groups that move again; OLD: the repair erased it all
    assert failed == (set() if audits.restarted.facts.view.old else {"X06", "X07"})
    assert code == bool(failed)
    assert 'id="load-live-records-title">live records by partition<' in page.read_text()
    capsys.readouterr()
    assert main(["expansion", "assess", "--to", "8", *bootstrap]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "--to 8: __consumer_offsets has 8 partitions already" in error
