"""Counts that are not the plan's, on three real brokers: somebody else gives the topic more when a run can
only go forward, and a driver says that it restarted brokers and did not. No offset is lost."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.cluster_changes import LiveTopicExpansion
from groupshift_sandbox.layout import Cluster, unchanged
from groupshift_sandbox.rolling import replace_node
from support.cluster_verbs import Verbs
from support.expansion_story import (
    GROUPS,
    answered,
    bounced,
    committed,
    home_in,
    logged,
    moving,
    placed,
    runs_of,
    started,
    wanted,
)
from support.placement_story import asked, audited

pytestmark = pytest.mark.timeout(1_800)

PLANNED, MADE = 8, 12
_WAITING, _CONFLICT = 6, 3
_LYING = """
import json, pathlib, sys
verb, node, folder, *change = sys.argv[1:]
kept = pathlib.Path(folder, node)
if verb == "start":
    kept.write_text(change[0])
    print(json.dumps({"change_id": change[0]}))
else:
    print(json.dumps({"state": "running", "change_id": kept.read_text() if kept.exists() else ""}))
"""
"""A program of the driver ``command`` that restarts nobody."""


@pytest.mark.parametrize("kind", ["OLD", "NEW"])
def test_more_partitions_after_the_first_restart(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is shown and asked for; then all brokers count 12, and snapshot S gives back what moves there. What
    lay where 5 put it and was not deleted is residue; OLD brokers are cured of it by the repair that is
    named."""
    with home_in(tmp_path) as home:
        cluster = started(home, kind)
        committed(cluster)
        runs = runs_of(cluster, tmp_path, capsys)
        runs.killed("restart.after_act", "--to", str(PLANNED))
        _made(cluster)
        shown = _placed(cluster, runs)
        assert _cured(cluster, runs, ("continue", shown), kind, capsys) == "finalised"

        def equal() -> None:
            assert answered(cluster, residue=kind == "NEW") == wanted()
            found = audited(cluster)
            assert found.clean, found.judgement.reasons

        equal()
        bounced(cluster, equal, 1)


