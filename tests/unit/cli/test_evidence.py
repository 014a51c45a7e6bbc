"""The verbs about evidence: the report in one file, exit code 5 for what is not what was sealed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from groupshift.adapters.parquet.evidence import ParquetEvidence
from groupshift.cli import evidence
from groupshift.cli.main import main
from groupshift.domain.plan import Until
from groupshift.settings import Settings, parse
from support.simulated_move import Bench, make_bench


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """The verbs over a simulated group."""
    made = make_bench()
    sections = {
        "kafka": {"bootstrap_servers": "b:9092"},
        "zookeeper": {"hosts": "z"},
        "fleet": {"driver": "manual"},
        "journal": {"url": "sqlite://"},
        "evidence": {"root": "/e"},
    }

    def opened(_path: Path | None) -> tuple[object, Settings]:
        return made.app(), parse(sections)

    monkeypatch.setattr(evidence, "open_app", opened)
    return made


@pytest.fixture
def migration(bench: Bench) -> str:
    """A finished move."""
    return bench.move(Until.CANARY)[0]


def test_the_report_is_one_file_and_part_of_the_pack(
    bench: Bench, migration: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Written where it was asked for and into the evidence, which is sealed with it."""
    output = tmp_path / "report.html"
    assert main(["report", migration, "--output", str(output)]) == 0
    said = capsys.readouterr().out
    assert str(output) in said.replace("\n", "")
    assert f"groupshift verify-evidence {migration}" in said
    assert output.read_text() == bench.evidence.read_text(migration, "report.html")
    assert "report.html" in bench.app().pack(migration).sha256_of
    assert main(["verify-evidence", migration]) == 0


def test_the_list_of_reports_stays_for_programs(
    bench: Bench, migration: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """``--json`` names the verdicts of every stage as before, and the page."""
    assert main(["report", migration, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [each["moment"] for each in document["validations"]["canary"]] == ["before", "after"]
    assert document["report"].endswith("report.html")
    assert document["doubts"] == []


def test_an_output_that_cannot_be_written_leaves_nothing(
    bench: Bench, migration: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence with the option and the remedy."""
    assert main(["report", migration, "--output", str(tmp_path / "absent" / "r.html")]) == 2
    assert "name a place that can" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_altered_evidence_ends_with_five_and_its_name(
    bench: Bench, migration: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a table for people, and as data for programs."""
    bench.evidence.write_text(migration, "canary", "validation-after", "verdict.json", text="{}")
    assert main(["verify-evidence", migration]) == 5
    said = " ".join(capsys.readouterr().out.split())
    assert "altered" in said
    assert "take no decision on this evidence" in said
    assert main(["verify-evidence", migration, "--json"]) == 5
    document = json.loads(capsys.readouterr().out)
    assert document["sound"] is False
    bad = [each for each in document["checks"] if each["state"] == "altered"]
    assert [each["path"] for each in bad] == ["canary/validation-after/verdict.json"]


def test_a_folder_needs_neither_journal_nor_settings(
    bench: Bench, migration: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Copied to another machine; a folder that is none is refused."""
    store = ParquetEvidence(tmp_path)
    store.write_text("copied", "pack.json", text=bench.app().pack(migration).to_json())
    assert main(["verify-evidence", f"{tmp_path}/copied/"]) == 5
    assert "missing" in capsys.readouterr().out
    assert main(["verify-evidence", f"{tmp_path}/nowhere/"]) == 2
    assert "is not there" in capsys.readouterr().err
    assert main(["verify-evidence", str(tmp_path)]) == 2
    assert "holds no pack.json" in capsys.readouterr().err


def test_a_key_that_cannot_be_read_is_refused(
    bench: Bench, migration: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The setting is named."""
    bench.evidence.write_text(migration, "pack.sig", text="x")
    assert main(["verify-evidence", migration, "--public-key", "/nowhere/key.pub"]) == 2
    assert "evidence.public_key" in capsys.readouterr().err
