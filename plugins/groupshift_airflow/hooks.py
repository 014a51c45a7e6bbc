"""Connections become settings: the only place that reads Airflow connections."""

from __future__ import annotations

import difflib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from groupshift.errors import GroupshiftError, Rejected
from groupshift.foreign_files import toml

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from groupshift.settings import Settings

SETTINGS_VARIABLE = "GROUPSHIFT_SETTINGS"
_IPV6 = re.compile(r"(?=.*:.*:)[0-9A-Fa-f:.]+(?:%[^/,:]+)?")
"""An IPv6 address without brackets; several servers, or a URL, are none."""


def find_connection(conn_id: str) -> Connection | None:
    """Return the connection, None where no backend has one of this name.

    Airflow calls one that is there and cannot be read not defined, too: so each backend is asked for it. The
    words of its error may hold a password: only the kind of the error is said.

    Raises:
        Rejected: a backend has it and cannot read it.
    """
    from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded

    why = ""
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        for backend in ensure_secrets_backend_loaded():
            try:
                backend.get_connection(conn_id=conn_id)
            except Exception as error:  # noqa: BLE001 - whatever a backend raises, it could not read it
                why = why or type(error).__name__
    except (ValueError, TypeError, AttributeError) as error:
        why = type(error).__name__
    if not why:
        return None
    raise Rejected(
        f"connection {conn_id!r} cannot be read ({why}): its URI or JSON is malformed, or the Fernet key is"
        ' another one; several servers go into a URI as %3A and %2C, or into JSON as "host".'
    ) from None


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

    def __init_subclass__(cls, *, kind: str = "", name: str = "", **more: Any) -> None:
        """Name the connection type ``groupshift_KIND``, and its default connection, as Airflow finds them."""
        super().__init_subclass__(**more)
        cls.conn_type, cls.hook_name = f"groupshift_{kind}", f"Groupshift {name}"
        cls.conn_name_attr, cls.default_conn_name = f"{kind}_conn_id", f"groupshift_{kind}_default"

    def __init__(self, conn_id: str | None = None, **named: Any) -> None:
        super().__init__()
        self.conn_id = conn_id or named.get(self.conn_name_attr) or self.default_conn_name

    def connection(self) -> Connection:
        """Return the connection.

        Raises:
            Rejected: it is missing, cannot be read, is of another type, or has no host.
        """
        defined = find_connection(self.conn_id)
        if defined is None:
            raise Rejected(
                f"connection {self.conn_id!r} does not exist; create it under Admin > Connections with"
                f" type {self.hook_name!r}."
            )
        if defined.conn_type not in {self.conn_type, *self.also}:
            raise Rejected(
                f"connection {self.conn_id!r} has type {defined.conn_type!r}; it must be {self.conn_type!r}"
                f" ({self.hook_name})."
            )
        if not defined.host and defined.conn_type not in self.anywhere:
            raise Rejected(f"connection {self.conn_id!r} has no host; fill in the servers as host:port.")
        return defined

    def refused(self, why: str) -> Rejected:
        """Return the error of a connection that cannot be used: ``why`` is a clause."""
        return Rejected(f"connection {self.conn_id!r} cannot be used: {why}.")

    def extras(self, connection: Connection) -> dict[str, str]:
        """Return the extra fields that have a value, by their keys with dots, however they are spelled.

        Raises:
            Rejected: they are no JSON object, a value is no single one, or a key is told twice and differs;
                no sentence quotes a value.
        """
        try:
            raw = json.loads(connection.extra or "{}")
        except (ValueError, RecursionError):
            raw = None
        if not isinstance(raw, dict):
            raise self.refused("its extra is no JSON object")
        connection.extra_dejson  # noqa: B018 - Airflow learns here what to mask in logs
        taken: dict[str, str] = {}
        for spelled, value in raw.items():
            key = spelled.removeprefix(f"extra__{connection.conn_type}__").replace("_", ".")
            if isinstance(value, dict | list):
                raise self.refused(f"extra {spelled!r} is no text")
            if value is None or value == "":
                continue
            text = str(value).lower() if isinstance(value, bool) else str(value)
            if taken.setdefault(key, text) != text:
                raise self.refused(f"extra {key!r} is there twice with two values")
        return taken

    def require_known(self, extras: Iterable[str], known: Iterable[str]) -> None:
        """Require that every extra field is known.

        Raises:
            Rejected: one is not; the sentence names the nearest one that is.
        """
        names = sorted(known)
        for key in (each for each in extras if each not in names):
            near = difflib.get_close_matches(key, names, 1, 0.5)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise self.refused(f"extra {key!r} is not known{hint} Known are {', '.join(names)}")

    def with_login(
        self, connection: Connection, extras: Mapping[str, str], names: tuple[str, str]
    ) -> dict[str, str]:
        """Return ``extras`` with login and password of the connection under these names.

        Raises:
            Rejected: one of them is told twice, and differs.
        """
        taken = dict(extras)
        for key, value in zip(names, (connection.login, connection.password), strict=True):
            if value and taken.setdefault(key, value) != value:
                raise self.refused(f"extra {key!r} and the form's own field differ: clear one")
        return taken


