"""Evidence of a run that changes a cluster is signed where the settings name a key, and checked as that of a
migration is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from groupshift.adapters.sqlalchemy.journal import SqlClusterRuns
from groupshift.application.expansion_run import begin, go_on, plan_run
from groupshift.application.run_engine import Ended
from groupshift.bootstrap.runs import sealing
from groupshift.cli.main import main
from groupshift.cli.run_options import place_of
from groupshift.domain.step import RunAct
from groupshift.errors import Rejected
from groupshift.log.releases import Coordinator
from support.simulated_downgrade import yes
from support.simulated_expansion import committed, tools_of


def keys(folder: Path, name: str) -> tuple[Path, Path]:
    """A private and a public key in files."""
    key = Ed25519PrivateKey.generate()
    private, public = folder / f"{name}.pem", folder / f"{name}.pub"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return private, public


def settings(folder: Path, private: Path, public: Path) -> Path:
    """A settings file that names both."""
    found = folder / "settings.toml"
    found.write_text(
        '[kafka]\nbootstrap_servers = "127.0.0.1:1"\n[zookeeper]\nhosts = "127.0.0.1:1"\n'
        f'[journal]\nurl = "sqlite:///{folder / "journal.db"}"\n[fleet]\ndriver = "manual"\n'
        f'[evidence]\nroot = "{folder}"\nsigning_key = "{private}"\npublic_key = "{public}"\n'
    )
    return found


def test_a_run_is_signed_and_a_forged_or_missing_signature_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the settings alone; the key is in no file of the evidence."""
    private, public = keys(tmp_path, "signer")
    file = settings(tmp_path, private, public)
    place = place_of("", None, file, move="expansion", cluster=False)
    runs = SqlClusterRuns(place.journal)
    tools = replace(tools_of(committed(Coordinator.NEW)), runs=runs, seal=sealing(place))
    run = begin(tools, plan_run(tools, 8))
    assert go_on(tools, yes(), run).ended is Ended.DONE
    runs.close()
    verify = ["verify-evidence", run.run, "--settings", str(file), "--json"]
    assert main(verify) == 0
    assert json.loads(capsys.readouterr().out)["signed"] is True
    folder = place.evidence / run.run
    secret = "".join(private.read_text().splitlines()[1:-1])
    assert secret not in "".join(each.read_text() for each in folder.glob("*.*")) + repr(place)
    _, other = keys(tmp_path, "other")
    assert main([*verify, "--public-key", str(other)]) == 5
    assert '"forged"' in capsys.readouterr().out
    assert main(["verify-evidence", str(folder), "--public-key", str(public)]) == 0
    (folder / "pack.sig").unlink()
    for options in ((), ("--public-key", str(public))):
        assert main([*verify, *options]) == 5
        assert "it was signed when it was sealed, and pack.sig is gone" in capsys.readouterr().out


def test_a_key_that_cannot_sign_is_refused_before_a_run_begins(tmp_path: Path) -> None:
    """Not when it ends; one that is open goes on without it, for its way back needs no key."""
    absent = tmp_path / "absent.pem"
    place = place_of("", None, settings(tmp_path, absent, absent), move="expansion", cluster=False)
    seal, tools = sealing(place), tools_of(committed(Coordinator.NEW))
    plan = plan_run(tools, 8)
    with pytest.raises(Rejected, match="signing_key"):
        begin(replace(tools, seal=seal, may_seal=seal.demand_key), plan)
    assert tools.runs.recent(1) == ()
    run = begin(tools, plan)
    without = replace(tools, seal=seal, may_seal=seal.demand_key)
    terms = yes(acts=frozenset(RunAct) - {RunAct.DELETE_GROUPS})
    assert go_on(without, terms, run).ended is Ended.PAUSED
