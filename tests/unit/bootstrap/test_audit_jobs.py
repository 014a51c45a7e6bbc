"""An audit handed over to a job: what travels, who may read it, and what comes back."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import pytest

from groupshift.audit.inputs import Terms
from groupshift.audit.offsets import Audit, Looked
from groupshift.bootstrap.audit_jobs import (
    AuditRequest,
    Handed,
    handed_over,
    leave_refusal,
    read_request,
    submitted,
)
from groupshift.bootstrap.connect import audit_store
from groupshift.errors import Broken, Rejected, Transient
from groupshift.jobs import audit_offsets
from groupshift.settings import KafkaSettings, SparkSettings, ZookeeperSettings

REQUEST = AuditRequest(
    kafka=KafkaSettings(bootstrap_servers="b:1", properties={"sasl.password": "secret"}),
    zookeeper=ZookeeperSettings(hosts="z:1", chroot="/kafka", password="hidden"),
    groups={"g"},
    options=Terms(settle_ms=5, retention_ms=7),
    timeout_s=0.3,
)
NOTHING = Audit(
    began_ms=1,
    ended_ms=2,
    cluster_id="c",
    zookeeper=True,
    retention_ms=None,
    looked=Looked(keys=0, mismatches=()),
)


def file_of(handed: Handed) -> Path:
    """The file that the job is given."""
    assert handed.arguments[0] == "--request"
    return Path(handed.arguments[1])


def test_a_request_travels_whole_in_a_file_that_only_we_can_read() -> None:
    """No login is on the command line, and nothing is left when the job has ended."""
    with handed_over(REQUEST) as handed:
        path = file_of(handed)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(handed.folder.stat().st_mode) == 0o700
        assert "secret" not in " ".join(handed.arguments)
        found = read_request(path)
        assert (found.kafka, found.zookeeper, found.options) == (
            REQUEST.kafka,
            REQUEST.zookeeper,
            REQUEST.options,
        )
        assert (found.groups, found.timeout_s, found.output) == (["g"], 0.3, handed.output)
        audit_store().write(handed.output, NOTHING, "")
        assert handed.result() == NOTHING
    assert not handed.folder.exists()


def test_the_jobs_own_error_comes_back_with_its_family() -> None:
    """Rejected stays rejected; the folder goes, for the error says it all."""
    folders: list[Path] = []

    def fails() -> None:
        with handed_over(REQUEST) as handed:
            folders.append(handed.folder)
            assert handed.refusal() is None
            leave_refusal(file_of(handed), Rejected("no such topic"))
            raise handed.refusal() or Broken("nothing was left")

    with pytest.raises(Rejected, match="no such topic"):
        fails()
    assert not folders[0].exists()


def test_a_job_that_ends_without_a_word_leaves_its_log_and_no_login() -> None:
    """The request is removed in any case."""
    folders: list[Path] = []

    def fails() -> None:
        with handed_over(REQUEST) as handed:
            folders.append(handed.folder)
            (handed.folder / "spark.log").write_text("killed")
            raise Transient("failed with exit code 137")

    with pytest.raises(Transient):
        fails()
    assert [each.name for each in folders[0].iterdir()] == ["spark.log"]
    shutil.rmtree(folders[0])


def test_a_folder_that_is_there_is_refused_before_spark(tmp_path: Path) -> None:
    """Neither a job nor a file is made."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "a").write_text("a")
    full = AuditRequest(kafka=REQUEST.kafka, zookeeper=None, output=str(tmp_path / "there"))
    with pytest.raises(Rejected, match="never overwritten"):
        submitted(full, SparkSettings(submit="/nowhere"))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"kafka": {"bootstrap": 1}, "zookeeper": null}'])
def test_the_job_refuses_what_is_no_request(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence, also for whoever submitted it; Spark is not started."""
    path = tmp_path / "request.json"
    path.write_text(text)
    assert audit_offsets.main(["--request", str(path)]) == 2
    assert "is not the request of an audit" in capsys.readouterr().err
    assert '"exit_code": 2' in (tmp_path / "refusal.json").read_text()
