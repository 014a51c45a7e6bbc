"""Connections become settings; a missing or wrong one is refused with one clear sentence."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from groupshift.bootstrap import moves
from groupshift.engine.installed_moves import move_named
from groupshift.errors import Rejected
from groupshift.provider_info import get_provider_info
from groupshift_airflow import hooks, run_tasks


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
        extra={"sasl_mechanism": "DIGEST-MD5", "ssl_ca": "/etc/ca.pem"},
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
    place = run_tasks.run_place(found)
    assert found.evidence.signing_key == place.settings.evidence.signing_key == "hush-key"
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


_FORM = "groupshift_kafka"
SECURED = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "ssl.ca.location": "/tls/ca.pem",
    "ssl.certificate.location": "/tls/own.pem",
    "ssl.key.location": "/tls/own-key.pem",
    "ssl.key.password": "hush-key",
}


@pytest.mark.parametrize(
    "spelling", [str, lambda key: key.replace(".", "_"), lambda key: f"extra__{_FORM}__{key}"]
)
def test_f07_extra_fields_are_taken_in_either_spelling(
    monkeypatch: pytest.MonkeyPatch, spelling: Any
) -> None:
    """Dots, underscores, and the prefix of old forms; mutual TLS too."""
    extra = {spelling(key): value for key, value in SECURED.items()} | {
        "sasl_username": None,
        "ssl_crl_location": "",
    }
    host = {
        "conn_type": "groupshift_kafka",
        "host": "SASL_SSL://b1:9092",
        "login": "mover",
        "password": "hush",
    }
    _connect(monkeypatch, "spelt", **host, extra=extra)
    section = hooks.KafkaClusterHook("spelt").section()
    login = {"sasl.username": "mover", "sasl.password": "hush"}
    assert section == {"bootstrap_servers": "b1:9092", "properties": {**SECURED, **login}}


@pytest.mark.parametrize(
    ("hook", "extra", "sentence"),
    [
        (
            hooks.KafkaClusterHook,
            {"security.protokol": "SSL"},
            "'security.protokol' is not known; did you mean 'sec",
        ),
        (
            hooks.KafkaClusterHook,
            {"sasl_mechansim": "PLAIN"},
            "'sasl.mechansim' is not known; did you mean 'sasl.m",
        ),
        (hooks.KafkaClusterHook, {"group.id": "g"}, "'group.id' is not known"),
        (hooks.KafkaClusterHook, {"ssl.ca.location": ["/a"]}, "'ssl.ca.location' is no text"),
        (hooks.KafkaClusterHook, {"security.protocol": "SSL", "security_protocol": "PLAINTEXT"}, "twice"),
        (hooks.KafkaClusterHook, "hush", "its extra is no JSON object"),
        (hooks.KafkaClusterHook, "[1]", "its extra is no JSON object"),
        (
            hooks.ZookeeperHook,
            {"sasl_mechanisms": "DIGEST-MD5"},
            "'sasl.mechanisms' is not known; did you mean 'sasl",
        ),
        (
            hooks.ZookeeperHook,
            {"ssl_ca_location": "/ca.pem"},
            "'ssl.ca.location' is not known; did you mean 'ssl",
        ),
        (hooks.ZookeeperHook, {"chroot": "/kafka"}, "'chroot' is not known"),
        (hooks.KubernetesHook, {"namespace": "n"}, "'namespace' is not known"),
    ],
)
def test_f07_an_extra_field_that_is_not_known_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, hook: Any, extra: Any, sentence: str
) -> None:
    """With the nearest one that is; nothing is dropped without a word, no value is quoted."""
    _connect(monkeypatch, "odd", conn_type=hook.conn_type, host="h:1", extra=extra)
    with pytest.raises(Rejected, match=sentence) as caught:
        hook("odd").section()
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("uri", "section"),
    [
        ("groupshift-zookeeper://zk1:2181/kafka", ("zk1:2181", "/kafka")),
        ("groupshift-zookeeper://zk1%3A2181%2Czk2%3A2181/kafka", ("zk1:2181,zk2:2181", "/kafka")),
        ("groupshift-zookeeper://zk1:2181/kafka%2Fblue", ("zk1:2181", "/kafka/blue")),
        ("groupshift-zookeeper://[2001:db8::1]:2181/kafka", ("[2001:db8::1]:2181", "/kafka")),
    ],
)
def test_f07_a_uri_names_the_chroot_without_a_slash(
    monkeypatch: pytest.MonkeyPatch, uri: str, section: tuple[str, str]
) -> None:
    """Airflow takes the slash away, and the brackets of IPv6."""
    monkeypatch.setenv("AIRFLOW_CONN_ZK", uri)
    found = hooks.ZookeeperHook("zk").section()
    assert (found["hosts"], found["chroot"]) == section


def test_f07_a_chroot_may_stand_in_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in zookeeper.connect; two that differ are refused."""
    host = {"conn_type": "groupshift_zookeeper", "host": "z1:2181,z2/kafka"}
    _connect(monkeypatch, "zk", **host)
    found = hooks.ZookeeperHook("zk").section()
    assert (found["hosts"], found["chroot"]) == ("z1:2181,z2:2181", "/kafka")
    _connect(monkeypatch, "zk", **host, schema="other")
    with pytest.raises(Rejected, match="two chroots"):
        hooks.ZookeeperHook("zk").section()


