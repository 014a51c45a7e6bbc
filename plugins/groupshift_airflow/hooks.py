"""Connections become settings: the only place that reads Airflow connections."""

from __future__ import annotations

import difflib
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from groupshift.errors import GroupshiftError, Rejected
from groupshift.foreign_files import toml

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from groupshift.settings import ApprovalSettings, Settings, SparkSettings

SETTINGS_VARIABLE = "GROUPSHIFT_SETTINGS"
_IPV6 = re.compile(r"(?=.*:.*:)[0-9A-Fa-f:.]+(?:%[^/,:]+)?")
"""An IPv6 address without brackets; several servers, or a URL, are none."""


def find_connection(conn_id: str) -> Connection | None:
    """The connection, None where no backend has one of this name.

    Raises `Rejected` for one that is there and cannot be read: Airflow calls that one not defined, too."""
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        why = _unreadable(conn_id)
    except (ValueError, TypeError, AttributeError) as error:
        why = type(error).__name__
    if why is None:
        return None
    raise Rejected(
        f"connection {conn_id!r} cannot be read ({why}): its URI or JSON is malformed, or the Fernet key is"
        ' another one; several servers go into a URI as %3A and %2C, or into JSON as "host".'
    ) from None


def _unreadable(conn_id: str) -> str | None:
    """Why a backend cannot read what it has under this name; None when none has any. The error's words may
    hold a password: only its kind is said."""
    from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded

    for backend in ensure_secrets_backend_loaded():
        try:
            backend.get_connection(conn_id=conn_id)
        except Exception as error:  # noqa: BLE001 - whatever a backend raises, it could not read it
            return type(error).__name__
    return None


class _ClusterHook(BaseHook):
    """Reads one connection and refuses a missing or wrong one with a sentence."""

    conn_type: str
    hook_name: str
    default_conn_name: str
    conn_name_attr: str
    also: tuple[str, ...] = ()
    """Connection types of others that can be used as they are."""
    anywhere: tuple[str, ...] = ()
    """Types whose servers may stand in the extra fields instead of the host."""

    def __init__(self, conn_id: str | None = None, **named: Any) -> None:
        super().__init__()
        self.conn_id = conn_id or named.get(self.conn_name_attr) or self.default_conn_name

    def connection(self) -> Connection:
        """The connection. Raises `Rejected` when it is missing, unreadable, of another type, or has no
        host."""
        found = find_connection(self.conn_id)
        if found is None:
            raise Rejected(
                f"connection {self.conn_id!r} does not exist; create it under Admin > Connections with"
                f" type {self.hook_name!r}."
            )
        if found.conn_type not in {self.conn_type, *self.also}:
            raise Rejected(
                f"connection {self.conn_id!r} has type {found.conn_type!r}; it must be {self.conn_type!r}"
                f" ({self.hook_name})."
            )
        if not found.host and found.conn_type not in self.anywhere:
            raise Rejected(f"connection {self.conn_id!r} has no host; fill in the servers as host:port.")
        return found

    def refused(self, why: str) -> Rejected:
        """The connection cannot be used."""
        return Rejected(f"connection {self.conn_id!r} cannot be used: {why}.")

    def extras(self, found: Connection) -> dict[str, str]:
        """The extra fields that have a value, by their keys with dots, however they are spelled.

        Raises `Rejected` when they are no JSON object, for a value that is no single one, and for a key that
        is told twice and differs; no sentence quotes a value."""
        try:
            raw = json.loads(found.extra or "{}")
        except (ValueError, RecursionError):
            raw = None
        if not isinstance(raw, dict):
            raise self.refused("its extra is no JSON object")
        found.extra_dejson  # noqa: B018 - Airflow learns here what to mask in logs
        taken: dict[str, str] = {}
        for spelled, value in raw.items():
            key = spelled.removeprefix(f"extra__{found.conn_type}__").replace("_", ".")
            if isinstance(value, dict | list):
                raise self.refused(f"extra {spelled!r} is no text")
            if value is None or value == "":
                continue
            text = str(value).lower() if isinstance(value, bool) else str(value)
            if taken.setdefault(key, text) != text:
                raise self.refused(f"extra {key!r} is there twice with two values")
        return taken

    def require_known(self, extras: Iterable[str], known: Iterable[str]) -> None:
        """Raises `Rejected` with the first extra field that is not known, and the nearest one that is."""
        names = sorted(known)
        for key in extras:
            if key not in names:
                near = difflib.get_close_matches(key, names, 1, 0.5)
                hint = f"; did you mean {near[0]!r}?" if near else "."
                raise self.refused(f"extra {key!r} is not known{hint} Known are {', '.join(names)}")

    def with_login(
        self, found: Connection, extras: Mapping[str, str], names: tuple[str, str]
    ) -> dict[str, str]:
        """``extras`` with login and password of the connection under these names. Raises `Rejected` when they
        are told twice and differ."""
        taken = dict(extras)
        for key, value in zip(names, (found.login, found.password), strict=True):
            if value and taken.setdefault(key, value) != value:
                raise self.refused(f"extra {key!r} and the form's own field differ: clear one")
        return taken


