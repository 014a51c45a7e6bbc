"""The move ``protocol`` of groups with ids that no old consumer would take, by the command line, there and
back on a real broker."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from groupshift.cli.main import main
from groupshift.domain.group_protocol import Kind
from groupshift_sandbox.client_members.commands import CLIENTS
from groupshift_sandbox.kraft import KraftCluster
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
    kraft: KraftCluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    """Its evidence has one folder, which nobody has to quote; its name is shown as it is."""
    from groupshift.domain.foreign_text import path_name, visible

    monkeypatch.setattr("groupshift.cli.options.build", compared_here)
    options = FleetOptions(group=name, topic=f"names-{IDS.index(name)}", partitions=2, clients=(CLIENTS[0],))
    with fleet_at(kraft.bootstrap, tmp_path, options) as fleet:
        fleet.await_written(5)
        settings = str(_settings(fleet, tmp_path))
        rest = ["--soak", "0", "--settings", settings]
        assert main(["protocol", "run", "--group", name, "--to", "consumer", *rest]) == 0
        planned = " ".join(capsys.readouterr().out.split())
        assert f"plan for group {visible(name)}" in planned
        assert (
            main(["protocol", "run", "--group", name, "--to", "consumer", *rest, "--execute", "--yes"]) == 0
        )
        assert fleet.look().kind is Kind.CONSUMER

        written = capsys.readouterr()
        migration = re.search(r"migration (\S+)", written.err)
        assert migration is not None
        assert migration[1].startswith(f"{path_name(name)}-")
        assert [each.name for each in (tmp_path / "evidence").iterdir()] == [migration[1]]
        assert main(["roll-back", migration[1], "--execute", "--yes", "--settings", settings]) == 0
        assert fleet.look().kind is Kind.CLASSIC
        capsys.readouterr()
        assert main(["status", "--settings", settings]) == 0
        assert visible(name) in capsys.readouterr().out
        assert fleet.settle().lost == {}
