"""The move ``protocol`` of groups with ids that no old consumer would take, by the command line, there and
back on a real broker."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from groupshift.cli.main import main
from groupshift.domain.group_protocol import Kind
from groupshift_sandbox.client_members.commands import CLIENTS
from groupshift_sandbox.layout import Cluster
from support.protocol_fleet import FleetOptions, ProtocolFleet, fleet_at
from support.protocol_move import compared_here

pytestmark = pytest.mark.timeout(900)  # the fixtures count too

IDS = ("[/team]/orders", "app[prod]", "data/data-serving:forwarder", "a b#c", "gruppe-\u202e" + "é" * 241)


def _settings(fleet: ProtocolFleet, folder: Path) -> Path:
    path = folder / "settings.toml"
    path.write_text(
        f"""
        [kafka]
        bootstrap_servers = "{fleet.bootstrap}"
        [fleet]
        driver = "process"
        socket = "{fleet.home.supervisor_socket}"
        [journal]
        url = "sqlite:///{folder}/journal.db"
        [evidence]
        root = "{folder}/evidence"
        [thresholds]
        patience_s = 150
        settle_s = 240
        commit_interval_ms = 1000
        """
    )
    return path


@pytest.mark.parametrize("name", IDS, ids=range(len(IDS)))
def test_f05_a_group_of_any_id_moves_there_and_back(
    kraft: Cluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    """Its evidence has one folder, which nobody has to quote; its name is shown as it is, and what its run
    left is watched."""
    from groupshift.domain.foreign_text_quoting import visible

    monkeypatch.setattr("groupshift.cli.run_place.submit", compared_here)
    options = FleetOptions(group=name, topic=f"names-{IDS.index(name)}", partitions=2, clients=(CLIENTS[0],))
    with fleet_at(kraft.bootstrap, tmp_path, options) as fleet:
        fleet.await_written(5)
        settings = ["--settings", str(_settings(fleet, tmp_path))]
        asked = ["protocol", "run", "--group", name, "--to", "consumer", "--soak", "0", *settings]
        assert main(asked) == 0
        planned = " ".join(capsys.readouterr().out.split())
        assert f"plan for group {visible(name)}" in planned
        assert main([*asked, "--execute", "--yes"]) == 0
        assert fleet.look().kind is Kind.CONSUMER

        written = capsys.readouterr()
        found = re.search(r"^run (\S+) of", written.err, re.MULTILINE)
        assert found is not None
        run = found[1]
        assert re.fullmatch(r"protocol-[A-Za-z0-9._-]+-[0-9]{13}", run)
        assert [each.name for each in (tmp_path / "evidence").iterdir()] == [run]
        assert main(["watch", run, *settings]) == 0
        assert "pass" in capsys.readouterr().out
        assert main(["roll-back", run, "--execute", "--yes", *settings]) == 0
        assert fleet.look().kind is Kind.CLASSIC
        capsys.readouterr()
        assert main(["status", *settings]) == 0
        assert visible(name)[:20] in capsys.readouterr().out
        assert fleet.settle().lost == {}
