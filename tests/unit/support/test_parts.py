"""The suite's runner: a second try for what real servers made fail, and when that is not good enough."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.parts import MOST, problems

ROOT = Path(__file__).resolve().parents[3]
ONCE = """
from pathlib import Path

def test_first_time_only():
    seen = Path(__file__).with_suffix(".seen")
    if not seen.exists():
        seen.write_text("")
        raise AssertionError("the first time")

def test_good():
    assert True
"""
NEVER = "def test_never():\n    assert False\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository of its own with the runner and no test."""
    (tmp_path / "tests" / "support").mkdir(parents=True)
    runner = ROOT / "tests" / "support" / "parts.py"
    (tmp_path / "tests" / "support" / "parts.py").write_text(runner.read_text())
    (tmp_path / "tests" / "second_tries.json").write_text('{"landings": []}')
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def _run(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    told = [sys.executable, "tests/support/parts.py", *words]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return subprocess.run(told, cwd=tree, capture_output=True, text=True, env=clean, check=False)


def test_a_test_that_passes_alone_leaves_the_part_green_and_is_listed(tree: Path) -> None:
    """The list names it, with its part's time and slowest tests; the end of the run names it again."""
    (tree / "tests" / "test_x.py").write_text(ONCE)
    assert _run(tree, "begin").returncode == 0
    part = _run(tree, "run", "live", "--again", "-q", "tests/test_x.py")
    whole = _run(tree, "end")
    assert (part.returncode, whole.returncode) == (0, 0), part.stdout + whole.stdout
    for said in (part.stdout, whole.stdout):
        assert "passed at the second try: 1\n  tests/test_x.py::test_first_time_only" in said
    assert "the slowest of 2 tests" in part.stdout
    assert "the slowest 20 tests" in whole.stdout


def test_a_part_without_second_tries_fails_at_once(tree: Path) -> None:
    """Unit tests have no real servers: nothing of theirs is run again."""
    (tree / "tests" / "test_x.py").write_text(ONCE)
    assert _run(tree, "run", "fast", "-q", "tests/test_x.py").returncode == 1
    assert _run(tree, "run", "fast", "-q", "tests/test_x.py").returncode == 0


def test_what_fails_twice_is_red(tree: Path) -> None:
    """A second try that fails is a failure, whatever else passed."""
    (tree / "tests" / "test_x.py").write_text(ONCE + NEVER)
    part = _run(tree, "run", "live", "--again", "-q", "tests/test_x.py")
    assert part.returncode == 1
    assert part.stdout.endswith("failed: tests/test_x.py::test_never\n    call: assert False\n")
    kept = json.loads((tree / ".groupshift" / "suite" / "live.json").read_text())
    assert kept["failed"] == ["tests/test_x.py::test_never"]
    assert kept["second_tries"] == ["tests/test_x.py::test_first_time_only"]


def test_a_file_that_cannot_be_collected_is_red(tree: Path) -> None:
    """Nothing is run again where nothing could be read."""
    (tree / "tests" / "test_x.py").write_text("import nothing_of_that_name\n")
    assert _run(tree, "run", "live", "--again", "-q", "tests/test_x.py").returncode == 2


def test_a_second_try_does_not_make_a_file_good_that_cannot_be_collected(tree: Path) -> None:
    """Workers run the other files all the same; what is in that one was not tried at all."""
    (tree / "tests" / "test_x.py").write_text(ONCE)
    (tree / "tests" / "test_y.py").write_text("import nothing_of_that_name\n")
    part = _run(tree, "run", "live", "--again", "-q", "-n", "1", "--dist", "loadfile", "tests")
    assert part.returncode == 1, part.stdout
    kept = json.loads((tree / ".groupshift" / "suite" / "live.json").read_text())
    assert "tests/test_y.py" in kept["failed"]


def test_a_test_that_is_skipped_at_the_second_try_did_not_pass(tree: Path) -> None:
    """Nothing was shown by it: it stays failed."""
    later = ONCE.replace(
        '        raise AssertionError("the first time")\n',
        '        raise AssertionError("the first time")\n    import pytest\n\n    pytest.skip("later")\n',
    )
    (tree / "tests" / "test_x.py").write_text(later)
    part = _run(tree, "run", "live", "--again", "-q", "tests/test_x.py")
    assert part.returncode == 1, part.stdout
    kept = json.loads((tree / ".groupshift" / "suite" / "live.json").read_text())
    assert (kept["failed"], kept["second_tries"]) == (["tests/test_x.py::test_first_time_only"], [])


def test_one_run_is_one_landing_however_often_it_is_written_down(tree: Path) -> None:
    """Else its second tries would count as those of two landings; the next run is another one."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
    (tree / "tests" / "test_x.py").write_text(ONCE)
    subprocess.run([*git, "init", "-q"], cwd=tree, check=True)
    lists = []
    for verbs in (["begin", "landed", "landed"], ["begin", "landed"]):
        for verb in verbs:
            subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", verb], cwd=tree, check=True)
            assert _run(tree, verb).returncode == 0
        lists.append(len(json.loads((tree / "tests" / "second_tries.json").read_text())["landings"]))
    assert lists == [1, 2]


def test_a_landing_keeps_the_seconds_of_the_files_on_real_servers(tree: Path) -> None:
    """They say what begins first in the next run. What did not run keeps its seconds while it is there."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
    waits = "import time\ndef test_one():\n    time.sleep({0})\ndef test_two():\n    time.sleep({0})\n"
    for number, seconds in ((1, 0.05), (2, 0.8), (3, 0)):
        (tree / "tests" / f"test_{number}.py").write_text(waits.format(seconds))
    (tree / "tests" / "file_seconds.json").write_text('{"tests/test_3.py": 3.5, "tests/gone.py": 9.0}')
    subprocess.run([*git, "init", "-q"], cwd=tree, check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "tests"], cwd=tree, check=True)
    for verb in (
        ["begin"],
        ["run", "fast", "-q", "tests/test_3.py"],
        ["run", "live", "--again", "-q", "tests/test_1.py", "tests/test_2.py"],
        ["landed"],
    ):
        assert _run(tree, *verb).returncode == 0
    table = json.loads((tree / "tests" / "file_seconds.json").read_text())
    assert list(table) == ["tests/test_3.py", "tests/test_2.py", "tests/test_1.py"]
    assert table["tests/test_3.py"] == 3.5
    assert 0.1 <= table["tests/test_1.py"] < 1.6 <= table["tests/test_2.py"]


@pytest.mark.parametrize(
    ("tries", "landings", "said"),
    [
        pytest.param(["a"], [], [], id="once"),
        pytest.param(["a"], [["a"]], [], id="in one landing"),
        pytest.param(["a"], [["a"], ["b"], ["a"]], ["a needed a second try in 2 of the last 3"], id="twice"),
        pytest.param(["a"], [["a"], ["a"], [], [], [], [], []], [], id="long ago"),
        pytest.param(list("abcd"), [], [f"4 tests passed only at the second try, {MOST}"], id="too many"),
    ],
)
def test_second_tries_that_repeat_or_are_many_are_red(
    tries: list[str], landings: list[list[str]], said: list[str]
) -> None:
    """More than three, or one that two of the last five landings had too."""
    found = problems(tries, landings)
    assert [text.startswith(start) for text, start in zip(found, said, strict=True)] == [True] * len(said)
