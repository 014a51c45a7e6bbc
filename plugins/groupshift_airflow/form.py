"""The trigger forms of the DAGs."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Param

from groupshift.domain.moves import Until, WayBack

_SCOPE = "1. Scope"
_HOW = "2. How"
_ACT = "3. Act"


def _connection(title: str, default: str, type_: str) -> Param:
    return Param(
        default,
        type="string",
        minLength=1,
        title=title,
        section=_SCOPE,
        description_md=f"Id of an Airflow connection of type **{type_}**.",
    )


def _clusters() -> dict[str, Param]:
    return {
        "kafka_conn_id": _connection("Kafka cluster", "groupshift_kafka_default", "Groupshift Kafka cluster"),
        "zookeeper_conn_id": _connection("ZooKeeper", "groupshift_zookeeper_default", "Groupshift ZooKeeper"),
    }


def _execute(what: str) -> Param:
    return Param(False, type="boolean", title="Execute", section=_ACT, description_md=what)


def _expiry() -> Param:
    return Param(
        86400,
        type="integer",
        minimum=5,
        maximum=86400,
        title="Gates expire after (seconds)",
        section=_HOW,
        description_md="A question that nobody answers in time is answered with no: nothing more is changed.",
    )


def _choice(default: str, title: str, values: dict[str, str], section: str, text: str) -> Param:
    return Param(
        default,
        type="string",
        enum=list(values),
        values_display=values,
        title=title,
        section=section,
        description_md=text,
    )


def migrate() -> dict[str, Any]:
    """Parameters of ``migrate_coordination``; the group has no default, so it must be filled in."""
    return {
        "group": Param(
            type="string",
            pattern="^[A-Za-z0-9._-]+$",
            title="Consumer group",
            section=_SCOPE,
            description_md="The `group.id` of the old consumers.",
        ),
        **_clusters(),
        "until": _choice(
            Until.TOGGLE,
            "How far",
            {
                Until.CANARY: "canary: replace a few members",
                Until.ROLL: "roll: replace all members",
                Until.TOGGLE: "toggle: switch the group to Kafka coordination",
                Until.RETIRE: "retire: end with plain Kafka consumers",
            },
            _SCOPE,
            "The last act of this run. Everything up to it can be taken back with `roll_back`.",
        ),
        "driver": _choice(
            "process",
            "Fleet driver",
            {"process": "process: the supervisor replaces members", "manual": "manual: a person deploys"},
            _HOW,
            "Who replaces the members.",
        ),
        "canary": Param(
            1,
            type="integer",
            minimum=1,
            maximum=100,
            title="Canary size",
            section=_HOW,
            description_md="How many members are replaced first.",
        ),
        "soak_s": Param(
            60,
            type="integer",
            minimum=0,
            maximum=604800,
            title="Soak (seconds)",
            section=_HOW,
            description_md="How long the group is watched after the last act.",
        ),
        "gate_expiry_s": _expiry(),
        "execute": _execute("**Off: plan only, nothing is changed.** On: act, after an approval."),
    }


def roll_back() -> dict[str, Any]:
    """Parameters of ``roll_back``."""
    return {
        "migration": Param(
            type="string",
            minLength=1,
            title="Migration",
            section=_SCOPE,
            description_md="Id of the migration to take back, as the page *Migrations* lists it.",
        ),
        **_clusters(),
        "to": _choice(
            WayBack.OLD_MEMBERS,
            "How far back",
            {
                WayBack.ZOOKEEPER_MODE: "zookeeper_mode: mode back, migration-aware members stay",
                WayBack.OLD_MEMBERS: "old_members: mode back, then the old consumers again",
            },
            _SCOPE,
            "Offsets of the progress made are kept either way.",
        ),
        "gate_expiry_s": _expiry(),
        "execute": _execute("**Off: only say where the migration stands.** On: go back now, without a gate."),
    }