class KafkaClusterHook(_ClusterHook, kind="kafka", name="Kafka cluster"):
    """Connection type ``groupshift_kafka``: host = bootstrap servers, login/password = SASL, extra fields =
    librdkafka's keys, with dots or underscores. One of type ``kafka`` of Airflow's own provider will do."""

    also = ("kafka",)
    anywhere = ("groupshift_kafka", "kafka")

    def section(self) -> dict[str, Any]:
        """Return the ``[kafka]`` section of the settings.

        Raises:
            Rejected: the servers are no addresses, a key is not known, or the security protocol does not use
                the login.
        """
        from groupshift.adapters.kafka.cluster import KEYS
        from groupshift.domain.addresses import joined, kafka_servers, login_problem

        connection = self.connection()
        extras = self.extras(connection)
        extra_servers = extras.pop("bootstrap.servers", "")
        if connection.host and extra_servers and _servers(connection) != extra_servers:
            raise self.refused("host and extra 'bootstrap.servers' differ: clear one")
        servers = extra_servers or (_servers(connection) if connection.host else "")
        if not servers:
            raise Rejected(f"connection {self.conn_id!r} has no host; fill in the servers as host:port.")
        if (connection.schema or "").strip(" /"):
            raise self.refused(
                f"its schema {connection.schema!r} has no meaning for Kafka: clear it; a protocol goes into "
                "extra 'security.protocol', a chroot into the connection of ZooKeeper"
            )
        if connection.conn_type == self.conn_type:
            self.require_known(extras, {*KEYS, "bootstrap.servers"})
        else:
            extras = self._of_provider(extras)
        properties = self.with_login(connection, extras, ("sasl.username", "sasl.password"))
        protocol = properties.get("security.protocol", "")
        try:
            servers = joined(kafka_servers(servers, "its bootstrap servers", protocol))
        except Rejected as wrong:
            raise self.refused(str(wrong)) from None
        if without_effect := login_problem(properties):
            raise self.refused(without_effect)
        return {"bootstrap_servers": servers, "properties": properties}

    def _of_provider(self, extras: dict[str, str]) -> dict[str, str]:
        """What of a connection of type ``kafka`` says how to connect. What only consumers and producers need
        is set aside when librdkafka knows it.

        Raises:
            Rejected: librdkafka does not know a key, or groupshift has not this way to log in.
        """
        from groupshift.adapters.kafka.cluster import KEYS
        from groupshift.consumers.config import objection
        from groupshift.domain.foreign_text_quoting import struck_out

        securing = ("security.", "sasl.", "ssl.", "enable.ssl.", "enable.sasl.", "oauth")
        self.require_known([key for key in extras if key.startswith(securing)], KEYS)
        rest = {key: value for key, value in extras.items() if key not in KEYS and not key.endswith(".cb")}
        if rest and (unknown := objection({"group.id": "groupshift", **rest})):
            raise self.refused(struck_out(unknown, rest.values()))
        return {key: value for key, value in extras.items() if key in KEYS}

    def test_connection(self) -> tuple[bool, str]:
        """Return whether the brokers answer, and as which cluster, or why not; for the button *Test*."""
        from groupshift.adapters.kafka.cluster import KafkaCluster

        try:
            where = self.section()
            cluster = KafkaCluster(where["bootstrap_servers"], properties=where["properties"], timeout_s=5.0)
            with closing(cluster):
                brokers = cluster.attempt(cluster.brokers)
                return True, f"cluster {cluster.cluster_id} answers: {len(brokers)} broker(s)"
        except GroupshiftError as error:
            return False, str(error)


