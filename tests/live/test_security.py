"""Members and the tool where ZooKeeper and Kafka ask who they are: logins, TLS, ACLs, least privilege."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import uuid
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoAuthError, NoNodeError
from kazoo.security import make_acl

from groupshift.adapters.zookeeper.login import WORLD, ZookeeperLogin, make_client
from groupshift.adapters.zookeeper.mode_brake_and_rights import ZookeeperModeSwitch, ZookeeperRights
from groupshift.adapters.zookeeper.session import ZookeeperConnection
from groupshift.consumers import MigratingConsumer
from groupshift.consumers import config as member_configuration
from groupshift.consumers.zookeeper_session import FOR_EVER, Relogin
from groupshift.domain.modes import ABSENT_MODE, Holder, Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.verdict import Verdict
from groupshift.errors import Rejected, Transient
from groupshift.settings import parse
from groupshift_sandbox import legacy
from groupshift_sandbox.certificates import make_certificates
from groupshift_sandbox.faults import start_relay
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.processes import Running, free_port, marked, start, stop, wait_until
from groupshift_sandbox.producer import NumberedProducer
from groupshift_sandbox.zookeeper import ZookeeperOptions, start_zookeeper
from support.coordination_app import GroupApp, coordination_app
from support.reading_member import ReadingMember
from support.secured_sandbox import (
    GROUP_DESCRIBE,
    GROUP_READ,
    PASSWORDS,
    TOPIC_DESCRIBE,
    TOPIC_READ,
    Secured,
    start_secured,
)

PARTITIONS = 4
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Both servers, once for this file."""
    home = Home(tmp_path_factory.mktemp("secured")).create()
    try:
        yield start_secured(home)
    finally:
        for process in reversed(marked(home)):
            stop(process, 10.0)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a broker says to a login is waited for, however slow the machine is."""
    monkeypatch.setattr(member_configuration, "_ANSWER_S", PATIENCE_S)


@pytest.fixture
def group() -> str:
    """A group name of this test's own."""
    return f"group-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic(secured: Secured, group: str) -> str:
    """A topic that ``orders`` may read, as a member of ``group``."""
    name = f"topic-{uuid.uuid4().hex[:8]}"
    create_topic(secured.bootstrap, name, PARTITIONS)
    secured.grant("orders", name, [TOPIC_READ])
    secured.grant("orders", group, [GROUP_READ])
    return name


@pytest.fixture
def look(secured: Secured) -> Iterator[KazooClient]:
    """A session without credentials: everybody may read."""
    client = make_client(secured.zookeeper, 10.0)
    client.start(timeout=60)
    yield client
    client.stop()
    client.close()


@pytest.fixture
def join(secured: Secured, group: str) -> Iterator[Callable[..., ReadingMember]]:
    """Factory: a member of this library at the TLS ports; closed after the test."""
    members = []

    def run(name: str, topic: str, without: Collection[str] = (), **properties: str) -> ReadingMember:
        configuration = secured.member(group, name, **properties)
        used = {key: value for key, value in configuration.items() if key not in without}
        members.append(ReadingMember(MigratingConsumer(used)))
        return members[-1].join({topic: 1})

    yield run
    for member in members:
        member.close()


@pytest.fixture
def scala(secured: Secured, group: str) -> Iterator[Callable[..., Running]]:
    """Factory: a Scala member 1.1.1 that logs in at ZooKeeper; ended after the test."""
    started: list[Running] = []

    def run(name: str, topic: str) -> Running:
        member = legacy.ScalaMember(
            release="1.1.1",
            group=group,
            consumer_id=name,
            topics=[topic],
            zookeeper=secured.zookeeper,
            java=[secured.jaas("orders")],
        )
        command = legacy.command(secured.home, member, file_name=f"{group}_{name}_{len(started)}")
        started.append(start(secured.home, command))
        return started[-1]

    yield run
    for process in started:
        stop(process, 20.0)


def owners(look: KazooClient, group: str, topic: str) -> list[str]:
    """The names that own partitions, one entry a partition, in order."""
    parent = f"/consumers/{group}/owners/{topic}"
    if not look.exists(parent):
        return []
    found = [look.get(f"{parent}/{each}")[0].decode() for each in look.get_children(parent)]
    return sorted(each.removeprefix(f"{group}_").rpartition("-")[0] for each in found)