class KafkaClusterHook(_ClusterHook):
    """Connection type ``groupshift_kafka``: host = bootstrap servers, login/password = SASL, extra fields =
    librdkafka's keys, with dots or underscores. One of type ``kafka`` of Airflow's own provider will do."""

    conn_name_attr = "kafka_conn_id"
    default_conn_name = "groupshift_kafka_default"
    conn_type = "groupshift_kafka"
    hook_name = "Groupshift Kafka cluster"
    also = ("kafka",)
    anywhere = ("groupshift_kafka", "kafka")

    def section(self) -> dict[str, Any]:
        """The ``[kafka]`` section of the settings. Raises `Rejected` for servers that are no addresses, a key
        that is not known, and a login that the security protocol does not use."""
        from groupshift.adapters.kafka.cluster import KEYS
        from groupshift.domain.addresses import joined, kafka_servers, login_problem

        found = self.connection()
        extras = self.extras(found)
        told = extras.pop("bootstrap.servers", "")
        if found.host and told and _servers(found) != told:
            raise self.refused("host and extra 'bootstrap.servers' differ: clear one")
        servers = told or (_servers(found) if found.host else "")
        if not servers:
            raise Rejected(f"connection {self.conn_id!r} has no host; fill in the servers as host:port.")
        if (found.schema or "").strip(" /"):
            raise self.refused(
                f"its schema {found.schema!r} has no meaning for Kafka: clear it; a protocol goes into extra"
                " 'security.protocol', a chroot into the connection of ZooKeeper"
            )
        if found.conn_type == self.conn_type:
            self.require_known(extras, {*KEYS, "bootstrap.servers"})
        else:
            extras = self._of_provider(extras)
        properties = self.with_login(found, extras, ("sasl.username", "sasl.password"))
        try:
            protocol = properties.get("security.protocol", "")
            servers = joined(kafka_servers(servers, "its bootstrap servers", protocol))
        except Rejected as wrong:
            raise self.refused(str(wrong)) from None
        without_effect = login_problem(properties)
        if without_effect:
            raise self.refused(without_effect)
        return {"bootstrap_servers": servers, "properties": properties}

    def _of_provider(self, extras: dict[str, str]) -> dict[str, str]:
        """What of a connection of type ``kafka`` says how to connect. What only consumers and producers need
        is set aside when librdkafka knows it. Raises `Rejected` for what it does not, and for a way to log in
        that groupshift has not."""
        from groupshift.adapters.kafka.cluster import KEYS
        from groupshift.consumers.config import objection
        from groupshift.domain.foreign_text import struck_out

        securing = ("security.", "sasl.", "ssl.", "enable.ssl.", "enable.sasl.", "oauth")
        self.require_known([key for key in extras if key.startswith(securing)], KEYS)
        rest = {key: value for key, value in extras.items() if key not in KEYS and not key.endswith(".cb")}
        unknown = objection({"group.id": "groupshift", **rest}) if rest else None
        if unknown:
            raise self.refused(struck_out(unknown, rest.values()))
        return {key: value for key, value in extras.items() if key in KEYS}

    def test_connection(self) -> tuple[bool, str]:
        """Whether the brokers answer, and as which cluster; for the button *Test*."""
        from groupshift.adapters.kafka.cluster import KafkaCluster

        try:
            where = self.section()
            cluster = KafkaCluster(where["bootstrap_servers"], properties=where["properties"], timeout_s=5.0)
            with closing(cluster):
                brokers = cluster.attempt(cluster.brokers)
                return True, f"cluster {cluster.cluster_id} answers: {len(brokers)} broker(s)"
        except GroupshiftError as error:
            return False, str(error)


