"""What a start of Spark finds ready: classes that a JVM before it loaded, code that a worker will call."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from groupshift.adapters.spark_submit.submit import BRIEF, FOLDER, driver_options, sharing_options
from groupshift.log import LogRecord
from groupshift.spark.batches.coordinator_records import by_python
from groupshift.spark.session import start_with
from groupshift.spark.worker_daemon import sample_batch, warm_up
from groupshift_testing.log_encoder import encode_key

FINISHED = b"\xa8\xab\x0b\xf0 and classes"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary folder of the machine, for this test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"{FOLDER}-{os.getuid()}"


def _archived() -> Path:
    """The draft that the first start is told to write."""
    told = sharing_options().split()[0]
    assert told.startswith("-XX:ArchiveClassesAtExit=")
    return Path(told.partition("=")[2])


def test_one_start_writes_the_archive_and_later_ones_map_it(temporary: Path) -> None:
    """While it is being made the others do without; a header of zeros is a draft."""
    draft = _archived()
    assert draft.parent == temporary
    assert temporary.stat().st_mode & 0o077 == 0
    assert sharing_options() == ""
    draft.write_bytes(b"\0\0\0\0 not yet")
    assert sharing_options() == ""
    draft.write_bytes(FINISHED)
    told = sharing_options().split()[0]
    archive = Path(told.removeprefix("-XX:SharedArchiveFile="))
    assert archive.read_bytes() == FINISHED
    assert [path.name for path in temporary.iterdir()] == [archive.name]
    assert sharing_options().split()[0] == told


def test_a_draft_that_nobody_finished_is_made_again(temporary: Path) -> None:
    """Its JVM was killed an hour ago."""
    draft = _archived()
    os.utime(draft, (1, 1))
    assert _archived() == draft
    assert draft.stat().st_mtime > 1


def test_another_java_makes_another_archive(temporary: Path) -> None:
    """A JVM refuses the archive of another one for good."""
    draft = _archived()
    draft.write_bytes(FINISHED)
    assert "ArchiveClassesAtExit" in sharing_options(java=str(temporary))


def test_of_many_archives_the_newest_three_stay(temporary: Path) -> None:
    """Each Spark that was installed once left one of 140 MB."""
    sharing_options()
    for number in range(5):
        old = temporary / f"spark-{number}.jsa"
        old.write_bytes(FINISHED)
        os.utime(old, (1000 + number, 1000 + number))
    assert "ArchiveClassesAtExit" in sharing_options(java=str(temporary))
    left = sorted(path.name for path in temporary.glob("*.jsa"))
    assert left == ["spark-4.jsa"], "beside two drafts of now"


def test_an_old_archive_that_another_start_removes_first_is_no_reason_to_make_none(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The draft is there: without its option nobody would make the archive for an hour."""
    sharing_options()
    for number in range(5):
        (temporary / f"spark-{number}.jsa").write_bytes(FINISHED)
    gone = Path.unlink

    def removed(path: Path, *, missing_ok: bool = False) -> None:
        gone(path)
        gone(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", removed)
    assert "ArchiveClassesAtExit" in sharing_options(java=str(temporary))


def test_a_folder_that_others_may_write_to_is_not_used(temporary: Path) -> None:
    """What lies there would be executed."""
    temporary.mkdir()
    temporary.chmod(0o777)
    assert sharing_options() == ""
    assert not list(temporary.iterdir())


def test_a_folder_whose_name_java_options_cannot_carry_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options are split at spaces."""
    place = tmp_path / "two words"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    assert sharing_options() == ""


@pytest.mark.usefixtures("temporary")
def test_a_submitted_driver_shares_classes_where_the_job_stays_here() -> None:
    """A driver on another machine does not see our folder."""
    assert driver_options("yarn") == driver_options("spark://10.0.0.1:7077") == BRIEF
    assert driver_options("local[2]").startswith(f"{BRIEF} -XX:ArchiveClassesAtExit=")


@pytest.mark.usefixtures("temporary")
def test_only_a_process_that_starts_the_jvm_claims_the_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under spark-submit the JVM is there before, and what the environment says stands."""
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    start_with("-Xone")
    assert "PYSPARK_SUBMIT_ARGS" not in os.environ
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "mine")
    start_with("-Xone")
    assert os.environ["PYSPARK_SUBMIT_ARGS"] == "mine"
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS")
    start_with("-Xone", "--driver-memory 1g")
    told = os.environ["PYSPARK_SUBMIT_ARGS"]
    assert told.startswith('--driver-memory 1g --driver-java-options "-Xone -XX:ArchiveClassesAtExit=')
    assert told.endswith("pyspark-shell")


def test_the_daemon_decodes_a_batch_of_its_own_before_it_serves() -> None:
    """By the compiled code that tasks call, to what the decoder in Python says."""
    (found,) = warm_up(sample_batch())
    key = encode_key(1, {"group": "group", "topic": "topic", "partition": 0})
    (row,) = found.to_pylist()
    assert row["raw_key"] == key
    record = LogRecord(partition=0, offset=0, timestamp_ms=0, key=key, value=row["raw_value"])
    assert [row] == by_python([record], 1).to_pylist()
    assert (row["committed_offset"], row["decode_status"]) == (1, "ok")
