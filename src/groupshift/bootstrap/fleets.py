"""Which fleet driver a migration gets."""

from __future__ import annotations

from functools import partial

from groupshift.errors import Rejected
from groupshift.ports.cluster import GroupReader
from groupshift.ports.driver import FleetDriver
from groupshift.settings import DRIVERS, FleetSettings


def fleet(settings: FleetSettings, groups: GroupReader, driver: str) -> FleetDriver:
    """The driver of that name. Raises `Rejected` for one that is unknown or not configured."""
    if driver not in DRIVERS:
        raise Rejected(f"driver {driver!r} is unknown; choose one of {', '.join(DRIVERS)}")
    if driver == "process":
        from groupshift.adapters.drivers.process import ProcessFleet

        if not settings.socket:
            raise Rejected(
                "driver 'process' needs fleet.socket in the settings; name the supervisor's socket"
            )
        return ProcessFleet(settings.socket)
    if driver == "command":
        from groupshift.adapters.drivers.command import CommandFleet

        return CommandFleet(settings.command)
    if driver == "kubernetes":
        return _kubernetes(settings, groups)
    from groupshift.adapters.drivers.manual import ManualFleet

    return ManualFleet()


def _kubernetes(settings: FleetSettings, groups: GroupReader) -> FleetDriver:
    """Raises `Rejected` where the client library is not installed: it is an extra."""
    try:
        from groupshift.adapters.drivers.kubernetes import KubernetesApi, KubernetesFleet
    except ModuleNotFoundError as error:
        raise Rejected(
            f"driver 'kubernetes' needs a library that is not installed ({error.name}): "
            "pip install 'kafka-groupshift[kubernetes]'"
        ) from error
    return KubernetesFleet(KubernetesApi(settings.kubernetes), partial(client_ids, groups))


def client_ids(groups: GroupReader, group: str) -> tuple[str, ...]:
    """The consumer ids and client ids under which the group knows its members now."""
    view = groups.read(group)
    clients = {member.client_id for member in view.kafka.members if member.client_id}
    return tuple(sorted(clients | set(view.ids)))
