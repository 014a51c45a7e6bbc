"""Runs the suite part by part, tells what took how long, and tries again what real servers made fail.

    python tests/support/parts.py begin | run PART [--again] PYTEST-ARGUMENTS… | end | landed

With ``--again`` (tests on real servers) the tests that failed are run once more, alone, at the end of
their part. What passes then is *passed at the second try*: the part is green and lists it. `problems` says
when that is not good enough. A test on the list is a fault of the product or of the test: mend it first.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STATE = ROOT / ".groupshift" / "suite"
"""What the parts of this run came to: one JSON file a part, and ``begin``."""
LANDINGS = ROOT / "tests" / "second_tries.json"
"""The lists of the last landings, newest last; in the repository."""
FILE_SECONDS = ROOT / "tests" / "file_seconds.json"
"""Seconds by file of tests on real servers in the last landing, the longest first; in the repository."""
MOST = 3
"""More tests than these may not pass at the second try in one run."""
REMEMBERED = 5
TWICE = 2
SLOWEST = 20
REASON = 1500
BEGIN = "begin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a run: seconds it took, tests that were run and skipped, what failed for good, what passed
    at the second try, the seconds of its slowest tests and, where it has second tries, those of each file
    (set-up and tear-down included)."""

    name: str
    seconds: float
    ran: int
    skipped: int = 0
    failed: tuple[str, ...] = ()
    second_tries: tuple[str, ...] = ()
    durations: Mapping[str, float] = field(default_factory=dict)
    files: Mapping[str, float] = field(default_factory=dict)


class Recorder:
    """A plugin of pytest that keeps what failed and how long each test took; xdist's workers report to it."""

    def __init__(self) -> None:
        self.failed: dict[str, str] = {}
        self.uncollected: dict[str, str] = {}
        self.ran: set[str] = set()
        self.skipped: set[str] = set()
        self.durations: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One phase of one test; a worker that died counts as a failure of the test it was in."""
        self.durations[report.nodeid] = self.durations.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.failed.setdefault(report.nodeid, _reason(report))
        if report.skipped:
            self.skipped.add(report.nodeid)
        self.ran.add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that could not be read; with xdist the tests of the other files are run all the same."""
        if report.failed:
            self.uncollected[report.nodeid] = _reason(report)


def problems(second_tries: Sequence[str], landings: Sequence[Sequence[str]]) -> list[str]:
    """Why a run whose tests all passed in the end is red all the same; ``landings`` are the lists of the last
    landings, newest last."""
    found = []
    if len(second_tries) > MOST:
        found.append(f"{len(second_tries)} tests passed only at the second try, {MOST} at most may")
    last = landings[-REMEMBERED:]
    for test in second_tries:
        times = sum(test in landing for landing in last)
        if times >= TWICE:
            found.append(f"{test} needed a second try in {times} of the last {len(last)} landings: mend it")
    return found


def landings() -> list[list[str]]:
    """The lists in the repository."""
    return [each["tests"] for each in json.loads(LANDINGS.read_text())["landings"]]


def run(name: str, arguments: list[str], *, again: bool) -> int:
    """Run one part and print what it came to. Returns the exit code for make."""
    began = time.monotonic()
    recorder = Recorder()
    code = int(pytest.main(arguments, plugins=[recorder]))
    failed, passed_later = tuple(recorder.failed), ()
    if code == pytest.ExitCode.TESTS_FAILED and again and 0 < len(failed) <= MOST:
        print(f"\n{name}: {len(failed)} failed and are run once more, alone", flush=True)
        passed_later = tuple(test for test in failed if _passes_alone(test))
        failed = tuple(test for test in failed if test not in passed_later)
    failed = (*failed, *recorder.uncollected)
    part = Part(
        name=name,
        seconds=round(time.monotonic() - began, 1),
        ran=len(recorder.ran - recorder.skipped),
        skipped=len(recorder.skipped),
        failed=failed,
        second_tries=passed_later,
        durations={test: round(seconds, 2) for test, seconds in _slowest(recorder.durations)},
        files=_by_file(recorder.durations) if again else {},
    )
    _keep(part)
    _print_part(part)
    for test in failed:  # last of all: who reads only the end of the output must see them
        print(f"failed: {test}\n    {(recorder.failed | recorder.uncollected)[test]}")
    if passed_later and not failed:
        return _verdict(passed_later)
    return code