@pytest.mark.parametrize(
    "written",
    ["groupshift-kafka://u:hush@b1:9092,b2:9092/", "{hush", '{"conn_type": "groupshift_kafka", "hush": 1}'],
)
def test_f07_a_connection_that_airflow_cannot_read_is_said_to_be_so(
    database: None, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    """Airflow itself says that it is not defined; that of a key that signs would mean not signed."""
    for hook in (hooks.KafkaClusterHook, hooks.ZookeeperHook, hooks.SigningHook):
        monkeypatch.setenv(f"AIRFLOW_CONN_{hook.default_conn_name.upper()}", written)
        with pytest.raises(Rejected, match=f"{hook.default_conn_name}' cannot be read") as caught:
            hook().section()
        assert "hush" not in str(caught.value)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_BAD", written)
    with pytest.raises(Rejected, match="'spark_bad' cannot be read"):
        hooks.require_spark("spark_bad")


def test_f07_a_connection_of_airflows_own_provider_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its extra is librdkafka's configuration; what only consumers need is set aside."""
    extra = {**SECURED, "bootstrap.servers": "b1:9092,b2:9092", "sasl.username": "u", "sasl.password": "hush"}
    _connect(
        monkeypatch,
        "theirs",
        conn_type="kafka",
        extra={
            **extra,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "error_cb": "m.f",
            "enable.auto.commit": False,
        },
    )
    section = hooks.KafkaClusterHook("theirs").section()
    servers = extra.pop("bootstrap.servers")
    assert section == {"bootstrap_servers": servers, "properties": extra}
    for more, sentence in (
        ({"no.such": "hush"}, "no.such"),
        ({"sasl.kerberos.service.name": "hush"}, "'sasl.kerberos.service.name' is not known"),
        ({"sasl.oauthbearer.config": "hush"}, "'sasl.oauthbearer.config' is not known"),
    ):
        _connect(monkeypatch, "theirs", conn_type="kafka", extra={"bootstrap.servers": "b:1", **more})
        with pytest.raises(Rejected, match=sentence) as caught:
            hooks.KafkaClusterHook("theirs").section()
        assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    "connection",
    [
        {"login": "u", "password": "hush"},
        {"extra": {"sasl.mechanism": "PLAIN"}},
        {"login": "u", "password": "hush", "extra": {"security.protocol": "SSL"}},
        {"extra": {"ssl_ca_location": "/ca.pem"}},
        {"extra": {"sasl.password": "hush", "sasl.username": "u"}},
    ],
)
@pytest.mark.parametrize("kind", ["groupshift_kafka", "kafka"])
def test_s04_a_connection_never_becomes_plaintext_silently(
    monkeypatch: pytest.MonkeyPatch, kind: str, connection: dict[str, Any]
) -> None:
    """A login or certificates without their protocol are refused, whichever way they are told."""
    rest = {key: value for key, value in connection.items() if key != "extra"}
    extra = {"bootstrap.servers": "b:9092", **connection.get("extra", {})}
    _connect(monkeypatch, "plain", conn_type=kind, extra=extra, **rest)
    with pytest.raises(Rejected, match=r"connection 'plain' .*has no effect .*security\.protocol") as caught:
        hooks.KafkaClusterHook("plain").section()
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("hook", "host"),
    [(hooks.KafkaClusterHook, "b:0"), (hooks.KafkaClusterHook, "u:hush@b:1"), (hooks.ZookeeperHook, "z;y")],
)
def test_f06_a_connection_is_held_to_the_same_parser(
    monkeypatch: pytest.MonkeyPatch, hook: Any, host: str
) -> None:
    """By the hook, before anything is asked."""
    _connect(monkeypatch, "odd", conn_type=hook.conn_type, host=host)
    with pytest.raises(Rejected, match="connection 'odd' cannot be used") as caught:
        hook("odd").section()
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("hook", [hooks.KafkaClusterHook, hooks.ZookeeperHook])
def test_f07_the_test_button_gets_an_answer(monkeypatch: pytest.MonkeyPatch, hook: Any) -> None:
    """Made as Airflow makes it; a sentence, whatever is wrong."""
    _connect(monkeypatch, "tried", conn_type=hook.conn_type, host="127.0.0.1:1")
    from airflow.sdk import BaseHook

    found = BaseHook.get_connection("tried")
    assert isinstance(found.get_hook(), hook)
    good, said = hook(**{hook.conn_name_attr: "tried"}).test_connection()
    assert not good
    assert "127.0.0.1:1" in said
    _connect(monkeypatch, "tried", conn_type=hook.conn_type, host="127.0.0.1:0")
    assert hook("tried").test_connection()[0] is False


