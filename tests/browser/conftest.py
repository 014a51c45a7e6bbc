"""Debian's Chromium driven by Playwright, and the report of one real run there and back.

Chromium is installed where it is missing and this user may; else its absence is a failure, not a skip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from playwright.sync_api import Browser, Page

from groupshift.adapters.spark_submit.submit import SparkSubmit
from groupshift.bootstrap.moves import journal
from groupshift.cli.main import main
from groupshift.domain.plan import Until
from groupshift.domain.run import SparkJob
from groupshift.errors import Broken
from groupshift.settings import load
from groupshift_sandbox.down import down
from groupshift_sandbox.home import Home
from groupshift_sandbox.processes import wait_until
from groupshift_sandbox.state import SandboxState
from groupshift_sandbox.up import UpOptions, up
from support.chromium import LOOK_MS
from support.field_sandbox import LEFT, judged_equal, leave_offsets, left_offsets
from support.warm_spark import warm_spark

GROUP, IDLE = "orders-app", 5


@dataclass
class Opened:
    """A page with everything it asked for and complained about."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@pytest.fixture
def opened(browser: Browser, report: Path) -> Iterator[Opened]:
    """The report of the real run, opened from its file."""
    page = browser.new_page(viewport={"width": 1180, "height": 900}, color_scheme="light")
    seen = watched(page)
    page.goto(report.as_uri())
    yield seen
    page.close()


def watched(page: Page) -> Opened:
    """The page with its requests, console messages and errors noted down; it is given time."""
    page.set_default_timeout(LOOK_MS)
    seen = Opened(page)
    page.on("request", lambda request: seen.requests.append(request.url))
    page.on("console", lambda said: seen.complaints.append(said.text))
    page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    page.on("dialog", lambda dialog: (seen.complaints.append("dialog"), dialog.dismiss()))
    return seen


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real group with offsets that no member reads (F1), moved until toggle and taken back, audited, and
    reported by the command line; its servers are down before the report is read. With transactions and
    compaction, until the end: ``make matrix MATRIX=offsets_of_the_field``."""
    home = Home(tmp_path_factory.mktemp("browser"))
    try:
        up(home, UpOptions(airflow=False, idle=(IDLE,)), lambda _line: None)
        with warm_spark(home.root) as submit, left_over(home) as left:
            text = home.settings_file.read_text().replace("[spark]", f'[spark]\nsubmit = "{submit}"')
            home.settings_file.write_text(text + "[thresholds]\npatience_s = 60\nsettle_s = 240\n")
            run = moved_and_back(home)
            assert left() == LEFT, "what no member reads was not touched"
            written, where = home.root / "report.html", ["--settings", str(home.settings_file)]
            assert main(["report", run, "--audit", "--output", str(written), *where]) == 0
            assert main(["verify-evidence", run, *where]) == 0
    finally:
        down(home)
    return written


@contextmanager
def left_over(home: Home) -> Iterator[Callable[[], dict[str, int]]]:
    """Leave offsets that no member reads; gives what tells them as they are now."""
    addresses = SandboxState(home).addresses()
    zookeeper = KazooClient(addresses["zookeeper"])
    zookeeper.start(60)
    try:
        leave_offsets(zookeeper, addresses["kafka"])
        yield lambda: left_offsets(zookeeper)
    finally:
        zookeeper.stop()
        zookeeper.close()


def moved_and_back(home: Home) -> str:
    """The run, after it went there and back and was audited."""
    where, settings = ["--settings", str(home.settings_file)], load(home.settings_file)
    asked = ["--group", GROUP, "--until", Until.TOGGLE.value]

    def ready() -> bool:
        code = main(["coordination", "assess", *asked, *where])
        assert code != Broken.exit_code, "an assessment ended with an error that nobody foresees"
        return code == 0

    wait_until(ready, 90.0, "the group is ready", every_s=1.0)
    assert main(["coordination", "run", *asked, "--soak", "1", "--execute", "--yes", *where]) == 0
    with journal(settings) as runs:
        run = runs.recent(1)[0].run
    assert main(["roll-back", run, "--execute", "--yes", *where]) == 0
    with journal(settings) as runs:
        judged_equal(runs.events(run))
    output = home.evidence / run / "consumption"
    job = files("groupshift.jobs") / "audit_consumption.py"
    arguments = (
        *("--ledgers", str(home.ledgers), "--zookeeper-log", str(home.zookeeper)),
        *("--group", GROUP, "--output", str(output)),
    )
    SparkSubmit(settings.spark).run(SparkJob(job=str(job), arguments=arguments, output=str(output)))
    return run
