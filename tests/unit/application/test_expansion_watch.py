"""After an expansion: what fell below the snapshot, what lies elsewhere, and until when that is looked at."""

from __future__ import annotations

import json

import pytest

from groupshift.application.expansion_run import begin, go_on, plan_run
from groupshift.application.expansion_watch import Fallen, watch_expansion, watched_run
from groupshift.application.expansion_work import ExpansionTools
from groupshift.application.run_engine import Ended
from groupshift.cli.expansion_watch import show_watched
from groupshift.domain.placement import partition_of
from groupshift.domain.verdict import Verdict
from groupshift.errors import Rejected, Transient
from groupshift.log.releases import Coordinator
from groupshift.ports.journal import ClusterRun
from support.placement_clusters import commit
from support.simulated_downgrade import yes
from support.simulated_expansion import GROUPS, Expansible, committed, tools_of

_WEEK_MS = 7 * 24 * 3600 * 1000


@pytest.fixture(params=[Coordinator.OLD, Coordinator.NEW])
def world(request: pytest.FixtureRequest) -> Expansible:
    """Brokers of each kind, every group with an offset."""
    return committed(request.param)


def done(world: Expansible) -> tuple[ExpansionTools, ClusterRun]:
    """A run that is done."""
    tools = tools_of(world)
    run = begin(tools, plan_run(tools, 8))
    assert go_on(tools, yes(), run).ended is Ended.DONE
    found = watched_run(tools.runs, "simulated")
    assert found is not None
    return tools, found


def test_what_goes_on_is_clean(world: Expansible, capsys: pytest.CaptureFixture[str]) -> None:
    """Higher offsets are what consumers do; it is looked at for as long as offsets are kept."""
    tools, run = done(world)
    assert world.commit_as_client("g7", 900, 1)
    found = watch_expansion(tools, run)
    assert (found.clean, found.compared, found.fallen) == (True, len(GROUPS), ())
    assert (found.until_ms, found.over) == (run.updated_at_ms + _WEEK_MS, False)
    assert show_watched(found, as_json=False) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"24 offsets of run {run.run} compared, 0 fell; watch until " in said
    assert "groupshift expansion watch, once a day until " in said


def test_what_fell_and_what_is_gone_is_named(world: Expansible, capsys: pytest.CaptureFixture[str]) -> None:
    """Both with the offset of the snapshot; after the retention what is gone has expired."""
    tools, run = done(world)
    assert world.commit_as_client("g7", 3, 1)
    world.delete({"g8"})
    found = watch_expansion(tools, run)
    gone = Fallen(group="g8", topic="t", partition=0, kept=108, now=None)
    fell = Fallen(group="g7", topic="t", partition=0, kept=107, now=3)
    assert (found.clean, set(found.fallen)) == (False, {fell, gone})
    assert fell.sentence.endswith("107 when it moved, 3 now: somebody reset it, or an older record came back")
    assert "nothing is answered now: somebody deleted it, or its topic, or it is lost" in gone.sentence
    assert show_watched(found, as_json=True) == 1
    document = json.loads(capsys.readouterr().out)
    assert {each["group"] for each in document["fallen"]} == {"g7", "g8"}
    assert f"what snapshot {found.folder} has" in document["next"]
    assert show_watched(found, as_json=False) == 1
    assert "nothing" in capsys.readouterr().out
    tools.clock.sleep(_WEEK_MS / 1000 + 60)
    late = watch_expansion(tools, run)
    assert (late.over, late.fallen) == (True, (fell,))


def test_what_lies_elsewhere_is_found(world: Expansible, capsys: pytest.CaptureFixture[str]) -> None:
    """A broker that coordinates by the former count again took a commit: the audit names it, and the
    remedy."""
    tools, run = done(world)
    world.world.brokers[2].count = 5
    found = watch_expansion(tools, run)
    assert (found.clean, found.compared) == (False, 0), "who does not answer cannot be compared"
    bad = {each.rule for each in found.audit.judgement.findings if each.verdict is Verdict.FAIL}
    assert "X04" in bad
    assert show_watched(found, as_json=True) == 1
    assert "restart broker 2" in json.loads(capsys.readouterr().out)["next"]


def test_a_commit_at_a_former_coordinator_is_found_although_it_harms_nothing(
    world: Expansible, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run left nothing there: on NEW coordinators an audit of any cluster only warns of such residue."""
    tools, run = done(world)
    group = next(each for each in GROUPS if partition_of(each, 5) != partition_of(each, 8))
    place = partition_of(group, 5)
    world.world.logs[place].append(commit(group, place, at=len(world.world.logs[place]), ms=1))
    found = watch_expansion(tools, run)
    assert (found.clean, found.strays, found.fallen) == (False, (group,), ())
    assert show_watched(found, as_json=False) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert f"groups that moved, with something elsewhere: {group}" in said


def test_only_what_is_done_is_watched(world: Expansible) -> None:
    """Another run, or one of another cluster, is refused in one sentence; silence is not taken for a loss."""
    tools = tools_of(world)
    opened = begin(tools, plan_run(tools, 8))
    assert watched_run(tools.runs, "simulated") is None
    with pytest.raises(Rejected, match=f"run {opened.run} is open, .* that is done is watched"):
        watched_run(tools.runs, "simulated", opened.run)
    assert go_on(tools, yes(), opened).ended is Ended.DONE
    with pytest.raises(Rejected, match="an expansion of cluster other"):
        watched_run(tools.runs, "other", opened.run)
    run = watched_run(tools.runs, "simulated", opened.run)
    assert run is not None
    world.silent = {"g7"}
    with pytest.raises(Transient, match="'g7' is not answered"):
        watch_expansion(tools, run)