def test_f07_the_forms_have_fields_for_mutual_tls() -> None:
    """Passwords are shown to nobody."""
    types = {each["connection-type"]: each["conn-fields"] for each in get_provider_info()["connection-types"]}
    for name, fields in (
        ("groupshift_kafka", ("ssl_certificate_location", "ssl_key_location", "ssl_key_password")),
        (
            "groupshift_zookeeper",
            ("sasl_mechanism", "ssl_ca", "ssl_certificate", "ssl_key", "ssl_key_password"),
        ),
    ):
        assert set(fields) <= set(types[name])
        assert types[name]["ssl_key_password"]["schema"]["format"] == "password"


def test_f07_the_forms_port_goes_before_a_chroot_in_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """It never becomes part of the path."""
    for host, port, hosts in (("z1/kafka", 2182, "z1:2182"), ("z1:2181,z2/kafka", 2182, "z1:2181,z2:2182")):
        _connect(monkeypatch, "zk", conn_type="groupshift_zookeeper", host=host, port=port)
        section = hooks.ZookeeperHook("zk").section()
        assert (section["hosts"], section["chroot"]) == (hosts, "/kafka")


@pytest.mark.parametrize("schema", ["SASL_SSL", "kafka", "/kafka"])
@pytest.mark.parametrize("kind", ["groupshift_kafka", "kafka"])
def test_f07_a_schema_of_a_kafka_connection_is_not_dropped_without_a_word(
    monkeypatch: pytest.MonkeyPatch, kind: str, schema: str
) -> None:
    """A protocol there would be PLAINTEXT, and a chroot there belongs to ZooKeeper."""
    extra = {"bootstrap.servers": "b1:9092"}
    _connect(monkeypatch, "odd", conn_type=kind, host="b1:9092", schema=schema, extra=extra)
    with pytest.raises(Rejected, match=r"connection 'odd' cannot be used: its schema .*security\.protocol"):
        hooks.KafkaClusterHook("odd").section()
    _connect(monkeypatch, "odd", conn_type=kind, host="b1:9092", schema="/", extra=extra)
    assert hooks.KafkaClusterHook("odd").section()["bootstrap_servers"] == "b1:9092"


def test_f07_a_uri_of_brokers_with_a_path_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its path is what Airflow calls the schema."""
    monkeypatch.setenv("AIRFLOW_CONN_ODD", "groupshift-kafka://b1:9092/kafka")
    with pytest.raises(Rejected, match="its schema 'kafka' has no meaning"):
        hooks.KafkaClusterHook("odd").section()


@pytest.mark.parametrize(
    ("host", "servers"),
    [
        ("b1:9092,b2:9092,b3", "b1:9092,b2:9092,b3:9093"),
        ("2001:db8::1", "[2001:db8::1]:9093"),
        ("[2001:db8::1]", "[2001:db8::1]:9093"),
    ],
)
def test_the_forms_port_is_the_last_servers(monkeypatch: pytest.MonkeyPatch, host: str, servers: str) -> None:
    """Several servers are no IPv6 address."""
    _connect(monkeypatch, "many", conn_type="groupshift_kafka", host=host, port=9093)
    assert hooks.KafkaClusterHook("many").section()["bootstrap_servers"] == servers


def test_a_spark_master_with_two_prefixes_keeps_its_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Airflow's own provider puts it together."""
    _connect(monkeypatch, "spark_k8s", conn_type="spark", host="k8s://https://api.test", port=6443)
    assert hooks.require_spark("spark_k8s") == "k8s://https://api.test:6443"


@pytest.mark.parametrize(
    ("move", "used"), [("coordination", True), ("downgrade", False), ("protocol", False)]
)
def test_roll_back_needs_zookeeper_only_for_a_move_that_has_it(dagbag: Any, move: str, *, used: bool) -> None:
    """Its form names the usual connection, and a deployment without one takes all other moves back."""
    named = dagbag.dags["roll_back"].params["zookeeper_conn_id"]
    assert named == "groupshift_zookeeper_default"
    assert run_tasks.uses_zookeeper(move_named(move), named) is used


def test_a_run_is_opened_without_a_connection_to_zookeeper_that_its_move_does_not_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It does not exist here; for a move that uses it, its sentence says so."""
    _connect(monkeypatch, "groupshift_kafka_default", conn_type="groupshift_kafka", host="b1:9092")
    task = run_tasks.RunTask(task_id="t", run="r")
    task.kafka_conn_id = "groupshift_kafka_default"
    task.zookeeper_conn_id = "groupshift_zookeeper_default"
    runs, opened = MagicMock(), []
    runs.find.return_value = SimpleNamespace(move="protocol", request='{"group": "g", "to": "consumer"}')
    monkeypatch.setattr(moves, "journal", lambda _settings: nullcontext(runs))
    monkeypatch.setattr(moves, "opened", lambda _move, place, _request: opened.append(place) or nullcontext())
    with task.opened() as found:
        assert found.settings.zookeeper.hosts == ""
    runs.find.return_value = SimpleNamespace(move="coordination", request='{"group": "g"}')
    with pytest.raises(Rejected, match="groupshift_zookeeper_default"), task.opened():
        pass
    assert len(opened) == 1
