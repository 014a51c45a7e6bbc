"""Evidence of runs on a whole cluster: what was done to it before it is sealed is signed as doubt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from groupshift.adapters.parquet.evidence import ParquetEvidence
from groupshift.adapters.parquet.snapshots import CommitHashFiles, ParquetClusterSnapshots
from groupshift.application import expansion_run
from groupshift.application.run_pack import seal_run
from groupshift.domain.rows import ClusterState
from groupshift.domain.seal import pack_from_json
from groupshift.log.releases import Coordinator
from groupshift.ports.journal import ClusterRun, RunState, RunStepRecord, StepState
from support import simulated_expansion
from support.named_pipe import named_pipe

DEEDS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a table altered": ("S-1/offsets-00000.parquet", lambda path: path.write_bytes(b"x")),
    "a table gone": ("S-1/groups-00000.parquet", lambda path: path.unlink()),
    "a table a pipe": ("S-1/members-00000.parquet", lambda path: (path.unlink(), named_pipe(path))),
    "the hashes altered": ("S-1.commits.json", lambda path: path.write_text("{}")),
    "a file added": ("S-1/extra.parquet", lambda path: path.write_text("x")),
    "a folder added": ("note/x.txt", lambda path: (path.parent.mkdir(), path.write_text("x"))),
    "the outcome altered": ("S-1-expansion/verdict.json", lambda path: path.write_text("{}")),
}


def planned(move: str) -> ClusterRun:
    """A run of this move with a real plan, as it will have ended."""
    assert move == "expansion"
    wide = simulated_expansion.tools_of(simulated_expansion.committed(Coordinator.NEW))
    return replace(expansion_run.begin(wide, expansion_run.plan_run(wide, 8)), state=RunState.DONE)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("move", ["expansion"])
def test_s01_evidence_of_a_run_altered_before_it_is_sealed_is_doubted(
    move: str, deed: str, tmp_path: Path
) -> None:
    """Its snapshots, the hashes of commits and the outcome of comparisons; untouched ones are not."""
    for touched in (False, True):
        root = tmp_path / str(touched)
        run = planned(move)
        name, folder = run.run, root / run.run
        manifest = ParquetClusterSnapshots().write(
            folder / "S-1", ClusterState(cluster_id="c", taken_at_ms=1)
        )
        commits = CommitHashFiles().write(folder / "S-1.commits.json", ())
        outcome = folder / "S-1-expansion" / "verdict.json"
        outcome.parent.mkdir()
        outcome.write_text('{"verdict": "pass"}')
        found = ParquetEvidence(root)
        measured = found.measured(name, "S-1-expansion/verdict.json")
        assert measured is not None
        result = {
            "folder": str(folder / "S-1"),
            "manifest_sha256": manifest.digest,
            "commits": str(folder / "S-1.commits.json"),
            "commits_sha256": commits,
            "verdict": "pass",
            "outcome": {measured.path: measured.sha256},
        }
        step = RunStepRecord(step="01 compare S", state=StepState.DONE, token=1, at_ms=1, result=result)
        path, do = DEEDS[deed]
        if touched:
            do(folder / path)
        seal_run(found, run, {"01 compare S": step})
        doubts = pack_from_json(found.read_text(name, "pack.json") or "").doubts
        assert bool(doubts) is touched, doubts
        assert not touched or any(each.startswith(path) for each in doubts), doubts
