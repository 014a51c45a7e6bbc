"""Addresses as people paste them: understood as Java does, or refused before anything is asked."""

from __future__ import annotations

from typing import Any

import pytest

from groupshift.cli.main import main
from groupshift.consumers import config as configuration
from groupshift.errors import Rejected
from groupshift.settings import Settings, ZookeeperSettings, parse

BASE: dict[str, Any] = {
    "fleet": {"driver": "manual"},
    "journal": {"url": "sqlite://"},
    "evidence": {"root": "/evidence"},
}
LOGIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "u"}
NO_KAFKA = [
    "https://b:9092",
    "kafka://b:9092",
    "://b:9092",
    "b:9092/",
    "b:9092/kafka",
    "b:0",
    "b:65536",
    "b:99999999999999999999",
    "b:port",
    "b:-1",
    "b:+1",
    "b:9_0",
    "b:٣",
    "b",
    "b:",
    "[::1]",
    "2001:db8::1",
    "[b]:9092",
    "[::1:9092",
    ":9092",
    "b..example:9092",
    ".b:9092",
    "-b:9092",
    "bröker:9092",
    "b\u200b:9092",
    "256.0.0.1:9092",
    "1.2.3:9092",
    "b" * 64 + ":9092",
    "b:9092;c:9092",
    "b:9092 c:9092",
    "b:9092\nc:9092",
    "'b:9092'",
    '"b:9092"',
    "b:9092,c",
    ",",
    "b:9092:9093",
    "[fe80::1%a\x00]:9092",
]
NO_ZOOKEEPER = [
    "zk://z:2181",
    "z:0",
    "z:2181;y:2181",
    "z:2181 y:2181",
    "z..y:2181",
    "z:two",
    '"z:2181"',
    "z:2181//kafka",
    "z:2181/kafka/",
    "z:2181/kafka,y:2181/kafka",
    "z:2181/kafka,y/kafka",
    "z/kafka,",
    "z:2181/../kafka",
    "/kafka",
]


def settings(servers: str, properties: dict[str, str] | None = None) -> Settings:
    """Settings with these bootstrap servers."""
    return parse({**BASE, "kafka": {"bootstrap_servers": servers, "properties": properties or {}}})


@pytest.mark.parametrize("servers", NO_KAFKA)
def test_f06_what_cannot_be_a_broker_is_refused_by_settings_with_the_form(servers: str) -> None:
    """Field, value and form."""
    with pytest.raises(Rejected, match=r"kafka\.bootstrap_servers .* cannot be used .*: write host:port"):
        settings(servers)


@pytest.mark.parametrize("servers", NO_KAFKA)
def test_f06_what_cannot_be_a_broker_is_refused_by_consumers(servers: str) -> None:
    """Of either key that names brokers."""
    good = {"group.id": "g", "zookeeper.connect": "z:2181", "bootstrap.servers": "k:9092"}
    for key in ("bootstrap.servers", "coordination.migration.bootstrap.servers"):
        with pytest.raises(Rejected, match=rf"{key} .* cannot be used .*: write host:port"):
            configuration.parse({**good, key: servers}, migrating=True)


@pytest.mark.parametrize(
    ("servers", "taken"),
    [
        (" b:9092 , c:9093\n", "b:9092,c:9093"),
        ("b:9092,,c:9092,", "b:9092,c:9092"),
        ("PLAINTEXT://b:9092,plaintext://c:9092", "b:9092,c:9092"),
        ("::1:9092", "[::1]:9092"),
        ("PLAINTEXT://[2001:db8::1]:9092", "[2001:db8::1]:9092"),
        ("b:0009092", "b:9092"),
        ("PLAINTEXT://[fe80::1%eth0]:9092", "[fe80::1%eth0]:9092"),
    ],
)
def test_f06_what_java_understands_is_understood_alike(servers: str, taken: str) -> None:
    """And told to every client in one form."""
    assert settings(servers).kafka.bootstrap_servers == taken
    raw = {"group.id": "g", "zookeeper.connect": "z:2181", "bootstrap.servers": servers}
    config = configuration.parse(raw, migrating=True)
    assert config.fetcher()["bootstrap.servers"] == config.embedded()["bootstrap.servers"] == taken


