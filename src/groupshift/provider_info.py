"""What Airflow's provider entry point asks for: our connection types and their forms.

A plain dict in Airflow's provider schema; nothing here imports Airflow. The hook classes live in the
plugin package (``plugins/groupshift_airflow/hooks.py``), which Airflow puts on ``sys.path``.
"""

from __future__ import annotations

from typing import Any


def _field(label: str, description: str, *, secret: bool = False) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": ["string", "null"]}
    if secret:
        schema["format"] = "password"
    return {"label": label, "description": description, "schema": schema}


_KAFKA: dict[str, Any] = {
    "connection-type": "groupshift_kafka",
    "hook-class-name": "groupshift_airflow.hooks.KafkaClusterHook",
    "hook-name": "Groupshift Kafka cluster",
    "ui-field-behaviour": {
        "hidden-fields": ["schema", "port", "extra"],
        "relabeling": {"host": "Bootstrap servers", "login": "SASL user", "password": "SASL password"},
        "placeholders": {"host": "broker1:9092,broker2:9092"},
    },
    "conn-fields": {
        "security_protocol": _field(
            "Security protocol", "PLAINTEXT (default), SSL, SASL_PLAINTEXT or SASL_SSL."
        ),
        "sasl_mechanism": _field("SASL mechanism", "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512."),
        "ssl_ca_location": _field("CA certificates", "Path of a PEM file on the worker."),
        "ssl_certificate_location": _field(
            "Client certificate", "Mutual TLS: path of a PEM file on the worker."
        ),
        "ssl_key_location": _field("Key of the client certificate", "Path of a PEM file on the worker."),
        "ssl_key_password": _field("Password of the key", "Empty for a key without one.", secret=True),
    },
}

_ZOOKEEPER: dict[str, Any] = {
    "connection-type": "groupshift_zookeeper",
    "hook-class-name": "groupshift_airflow.hooks.ZookeeperHook",
    "hook-name": "Groupshift ZooKeeper",
    "ui-field-behaviour": {
        "hidden-fields": ["port", "extra"],
        "relabeling": {
            "host": "Hosts",
            "schema": "Chroot",
            "login": "User",
            "password": "Password",
        },
        "placeholders": {"host": "zk1:2181,zk2:2181", "schema": "/kafka"},
    },
    "conn-fields": {
        "sasl_mechanism": _field("SASL mechanism", "DIGEST-MD5, or empty for the scheme digest."),
        "ssl_ca": _field("CA certificates", "Path of a PEM file on the worker; switches TLS on."),
        "ssl_certificate": _field("Client certificate", "Mutual TLS: path of a PEM file on the worker."),
        "ssl_key": _field("Key of the client certificate", "Path of a PEM file on the worker."),
        "ssl_key_password": _field("Password of the key", "Empty for a key without one.", secret=True),
        "ssl_verify": _field("Verify the server", "true (default) or false."),
    },
}

_KUBERNETES: dict[str, Any] = {
    "connection-type": "groupshift_kubernetes",
    "hook-class-name": "groupshift_airflow.hooks.KubernetesHook",
    "hook-name": "Groupshift Kubernetes API",
    "ui-field-behaviour": {
        "hidden-fields": ["schema", "login", "extra"],
        "relabeling": {"host": "API server", "password": "Bearer token"},
        "placeholders": {"host": "https://kubernetes.example:6443"},
    },
    "conn-fields": {"ca": _field("CA certificates", "Path of a PEM file on the worker.")},
}


_SIGNING: dict[str, Any] = {
    "connection-type": "groupshift_signing",
    "hook-class-name": "groupshift_airflow.hooks.SigningHook",
    "hook-name": "Groupshift evidence signing key",
    "ui-field-behaviour": {
        "hidden-fields": ["host", "schema", "login", "port", "extra"],
        "relabeling": {"password": "Private Ed25519 key (PEM)"},
    },
    "conn-fields": {},
}


def get_provider_info() -> dict[str, Any]:
    """The provider description (schema: Airflow's provider_info; entry point in pyproject.toml)."""
    return {
        "package-name": "kafka-groupshift",
        "name": "Groupshift",
        "description": "Moves Kafka consumer groups between coordinators, and proves it.",
        "versions": ["0.1.0"],
        "connection-types": [_KAFKA, _ZOOKEEPER, _KUBERNETES, _SIGNING],
    }
