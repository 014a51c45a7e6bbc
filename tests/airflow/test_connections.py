"""Connections become settings; a missing or wrong one is refused with one clear sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from groupshift.errors import Rejected
from groupshift.provider_info import get_provider_info
from groupshift_airflow import hooks, run_places


def _connect(monkeypatch: pytest.MonkeyPatch, name: str, **connection: Any) -> None:
    monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(connection))


def test_a_kafka_connection_becomes_librdkafka_properties(monkeypatch: pytest.MonkeyPatch) -> None:
    """Host, SASL login and the form's extra fields."""
    _connect(
        monkeypatch,
        "secured",
        conn_type="groupshift_kafka",
        host="b1:9092,b2:9092",
        login="mover",
        password="hush",
        extra={"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512"},
    )
    assert hooks.KafkaClusterHook("secured").section() == {
        "bootstrap_servers": "b1:9092,b2:9092",
        "properties": {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "mover",
            "sasl.password": "hush",
        },
    }


def test_a_zookeeper_connection_carries_chroot_and_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Schema is the chroot."""
    _connect(monkeypatch, "zk", conn_type="groupshift_zookeeper", host="z1:2181,z2:2181", schema="/kafka")
    assert hooks.ZookeeperHook("zk").section() == {
        "hosts": "z1:2181,z2:2181",
        "chroot": "/kafka",
        "username": "",
        "password": "",
    }


def test_a_zookeeper_connection_carries_sasl_and_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a mechanism in the extra fields, login and password are SASL's."""
    _connect(
        monkeypatch,
        "zk",
        conn_type="groupshift_zookeeper",
        host="z1:2281",
        login="operator",
        password="hush",
        extra={"sasl_mechanism": "DIGEST-MD5", "ssl_ca": "/etc/ca.pem", "other": "ignored"},
    )
    assert hooks.ZookeeperHook("zk").section() == {
        "hosts": "z1:2281",
        "chroot": "",
        "properties": {
            "sasl.mechanism": "DIGEST-MD5",
            "ssl.ca": "/etc/ca.pem",
            "sasl.username": "operator",
            "sasl.password": "hush",
        },
    }


@pytest.mark.parametrize(
    ("connection", "sentence"),
    [
        (None, "connection 'odd' does not exist; create it under Admin > Connections"),
        ({"conn_type": "http", "host": "b1:9092"}, "connection 'odd' has type 'http'; it must be"),
        ({"conn_type": "groupshift_kafka"}, "connection 'odd' has no host; fill in the servers"),
    ],
)
def test_a_missing_or_wrong_connection_is_refused_by_name(
    database: None, monkeypatch: pytest.MonkeyPatch, connection: Any, sentence: str
) -> None:
    """The sentence names the connection, what is wrong and the remedy."""
    if connection:
        _connect(monkeypatch, "odd", **connection)
    with pytest.raises(Rejected, match=sentence):
        hooks.KafkaClusterHook("odd").section()


def test_a_missing_spark_connection_is_refused(database: None) -> None:
    """Airflow itself would silently submit to YARN."""
    with pytest.raises(Rejected, match="connection 'spark_nowhere' does not exist"):
        hooks.require_spark("spark_nowhere")


def test_an_unusable_settings_file_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Journal, evidence and fleet come from one file per deployment."""
    monkeypatch.setenv(hooks.SETTINGS_VARIABLE, str(tmp_path / "absent.toml"))
    with pytest.raises(Rejected, match=r"absent\.toml"):
        hooks.base_settings()


def test_without_a_settings_file_people_deploy_and_the_journal_is_local(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The defaults are complete settings."""
    monkeypatch.delenv(hooks.SETTINGS_VARIABLE, raising=False)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    assert hooks.base_settings()["fleet"] == {"driver": "manual"}


def test_the_login_of_the_kubernetes_api_is_a_connection(
    database: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Server, token and CA come from it, the namespace from the settings; other drivers need none."""
    assert hooks._with_login({"driver": "manual"}) == {"driver": "manual"}
    assert hooks._with_login({"driver": "kubernetes"}) == {"driver": "kubernetes"}, "inside a cluster"
    _connect(
        monkeypatch,
        "groupshift_kubernetes_default",
        conn_type="groupshift_kubernetes",
        host="https://k8s.test:6443",
        password="hush",
        extra={"ca": "/certs/ca.pem"},
    )
    told = hooks._with_login({"driver": "kubernetes", "kubernetes": {"namespace": "shop"}})["kubernetes"]
    server = "https://k8s.test:6443"
    assert told == {"namespace": "shop", "server": server, "token": "hush", "ca": "/certs/ca.pem"}
    named = {"driver": "kubernetes", "kubernetes": {"kubeconfig": "/config"}}
    assert hooks._with_login(named) == named


def test_the_key_that_signs_evidence_is_a_connection(
    database: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its password is the key; without the connection nothing is signed; the key is in no representation."""
    assert hooks.SigningHook().section() == {}
    for name in ("kafka", "zookeeper"):
        host = {"conn_type": f"groupshift_{name}", "host": "b:1"}
        _connect(monkeypatch, f"groupshift_{name}_default", **host)
    _connect(monkeypatch, "groupshift_signing_default", conn_type="groupshift_signing", password="hush-key")
    monkeypatch.delenv(hooks.SETTINGS_VARIABLE, raising=False)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    found = hooks.cluster_settings("groupshift_kafka_default", "groupshift_zookeeper_default")
    place, _ = run_places.place_and_driver("groupshift_kafka_default", "expansions")
    assert found.evidence.signing_key == place.signing_key == "hush-key"
    assert "hush" not in repr(found) + repr(place)


def test_the_provider_describes_both_forms_with_hooks_that_exist() -> None:
    """Airflow's UI shows a form for each connection type, and its hook class is ours."""
    types = {each["connection-type"]: each for each in get_provider_info()["connection-types"]}
    names = ("kafka", "zookeeper", "kubernetes", "signing")
    assert set(types) == {f"groupshift_{name}" for name in names}
    for name, hook in (
        ("groupshift_kafka", hooks.KafkaClusterHook),
        ("groupshift_zookeeper", hooks.ZookeeperHook),
        ("groupshift_kubernetes", hooks.KubernetesHook),
        ("groupshift_signing", hooks.SigningHook),
    ):
        assert types[name]["hook-class-name"] == f"{hook.__module__}.{hook.__name__}"
        assert (hook.conn_type, hook.hook_name) == (name, types[name]["hook-name"])
