"""Settings: everything wrong is said at once, and secrets are not repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupshift.errors import Rejected
from groupshift.settings import CommandSettings, KubernetesSettings, Thresholds, load, parse

GOOD = {
    "kafka": {
        "bootstrap_servers": "127.0.0.1:9092",
        "properties": {"security.protocol": "SASL_SSL", "sasl.password": "hush"},
    },
    "zookeeper": {"hosts": "127.0.0.1:2181", "chroot": "/kafka", "password": "hush"},
    "fleet": {"driver": "process", "socket": "/run/supervisor.sock"},
    "journal": {"url": "sqlite:///journal.db"},
    "evidence": {"root": "/evidence"},
}


def test_defaults_fill_what_is_not_said() -> None:
    """Spark and thresholds need not be named."""
    settings = parse(GOOD)
    assert settings.spark.master == "local[*]"
    assert settings.thresholds == Thresholds()
    assert settings.evidence.ledgers == ""


def test_all_problems_are_reported_together() -> None:
    """Unknown sections and keys, missing keys and wrong types in one sentence."""
    bad = {
        "kafka": {"bootstrap": "x"},
        "zookeeper": {"hosts": 1},
        "journal": {"url": "sqlite://"},
        "evidence": {"root": "/e"},
        "sparks": {},
    }
    with pytest.raises(Rejected) as caught:
        parse(bad, source="connection c")
    for clause in (
        "connection c",
        "unknown section [sparks]",
        "unknown key kafka.bootstrap",
        "kafka.bootstrap_servers is missing",
        "zookeeper.hosts is not a text",
    ):
        assert clause in str(caught.value)


@pytest.mark.parametrize(
    ("section", "values", "clause"),
    [
        ("zookeeper", {"hosts": "h:2181/kafka"}, "put it into zookeeper.chroot"),
        ("zookeeper", {"hosts": "h:2181", "chroot": "kafka"}, "is no path: one begins with /"),
        ("fleet", {"driver": "puppet"}, "'puppet' is none of process, manual"),
        ("fleet", {"driver": "process"}, "fleet.socket is missing"),
        ("fleet", {"driver": "command"}, "fleet.command.start is missing"),
        ("fleet", {"driver": "manual", "command": {"begin": ["a"]}}, "unknown key fleet.command.begin"),
        ("fleet", {"driver": "manual", "command": {"start": "a b"}}, "fleet.command.start is not a list of"),
        ("fleet", {"driver": "manual", "command": {"timeout_s": 0}}, "fleet.command.timeout_s 0 is less"),
        ("fleet", {"driver": "kubernetes", "kubernetes": 1}, "[fleet.kubernetes] is not a table"),
        (
            "fleet",
            {"driver": "kubernetes", "kubernetes": {"server": "https://a", "kubeconfig": "b"}},
            "keep one of both",
        ),
        (
            "fleet",
            {"driver": "kubernetes", "kubernetes": {"server": "http://k8s.test:8080"}},
            "'http://k8s.test:8080' is not an https:// URL",
        ),
        ("kafka", {"bootstrap_servers": " "}, "kafka.bootstrap_servers is empty"),
        ("thresholds", {"patience_s": -1}, "thresholds.patience_s -1 is negative"),
        ("spark", {"timeout_s": True}, "spark.timeout_s is not a whole number"),
        (
            "kafka",
            {"bootstrap_servers": "b:9092", "properties": {"a": 1}},
            "kafka.properties is not a table of texts",
        ),
    ],
)
def test_a_value_that_cannot_be_used_is_named(section: str, values: dict[str, object], clause: str) -> None:
    """Field and remedy."""
    with pytest.raises(Rejected) as caught:
        parse({**GOOD, section: values})
    assert clause in str(caught.value)


def test_a_driver_has_a_table_of_its_own() -> None:
    """Argument lists are kept in order; the other driver's table may stay empty."""
    commands = {"start": ["deploy", "{slots}"], "observe": ["look"], "undo": ["back"], "timeout_s": 5}
    fleet = parse({**GOOD, "fleet": {"driver": "command", "command": commands}}).fleet
    assert fleet.command == CommandSettings(
        start=("deploy", "{slots}"), observe=("look",), undo=("back",), timeout_s=5
    )
    assert fleet.kubernetes == KubernetesSettings()
    secret = {"server": "https://k8s.test:6443", "token": "hush"}
    kubernetes = parse({**GOOD, "fleet": {"driver": "kubernetes", "kubernetes": secret}})
    assert kubernetes.fleet.kubernetes.token == "hush"
    assert "hush" not in repr(kubernetes)


def test_secrets_are_in_no_text_of_the_settings() -> None:
    """Not in repr, which ends up in logs."""
    assert "hush" not in repr(parse(GOOD))


def test_a_file_that_is_missing_or_no_toml_is_named(tmp_path: Path) -> None:
    """With what to do about it."""
    with pytest.raises(Rejected, match="cannot be read"):
        load(tmp_path / "none.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("[kafka\n")
    with pytest.raises(Rejected, match="not valid TOML"):
        load(broken)


def test_s11_settings_say_who_may_approve() -> None:
    """One section for every move; wrong types are named."""
    found = parse({**GOOD, "approval": {"approvers": ["ann"], "four_eyes": True}}).approval
    assert (found.approvers, found.four_eyes) == (("ann",), True)
    with pytest.raises(Rejected, match=r"approval\.four_eyes is not true or false"):
        parse({**GOOD, "approval": {"four_eyes": 1}})
    with pytest.raises(Rejected, match=r"approval\.approvers is not a list of texts"):
        parse({**GOOD, "approval": {"approvers": "ann"}})
