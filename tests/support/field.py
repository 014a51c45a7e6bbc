"""Lays the tests of field reports over an older commit and tells which of them fail there.

    python tests/support/field.py BASE [FILE…]        make test-field BASE=e3c5898

A test named ``test_f01_…``, ``test_u01_…`` or ``test_s01_…`` holds what one report asks for, so it has to
fail on the code that the report was about. Product and configuration are those of BASE, everything below
``tests/`` is today's; `support.moved` finds modules under their present names.
Exit code 0 when each fails there, 1 when one passes or was not run, 2 for a bad call.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).resolve().parents[2]
NAME = re.compile(r"test_([fus]\d\d)_")
_NOT_THERE = re.compile(
    r"\b(ImportError|ModuleNotFoundError|fixture '\w+' not found|unexpected keyword argument)\b"
)
"""How a test ends that asks for a part which BASE does not have."""


class There(StrEnum):
    """What a test came to on BASE."""

    FAILS = "fails"
    NEW_PART = "fails (the part did not exist)"
    PASSES = "PASSES"
    NOT_RUN = "NOT RUN"


@dataclass(frozen=True, slots=True)
class Result:
    """One test function (all its parameters together)."""

    file: str
    test: str
    there: There


def named_tests(file: Path) -> list[str]:
    """The tests of a file that hold a report, methods of classes included."""
    names = [
        node.name
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and NAME.match(node.name)
    ]
    return sorted(set(names))


def results(file: str, names: list[str], report: Path) -> list[Result]:
    """What each test of a file came to by pytest's JUnit report; one case that passes counts as passing."""
    cases = list(ET.parse(report).iter("testcase")) if report.is_file() else []  # noqa: S314
    broken = [
        case for case in cases if case.find("error") is not None and not NAME.match(case.get("name", ""))
    ]
    found = []
    for name in names:
        own = [case for case in cases if case.get("name", "").split("[")[0] == name]
        found.append(Result(file, name, _there(own) if own or not broken else _of_file(broken)))
    return found


def _of_file(broken: list[ET.Element]) -> There:
    """A file that cannot be collected: its tests fail there, for want of a part when that is the reason."""
    return There.NEW_PART if any(_NOT_THERE.search(_text(case)) for case in broken) else There.NOT_RUN


def _there(cases: list[ET.Element]) -> There:
    if not cases or any(case.find("skipped") is not None for case in cases):
        return There.NOT_RUN
    ends = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    if len(ends) < len(cases):
        return There.PASSES
    return There.NEW_PART if all(_NOT_THERE.search(_text(case)) for case in ends) else There.FAILS


def _text(case: ET.Element) -> str:
    """The last lines of what pytest says, where the exception is."""
    said = [each for kind in ("failure", "error") for each in case.iter(kind)]
    return " ".join(f"{each.get('message', '')} {(each.text or '')[-2000:]}" for each in said)


@contextmanager
def overlaid(base: str) -> Iterator[Path]:
    """A work tree of ``base`` with today's tests."""
    with tempfile.TemporaryDirectory(prefix="groupshift-field-") as folder:
        tree = Path(folder) / "tree"
        _git("worktree", "add", "--detach", "--quiet", str(tree), base)
        try:
            shutil.rmtree(tree / "tests")
            shutil.copytree(ROOT / "tests", tree / "tests", ignore=shutil.ignore_patterns("__pycache__"))
            (tree / ".venv").symlink_to(ROOT / ".venv")
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


def run(tree: Path, file: str, names: list[str]) -> list[Result]:
    """Run the named tests of one file on ``tree``, one after the other. What hangs in C code there can end
    pytest itself, when its alarm comes late: the tests that were not reached get a process of their own."""
    found = _run(tree, file, names)
    alone = [each.test for each in found if each.there is There.NOT_RUN] if len(names) > 1 else []
    again = {name: _run(tree, file, [name])[0] for name in alone}
    return [again.get(each.test, each) for each in found]


def _run(tree: Path, file: str, names: list[str]) -> list[Result]:
    report = tree / "field.xml"
    report.unlink(missing_ok=True)
    paths = os.pathsep.join(str(tree / part) for part in ("src", "plugins", "tests"))
    subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "--no-header",
            "-p", "no:cacheprovider", "-p", "support.moved",
            f"--junitxml={report}", *_patience(file), "-k", " or ".join(names), file,
        ],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )  # fmt: skip
    return results(file, names, report)


def _patience(file: str) -> list[str]:
    """Without servers a test that hangs there is ended soon: on older code some do."""
    return [] if Path(file).parts[1] in {"live", "airflow", "browser", "matrix"} else ["--timeout", "10"]


def _git(*words: str) -> None:
    subprocess.run(["git", *words], cwd=ROOT, check=True)


def main(arguments: list[str]) -> int:
    """Print a line a test and the sum. Returns the exit code."""
    if not arguments or not arguments[0]:
        print("say over which commit the tests are laid: make test-field BASE=e3c5898")
        return 2
    base, *only = arguments
    files = [ROOT / file for file in only] or sorted((ROOT / "tests").rglob("test_*.py"))
    wanted = {str(file.relative_to(ROOT)): named_tests(file) for file in files}
    found: list[Result] = []
    with overlaid(base) as tree:
        for file, names in wanted.items():
            if names:
                print(file, flush=True)
                for each in run(tree, file, names):
                    found.append(each)
                    print(f"  {each.there:<32} {each.test}", flush=True)
    counts = {there: sum(each.there is there for each in found) for there in There}
    print(f"{len(found)} tests over {base}: " + ", ".join(f"{n} {there}" for there, n in counts.items()))
    return int(not found or counts[There.PASSES] + counts[There.NOT_RUN] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
