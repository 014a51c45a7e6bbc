"""The toy's evidence as the product makes it: settings, journal, tools by `bootstrap`, the verb to verify."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from sealed_world import keys, page
from toy_move.move import ToyMove, ToyRequest
from toy_move.target import Target, spark
from toy_world import no, yes

from groupshift.bootstrap.moves import Place, journal, opened, sealer_of, tools_of, verified
from groupshift.cli.main import main
from groupshift.domain.run import RunState
from groupshift.domain.seal import PACK, SIGNATURE
from groupshift.engine.begin import begin, claim
from groupshift.engine.move import RunOptions
from groupshift.engine.run import drive
from groupshift.errors import Conflict, Rejected
from groupshift.settings import Settings, load
from groupshift_testing.clock import ManualClock


@dataclass(frozen=True, slots=True)
class Installed:
    """A settings file, and where its evidence is."""

    file: Path
    settings: Settings
    toy: Target

    def moved(self, *, ends: bool = True) -> str:
        """Plan a run and drive it to where it is moved; or leave it at its plan."""
        request, move = ToyRequest(file=str(self.toy.file)), ToyMove()
        options = RunOptions(who="ann", holder="cli", submit=spark, decide=_not_burned, tell=self._plugs)
        place = Place(settings=self.settings)
        with journal(self.settings) as runs, opened(move, place, request) as ports:
            tools = replace(tools_of(runs, self.settings, page), clock=ManualClock())
            record = begin(move, tools, ports, request, options, execute=True)
            if ends:
                drive(claim(move, tools, ports, record, options))
                assert runs.find(record.run).state is RunState.MOVED
        return record.run

    def _plugs(self, _step: object, text: str) -> None:
        if text.startswith("write "):
            _, value, _, name = text.split()
            self.toy.write(name, value)

    @property
    def root(self) -> Path:
        """The folder of the evidence."""
        return Path(self.settings.evidence.root)


def _not_burned(question: Any) -> Any:
    return no(question) if "burn" in question.gate else yes(question)


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    """A toy, and settings with a key."""
    private, public = keys()
    (tmp_path / "signer.pem").write_text(private)
    (tmp_path / "signer.pub").write_text(public)
    file = tmp_path / "settings.toml"
    file.write_text(
        '[kafka]\nbootstrap_servers = "127.0.0.1:1"\n[zookeeper]\nhosts = "127.0.0.1:1"\n'
        f'[journal]\nurl = "sqlite:///{tmp_path / "journal.db"}"\n[fleet]\ndriver = "manual"\n'
        f'[evidence]\nroot = "{tmp_path / "evidence"}"\nsigning_key = "{tmp_path / "signer.pem"}"\n'
        f'public_key = "{tmp_path / "signer.pub"}"\n'
    )
    toy = Target(file=tmp_path / "toy.db", folder=tmp_path / "evidence")
    toy.make()
    return Installed(file=file, settings=load(file), toy=toy)


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Exit code, and everything that was said, without line breaks and frames."""
    capsys.readouterr()
    code = main(["verify-evidence", *arguments])
    told = capsys.readouterr()
    return code, " ".join((told.out + told.err).replace("│", " ").split())


def test_a_run_is_found_in_the_journal_and_its_folder_by_what_it_holds(
    installed: Installed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sound and signed by the settings' key; forged, missing and altered ones end with exit code 5."""
    run = installed.moved()
    with_settings = ("--settings", str(installed.file))
    code, told = said(capsys, run, *with_settings)
    assert (code, "sound: every file is the one that was sealed (signed)" in told) == (0, True), told
    assert f"next: groupshift report {run}" in told
    code, told = said(capsys, run, *with_settings, "--json")
    found = json.loads(told)
    assert (code, found["run"], found["signed"], found["proven"]) == (0, run, True, True)
    folder = f"{installed.root / run}/"
    assert said(capsys, folder, "--public-key", installed.settings.evidence.public_key)[0] == 0
    (tmp_path / "other.pub").write_text(keys()[1])
    code, told = said(capsys, run, *with_settings, "--public-key", str(tmp_path / "other.pub"))
    assert (code, f"{SIGNATURE} forged" in told) == (5, True), told
    (installed.root / run / "report.html").write_text("<p>all is well")
    for what in (run, folder):
        code, told = said(capsys, what, *with_settings)
        assert (code, "report.html altered" in told) == (5, True), told
    assert "take no decision on this evidence" in told
    assert f"groupshift status {run}" in told
    (installed.root / run / PACK).unlink()
    assert said(capsys, run, *with_settings)[0] == 5


def test_a_run_that_was_not_sealed_and_one_that_nobody_knows_are_refused(
    installed: Installed, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what to do; whoever does not drive it does not seal it."""
    run = installed.moved(ends=False)
    code, told = said(capsys, run, "--settings", str(installed.file))
    assert (code, f"groupshift continue {run}" in told) == (2, True), told
    with journal(installed.settings) as runs, pytest.raises(Conflict):
        sealer_of(runs, installed.settings).seal_again(run)
    assert verified(installed.settings, "toy-toy-1700000000009") is None


def test_names_of_the_old_journal_open_no_new_one(installed: Installed, tmp_path: Path) -> None:
    """Whoever may only read a journal verifies what is in it."""
    assert verified(installed.settings, "orders-20261121T192152-8edb") is None
    assert not (tmp_path / "journal.db").exists()


def test_a_key_that_cannot_sign_is_refused_before_a_run_begins(installed: Installed) -> None:
    """From the settings; nothing is journaled."""
    evidence = replace(installed.settings.evidence, signing_key="/nowhere/key.pem")
    broken = replace(installed, settings=replace(installed.settings, evidence=evidence))
    with pytest.raises(Rejected, match=r"evidence\.signing_key"):
        broken.moved()
    with journal(installed.settings) as runs:
        assert runs.recent(1) == ()


def test_a_run_that_is_over_is_sealed_again_with_its_page(
    installed: Installed, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the verb ``report`` does, without the ports of the move."""
    run = installed.moved()
    with journal(installed.settings) as runs:
        body = sealer_of(runs, installed.settings, lambda _run, said: {"report.html": said["state"]})
        assert set(body.seal_again(run)["own"]) == {"journal.json", "report.html"}
    assert (installed.root / run / "report.html").read_text() == "moved"
    assert said(capsys, run, "--settings", str(installed.file))[0] == 0
