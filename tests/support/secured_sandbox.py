"""A secured sandbox: logins and TLS at ZooKeeper and Kafka, ACLs in both, the old members' ports beside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.zookeeper.login import ZookeeperLogin
from groupshift.errors import Rejected, Transient
from groupshift_sandbox.certificates import Certificates, make_certificates
from groupshift_sandbox.home import Home
from groupshift_sandbox.jaas import client_section, jaas_option, write_jaas
from groupshift_sandbox.kafka import KafkaOptions, start_kafka
from groupshift_sandbox.processes import free_port, wait_until
from groupshift_sandbox.zookeeper import ZookeeperOptions, start_zookeeper

PASSWORDS = {name: f"{name}-secret-1" for name in ("orders", "broker", "operator", "stranger")}
"""Everybody's password, at ZooKeeper and at Kafka."""
TOPIC_READ = (ResourceType.TOPIC, AclOperation.READ)
TOPIC_DESCRIBE = (ResourceType.TOPIC, AclOperation.DESCRIBE)
GROUP_READ = (ResourceType.GROUP, AclOperation.READ)
GROUP_DESCRIBE = (ResourceType.GROUP, AclOperation.DESCRIBE)
Right = tuple[ResourceType, AclOperation]


@dataclass(frozen=True, slots=True, kw_only=True)
class Secured:
    """``zookeeper`` and ``bootstrap`` are the ports of the old members, ``…_tls`` those of all others."""

    home: Home
    certificates: Certificates
    zookeeper: str
    zookeeper_tls: str
    bootstrap: str
    bootstrap_tls: str

    def login(self, user: str) -> ZookeeperLogin:
        """At the plain port."""
        return ZookeeperLogin(username=user, password=PASSWORDS[user])

    def zookeeper_properties(self, user: str) -> dict[str, str]:
        """The keys of a login at the TLS port."""
        return {
            "sasl.mechanism": "DIGEST-MD5",
            "sasl.username": user,
            "sasl.password": PASSWORDS[user],
            "ssl.ca": str(self.certificates.authority),
            "ssl.certificate": str(self.certificates.client),
            "ssl.key": str(self.certificates.client_key),
        }

    def kafka_properties(self, user: str) -> dict[str, str]:
        """The keys of librdkafka."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": PASSWORDS[user],
            "ssl.ca.location": str(self.certificates.authority),
        }

    def member(self, group: str, consumer_id: str, user: str = "orders", **more: Any) -> dict[str, Any]:
        """A member's configuration."""
        at_zookeeper = self.zookeeper_properties(user).items()
        return {
            "group.id": group,
            "consumer.id": consumer_id,
            "zookeeper.connect": self.zookeeper_tls,
            "bootstrap.servers": self.bootstrap_tls,
            "auto.offset.reset": "smallest",
            **{f"zookeeper.{key}": value for key, value in at_zookeeper},
            **self.kafka_properties(user),
            **more,
        }

    def jaas(self, user: str) -> str:
        """The JVM option of an old member that logs in at ZooKeeper."""
        sections = {"Client": client_section(user, PASSWORDS[user])}
        return jaas_option(write_jaas(self.home, f"member-{user}", sections))

    def grant(self, user: str, name: str, rights: Sequence[Right]) -> None:
        """Allow this user these operations on the resources of that name."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        bindings = [
            AclBinding(
                kind,
                name,
                ResourcePatternType.LITERAL,
                f"User:{user}",
                "*",
                operation,
                AclPermissionType.ALLOW,
            )
            for kind, operation in rights
        ]
        for pending in admin.create_acls(bindings).values():
            pending.result(timeout=60)


def start_secured(home: Home) -> Secured:
    """Start both servers. Everybody but the broker gets no right at Kafka that is not granted; the old
    members' listener is open, for they can neither log in there nor speak TLS."""
    certificates = make_certificates(home.root / "tls")
    tls, secured = free_port(), free_port()
    options = ZookeeperOptions(users=PASSWORDS, tls=certificates, tls_port=tls)
    zookeeper = start_zookeeper(home, options)
    client = {"Client": client_section("broker", PASSWORDS["broker"])}
    broker = start_kafka(
        home,
        zookeeper,
        KafkaOptions(
            secured_port=secured,
            initial_rebalance_delay_ms=0,
            java=[jaas_option(write_jaas(home, "kafka", client))],
            properties=_broker_properties(certificates),
        ),
    )
    admin = AdminClient({"bootstrap.servers": broker.address})
    scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    wanted = [UserScramCredentialUpsertion(each, scram, PASSWORDS[each].encode()) for each in PASSWORDS]
    for pending in admin.alter_user_scram_credentials(wanted).values():
        pending.result(timeout=60)
    made = Secured(
        home=home,
        certificates=certificates,
        zookeeper=zookeeper,
        zookeeper_tls=f"127.0.0.1:{tls}",
        bootstrap=broker.address,
        bootstrap_tls=f"127.0.0.1:{secured}",
    )
    for user in PASSWORDS:  # the broker hears of passwords from ZooKeeper, after they were answered for
        wait_until(lambda each=user: _let_in(made, each), 60.0, f"Kafka knows the password of {user}")
    return made


def _let_in(secured: Secured, user: str) -> bool:
    cluster = KafkaCluster(secured.bootstrap_tls, properties=secured.kafka_properties(user), timeout_s=10.0)
    try:
        return bool(cluster.attempt(cluster.brokers))
    except (Rejected, Transient):
        return False
    finally:
        cluster.close()


def _broker_properties(certificates: Certificates) -> dict[str, str]:
    listener = "listener.name.secured"
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    return {
        "zookeeper.set.acl": "true",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        f"{listener}.scram-sha-512.sasl.jaas.config": module,
        f"{listener}.ssl.keystore.type": "PEM",
        f"{listener}.ssl.keystore.location": str(certificates.server),
        f"{listener}.ssl.truststore.type": "PEM",
        f"{listener}.ssl.truststore.location": str(certificates.authority),
    }
