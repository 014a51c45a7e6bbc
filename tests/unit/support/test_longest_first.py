"""The order in which files of tests begin on several workers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from support.longest_first import HOLD_A_SESSION, SPARK, in_order
from support.parts import FILE_SECONDS, ROOT


def test_a_new_file_begins_first_and_then_the_longest() -> None:
    """Nobody knows yet how long the new one takes; those that take alike stay as they were collected."""
    seconds = {"tests/live/short.py": 2.0, "tests/live/long.py": 60.0, "tests/live/also_short.py": 2.0}
    names = ["short", "also_short", "long", "new", "long"]
    found = in_order((ROOT / "tests" / "live" / f"{name}.py" for name in names), seconds)
    assert [file.stem for file in found] == ["new", "long", "short", "also_short"]


def test_files_that_hold_a_session_begin_as_one() -> None:
    """Together they take longest; those of the folder of Spark, which share the first session, come first."""
    ends_one, plain = min(HOLD_A_SESSION), "tests/live/test_plain.py"
    seconds = {"tests/spark/test_a.py": 1.0, "tests/spark/test_b.py": 2.0, plain: 50.0, ends_one: 49.0}
    found = in_order((ROOT / name for name in seconds), seconds)
    wanted = ["tests/spark/test_b.py", "tests/spark/test_a.py", ends_one, plain]
    assert [str(file.relative_to(ROOT)) for file in found] == wanted


def test_each_file_that_holds_a_session_is_known() -> None:
    """One that is not listed would load Spark's classes in a process of its own."""
    asks = re.compile(r"(local|large|spark)_session\(")
    files = [file for file in (ROOT / "tests" / "live").glob("test_*.py") if asks.search(file.read_text())]
    assert {str(file.relative_to(ROOT)) for file in files} == HOLD_A_SESSION
    assert list((ROOT / SPARK).glob("test_*.py"))


def test_the_table_names_files_that_are_here() -> None:
    """A file that was moved or removed since the last landing would begin first, or is dead weight."""
    gone = [file for file in json.loads(FILE_SECONDS.read_text()) if not (ROOT / file).exists()]
    assert gone == []


WORKERS = """
from support.longest_first import OneFileAhead

def pytest_xdist_make_scheduler(config, log):
    return OneFileAhead(config, log)
"""
LONG = """
from pathlib import Path
from groupshift_sandbox.processes import wait_until

def test_first():
    wait_until(Path("third").exists, 20.0, "the third file began elsewhere")

def test_last():
    pass
"""
SHORT = """
def test_first():
    pass

def test_last():
    pass
"""
THIRD = """
from pathlib import Path

def test_third():
    Path("third").touch()
"""


DIES = """
import os
from pathlib import Path

def test_first():
    pass

def test_dies_once():
    if not Path("died").exists():
        Path("died").touch()
        os._exit(1)
"""


def run_on_two_workers(folder: Path, files: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run these files of tests by our scheduler."""
    for name, text in {"conftest": WORKERS, **files}.items():
        (folder / f"{name}.py").write_text(text)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "."],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT / "tests")},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def test_no_file_waits_behind_two_tests_of_another(tmp_path: Path) -> None:
    """Two workers and three files: the third goes to whoever is done first with its own. xdist alone gives
    it to the first one at once."""
    told = run_on_two_workers(tmp_path, {"test_a": LONG, "test_b": SHORT, "test_c": THIRD})
    assert told.returncode == 0, told.stdout + told.stderr


def test_a_run_ends_after_a_worker_died(tmp_path: Path) -> None:
    """Its finished files come back without tests; whoever gets those goes on all the same."""
    files = {f"test_{name}": SHORT for name in "abcdefg"}
    told = run_on_two_workers(tmp_path, {**files, "test_h": DIES})
    last = told.stdout.strip().splitlines()[-1]
    assert (told.returncode, "1 failed, 16 passed" in last) == (1, True), told.stdout + told.stderr