def await_owners(look: KazooClient, group: str, topic: str, expected: list[str]) -> None:
    """Wait until exactly these own the partitions."""

    def reached() -> bool:
        try:
            return owners(look, group, topic) == expected
        except NoNodeError:  # released since the listing
            return False

    wait_until(reached, PATIENCE_S, f"owners are {expected}")


def test_a_mixed_group_shares_the_old_members_identity(secured, group, topic, look, join, scala):
    """Scala by JAAS and ours by TLS and SCRAM hand partitions over both ways, with one ACL on their nodes."""
    legacy.seed_offsets(secured.zookeeper, group, topic, PARTITIONS, login=secured.login("orders"))
    old = scala("a-old", topic)
    await_owners(look, group, topic, ["a-old"] * 4)
    root = f"/consumers/{group}"
    by_scala = look.get_acls(f"{root}/owners/{topic}/0")[0]
    new = join("b-new", topic)
    await_owners(look, group, topic, ["a-old", "a-old", "b-new", "b-new"])
    stop(old, 20.0)
    await_owners(look, group, topic, ["b-new"] * 4)
    producer = NumberedProducer(secured.bootstrap, topic, PARTITIONS)
    for sequence in range(5 * PARTITIONS):
        producer.send(sequence % PARTITIONS)
    producer.flush()
    every = {TopicPartition(topic, number): set(range(5)) for number in range(PARTITIONS)}
    wait_until(
        lambda: {at: set(offsets) for at, offsets in dict(new.delivered).items()} == every,
        PATIENCE_S,
        "all records were delivered",
    )
    wait_until(
        lambda: new.consumer.statistics()["kafka_owned_partitions_count"] == PARTITIONS,
        PATIENCE_S,
        "the Kafka group let it in",
    )
    scala("a-old", topic)
    await_owners(look, group, topic, ["a-old", "a-old", "b-new", "b-new"])
    assert new.errors == []
    assert [(each.id.scheme, each.id.id) for each in by_scala] == [("sasl", "orders"), ("world", "anyone")]
    for node in ("owners", f"owners/{topic}", f"owners/{topic}/3", f"offsets/{topic}/3"):
        assert look.get_acls(f"{root}/{node}")[0] == by_scala, node
    for node in ("ids", "ids/" + f"{group}_b-new", "migration/ids", f"migration/ids/{group}_b-new"):
        assert tuple(look.get_acls(f"{root}/{node}")[0]) == WORLD, node


@pytest.mark.parametrize("user", ["stranger", None])
def test_another_identity_is_refused_before_it_keeps_a_share(secured, group, topic, look, join, user):
    """It could register but never own: subscribing fails and names the key to correct."""
    join("m1", topic)
    await_owners(look, group, topic, ["m1"] * 4)
    acl = look.get_acls(f"/consumers/{group}/owners/{topic}")[0]
    assert [(each.id.id, each.acl_list) for each in acl] == [("orders", ["ALL"]), ("anyone", ["READ"])]
    configuration = secured.member(group, "m2", **secured.kafka_properties("orders"))
    login = {f"zookeeper.sasl.{key}" for key in ("mechanism", "username", "password")}
    if user is None:
        configuration = {key: value for key, value in configuration.items() if key not in login}
    else:
        configuration |= {"zookeeper.sasl.username": user, "zookeeper.sasl.password": PASSWORDS[user]}
    consumer = MigratingConsumer(configuration)
    with pytest.raises(Rejected, match=r"zookeeper\.sasl\.username: .*may not create below") as refused:
        consumer.subscribe({topic: 1})
    assert str(user or "without credentials") in str(refused.value)
    assert PASSWORDS["stranger"] not in str(refused.value)
    assert look.get_children(f"/consumers/{group}/ids") == [f"{group}_m1"]
    with pytest.raises(NoAuthError):
        look.create(f"/consumers/{group}/owners/{topic}/9", b"")