class ZookeeperHook(_ClusterHook, kind="zookeeper", name="ZooKeeper"):
    """Connection type ``groupshift_zookeeper``: host = hosts, schema = chroot, login/password = digest, or
    SASL with the extra field ``sasl_mechanism``; ``ssl_ca`` and other extra fields: docs/safety/logins.md."""

    def section(self) -> dict[str, Any]:
        """Return the ``[zookeeper]`` section of the settings.

        Raises:
            Rejected: the hosts are no addresses, a key is not known, or two chroots are named.
        """
        from groupshift.adapters.zookeeper.login import KEYS
        from groupshift.domain.addresses import chroot_problem, zookeeper_ensemble

        connection = self.connection()
        properties = self.extras(connection)
        self.require_known(properties, KEYS)
        servers, slash, path = str(connection.host).partition("/")
        whole = slash and connection.port  # the port of the form is that of the last server, before the path
        servers = f"{servers}:{connection.port}/{path}" if whole else _servers(connection)
        try:
            where = zookeeper_ensemble(servers, "its host")
        except Rejected as wrong:
            raise self.refused(str(wrong)) from None
        path = (connection.schema or "").strip("/")
        chroot = f"/{path}" if path else ""
        if chroot and where.chroot and chroot != where.chroot:
            raise self.refused("host and schema name two chroots: clear one")
        if wrong_path := chroot_problem(chroot):
            raise self.refused(wrong_path)
        ensemble = {"hosts": where.hosts, "chroot": chroot or where.chroot}
        if "sasl.mechanism" in properties:
            login = self.with_login(connection, properties, ("sasl.username", "sasl.password"))
            return {**ensemble, "properties": login}
        digest = {"username": connection.login or "", "password": connection.password or ""}
        return {**ensemble, **digest, **({"properties": properties} if properties else {})}

    def test_connection(self) -> tuple[bool, str]:
        """Return whether the servers answer, and what is below the chroot, or why not; for the button
        *Test*."""
        from groupshift.bootstrap.connect import zookeeper_connection
        from groupshift.settings import ZookeeperSettings

        try:
            with closing(zookeeper_connection(ZookeeperSettings(**self.section()))) as connection:
                brokers = connection.call(lambda session: session.children("/brokers/ids"))
        except GroupshiftError as error:
            return False, str(error)
        answers = f"ZooKeeper answers at {connection.address}"
        if brokers is None:
            return False, f"{answers}, but has no /brokers/ids: correct the chroot"
        return True, f"{answers}: {len(brokers)} broker(s) registered"


class KubernetesHook(_ClusterHook, kind="kubernetes", name="Kubernetes API"):
    """Connection type ``groupshift_kubernetes``: host = URL of the API server, password = bearer token."""

    def section(self) -> dict[str, Any]:
        """Return what ``[fleet.kubernetes]`` needs to log in.

        Raises:
            Rejected: the host is no address of an API server, or a key is not known.
        """
        from groupshift.domain.addresses import api_server_problem

        connection = self.connection()
        extras, server = self.extras(connection), _servers(connection)
        self.require_known(extras, ("ca",))
        server = server if "://" in server else f"https://{server}"
        if wrong := api_server_problem(server, "its host"):
            raise self.refused(wrong)
        return {"server": server, "token": connection.password or "", "ca": extras.get("ca", "")}


class SigningHook(_ClusterHook, kind="signing", name="evidence signing key"):
    """Connection type ``groupshift_signing``: password = private Ed25519 key in PEM; signs evidence packs."""

    def section(self) -> dict[str, Any]:
        """Return what ``[evidence]`` needs to sign; nothing where there is no such connection."""
        connection = find_connection(self.default_conn_name)
        return {"signing_key": connection.password} if connection and connection.password else {}


def _with_login(fleet: dict[str, Any]) -> dict[str, Any]:
    """The ``[fleet]`` section; where it says nothing of how to reach the Kubernetes API, the connection
    ``groupshift_kubernetes_default`` does, if there is one (inside a cluster none is needed)."""
    cluster = fleet.get("kubernetes", {} if fleet.get("driver") == "kubernetes" else None)
    if not isinstance(cluster, dict) or cluster.get("server") or cluster.get("kubeconfig"):
        return fleet
    hook = KubernetesHook()
    if find_connection(hook.conn_id) is None:
        return fleet
    return {**fleet, "kubernetes": {**cluster, **hook.section()}}