class ZookeeperHook(_ClusterHook):
    """Connection type ``groupshift_zookeeper``: host = hosts, schema = chroot, login/password = digest, or
    SASL with the extra field ``sasl_mechanism``; ``ssl_ca`` and other extra fields: docs/safety/logins.md."""

    conn_name_attr = "zookeeper_conn_id"
    default_conn_name = "groupshift_zookeeper_default"
    conn_type = "groupshift_zookeeper"
    hook_name = "Groupshift ZooKeeper"

    def section(self) -> dict[str, Any]:
        """The ``[zookeeper]`` section of the settings. Raises `Rejected` for hosts that are no addresses and
        for a key that is not known."""
        from groupshift.adapters.zookeeper.login import KEYS
        from groupshift.domain.addresses import chroot_problem, zookeeper_ensemble

        found = self.connection()
        properties = self.extras(found)
        self.require_known(properties, KEYS)
        try:
            where = zookeeper_ensemble(_with_port(found), "its host")
        except Rejected as wrong:
            raise self.refused(str(wrong)) from None
        chroot = f"/{(found.schema or '').strip('/')}" if (found.schema or "").strip("/") else ""
        if chroot and where.chroot and chroot != where.chroot:
            raise self.refused("host and schema name two chroots: clear one")
        wrong_path = chroot_problem(chroot)
        if wrong_path:
            raise self.refused(wrong_path)
        told = {"hosts": where.hosts, "chroot": chroot or where.chroot}
        if "sasl.mechanism" in properties:
            login = self.with_login(found, properties, ("sasl.username", "sasl.password"))
            return {**told, "properties": login}
        digest = {"username": found.login or "", "password": found.password or ""}
        return {**told, **digest, **({"properties": properties} if properties else {})}

    def test_connection(self) -> tuple[bool, str]:
        """Whether the servers answer, and what is below the chroot; for the button *Test*."""
        from groupshift.bootstrap.connect import zookeeper_connection
        from groupshift.settings import ZookeeperSettings

        try:
            connection = zookeeper_connection(ZookeeperSettings(**self.section()))
            with closing(connection):
                brokers = connection.call(lambda session: session.children("/brokers/ids"))
        except GroupshiftError as error:
            return False, str(error)
        answers = f"ZooKeeper answers at {connection.address}"
        if brokers is None:
            return False, f"{answers}, but has no /brokers/ids: correct the chroot"
        return True, f"{answers}: {len(brokers)} broker(s) registered"


class KubernetesHook(_ClusterHook):
    """Connection type ``groupshift_kubernetes``: host = URL of the API server, password = bearer token."""

    conn_name_attr = "kubernetes_conn_id"
    default_conn_name = "groupshift_kubernetes_default"
    conn_type = "groupshift_kubernetes"
    hook_name = "Groupshift Kubernetes API"

    def section(self) -> dict[str, Any]:
        """What ``[fleet.kubernetes]`` needs to log in."""
        from groupshift.domain.addresses import api_server_problem

        found = self.connection()
        extras = self.extras(found)
        self.require_known(extras, ("ca",))
        server = _servers(found)
        server = server if "://" in server else f"https://{server}"
        wrong = api_server_problem(server, "its host")
        if wrong:
            raise self.refused(wrong)
        return {"server": server, "token": found.password or "", "ca": extras.get("ca", "")}


class SigningHook(BaseHook):
    """Connection type ``groupshift_signing``: password = private Ed25519 key in PEM; signs evidence packs."""

    conn_name_attr = "signing_conn_id"
    default_conn_name = "groupshift_signing_default"
    conn_type = "groupshift_signing"
    hook_name = "Groupshift evidence signing key"

    def section(self) -> dict[str, Any]:
        """What ``[evidence]`` needs to sign; nothing where there is no such connection."""
        found = find_connection(self.default_conn_name)
        return {"signing_key": found.password} if found and found.password else {}


def _with_login(fleet: dict[str, Any]) -> dict[str, Any]:
    """The ``[fleet]`` section; where it says nothing of how to reach the Kubernetes API, the connection
    ``groupshift_kubernetes_default`` does, if there is one (inside a cluster none is needed)."""
    told = fleet.get("kubernetes", {} if fleet.get("driver") == "kubernetes" else None)
    if not isinstance(told, dict) or told.get("server") or told.get("kubeconfig"):
        return fleet
    hook = KubernetesHook()
    if find_connection(hook.conn_id) is None:
        return fleet
    return {**fleet, "kubernetes": {**told, **hook.section()}}