def test_a_member_that_may_no_longer_own_raises_an_alarm(secured, group, topic, look, join):
    """The nodes were given to somebody else while it ran; it goes on with what it holds, and says it."""
    member = join("m1", topic)
    await_owners(look, group, topic, ["m1"] * 4)
    parent = f"/consumers/{group}/owners/{topic}"
    owner = make_client(secured.zookeeper, 10.0, secured.login("orders"))
    owner.start(timeout=60)
    owner.set_acls(parent, [make_acl("world", "anyone", read=True, delete=True)])
    owner.stop()
    owner.close()
    look.delete(f"{parent}/2")

    def said() -> bool:
        return any("zookeeper.sasl.username" in alarm for alarm in member.consumer.statistics()["alarms"])

    wait_until(said, PATIENCE_S, "the alarm names the key")
    assert owners(look, group, topic) == ["m1"] * 3


def test_fetching_and_the_membership_may_use_different_listeners(secured, group, topic, look, join):
    """The old listener for records, TLS and SCRAM for the group: the prefixed keys are the membership's."""
    plain = {"security.protocol": "PLAINTEXT", "bootstrap.servers": secured.bootstrap}
    login = secured.kafka_properties("orders")
    prefixed = {f"coordination.migration.{key}": value for key, value in login.items()}
    prefixed["coordination.migration.bootstrap.servers"] = secured.bootstrap_tls
    member = join("m1", topic, without=login.keys() - plain.keys(), **plain, **prefixed)
    await_owners(look, group, topic, ["m1"] * 4)
    wait_until(
        lambda: member.consumer.statistics()["kafka_owned_partitions_count"] == PARTITIONS,
        PATIENCE_S,
        "the Kafka group let it in",
    )
    config = member.consumer._config
    protocols = (config.fetcher()["security.protocol"], config.embedded()["security.protocol"])
    assert protocols == ("PLAINTEXT", "SASL_SSL")


@pytest.mark.parametrize("prefix", ["", "coordination.migration."])
def test_a_login_that_kafka_refuses_is_no_member(secured, group, topic, look, prefix):
    """Registered it would own partitions and read nothing: subscribing fails before."""
    consumer = MigratingConsumer({**secured.member(group, "m1"), f"{prefix}sasl.password": "looking-glass-2"})
    with pytest.raises(
        Rejected, match=r"refuse user 'orders' .*: correct " + re.escape(prefix) + "sasl"
    ) as told:
        consumer.subscribe({topic: 1})
    consumer.close()
    assert "looking-glass-2" not in str(told.value)
    assert not look.exists(f"/consumers/{group}/ids")


def test_a_member_shows_its_passwords_to_nobody(secured, group, topic, look, join, caplog):
    """Not in the log, even at DEBUG, nor in its nodes or its configuration's text."""
    caplog.set_level(logging.DEBUG)
    member = join("m1", topic)
    await_owners(look, group, topic, ["m1"] * 4)
    nodes = [
        look.get(f"/consumers/{group}/{each}/{group}_m1")[0].decode() for each in ("ids", "migration/ids")
    ]
    assert "Connecting to" in caplog.text
    for place in (caplog.text, *nodes, repr(member.consumer._config), repr(member.consumer.statistics())):
        assert PASSWORDS["orders"] not in place


def test_a_topic_that_the_member_may_not_read_is_named(secured, group, topic):
    """Instead of waiting for records that never come."""
    other = f"topic-{uuid.uuid4().hex[:8]}"
    create_topic(secured.bootstrap, other, 1)
    consumer = MigratingConsumer(secured.member(group, "m1"))
    with pytest.raises(Rejected, match=f"do not show topic '{other}' to user 'orders': grant it Read"):
        consumer.subscribe([topic, other])
    consumer.close()


def test_an_authority_that_did_not_sign_the_servers_is_refused(secured, group, topic, tmp_path):
    """By both: ZooKeeper's client cannot tell it from silence and says where to look, librdkafka can."""
    strange = str(make_certificates(tmp_path / "strange").authority)
    at_kafka = MigratingConsumer({**secured.member(group, "m1"), "ssl.ca.location": strange})
    with pytest.raises(Rejected, match=r"correct ssl\.\*"):
        at_kafka.subscribe([topic])
    short = {"zookeeper.ssl.ca": strange, "zookeeper.connection.timeout.ms": "1500"}
    at_zookeeper = MigratingConsumer({**secured.member(group, "m1"), **short})
    with pytest.raises(Transient, match=r"or zookeeper\.ssl\.\* does not fit"):
        at_zookeeper.subscribe([topic])