def _servers(connection: Connection) -> str:
    """Host, with the port when the connection was given as a URI with a single server; Airflow takes the
    brackets off an IPv6 address."""
    host = str(connection.host)
    if not connection.port:
        return host
    return f"[{host}]:{connection.port}" if _IPV6.fullmatch(host) else f"{host}:{connection.port}"


def require_spark(conn_id: str) -> str:
    """Return the master that the Spark connection names, as the provider puts it together.

    Raises:
        Rejected: the connection is missing or has no host: Airflow would silently submit to YARN.
    """
    connection = find_connection(conn_id)
    if connection is None:
        raise Rejected(
            f"connection {conn_id!r} does not exist; create it with type 'spark' and a master such as"
            " local[*] as host."
        )
    if not connection.host:
        raise Rejected(f"connection {conn_id!r} has no host; fill in a Spark master such as local[*].")
    full = connection.conn_type == "spark" and ("://" in connection.host or not connection.port)
    return _servers(connection) if full else f"{connection.conn_type}://{_servers(connection)}"


@contextmanager
def submission(conn_id: str) -> Iterator[dict[str, Any]]:
    """Yield how a Spark job of ours is submitted over a Spark connection, as arguments of `SparkSubmitHook`:
    its ``conf``, ``env_vars``, ``py_files`` and ``properties_file``.

    Section ``[spark]`` of this deployment names the workers' interpreter and Spark's own keys, the
    connection names the master. What the driver's JVM is told must be known before it starts. To a cluster
    goes our code, too; on this machine nothing listens outside.

    Raises:
        Rejected: the connection is missing or has no host, or the settings cannot be read.
    """
    from groupshift.adapters.spark_submit.submit import driver_options, stays_here, submit_files
    from groupshift.settings import SparkSettings

    master, settings = require_spark(conn_id), SparkSettings(**base_settings().get("spark", {}))
    python = {"PYSPARK_PYTHON": settings.python or sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    with submit_files(settings, master) as files:
        yield {
            "conf": {"spark.driver.extraJavaOptions": driver_options(master)},
            "env_vars": {**python, "SPARK_LOCAL_IP": "127.0.0.1"} if stays_here(master) else python,
            "py_files": files.code,
            "properties_file": files.properties,
        }


def base_settings() -> dict[str, Any]:
    """Return journal, evidence, fleet and thresholds of this deployment, as sections.

    From the TOML file named by ``GROUPSHIFT_SETTINGS``; without one a SQLite journal and an evidence
    folder below AIRFLOW_HOME, and people replace members (driver ``manual``).

    Raises:
        Rejected: the file cannot be read.
    """
    path = os.environ.get(SETTINGS_VARIABLE)
    if path:
        try:
            return toml(Path(path))
        except (OSError, ValueError) as error:
            raise Rejected(f"settings file {path} ({SETTINGS_VARIABLE}) cannot be used: {error}.") from error
    home = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser() / "groupshift"
    home.mkdir(parents=True, exist_ok=True)
    return {
        "journal": {"url": f"sqlite:///{home / 'journal.db'}"},
        "evidence": {"root": str(home / "evidence")},
        "fleet": {"driver": "manual"},
    }


def evidence_root() -> str:
    """Return where this deployment keeps evidence, without a slash at the end."""
    return str(base_settings().get("evidence", {}).get("root", "")).rstrip("/")


def cluster_settings(kafka_conn_id: str, zookeeper_conn_id: str) -> Settings:
    """Return the deployment's settings with these two connections, without the second one no ZooKeeper.

    Raises:
        Rejected: a connection or a setting is missing or wrong.
    """
    from groupshift.settings import parse

    sections = base_settings()
    sections["kafka"] = KafkaClusterHook(kafka_conn_id).section()
    named = [each for each in (kafka_conn_id, zookeeper_conn_id) if each not in {"", "None"}]
    if zookeeper_conn_id in named:
        sections["zookeeper"] = ZookeeperHook(zookeeper_conn_id).section()
    sections["fleet"] = _with_login(sections.get("fleet", {}))
    sections["evidence"] = {**SigningHook().section(), **sections.get("evidence", {})}
    base = os.environ.get(SETTINGS_VARIABLE, "the defaults")
    return parse(sections, source=f"connections {', '.join(named)} and {base}")