@pytest.mark.parametrize("kind", ["OLD", "NEW"])
def test_more_partitions_after_brokers_were_asked(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And one was restarted by somebody: no later step is made, the run goes back to where it asks them."""
    with home_in(tmp_path) as home:
        cluster = started(home, kind)
        committed(cluster)
        runs = runs_of(cluster, tmp_path, capsys)
        runs.killed("restore.after_act", "--to", str(PLANNED))
        _made(cluster)
        replace_node(cluster, 1, unchanged)
        shown = _placed(cluster, runs)
        assert _cured(cluster, runs, ("continue", shown), kind, capsys) == "finalised"
        assert answered(cluster, residue=kind == "NEW") == wanted()
        assert audited(cluster).clean


@pytest.mark.parametrize("kind", ["OLD", "NEW"])
def test_the_way_back_to_a_count_that_somebody_made(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One broker took it up: the others are named; once all have, groups are committed where it puts them."""
    with home_in(tmp_path) as home:
        cluster = started(home, kind)
        committed(cluster)
        runs = runs_of(cluster, tmp_path, capsys)
        runs.killed("create-partitions.before_journal", "--to", str(PLANNED))
        _made(cluster)
        replace_node(cluster, 1, unchanged)
        code, stopped = runs("roll-back", "--execute", "--yes")
        assert code == _CONFLICT, stopped
        assert f"{MADE} partitions, and somebody" in stopped["error"]
        assert "restart broker 2, 3," in stopped["error"]
        for node in (2, 3):
            replace_node(cluster, node, unchanged)
        shown = runs("roll-back", "--execute", "--yes")[1]
        assert _cured(cluster, runs, ("roll-back", shown), kind, capsys) == "rolled_back"
        assert answered(cluster, residue=kind == "NEW") == wanted()
        assert audited(cluster).clean


def _made(cluster: Cluster) -> None:
    """By somebody else."""
    with closing(LiveTopicExpansion(KafkaCluster(cluster.bootstrap, timeout_s=60.0))) as topic:
        topic.expand(MADE)


def _placed(cluster: Cluster, runs: Verbs) -> Mapping[str, Any]:
    """Asked for, and adopted by every broker; where the run stopped then."""
    code, shown = runs("continue", "--execute", "--yes")
    assert (code, _stopped_at(shown)) == (_WAITING, f"place/place {PLANNED}"), shown
    assert f"{MADE}" in _said(shown)
    for _ in cluster.brokers:  # one that counts otherwise is restarted, one a process
        if _stopped_at(shown).startswith("place/"):
            shown = runs("continue", "--execute", "--yes", "--accept", shown["stopped"]["step"])[1]
            assert "state" in shown, shown
    return shown


def _stopped_at(shown: Mapping[str, Any]) -> str:
    """The name of the step, without its number; empty where the run ended."""
    return str(shown["stopped"]["step"]).partition(" ")[2] if "stopped" in shown else ""


def _said(shown: Mapping[str, Any]) -> str:
    return "; ".join(shown["stopped"]["said"])


def _cured(
    cluster: Cluster,
    runs: Verbs,
    stopped: tuple[str, Mapping[str, Any]],
    kind: str,
    capsys: pytest.CaptureFixture[str],
) -> str:
    """The state of the run, once what is left of groups that were not deleted is cured or accepted."""
    verb, shown = stopped
    assert moving(MADE) - moving(PLANNED), "some were not deleted, and are listed twice"
    at = _stopped_at(shown).rpartition("/")[2].partition(" ")[0]
    assert at in ({"compare", "audit"} if kind == "OLD" else {"compare"}), shown  # OLD: what caches list
    assert "groupshift repair placement" in _said(shown)
    assert answered(cluster, residue=True) == wanted()
    if kind == "NEW":
        for _ in range(3):  # leaders that move back meanwhile change which brokers list a group: shown anew
            shown = runs(verb, "--execute", "--yes", "--accept", shown["stopped"]["step"])[1]
            if shown["ended"]:
                break
        return str(shown["state"])
    where = ("--bootstrap-servers", cluster.bootstrap, "--timeout", "60")
    code, repaired = asked(capsys, "repair", "placement", "--execute", *where)
    assert (code, repaired["restored"], repaired["strays_left"]) == (0, 0, {})
    for node in cluster.brokers:
        replace_node(cluster, node.node_id, unchanged)
    ended = runs(verb, "--execute", "--yes")[1]
    assert logged(cluster) == placed(MADE)
    return str(ended["state"])


@pytest.mark.parametrize("kind", ["OLD", "NEW"])
def test_coordinator_13_14_a_driver_that_restarts_nobody(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Step 9 of the procedure names all brokers, then those that are left; nothing is committed again before
    each counts what the topic has."""
    with home_in(tmp_path) as home:
        cluster = started(home, kind)
        committed(cluster)
        runs = runs_of(cluster, tmp_path, capsys)
        honest = runs.nodes.read_text()
        runs.nodes.write_text(_liar(tmp_path))
        code, found = runs("run", "--to", str(PLANNED), "--execute", "--yes")
        for left in ("1, 2, 3", "2, 3", "3"):
            assert (code, _stopped_at(found)) == (1, f"place/place {PLANNED}"), found
            assert f"broker {left} still uses another partition count than {PLANNED}" in _said(found)
            kept = {key[0] for _, commits in logged(cluster) for key in commits}
            assert kept == set(GROUPS) - moving(PLANNED), "nothing is committed again yet"
            runs.nodes.write_text(honest)
            code, found = runs("continue", "--execute", "--yes")
        assert (code, found["state"]) == (0, "finalised"), found
        assert (answered(cluster), logged(cluster)) == (wanted(), placed(PLANNED))
        assert audited(cluster).clean


def _liar(folder: Path) -> str:
    """The file of its driver."""
    program = folder / "liar.py"
    program.write_text(_LYING)
    start = [sys.executable, str(program), "start", "{node}", str(folder), "{change_id}"]
    observe = [sys.executable, str(program), "observe", "{node}", str(folder)]
    return f'driver = "command"\n[command]\nstart = {json.dumps(start)}\nobserve = {json.dumps(observe)}\n'
