"""Groups of several types and states at a broker with JMX, and what `downgrade assess --jmx` says of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from groupshift.cli.main import main
from groupshift.domain.group_protocol import EMPTY
from groupshift.domain.rows import GONE
from groupshift_sandbox.artifacts import TOOLS, jars
from groupshift_sandbox.home import Home
from groupshift_sandbox.kraft import KraftOptions, start_kraft
from groupshift_sandbox.layout import Cluster
from groupshift_sandbox.processes import marked, stop, wait_until
from support.protocol_story import story

WITHIN_S = 200
"""Brokers since 4.0 count once a minute; the rest is for a busy machine."""


@contextmanager
def open_cluster(folder: Path, release: str, **options: Any) -> Iterator[Cluster]:
    """Nodes of a release with JMX open, ended with the block."""
    home = Home(folder / "home").create()
    try:
        yield start_kraft(home, KraftOptions(release=release, heap="320m", jmx=True, **options))
    finally:
        for process in reversed(marked(home)):
            stop(process, 20.0)


def make_groups(bootstrap: str, *, native: bool) -> dict[str, int]:
    """Groups that stay as they are for minutes: how many of each type. A classic one with a member, an empty
    one and one of Connect; where brokers serve ``native`` members an empty one of type consumer."""
    with story(bootstrap) as told:
        left = told.classic()
        left.leave()
        told.classic()
        told.classic(kind="connect")
        emptied = [left.group]
        if native:
            member = told.native()
            member.leave()
            emptied.append(member.group)
        for group in emptied:
            told.await_group(group, lambda found: found.state in {EMPTY, GONE})
    return {"classic": 3, "consumer": 1} if native else {"classic": 3}


def counts(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], *, nodes: int | None = None
) -> dict[str, Any]:
    """The document of the verb, asked with the JMX ports of the first ``nodes`` brokers (all). What it says
    of the downgrade itself is left out: findings are those of the counts."""
    asked = [part for node in cluster.brokers[:nodes] for part in ("--jmx", f"127.0.0.1:{node.jmx}")]
    command = ["downgrade", "assess", "--to", "3.9.2", "--bootstrap-servers", cluster.bootstrap]
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as home:
        (Path(home) / "libs").symlink_to(jars(TOOLS))
        patch.setenv("KAFKA_HOME", home)
        assert main([*command, "--timeout", "60", *asked, "--json"]) in {0, 1}
    document = json.loads(capsys.readouterr().out)
    found = [each for each in document["findings"] if each["rule"].startswith("PG")]
    return {"brokers": document["observed"]["counts"], "findings": found}


def counts_that_agree(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The document once every rule of counts passes; brokers since 4.0 count once a minute."""
    seen: list[dict[str, Any]] = []

    def agree() -> bool:
        seen.append(counts(cluster, capsys))
        return set(verdicts(seen[-1]).values()) == {"pass"}

    wait_until(agree, WITHIN_S, "counts and lists agree", every_s=5.0)
    return seen[-1]


def verdicts(document: dict[str, Any]) -> dict[str, str]:
    """The worst verdict of each rule."""
    order = ("pass", "inconclusive", "error", "fail")
    found: dict[str, str] = {}
    for each in document["findings"]:
        found[each["rule"]] = max(found.get(each["rule"], "pass"), each["verdict"], key=order.index)
    return found
