"""The trigger forms of the DAGs."""

from __future__ import annotations

from airflow.sdk import Param

_SCOPE = "1. Scope"
_HOW = "2. How"


def _connection(title: str, default: str, type_: str) -> Param:
    return Param(
        default,
        type="string",
        minLength=1,
        title=title,
        section=_SCOPE,
        description_md=f"Id of an Airflow connection of type **{type_}**.",
    )


def kafka_cluster() -> dict[str, Param]:
    """Which connection, where Kafka is all there is."""
    return {
        "kafka_conn_id": _connection("Kafka cluster", "groupshift_kafka_default", "Groupshift Kafka cluster"),
    }


def clusters() -> dict[str, Param]:
    """Which two connections."""
    return {
        **kafka_cluster(),
        "zookeeper_conn_id": _connection("ZooKeeper", "groupshift_zookeeper_default", "Groupshift ZooKeeper"),
    }


def number(title: str, text: str, default: int, limits: tuple[int, int]) -> Param:
    """A whole number between two limits. They are written as exclusive ones: with ``minimum`` and ``maximum``
    Airflow's form puts the limit in place of what a person typed (-5 becomes 0), and says nothing."""
    low, high = limits
    return Param(
        default,
        type="integer",
        exclusiveMinimum=low - 1,
        exclusiveMaximum=high + 1,
        title=title,
        section=_HOW,
        description_md=f"{text} From {low} to {high}.",
    )