def end() -> int:
    """Print the whole run: time per part, the slowest tests, what passed at the second try."""
    began = json.loads((STATE / f"{BEGIN}.json").read_text())["at"]
    parts = kept()
    print("\npart           seconds    run  skipped  failed  second try")
    for part in parts:
        print(
            f"{part.name:<12} {part.seconds:>9.1f} {part.ran:>6} {part.skipped:>8} {len(part.failed):>7} "
            f"{len(part.second_tries):>11}"
        )
    print(f"{'all':<12} {time.time() - began:>9.1f}  (static checks and set-up included)")
    print(f"\nthe slowest {SLOWEST} tests")
    every = {test: seconds for part in parts for test, seconds in part.durations.items()}
    for test, seconds in _slowest(every):
        print(f"{seconds:>8.1f} s  {test}")
    return _verdict([test for part in parts for test in part.second_tries])


def landed() -> int:
    """Write the second tries of the last full run into the file that is committed with what lands."""
    told = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    tests = [test for part in kept() for test in part.second_tries]
    began = json.loads((STATE / f"{BEGIN}.json").read_text())["at"]
    entry = {
        "commit": told.stdout.strip(),
        "date": time.strftime("%Y-%m-%d"),
        "began": began,
        "tests": tests,
    }
    every = json.loads(LANDINGS.read_text())["landings"]
    before = [each for each in every if each.get("began") != began]  # one run is one landing
    LANDINGS.write_text(json.dumps({"landings": [*before, entry][-REMEMBERED:]}, indent=2) + "\n")
    known = json.loads(FILE_SECONDS.read_text()) if FILE_SECONDS.exists() else {}
    files = {file: round(seconds, 1) for part in kept() for file, seconds in part.files.items()}
    here = {file: seconds for file, seconds in (known | files).items() if (ROOT / file).exists()}
    longest = dict(sorted(here.items(), key=lambda item: (-item[1], item[0])))
    FILE_SECONDS.write_text(json.dumps(longest, indent=2) + "\n")
    print(f"{len(tests)} second tries and {len(files)} files' seconds of the run at {entry['commit']}")
    print(f"commit {LANDINGS.relative_to(ROOT)} and {FILE_SECONDS.relative_to(ROOT)}")
    return 0


def kept() -> list[Part]:
    """The parts of this run, in the order in which they ended."""
    files = sorted(STATE.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
    return [Part(**json.loads(file.read_text())) for file in files if file.stem != BEGIN]


def _passes_alone(test: str) -> bool:
    """Run one test in a process of its own, with nothing beside it. One that is skipped did not pass."""
    alone = [sys.executable, str(Path(__file__).resolve()), "alone", test]
    return subprocess.run(alone, cwd=ROOT, check=False).returncode == 0


def _alone(test: str) -> int:
    recorder = Recorder()
    code = int(pytest.main([test], plugins=[recorder]))
    return code or int(bool(recorder.skipped))


def _verdict(second_tries: Iterable[str]) -> int:
    """Print the list of second tries and why it is too long. Returns 1 then, else 0."""
    tests = list(second_tries)
    print(f"\npassed at the second try: {len(tests)}")
    for test in tests:
        print(f"  {test}")
    found = problems(tests, landings())
    for problem in found:
        print(f"red: {problem}")
    return int(bool(found))


def _by_file(durations: Mapping[str, float]) -> dict[str, float]:
    """The seconds of each file's tests, however many workers ran them."""
    files: dict[str, float] = {}
    for test, seconds in durations.items():
        file = test.partition("::")[0]
        files[file] = files.get(file, 0.0) + seconds
    return {file: round(seconds, 2) for file, seconds in files.items()}


def _slowest(durations: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(durations.items(), key=lambda item: -item[1])[:SLOWEST]


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """What a failure says of itself, in the `REASON` characters at its end."""
    crash = getattr(report.longrepr, "reprcrash", None)
    message = crash.message if crash else report.longreprtext
    return f"{getattr(report, 'when', 'collect')}: {message[-REASON:]}"


def _print_part(part: Part) -> None:
    print(f"\n{part.name}: {part.seconds:.1f} s; the slowest of {part.ran} tests:")
    for test, seconds in list(part.durations.items())[:SLOWEST]:
        print(f"{seconds:>8.1f} s  {test}")


def _keep(part: Part) -> None:
    STATE.mkdir(parents=True, exist_ok=True)
    (STATE / f"{part.name}.json").write_text(json.dumps(asdict(part)))


def _begin() -> int:
    """Forget the parts of the run before."""
    STATE.mkdir(parents=True, exist_ok=True)
    for file in STATE.glob("*.json"):
        file.unlink()
    (STATE / f"{BEGIN}.json").write_text(json.dumps({"at": time.time()}))
    return 0


def main(arguments: list[str]) -> int:
    """Run the verb. Returns the exit code."""
    match arguments:
        case ["begin" | "end" | "landed" as verb]:
            return {"begin": _begin, "end": end, "landed": landed}[verb]()
        case ["alone", test]:
            return _alone(test)
        case ["run", name, "--again", *rest]:
            return run(name, rest, again=True)
        case ["run", name, *rest]:
            return run(name, rest, again=False)
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