def _servers(found: Connection) -> str:
    """Host, with the port when the connection was given as a URI with a single server; Airflow takes the
    brackets off an IPv6 address."""
    host = str(found.host)
    if not found.port:
        return host
    return f"[{host}]:{found.port}" if _IPV6.fullmatch(host) else f"{host}:{found.port}"


def _with_port(found: Connection) -> str:
    """As `_servers`, where a path may follow the last server: the port of the form goes before it."""
    servers, slash, path = str(found.host).partition("/")
    if not slash or not found.port:
        return _servers(found)
    return f"{servers}:{found.port}{slash}{path}"


def require_spark(conn_id: str) -> str:
    """The master that the Spark connection names, as the provider puts it together.

    Raises `Rejected` when it is missing: Airflow would silently submit to YARN."""
    found = find_connection(conn_id)
    if found is None:
        raise Rejected(
            f"connection {conn_id!r} does not exist; create it with type 'spark' and a master such as"
            " local[*] as host."
        )
    if not found.host:
        raise Rejected(f"connection {conn_id!r} has no host; fill in a Spark master such as local[*].")
    full = found.conn_type == "spark" and ("://" in found.host or not found.port)
    return _servers(found) if full else f"{found.conn_type}://{_servers(found)}"


def spark_settings() -> SparkSettings:
    """Section ``[spark]`` of this deployment: the workers' interpreter and Spark's own keys; the connection
    names the master. Raises `Rejected` as `base_settings`; an App refuses what is wrong in it."""
    from groupshift.settings import SparkSettings

    return SparkSettings(**base_settings().get("spark", {}))


def spark_jvm(master: str) -> dict[str, str]:
    """Spark's key for what the driver's JVM is told: it must be known before that JVM starts."""
    from groupshift.adapters.spark_submit.submit import driver_options

    return {"spark.driver.extraJavaOptions": driver_options(master)}


def spark_environment(settings: SparkSettings, master: str) -> dict[str, str]:
    """The interpreters of workers and driver; on this machine nothing listens outside."""
    from groupshift.adapters.spark_submit.submit import stays_here

    found = {"PYSPARK_PYTHON": settings.python or sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    return {**found, "SPARK_LOCAL_IP": "127.0.0.1"} if stays_here(master) else found


def approval_settings() -> ApprovalSettings:
    """Section ``[approval]`` of this deployment: who may say yes. Raises `Rejected` as `base_settings`."""
    from groupshift.settings import approval_of

    return approval_of(base_settings())


def base_settings() -> dict[str, Any]:
    """Journal, evidence, fleet and thresholds of this deployment, as sections.

    From the TOML file named by ``GROUPSHIFT_SETTINGS``; without one a SQLite journal and an evidence
    folder below AIRFLOW_HOME, and people replace members (driver ``manual``).
    """
    path = os.environ.get(SETTINGS_VARIABLE)
    if path:
        return _sections(Path(path))
    home = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser() / "groupshift"
    home.mkdir(parents=True, exist_ok=True)
    return {
        "journal": {"url": f"sqlite:///{home / 'journal.db'}"},
        "evidence": {"root": str(home / "evidence")},
        "fleet": {"driver": "manual"},
    }


def _sections(path: Path) -> dict[str, Any]:
    """The sections of a settings file. Raises `Rejected` when it cannot be read."""
    try:
        return toml(path)
    except (OSError, ValueError) as error:
        raise Rejected(f"settings file {path} ({SETTINGS_VARIABLE}) cannot be used: {error}.") from error


def evidence_root() -> str:
    """Where this deployment keeps evidence, without a slash at the end."""
    return str(base_settings().get("evidence", {}).get("root", "")).rstrip("/")


def cluster_settings(kafka_conn_id: str, zookeeper_conn_id: str) -> Settings:
    """The deployment's settings with these two connections; without ``zookeeper_conn_id`` no ZooKeeper.
    Raises `Rejected` for a missing or wrong one."""
    from groupshift.settings import parse

    sections = base_settings()
    sections["kafka"] = KafkaClusterHook(kafka_conn_id).section()
    if zookeeper_conn_id not in {"", "None"}:
        sections["zookeeper"] = ZookeeperHook(zookeeper_conn_id).section()
    sections["fleet"] = _with_login(sections.get("fleet", {}))
    sections["evidence"] = {**SigningHook().section(), **sections.get("evidence", {})}
    base = os.environ.get(SETTINGS_VARIABLE, "the defaults")
    named = ", ".join(each for each in (kafka_conn_id, zookeeper_conn_id) if each not in {"", "None"})
    return parse(sections, source=f"connections {named} and {base}")
