"""Connections to settings to the App: the only place that reads Airflow connections."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from groupshift.errors import Rejected
from groupshift.foreign_files import toml

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from groupshift.application.fleet_scans import FleetScans
    from groupshift.bootstrap import App
    from groupshift.settings import Settings, SparkSettings

SETTINGS_VARIABLE = "GROUPSHIFT_SETTINGS"


class _ClusterHook(BaseHook):
    """Reads one connection and refuses a missing or wrong one with a sentence."""

    conn_type: str
    hook_name: str
    default_conn_name: str

    def __init__(self, conn_id: str | None = None) -> None:
        super().__init__()
        self.conn_id = conn_id or self.default_conn_name

    def connection(self) -> Connection:
        """The connection. Raises `Rejected` when it is missing, of another type or has no host."""
        try:
            found = self.get_connection(self.conn_id)
        except AirflowNotFoundException as error:
            raise Rejected(
                f"connection {self.conn_id!r} does not exist; create it under Admin > Connections with"
                f" type {self.hook_name!r}."
            ) from error
        if found.conn_type != self.conn_type:
            raise Rejected(
                f"connection {self.conn_id!r} has type {found.conn_type!r}; it must be {self.conn_type!r}"
                f" ({self.hook_name})."
            )
        if not found.host:
            raise Rejected(f"connection {self.conn_id!r} has no host; fill in the servers as host:port.")
        return found


class KafkaClusterHook(_ClusterHook):
    """Connection type ``groupshift_kafka``: host = bootstrap servers, login/password = SASL."""

    conn_name_attr = "kafka_conn_id"
    default_conn_name = "groupshift_kafka_default"
    conn_type = "groupshift_kafka"
    hook_name = "Groupshift Kafka cluster"

    def section(self) -> dict[str, Any]:
        """The ``[kafka]`` section of the settings."""
        found = self.connection()
        extra = found.extra_dejson
        properties = {
            "security.protocol": extra.get("security_protocol"),
            "sasl.mechanism": extra.get("sasl_mechanism"),
            "ssl.ca.location": extra.get("ssl_ca_location"),
            "sasl.username": found.login,
            "sasl.password": found.password,
        }
        kept = {key: str(value) for key, value in properties.items() if value}
        return {"bootstrap_servers": _servers(found), "properties": kept}


class ZookeeperHook(_ClusterHook):
    """Connection type ``groupshift_zookeeper``: host = hosts, schema = chroot, login/password = digest, or
    SASL with the extra field ``sasl_mechanism``; ``ssl_ca`` and other extra fields: docs/security.md."""

    conn_name_attr = "zookeeper_conn_id"
    default_conn_name = "groupshift_zookeeper_default"
    conn_type = "groupshift_zookeeper"
    hook_name = "Groupshift ZooKeeper"

    def section(self) -> dict[str, Any]:
        """The ``[zookeeper]`` section of the settings."""
        found = self.connection()
        where = {"hosts": _servers(found), "chroot": found.schema or ""}
        extra = {key.replace("_", "."): str(value) for key, value in found.extra_dejson.items()}
        properties = {key: value for key, value in extra.items() if key.startswith(("sasl.", "ssl."))}
        if "sasl.mechanism" in properties:
            login = {"sasl.username": found.login or "", "sasl.password": found.password or ""}
            return {**where, "properties": {**properties, **login}}
        login = {"username": found.login or "", "password": found.password or ""}
        return {**where, **login, **({"properties": properties} if properties else {})}


class KubernetesHook(_ClusterHook):
    """Connection type ``groupshift_kubernetes``: host = URL of the API server, password = bearer token."""

    conn_name_attr = "kubernetes_conn_id"
    default_conn_name = "groupshift_kubernetes_default"
    conn_type = "groupshift_kubernetes"
    hook_name = "Groupshift Kubernetes API"

    def section(self) -> dict[str, Any]:
        """What ``[fleet.kubernetes]`` needs to log in."""
        found = self.connection()
        server = _servers(found)
        return {
            "server": server if "://" in server else f"https://{server}",
            "token": found.password or "",
            "ca": str(found.extra_dejson.get("ca") or ""),
        }


class SigningHook(BaseHook):
    """Connection type ``groupshift_signing``: password = private Ed25519 key in PEM; signs evidence packs."""

    conn_name_attr = "signing_conn_id"
    default_conn_name = "groupshift_signing_default"
    conn_type = "groupshift_signing"
    hook_name = "Groupshift evidence signing key"

    def section(self) -> dict[str, Any]:
        """What ``[evidence]`` needs to sign; nothing where there is no such connection."""
        try:
            found = self.get_connection(self.default_conn_name)
        except AirflowNotFoundException:
            return {}
        return {"signing_key": found.password} if found.password else {}


def _with_login(fleet: dict[str, Any]) -> dict[str, Any]:
    """The ``[fleet]`` section; where it says nothing of how to reach the Kubernetes API, the connection
    ``groupshift_kubernetes_default`` does, if there is one (inside a cluster none is needed)."""
    told = fleet.get("kubernetes", {} if fleet.get("driver") == "kubernetes" else None)
    if not isinstance(told, dict) or told.get("server") or told.get("kubeconfig"):
        return fleet
    hook = KubernetesHook()
    try:
        hook.get_connection(hook.conn_id)
    except AirflowNotFoundException:
        return fleet
    return {**fleet, "kubernetes": {**told, **hook.section()}}


def _servers(found: Connection) -> str:
    """Host, with the port when the connection was given as a URI with a single server."""
    return f"{found.host}:{found.port}" if found.port else str(found.host)


def require_spark(conn_id: str) -> str:
    """The master that the Spark connection names, as the provider puts it together.

    Raises `Rejected` when it is missing: Airflow would silently submit to YARN."""
    try:
        found = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        raise Rejected(
            f"connection {conn_id!r} does not exist; create it with type 'spark' and a master such as"
            " local[*] as host."
        ) from error
    if not found.host:
        raise Rejected(f"connection {conn_id!r} has no host; fill in a Spark master such as local[*].")
    full = found.conn_type == "spark" and ("://" in found.host or not found.port)
    return _servers(found) if full else f"{found.conn_type}://{_servers(found)}"


def spark_settings() -> SparkSettings:
    """Section ``[spark]`` of this deployment: the workers' interpreter and Spark's own keys; the connection
    names the master. Raises `Rejected` as `base_settings`; an App refuses what is wrong in it."""
    from groupshift.settings import SparkSettings

    return SparkSettings(**base_settings().get("spark", {}))


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


def build_app(kafka_conn_id: str, zookeeper_conn_id: str) -> App:
    """The App of these two connections; clusters are connected to at first use, close it after.

    Raises `Rejected` for a missing or wrong connection or setting."""
    from groupshift.bootstrap import build

    return build(cluster_settings(kafka_conn_id, zookeeper_conn_id))


def build_scans(kafka_conn_id: str, zookeeper_conn_id: str) -> FleetScans:
    """The use cases of a whole ensemble over these two connections. Raises as `build_app`."""
    from groupshift.bootstrap import build_scans as build

    return build(cluster_settings(kafka_conn_id, zookeeper_conn_id))


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


def build_reading_app() -> App:
    """An App for the pages: journal and evidence of this deployment, no cluster is asked for anything."""
    from groupshift.bootstrap import build
    from groupshift.settings import parse

    sections = base_settings()
    sections.setdefault("kafka", {"bootstrap_servers": "unused:9092"})
    sections.setdefault("zookeeper", {"hosts": "unused:2181"})
    return build(parse(sections, source=os.environ.get(SETTINGS_VARIABLE, "defaults")))