def test_f06_a_prefix_has_to_agree_with_the_security_protocol() -> None:
    """It neither sets it nor is it ignored: the connection would be another one than it says."""
    pasted = "SASL_SSL://pkc-4r000.europe-west1.gcp.confluent.cloud:9092"
    assert settings(pasted, LOGIN).kafka.bootstrap_servers == pasted.removeprefix("SASL_SSL://")
    for properties in ({}, {"security.protocol": "SSL"}):
        with pytest.raises(Rejected, match=r"its prefix says SASL_SSL, security.protocol is"):
            settings(pasted, properties)


@pytest.mark.parametrize("servers", ["SASL_SSL://b:9092", "b:0", "b..c:9092", "b:9092;c:9092", "b:9092/"])
@pytest.mark.parametrize(
    "verb",
    [
        ["audit", "placement"],
        ["snapshot", "--all"],
        ["expansion", "plan", "--to", "8"],
        ["protocol", "assess", "--group", "g", "--to", "classic"],
    ],
)
def test_f06_options_are_refused_by_the_same_parser(
    verb: list[str], servers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 and the option's name, whatever the verb."""
    assert main([*verb, "--bootstrap-servers", servers]) == 2
    said = capsys.readouterr().err
    assert "--bootstrap-servers" in said
    assert "cannot be used" in said


@pytest.mark.parametrize("hosts", NO_ZOOKEEPER)
def test_f06_what_cannot_be_zookeeper_is_refused(hosts: str) -> None:
    """By settings, where a path has its own key, and by consumers, where it stands at the end."""
    with pytest.raises(Rejected, match=r"zookeeper\.(hosts|chroot) "):
        ZookeeperSettings(hosts=hosts)
    raw = {"group.id": "g", "zookeeper.connect": hosts, "bootstrap.servers": "k:9092"}
    with pytest.raises(Rejected, match=r"zookeeper\.connect .* cannot be used .*: write host:port"):
        configuration.parse(raw, migrating=True)


@pytest.mark.parametrize(
    ("connect", "taken"),
    [
        ("z", "z:2181"),
        (" z:2181 , y:2182 /kafka".replace(" /", "/"), "z:2181,y:2182/kafka"),
        ("z:2181/", "z:2181"),
        ("::1:2181/a/b", "[::1]:2181/a/b"),
        ("z:2181,", "z:2181"),
    ],
)
def test_f06_what_zookeeper_understands_is_understood_alike(connect: str, taken: str) -> None:
    """A missing port is 2181, one chroot stands at the end."""
    raw = {"group.id": "g", "zookeeper.connect": connect, "bootstrap.servers": "k:9092"}
    assert configuration.parse(raw, migrating=True).zookeeper == taken


@pytest.mark.parametrize("chroot", ["/kafka/", "//kafka", "/a/../b", "/kafka\x00", "/kafka "])
def test_f06_a_chroot_that_is_no_path_is_refused(chroot: str) -> None:
    """As ZooKeeper would, before it is asked."""
    with pytest.raises(Rejected, match=r"zookeeper\.chroot cannot be used"):
        ZookeeperSettings(hosts="z:2181", chroot=chroot)


@pytest.mark.parametrize(
    "pasted",
    ["u:hush@b:9092", "SASL_SSL://u:hush@b:9092", "u:hu,sh@b:9092", "u:hush%40b:9092", "b:1,u:hush@c:1"],
)
def test_s14_a_password_in_an_address_is_refused_and_not_repeated(pasted: str) -> None:
    """In no sentence, no cause and no context, of either kind of address."""
    raw = {"group.id": "g", "zookeeper.connect": pasted, "bootstrap.servers": pasted}
    for work in (
        lambda: settings(pasted),
        lambda: parse({**BASE, "kafka": {"bootstrap_servers": "b:1"}, "zookeeper": {"hosts": pasted}}),
        lambda: configuration.parse(raw, migrating=True),
    ):
        with pytest.raises(Rejected, match="not shown") as caught:
            work()
        seen: BaseException | None = caught.value
        while seen is not None:
            assert "hu" not in str(seen).replace("hush", "hu").replace("shut", "")
            seen = seen.__cause__ or seen.__context__


@pytest.mark.parametrize(
    "server",
    [
        "http://127.0.0.1.evil.example",
        "http://localhost.evil.example:8001",
        "http://localhostevil",
        "http://[::1].evil.example",
        "http://127.0.0.1:80@evil.example",
        "http://127.0.0.1\\.evil.example",
        "http://127.0.0.1#.evil.example",
        "http://127.0.0.1?.evil.example",
        "https://",
        "https://h:0",
        "https://h:99999",
        "https://a..b",
    ],
)
def test_s14_the_token_goes_to_https_or_to_this_machine(server: str) -> None:
    """The host is parsed; a name that only begins like this machine is another one."""
    fleet = {"driver": "kubernetes", "kubernetes": {"server": server, "token": "t"}}
    if server.startswith("https"):
        with pytest.raises(Rejected, match=r"fleet\.kubernetes\.server"):
            parse({**BASE, "kafka": {"bootstrap_servers": "b:1"}, "fleet": fleet})
        return
    with pytest.raises(Rejected, match=r"fleet\.kubernetes\.server .*(is not an https://|not shown)"):
        parse({**BASE, "kafka": {"bootstrap_servers": "b:1"}, "fleet": fleet})


@pytest.mark.parametrize(
    "server", ["https://u:hush@k8s.test", "http://u:hush@127.0.0.1:8001", "http://hush@k"]
)
def test_s14_a_password_in_the_server_is_refused_and_not_repeated(server: str) -> None:
    """Nor is one with https taken."""
    fleet = {"driver": "kubernetes", "kubernetes": {"server": server}}
    with pytest.raises(Rejected, match="not shown") as caught:
        parse({**BASE, "kafka": {"bootstrap_servers": "b:1"}, "fleet": fleet})
    assert "hush" not in str(caught.value)


def test_s14_a_kubeconfig_is_held_to_the_same_rule(tmp_path: Any) -> None:
    """Its token would be sent in the clear as well."""
    from groupshift.adapters.drivers.kubernetes import KubernetesApi
    from groupshift.settings import KubernetesSettings

    file = tmp_path / "config"
    file.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
        "clusters: [{name: k, cluster: {server: 'http://127.0.0.1.evil.example:1'}}]\n"
        "users: [{name: u, user: {token: hush}}]\n"
    )
    api = KubernetesApi(KubernetesSettings(kubeconfig=str(file)))
    with pytest.raises(Rejected, match="sent in the clear"):
        api.find("pods", "")


