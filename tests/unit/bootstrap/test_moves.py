"""Ports of a move, opened by their types."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from groupshift.bootstrap.moves import (
    OPENERS,
    Place,
    journal,
    opened,
    request_at,
    request_of_job,
    tools_of,
)
from groupshift.domain.group_protocol import Protocol
from groupshift.domain.requests import option, request_of
from groupshift.domain.run import SparkJob
from groupshift.errors import Rejected
from groupshift.moves.coordination.facts import CoordinationPorts, CoordinationRequest
from groupshift.moves.coordination.move import CoordinationMove
from groupshift.moves.protocol.facts import ProtocolPorts, ProtocolRequest
from groupshift.moves.protocol.move import ProtocolMove
from groupshift.ports.cluster import DowngradeViews
from groupshift.ports.driver import BrokerReplacement
from groupshift.ports.evidence import EvidenceFolder
from groupshift.settings import Settings, parse


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Two ports and a folder."""

    views: DowngradeViews
    nodes: BrokerReplacement
    evidence: EvidenceFolder


def place(tmp_path: Path, **more: Any) -> Settings:
    """Settings of a place that nobody answers at."""
    return parse(
        {
            "kafka": {"bootstrap_servers": "127.0.0.1:1"},
            "journal": {"url": f"sqlite:///{tmp_path / 'journal.db'}"},
            "evidence": {"root": str(tmp_path / "evidence")},
            "fleet": {"driver": "manual"},
            **more,
        }
    )


def a_move(ports: type) -> Any:
    """A move of which only the ports are known."""
    return SimpleNamespace(name="mine", ports=ports)


def test_each_field_is_opened_by_its_type(tmp_path: Path) -> None:
    """And closed at the end; nothing connects before it is used."""
    with opened(a_move(Ports), Place(settings=place(tmp_path)), None) as ports:
        assert ports.evidence == tmp_path / "evidence"
        assert ports.views.look
        assert ports.nodes.observe(1).state.value == "unknown"


def test_the_ports_of_a_protocol_move_are_opened(tmp_path: Path) -> None:
    """Nothing connects before it is used; the numbers are those of the settings."""
    move, more = ProtocolMove(), {"thresholds": {"patience_s": 7}}
    request = ProtocolRequest(group="g", to=Protocol.CONSUMER)
    with opened(move, Place(settings=place(tmp_path, **more)), request) as ports:
        assert isinstance(ports, ProtocolPorts)
        assert (ports.terms.patience_s, ports.terms.driver) == (7, "manual")
        assert ports.evidence.files("no run") == ()
        assert ports.side.fleets("manual").slots("g") == ()


def test_the_ports_of_a_coordination_move_are_opened(tmp_path: Path) -> None:
    """As those of the protocol; what decides about a canary is of the settings, too."""
    more = {"thresholds": {"canary_looks": 9, "canary_every_s": 4}}
    request = CoordinationRequest(group="g")
    with opened(CoordinationMove(), Place(settings=place(tmp_path, **more)), request) as ports:
        assert isinstance(ports, CoordinationPorts)
        assert (ports.canary.looks, ports.canary.every_s) == (9, 4)
        assert ports.side.fleets("manual").slots("g") == ()
        assert ports.side.mode.read
        assert ports.clock.now_ms() > 0


def test_a_port_that_nobody_opens_is_named(tmp_path: Path) -> None:
    """Before anything is opened."""

    @dataclass
    class Odd:
        thing: int

    Odd.__annotations__ = {"thing": int}
    with (
        pytest.raises(Rejected, match="move mine names ports that nobody opens: thing"),
        opened(a_move(Odd), Place(settings=place(tmp_path)), None),
    ):
        pass


def test_evidence_that_is_no_local_folder_is_refused(tmp_path: Path) -> None:
    """A run needs one."""
    settings = place(tmp_path, evidence={"root": "s3://bucket/evidence"})
    with (
        pytest.raises(Rejected, match=r"evidence\.root 's3://bucket/evidence' is no local folder"),
        opened(a_move(Ports), Place(settings=settings), None),
    ):
        pass


def test_ports_from_elsewhere_open_themselves(tmp_path: Path) -> None:
    """They get the settings and the request."""

    class Own:
        @classmethod
        @contextmanager
        def opened(cls, settings: Settings, request: str) -> Any:
            yield (settings.evidence.root, request)

    with opened(a_move(Own), Place(settings=place(tmp_path)), "asked") as ports:
        assert ports == (str(tmp_path / "evidence"), "asked")


def test_every_port_that_is_opened_is_one_of_ours() -> None:
    """A type that is listed comes from the package of ports."""
    assert {kind.__module__.rpartition(".")[0] for kind in OPENERS} == {"groupshift.ports"}  # type: ignore[attr-defined]


def test_tools_know_the_journal_and_who_may_approve(tmp_path: Path) -> None:
    """From the settings."""
    approval = {"approvers": ["bob"], "four_eyes": True}
    settings = place(tmp_path, approval=approval, thresholds={"gate_expiry_s": 60})
    with journal(settings) as runs:
        tools = tools_of(runs, settings)
        assert tools.runs is runs
        assert runs.recent(1) == ()
        assert (tools.approvers.names, tools.approvers.four_eyes) == (("bob",), True)
        assert tools.gate_expiry_s == settings.thresholds.gate_expiry_s == 60


def test_a_job_of_ours_is_a_file(tmp_path: Path) -> None:
    """Its arguments and output stay."""
    asked = request_of_job(SparkJob(job="compare", arguments=("a",), output=str(tmp_path)))
    assert Path(asked.job).name == "compare.py"
    assert Path(asked.job).is_file()
    assert (asked.arguments, asked.output) == (("a",), str(tmp_path))


def test_a_job_from_elsewhere_is_found_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module that it names is the file."""
    info = tmp_path / "elsewhere-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[groupshift.jobs]\nfar-away = a_far_job\n")
    (tmp_path / "a_far_job.py").write_text("")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    asked = request_of_job(SparkJob(job="far-away"))
    assert asked.job == str(tmp_path / "a_far_job.py")


@pytest.mark.parametrize("name", ["no-such-job", "../cli/main"])
def test_a_job_that_is_not_installed_is_refused(name: str) -> None:
    """A name is no path."""
    with pytest.raises(Rejected, match="no Spark job"):
        request_of_job(SparkJob(job=name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """An option that a setting fills."""

    driver: str = option("Who replaces members.", default="", setting="fleet.driver")


def test_a_setting_is_taken_where_nothing_is_given(tmp_path: Path) -> None:
    """So that the plan names it; what is given goes before it."""
    move: Any = SimpleNamespace(name="mine", request=Asked, request_from=partial(request_of, Asked))
    assert request_at(move, {}, place(tmp_path)) == Asked(driver="manual")
    assert request_at(move, {"driver": "command"}, place(tmp_path)) == Asked(driver="command")

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Odd:
        name: str = option("Odd.", default="", setting="fleet.colour")

    odd: Any = SimpleNamespace(name="odd", request=Odd, request_from=partial(request_of, Odd))
    with pytest.raises(Rejected, match=r"names a setting 'fleet\.colour', which there is not"):
        request_at(odd, {}, place(tmp_path))