def test_a_wrong_password_is_refused_at_once_and_never_shown(secured, group, topic):
    """Not retried for ever."""
    wrong = {"zookeeper.sasl.password": "wonder-land-1"}
    consumer = MigratingConsumer({**secured.member(group, "m1"), **wrong})
    with pytest.raises(Rejected, match=r"user 'orders' may not log in") as refused:
        consumer.subscribe({topic: 1})
    assert "wonder-land-1" not in f"{refused.value!r} {consumer._config!r}"


@pytest.fixture
def tool(secured: Secured, tmp_path: Path) -> Iterator[Callable[[str, str], GroupApp]]:
    """Factory: the tool, logged in at ZooKeeper and at Kafka as these users; closed after the test."""
    stack = contextlib.ExitStack()

    def run(at_zookeeper: str, at_kafka: str) -> GroupApp:
        settings = {
            "kafka": {
                "bootstrap_servers": secured.bootstrap_tls,
                "properties": secured.kafka_properties(at_kafka),
            },
            "zookeeper": {
                "hosts": secured.zookeeper_tls,
                "properties": secured.zookeeper_properties(at_zookeeper),
            },
            "journal": {"url": f"sqlite:///{tmp_path}/journal.db"},
            "evidence": {"root": str(tmp_path / "evidence")},
            "fleet": {"driver": "manual"},
        }
        return stack.enter_context(coordination_app(parse(settings)))

    with stack:
        yield run


def identities(app: GroupApp, group: str) -> dict[str, tuple[Verdict, str]]:
    """What assess says of the tool's own identities: rule → verdict and reason."""
    found = app.assess(group).findings
    return {each.rule: (each.verdict, each.reason) for each in found if each.rule.startswith("I")}


def test_the_tool_needs_to_describe_and_its_mode_node_is_its_own(secured, group, topic, look, join, tool):
    """Two rights at Kafka suffice; the mode it writes is obeyed, and only it may change it."""
    secured.grant("operator", group, [GROUP_DESCRIBE])
    secured.grant("operator", topic, [TOPIC_DESCRIBE])
    member = join("m1", topic)
    await_owners(look, group, topic, ["m1"] * 4)
    migration = f"/consumers/{group}/migration"
    before = look.get(migration)[1]
    found = identities(tool("operator", "operator"), group)
    assert {rule: verdict for rule, (verdict, _) in found.items()} == dict.fromkeys(("I01", "I02"), "pass")
    assert "user 'operator'" in found["I01"][1]
    assert "user 'operator'" in found["I02"][1]
    assert look.get(migration)[1].cversion == before.cversion, "a question changed something"
    connection = ZookeeperConnection(
        secured.zookeeper_tls, properties=secured.zookeeper_properties("operator")
    )
    try:
        switch, holder = ZookeeperModeSwitch(connection), Holder(run="a", token=1)
        switch.take(group, holder)
        switch.compare_and_set(group, ABSENT_MODE, Mode.KAFKA, holder=holder)
    finally:
        connection.close()
    wait_until(lambda: member.consumer.statistics()["mode"] == "kafka", PATIENCE_S, "the member obeys")
    for node in ("mode", "fence"):
        acl = look.get_acls(f"{migration}/{node}")[0]
        assert [(each.id.id, each.acl_list) for each in acl] == [("operator", ["ALL"]), ("anyone", ["READ"])]
    verdict, reason = identities(tool("stranger", "operator"), group)["I01"]
    assert verdict is Verdict.FAIL
    assert f"user 'stranger' may not write {migration}/mode, write {migration}/fence" in reason
    assert look.get(f"{migration}/mode")[0] == b"kafka"


