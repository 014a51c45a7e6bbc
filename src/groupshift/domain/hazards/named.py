"""Versions of brokers and clients as people name them on the command line and in trigger forms."""

from __future__ import annotations

from collections.abc import Sequence

from groupshift.domain.hazards.model import Met, Role
from groupshift.domain.versions import Span, Version, met
from groupshift.errors import Rejected

_BOUND = "confluent-kafka"
_ROLES = (Role.LIBRDKAFKA, Role.KAFKA_CLIENTS, Role.MIRROR_MAKER)
CLIENTS = (_BOUND, *_ROLES)
"""The names of clients; confluent-kafka brings some librdkafka of its line."""
NOBODY = "none"
"""What stands for no client at all."""


def broker_versions(brokers: Sequence[str], target: str = "") -> dict[Role, tuple[Met, ...]]:
    """What --broker and --target say, by role; nothing of what was not named. Raises `Rejected`."""
    found = {Role.BROKER: brokers, Role.TARGET: (target,) if target else ()}
    return {
        role: tuple(Met(where=role.value, version=met(text, f"--{role.value}"), said=text) for text in texts)
        for role, texts in found.items()
        if texts
    }


def client_versions(clients: Sequence[str]) -> dict[Role, tuple[Met, ...]]:
    """What --client says, by role; nothing where none is named: then all are unknown. Raises `Rejected`."""
    if not clients:
        return {}
    found: dict[Role, tuple[Met, ...]] = dict.fromkeys(_ROLES, ())
    for each in clients:
        if each == NOBODY:
            continue
        name, _, text = each.partition("=")
        if name not in CLIENTS:
            raise Rejected(
                f"--client {each} is not known; name one of {', '.join(CLIENTS)} with its version, such as "
                f"{_BOUND}=2.16.1, or {NOBODY}"
            )
        version = met(text, f"--client {name}")
        if name == _BOUND and isinstance(version, Version):
            version = _line(version)
        role = Role.LIBRDKAFKA if name == _BOUND else Role(name)
        found[role] = (*found[role], Met(where=name, version=version, said=text))
    return found


def _line(version: Version) -> Span | None:
    """confluent-kafka 2.16.1 brings some librdkafka 2.16."""
    major, minor = version.numbers[:2]
    line = met(f"{major}.{minor}")
    return line if isinstance(line, Span) else None
