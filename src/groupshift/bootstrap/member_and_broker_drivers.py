"""The driver that a run uses: who replaces members, and who replaces the nodes of a cluster.

A small TOML file says who replaces nodes::

    driver = "command"                       # manual, command, or an installed one
    [command]
    start = ["replace-node", "--node", "{node}", "--release", "{release}", "--change", "{change_id}"]
    observe = ["show-node", "{node}"]
    timeout_s = 600
    environment = ["DEPLOY_TOKEN"]
    [fence]                                  # where something keeps clients out while brokers restart
    keep_out = ["close-to-clients", "{run}"]
    let_in = ["open-to-clients", "{run}"]
    timeout_s = 600
    environment = ["ACL_TOKEN"]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from groupshift.adapters.drivers.command import CommandFleet, CommandReplacement, FencedReplacement, Programs
from groupshift.errors import Rejected
from groupshift.foreign_files import toml
from groupshift.ports.cluster import GroupReader
from groupshift.ports.driver import BrokerReplacement, FleetDriver
from groupshift.settings import DRIVERS, FleetSettings


def fleet(settings: FleetSettings, groups: GroupReader, driver: str) -> FleetDriver:
    """The driver of that name. Raises `Rejected` for one that is unknown or not configured."""
    if driver not in DRIVERS:
        raise Rejected(f"driver {driver!r} is unknown; choose one of {', '.join(DRIVERS)}")
    if driver == "process":
        from groupshift.adapters.drivers.process import ProcessFleet

        if not settings.socket:
            raise Rejected("driver 'process' needs the setting fleet.socket: the supervisor's socket")
        return ProcessFleet(settings.socket)
    if driver == "command":
        return CommandFleet(settings.command)
    if driver == "manual":
        from groupshift.adapters.drivers.manual import ManualFleet

        return ManualFleet()
    try:
        from groupshift.adapters.drivers.kubernetes import KubernetesApi, KubernetesFleet
    except ModuleNotFoundError as error:  # it is an extra
        needed = f"driver 'kubernetes' needs {error.name}, which is not installed"
        raise Rejected(f"{needed}: pip install 'kafka-groupshift[kubernetes]'") from error
    return KubernetesFleet(KubernetesApi(settings.kubernetes), partial(client_ids, groups))


def client_ids(groups: GroupReader, group: str) -> tuple[str, ...]:
    """The consumer ids and client ids under which the group knows its members now."""
    view = groups.read(group)
    return tuple(sorted({*view.ids, *(each.client_id for each in view.kafka.members if each.client_id)}))


_OWN = ("manual", "command")
_INSTALLED = "groupshift.drivers"
"""Entry points of further drivers: a callable of the table that has the driver's name."""
_LONGEST_S = 365 * 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesFile:
    """What the file says: ``table`` is that of the driver, ``fence`` that of the programs that keep clients
    out."""

    driver: str
    table: Mapping[str, Any]
    fence: Mapping[str, Any]


def driver_of(path: Path | None) -> BrokerReplacement:
    """The driver that the file chooses, with the fence that it names. Raises `Rejected` for a file that
    cannot be used."""
    return replacement(nodes_file(path))


def nodes_file(path: Path | None) -> NodesFile:
    """The file's content; without one a person replaces the nodes. Raises `Rejected` for what cannot be
    used."""
    if path is None:
        return NodesFile(driver="manual", table={}, fence={})
    try:
        document = toml(path)
    except (OSError, ValueError) as error:
        raise Rejected(f"--nodes {path} cannot be read ({error}); give a TOML file") from error
    driver = document.get("driver", "")
    known = [*_OWN, *sorted(entry_points(group=_INSTALLED).names)]
    if driver not in known:
        raise Rejected(f"--nodes {path}: driver {driver!r} is none of {', '.join(known)}")
    tables = {name: document.get(name, {}) for name in (driver, "fence")}
    wrong = [name for name, table in tables.items() if not isinstance(table, dict)]
    if wrong:
        raise Rejected(f"--nodes {path}: {' and '.join(wrong)} must be a table")
    return NodesFile(driver=driver, table=tables[driver], fence=tables["fence"])


def replacement(nodes: NodesFile) -> BrokerReplacement:
    """The driver, with the fence that the file names, if it does. Raises `Rejected` for a table that cannot
    be used."""
    driver: BrokerReplacement
    if nodes.driver == "manual":
        from groupshift.adapters.drivers.manual import ManualReplacement

        driver = ManualReplacement()
    elif nodes.driver == "command":
        driver = CommandReplacement(_programs(nodes.table, "command"))
    else:
        driver = entry_points(group=_INSTALLED)[nodes.driver].load()(nodes.table)
    return FencedReplacement(driver, _programs(nodes.fence, "fence")) if nodes.fence else driver


def _programs(table: Mapping[str, Any], of: str) -> Programs:
    """Return the programs that a table of the file names: seconds, and lists of texts. Raises `Rejected` for
    another value."""
    timeout = table.get("timeout_s", 600)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= _LONGEST_S:
        raise Rejected(f"{of}.timeout_s {timeout!r} is no number of seconds above 0, of a year at most")
    values: dict[str, Any] = {"timeout_s": float(timeout)}
    for name in [each.name for each in fields(Programs) if each.name != "timeout_s"]:
        value = table.get(name, [])
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise Rejected(f"{of}.{name} is no list of texts")
        values[name] = tuple(value)
    return Programs(**values)