def test_a_migration_folder_made_beforehand_is_closed_to_others(secured, group, topic, look, join, tool):
    """As docs/safety/rights.md advises: only the operator makes or removes the mode node; members still
    join."""
    secured.grant("operator", group, [GROUP_DESCRIBE])
    secured.grant("operator", topic, [TOPIC_DESCRIBE])
    login = secured.login("operator")
    operator = make_client(secured.zookeeper, 10.0, login)
    operator.start(timeout=60)
    migration = f"/consumers/{group}/migration"
    operator.create(f"/consumers/{group}", b"", acl=WORLD)
    operator.create(migration, b"", acl=login.acl)
    operator.create(f"{migration}/ids", b"", acl=WORLD)
    operator.stop()
    operator.close()
    join("m1", topic)
    await_owners(look, group, topic, ["m1"] * 4)
    assert look.get_children(f"{migration}/ids") == [f"{group}_m1"]
    with pytest.raises(NoAuthError):
        look.create(f"{migration}/mode", b"kafka")
    verdict, _ = identities(tool("stranger", "operator"), group)["I01"]
    assert verdict is Verdict.FAIL
    verdict, _ = identities(tool("operator", "operator"), group)["I01"]
    assert verdict is Verdict.PASS


def test_rights_are_proven_where_the_group_has_no_node_yet(secured, group, look):
    """A group of plain consumers: everything above the mode node would be made too, and none of it is."""
    connection = ZookeeperConnection(
        secured.zookeeper_tls, properties=secured.zookeeper_properties("operator")
    )
    try:
        assert ZookeeperRights(connection).identity(group).missing == ()
    finally:
        connection.close()
    assert not look.exists(f"/consumers/{group}")


def test_a_topic_that_kafka_hides_from_the_tool_is_named(secured, group, topic, look, join, tool):
    """It would be missing from every list without a word."""
    other = f"topic-{uuid.uuid4().hex[:8]}"
    create_topic(secured.bootstrap, other, 1)
    secured.grant("operator", other, [TOPIC_DESCRIBE])
    secured.grant("operator", group, [GROUP_DESCRIBE])
    join("m1", topic)
    await_owners(look, group, topic, ["m1"] * 4)
    verdict, reason = identities(tool("operator", "operator"), group)["I02"]
    assert verdict is Verdict.FAIL
    assert reason == f"user 'operator' may not Describe topic {topic} at Kafka"


def test_a_group_that_kafka_hides_from_the_tool_is_refused_with_the_operation(group, topic, join, tool):
    """And with the user who lacks it."""
    join("m1", topic)
    with pytest.raises(Rejected, match=r"does not allow user 'stranger' to Describe the group") as refused:
        identities(tool("operator", "stranger"), group)
    assert PASSWORDS["stranger"] not in str(refused.value)


def test_a_member_logs_in_again_once_its_password_is_right_again(tmp_path: Path):
    """A server that refuses it for a while (a password being changed) does not end it."""
    homes = [Home(tmp_path / each).create() for each in ("right", "wrong", "relay")]
    right, wrong = (
        start_zookeeper(home, ZookeeperOptions(users={"orders": word}))
        for home, word in zip(homes, ("one-1", "two-2"), strict=False)
    )
    listen = free_port()
    states: list[str] = []
    client = make_client(
        f"127.0.0.1:{listen}",
        4.0,
        ZookeeperLogin(username="orders", password="one-1"),
        connection_retry={**FOR_EVER},
    )
    relogin = Relogin(client)

    def lead_to(server: str) -> None:
        for process in marked(homes[2]):
            stop(process, 10.0)
        start_relay(homes[2], f"relay-{len(states)}", listen=listen, target=server)

    def writes() -> bool:
        try:
            client.set("/mine", b"still mine")
        except KazooException:
            return False
        return True

    ahead = make_client(wrong, 10.0)
    ahead.start(timeout=60)
    for number in range(5):  # a server that is behind what the client has seen would not take it
        ahead.create(f"/ahead-{number}", b"")
    ahead.stop()
    ahead.close()
    try:
        lead_to(right)
        client.start(timeout=60)
        client.create("/mine", b"")
        client.add_listener(lambda state: states.append(str(state)))
        relogin.begin()
        lead_to(wrong)
        wait_until(lambda: "LOST" in states, PATIENCE_S, "the login is refused")
        lead_to(right)
        wait_until(writes, PATIENCE_S, "the client writes what only it may write")
    finally:
        relogin.close()
        client.stop()
        client.close()
        for process in [each for home in homes for each in marked(home)]:
            stop(process, 10.0)
    assert "groupshift-login" not in {each.name for each in threading.enumerate()}
