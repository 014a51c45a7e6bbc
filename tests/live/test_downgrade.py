"""The way of a real 4.3.1 to older releases: refused by group and feature, open once both are prepared."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from groupshift.adapters.kafka.requests import FeatureChange, update_features
from groupshift.cli.main import main
from groupshift.domain.group_protocol import Kind
from groupshift.domain.partitions import TopicPartition
from groupshift_sandbox.committing import commit
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.kraft import KraftOptions, start_kraft
from groupshift_sandbox.layout import Cluster
from groupshift_sandbox.processes import marked, stop, wait_until
from support.downgrade_story import QUIET, Assessed, groups_at

SIMPLE, NATIVE, TOPIC = "[/team]/simple", "app[prod] a b#c", "orders"
SESSION, SESSION_MS = "consumer.session.timeout.ms", "1800000"


@pytest.fixture(scope="module")
def stayed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node of 4.3.1 whose metadata 3.9 can read but for group.version."""
    home = Home(tmp_path_factory.mktemp("downgrade")).create()
    options = KraftOptions(
        release="4.3.1",
        heap="320m",
        format_arguments=("--release-version", "3.9", "--feature", "group.version=1"),
        properties={"offsets.topic.num.partitions": "3", **QUIET},
    )
    try:
        yield start_kraft(home, options)
    finally:
        for process in reversed(marked(home)):
            stop(process, 20.0)


def configure(bootstrap: str, group: str, operation: AlterConfigOpType) -> None:
    """Set or delete one configuration of a group."""
    entry = ConfigEntry(SESSION, SESSION_MS, incremental_operation=operation)
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    asked = admin.incremental_alter_configs(
        [ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])], request_timeout=30.0
    )
    for each in asked.values():
        each.result(timeout=60.0)


def passing(_folder: str, names: list[str]) -> list[str]:
    """Indexes, and the drafts that a broker that runs renames or deletes while they are listed."""
    return [name for name in names if name.endswith(("index", ".tmp", ".part", ".swap", ".cleaned"))]


def test_the_way_opens_when_groups_and_features_are_prepared(
    stayed: Cluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """4.3.1 at 3.9 with a native group to 3.9.2; a copy of the log says the same, and 3.4.0 stays closed."""
    bootstrap = stayed.bootstrap
    create_topic(bootstrap, TOPIC, 2)
    with groups_at(bootstrap, TOPIC) as groups:
        commit(
            groups.cluster,
            {SIMPLE: {TopicPartition(TOPIC, 0): (7, "")}, NATIVE: {TopicPartition(TOPIC, 0): (8, "")}},
        )
        member = groups.native(NATIVE, 2)
        configure(bootstrap, NATIVE, AlterConfigOpType.SET)
        groups.await_kinds({SIMPLE: Kind.CLASSIC, NATIVE: Kind.CONSUMER})
        wait_until(lambda: NATIVE in groups.look().group_configs, 60.0, "the group's configuration is told")
        closed = Assessed(bootstrap, capsys, "3.9.2", "--from", "4.3.1")
        assert (closed.code, closed.document["verdict"], closed.obstacles) == (0, "fail", set())
        assert closed.failed == {"W07", "W10", "W11", "H03", "H05"}  # a step answers each: a run may begin
        assert closed.said("W07")[0].startswith("1 group of type consumer ('app[prod] a b#c') with members")
        assert f"{SESSION}={SESSION_MS}" in closed.said("W10")[0]
        assert closed.said("W11") == ["feature group.version is finalised at 1; 3.9.2 reads up to 0"]
        assert closed.steps == [
            ("approve", "plan"), ("snapshot", "A"), ("convert", NATIVE), ("compare", "B"),
            ("delete-configs", NATIVE), ("lower", "group.version"), ("await-snapshot", "__cluster_metadata"),
            ("edit-properties", "1"), ("prove", "3.9.2"), ("compare", "C0"), ("replace", "1"),
            ("compare", "C1"),
        ]  # fmt: skip
        member.leave()
        groups.touch_classic(NATIVE)
        groups.await_kinds({NATIVE: Kind.CLASSIC})
        configure(bootstrap, NATIVE, AlterConfigOpType.DELETE)
        update_features(groups.cluster.broker(1), {"group.version": 0}, change=FeatureChange.SAFE_DOWNGRADE)
        wait_until(
            lambda: not groups.look().finalised.get("group.version") and not groups.look().group_configs,
            60.0,
            "feature and configuration are gone",
        )
    opened = Assessed(bootstrap, capsys, "3.9.2", "--from", "4.3.1")
    assert (opened.code, opened.document["ready"], opened.failed) == (0, True, set())
    assert opened.steps == [
        ("approve", "plan"), ("snapshot", "A"), ("await-snapshot", "__cluster_metadata"),
        ("edit-properties", "1"), ("prove", "3.9.2"), ("compare", "C0"), ("replace", "1"), ("compare", "C1"),
    ]  # fmt: skip
    assert opened.observed["groups"] == {
        SIMPLE: {"types": ["classic"], "state": "Empty", "protocol_type": ""},
        NATIVE: {"types": ["classic"], "state": "Empty", "protocol_type": "consumer"},
    }
    again = ["downgrade", "assess", "--to", "3.9.2", "--from", "4.3.1", "--bootstrap-servers", bootstrap]
    assert main([*again, "--timeout", "60"]) == 0
    shown = capsys.readouterr().out
    assert f"cluster {stayed.cluster_id}: a run may begin" in shown
    assert "the way to 3.9.2 (OLD coordinator)" in shown
    following = "groupshift downgrade run --to 3.9.2 --from 4.3.1 --state groupshift-state"
    assert shown.splitlines()[-1] == f"next: {following} --bootstrap-servers {bootstrap}"
    copy = tmp_path / "copy"
    shutil.copytree(stayed.nodes[0].folder, copy, ignore=passing)
    copied = Assessed(bootstrap, capsys, "3.9.2", "--from", "4.3.1", "--segments", str(copy))
    assert (copied.code, copied.observed["log"]) == (0, opened.observed["log"])
    assert opened.observed["log"]["new_types"]
    lost = Assessed(bootstrap, capsys, "3.4.0", "--from", "4.3.1")
    assert (lost.code, {"W12", "W16", "W17"} <= lost.failed, lost.steps) == (1, True, [])
    assert lost.said("W16")[0].startswith("2 of 2 groups are lost to 3.4.0 (OLD coordinator)")


def test_bad_input_is_said_in_one_sentence(
    stayed: Cluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Unknown releases and folders: exit code 2; the release that runs: not open."""
    servers = ["--bootstrap-servers", stayed.bootstrap, "--timeout", "60"]
    for options, said in (
        (["--to", "3.12.0"], "no release that groupshift knows"),
        (["--to", "3.9"], "give all its numbers"),
        (["--to", "3.5.2", "--coordinator", "new"], "has no new group coordinator"),
        (["--to", "3.9.2", "--segments", str(tmp_path / "none")], "is no folder"),
        (["--to", "3.9.2", "--segments", str(tmp_path)], "holds no segment file"),
    ):
        assert main(["downgrade", "assess", *options, *servers]) == 2
        error = capsys.readouterr().err
        assert (error.startswith("rejected: "), said in error) == (True, True), error
    same = Assessed(stayed.bootstrap, capsys, "4.3.1", "--from", "4.3.1")
    assert (same.code, "W03" in same.failed, same.steps) == (1, True, [])
