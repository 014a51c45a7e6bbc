"""What helps against an answer that is not wanted, by number of its row (`answers`)."""

from __future__ import annotations

_RESTART = "(no broker changes it while it runs: restart them one by one)"
_OFFLINE = "or move with --offline"
REMEDIES = {
    "PN01": "switch the consumer protocol on at every broker: release, list of protocols, feature",
    "PN05": "update the brokers to 4.0 or newer",
    "PN07": "let this login describe the brokers' configuration, or ask who runs them",
    "PN08": f"set group.consumer.migration.policy to bidirectional on every broker {_RESTART}, {_OFFLINE}",
    "PN10": f"raise group.consumer.max.size on every broker {_RESTART}",
    "PN11": "see what client wrote it; or move with --offline",
    "PN12": f"give all members range or roundrobin as partition.assignment.strategy first, {_OFFLINE}",
    "PN13": "replace members one by one, each stopped before the next is started, or raise the limit",
    "PN15": "stop the member that has this instance id first",
    "PN17": "replace members one by one, each stopped before the next is started, or raise the limit",
    "PC05": "replace members one by one, each stopped before the next is started, or raise the limit",
    "PC07": "give all classic members one common partition.assignment.strategy",
    "PC09": "let this login describe the brokers' configuration, or ask who runs them",
    "PC10": f"set group.consumer.migration.policy to bidirectional on every broker {_RESTART}, {_OFFLINE}",
    "PC11": f"set group.consumer.migration.policy to bidirectional on every broker {_RESTART}, {_OFFLINE}",
    "PL02": "watch the type of the group instead of its members",
    "PL05": "let this login describe the brokers' configuration, or ask who runs them",
    "PL06": f"set group.consumer.migration.policy to bidirectional on every broker {_RESTART}, {_OFFLINE}",
    "PL07": f"raise group.max.size on every broker {_RESTART}",
    "PL08": "start its classic twin with the same instance id, or wait for the session to end",
}
"""What helps, by number of the row."""