@pytest.mark.parametrize(
    "properties",
    [
        {"sasl.username": "u", "sasl.password": "hush"},
        {"sasl.mechanism": "PLAIN"},
        {"sasl.mechanisms": "PLAIN", "security.protocol": "SSL"},
        {"sasl.password": "hush", "security.protocol": "plaintext"},
        {"sasl.username": "u", "security.protocol": ""},
        {"ssl.ca.location": "/ca.pem"},
        {"ssl.crl.location": "/crl.pem"},
        {"ssl.certificate.location": "/c.pem", "ssl.key.location": "/k.pem"},
        {"ssl.key.password": "hush", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"},
    ],
)
def test_s04_a_login_that_the_protocol_does_not_use_is_refused_everywhere(properties: dict[str, str]) -> None:
    """Settings, the tool's clients, consumers of every kind and their embedded ones."""
    from groupshift.adapters.kafka.cluster import access_of
    from groupshift.consumers.plain import PlainConsumer
    from groupshift.domain.group_protocol import Protocol

    good = {"group.id": "g", "zookeeper.connect": "z:2181", "bootstrap.servers": "k:9092"}
    prefixed = {f"coordination.migration.{key}": value for key, value in properties.items()}
    plain = {**good, **properties, "client.id": "c"}
    plain.pop("zookeeper.connect")
    for work in (
        lambda: settings("b:9092", properties),
        lambda: access_of(properties),
        lambda: configuration.parse({**good, **properties}, migrating=True),
        lambda: configuration.parse({**good, **properties}, migrating=False),
        lambda: configuration.parse({**good, **prefixed}, migrating=True),
        lambda: PlainConsumer(plain, ["t"], Protocol.CLASSIC),
    ):
        with pytest.raises(Rejected, match=r"has no effect .*set .*security\.protocol to") as caught:
            work()
        assert "hush" not in str(caught.value)


@pytest.mark.parametrize("key", ["sasl.kerberos.keytab", "sasl.oauthbearer.config", "sasl.jaas.config"])
def test_s04_no_way_to_log_in_is_left_out_silently(key: str) -> None:
    """Whatever the mechanism is called."""
    good = {"group.id": "g", "zookeeper.connect": "z:2181", "bootstrap.servers": "k:9092"}
    for work in (
        lambda: settings("b:9092", {key: "hush"}),
        lambda: configuration.parse({**good, key: "hush"}, migrating=True),
    ):
        with pytest.raises(Rejected, match=rf"{key} has no effect .*security\.protocol to SASL") as caught:
            work()
        assert "hush" not in str(caught.value)


def test_s04_a_mechanism_under_both_of_its_names_is_said_once() -> None:
    """Of the two, librdkafka takes the last; the same value twice does no harm."""
    login = {"security.protocol": "SASL_SSL", "sasl.username": "u", "sasl.password": "hush"}
    both = {**login, "sasl.mechanisms": "SCRAM-SHA-512", "sasl.mechanism": "PLAIN"}
    good = {"group.id": "g", "zookeeper.connect": "z:2181", "bootstrap.servers": "k:9092"}
    for work in (
        lambda: settings("b:9092", both),
        lambda: configuration.parse({**good, **both}, migrating=True),
    ):
        with pytest.raises(Rejected, match=r"sasl\.mechanism is 'PLAIN' and .*, its other name") as caught:
            work()
        assert "remove one of them" in str(caught.value)
        assert "hush" not in str(caught.value)
    assert settings("b:9092", {**both, "sasl.mechanism": "SCRAM-SHA-512"})


@pytest.mark.parametrize("address", ["h:0", "h:\u00b2", "h:9999;i:9999", "h..i:9999"])
def test_f06_an_address_of_jmx_is_refused_before_brokers_are_asked(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The one option that names another server than Kafka's or ZooKeeper's."""
    asked = ["downgrade", "assess", "--to", "3.9.2", "--bootstrap-servers", "127.0.0.1:1"]
    assert main([*asked, "--jmx", address]) == 2
    assert "is no host:port" in capsys.readouterr().err


@pytest.mark.parametrize("servers", ["b:0", "b;c:9092", "SASL_SSL://b:9092", "u:hush@b:9092"])
def test_f06_brokers_by_librdkafkas_other_key_are_held_to_the_same_parser(servers: str) -> None:
    """``metadata.broker.list`` is the same property."""
    from groupshift.consumers.plain import PlainConsumer
    from groupshift.domain.group_protocol import Protocol

    config = {"client.id": "c", "group.id": "g", "metadata.broker.list": servers}
    with pytest.raises(Rejected, match=r"metadata\.broker\.list ") as caught:
        PlainConsumer(config, ["t"], Protocol.CLASSIC)
    assert "hush" not in str(caught.value)
