"""The trigger forms of the DAGs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Param

from groupshift.domain.group_protocol import Protocol, Way
from groupshift.domain.plan import Until, WayBack
from groupshift.domain.planning import MAX_GROUP, MAX_WATCH_S

_SCOPE = "1. Scope"
_HOW = "2. How"
_ACT = "3. Act"
_REACH = {
    Until.CANARY: "canary: replace a few members",
    Until.ROLL: "roll: replace all members",
    Until.TOGGLE: "toggle: switch the group to Kafka coordination",
    Until.RETIRE: "retire: end with plain Kafka consumers",
}
_PROTOCOL_REACH = {
    Until.CANARY: "canary: replace a few members",
    Until.ROLL: "roll: replace all members",
}
_PROTOCOLS = {
    Protocol.CONSUMER: "consumer: the protocol of KIP-848",
    Protocol.CLASSIC: "classic: the protocol of JoinGroup",
}
_WAYS = {
    Way.ONLINE: "online: one after the other, others consume",
    Way.OFFLINE: "offline: all stop before the first one starts again",
}
_REACH_TEXT = "The last act of this run. Everything up to it can be taken back with `roll_back`."
_DRIVERS = {
    "settings": "the one in this deployment's settings",
    "process": "process: the supervisor replaces members",
    "manual": "manual: a person deploys",
    "command": "command: programs of your deployment replace members",
    "kubernetes": "kubernetes: Deployments and StatefulSets are patched",
}


def _connection(title: str, default: str, type_: str) -> Param:
    return Param(
        default,
        type="string",
        minLength=1,
        title=title,
        section=_SCOPE,
        description_md=f"Id of an Airflow connection of type **{type_}**.",
    )


def _zookeeper_if_any() -> Param:
    """For what serves moves with and without ZooKeeper."""
    return Param(
        "groupshift_zookeeper_default",
        type=["string", "null"],
        title="ZooKeeper",
        section=_SCOPE,
        description_md="Id of an Airflow connection of type **Groupshift ZooKeeper**; empty for a migration "
        "of the protocol.",
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


def _execute(what: str) -> Param:
    return Param(False, type="boolean", title="Execute", section=_ACT, description_md=what)


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


def _share() -> Param:
    return Param(
        0.0,
        type="number",
        exclusiveMinimum=-0.001,  # as in `number`; the plan refuses what is between this and 0
        exclusiveMaximum=1.001,
        title="Canary share",
        section=_HOW,
        description_md="Instead of a size, such as 0.25: the fewest members that hold this share of the "
        "partitions. From 0 to 1; 0: by size.",
    )


def _expiry() -> Param:
    text = "A question that nobody answers in time is answered with no: nothing more is changed."
    return number("Gates expire after (seconds)", text, 86400, (5, 86400))


def _choice(default: str, title: str, values: Mapping[Any, str], section: str, text: str) -> Param:
    return Param(
        str(default),
        type="string",
        enum=[str(value) for value in values],
        values_display={str(value): shown for value, shown in values.items()},
        title=title,
        section=section,
        description_md=text,
    )


def _group(text: str, pattern: str) -> Param:
    """It has no default, so it must be filled in."""
    return Param(
        type="string",
        pattern=pattern,
        maxLength=MAX_GROUP,
        title="Consumer group",
        section=_SCOPE,
        description_md=text,
    )


def migrate() -> dict[str, Any]:
    """Parameters of ``migrate_coordination``; the group has no default, so it must be filled in."""
    return {
        "group": _group("The `group.id` of the old consumers.", "^[A-Za-z0-9._-]+$"),
        **clusters(),
        "until": _choice(Until.TOGGLE, "How far", _REACH, _SCOPE, _REACH_TEXT),
        "driver": _choice("settings", "Fleet driver", _DRIVERS, _HOW, "Who replaces the members."),
        "canary": number("Canary size", "How many members are replaced first.", 1, (1, 100)),
        "canary_share": _share(),
        "canary_watch_s": number(
            "Watch the canary (seconds)",
            "How long it is compared with the old members beside it: lag, commits, errors, rebalances. "
            "At least four of their commit intervals; 0: not at all.",
            60,
            (0, MAX_WATCH_S),
        ),
        "soak_s": number(
            "Soak (seconds)", "How long the group is watched after the last act.", 60, (0, 604800)
        ),
        "gate_expiry_s": _expiry(),
        "execute": _execute("**Off: plan only, nothing is changed.** On: act, after an approval."),
    }


def protocol() -> dict[str, Any]:
    """Parameters of ``migrate_protocol``."""
    soak = "How long the group is watched after the last act."
    return {
        "group": _group("The `group.id` of the consumers.", "^.+$"),
        **kafka_cluster(),
        "to": _choice(Protocol.CONSUMER, "To protocol", _PROTOCOLS, _SCOPE, "What members are to speak."),
        "way": _choice(Way.ONLINE, "How members change", _WAYS, _HOW, "`assess` says which fits."),
        "until": _choice(Until.ROLL, "How far", _PROTOCOL_REACH, _SCOPE, _REACH_TEXT),
        "driver": _choice("settings", "Fleet driver", _DRIVERS, _HOW, "Who replaces the members."),
        "canary": number("Canary size", "How many members are replaced first.", 1, (1, 100)),
        "clients": Param(
            [],
            type="array",
            items={"type": "string"},
            title="Clients",
            section=_HOW,
            description_md="What members run, one a line, such as `confluent-kafka=2.16.1` or "
            "`kafka-clients=4.3.1`: the hazard book is asked about them.",
        ),
        "soak_s": number("Soak (seconds)", soak, 60, (0, 604800)),
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
        **kafka_cluster(),
        "zookeeper_conn_id": _zookeeper_if_any(),
        "to": _choice(
            WayBack.OLD_MEMBERS,
            "How far back",
            {
                WayBack.ZOOKEEPER_MODE: "zookeeper_mode: mode back, migration-aware members stay",
                WayBack.OLD_MEMBERS: "old_members: everything back, to the members that were there before",
            },
            _SCOPE,
            "Offsets of the progress made are kept either way.",
        ),
        "gate_expiry_s": _expiry(),
        "execute": _execute("**Off: only say where the migration stands.** On: go back now, without a gate."),
    }


def _release(title: str, text: str) -> Param:
    return Param(type="string", pattern=r"^\d+\.\d+\.\d+$", title=title, section=_SCOPE, description_md=text)


def downgrade() -> dict[str, Any]:
    """Parameters of ``downgrade_coordinator``; the releases have no default, so they must be filled in."""
    return {
        "to": _release("To", "The older release, such as `3.9.2`."),
        "from": _release("From", "What the brokers run now: the way back needs it."),
        "kafka_conn_id": clusters()["kafka_conn_id"],
        "coordinator": _choice(
            "default",
            "Coordinator",
            {"default": "the one that the release runs by itself", "old": "old", "new": "new"},
            _HOW,
            "For 3.7 to 3.9, where a broker may run either.",
        ),
        "live": Param(
            False,
            type="boolean",
            title="Commits go on",
            section=_HOW,
            description_md="**On**: members consume while brokers are replaced; offsets must not go back.",
        ),
        "brokers_only": Param(
            False,
            type="boolean",
            title="Controllers stay",
            section=_HOW,
            description_md="**On**: controllers of their own keep their release, only brokers go back.",
        ),
        "gate_expiry_s": _expiry(),
        "execute": _execute("**Off: plan only, nothing is changed.** On: act, after an approval."),
    }
