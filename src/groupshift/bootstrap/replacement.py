"""Who replaces the nodes of a cluster: a small TOML file becomes a driver.

driver = "command"                       # command, sandbox or manual
[command]
start = ["replace-node", "--node", "{node}", "--release", "{release}", "--change", "{change_id}"]
observe = ["show-node", "{node}"]
timeout_s = 600
environment = ["DEPLOY_TOKEN"]
[sandbox]
home = "path of a sandbox"
cluster = "kraft"
[fence]                                  # where something keeps clients out while brokers restart
keep_out = ["close-to-clients", "{run}"]
let_in = ["open-to-clients", "{run}"]
timeout_s = 600
environment = ["ACL_TOKEN"]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groupshift.errors import Rejected
from groupshift.foreign_files import toml
from groupshift.ports.broker_replacement import BrokerReplacement

DRIVERS = ("manual", "command", "sandbox")
_LONGEST_S = 365 * 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesFile:
    """What the file says: ``command``, ``sandbox`` and ``fence`` are its tables."""

    driver: str
    command: Mapping[str, Any]
    sandbox: Mapping[str, Any]
    fence: Mapping[str, Any]


def nodes_file(path: Path | None) -> NodesFile:
    """The file's content; without one a person replaces the nodes. Raises `Rejected` for what cannot be
    used."""
    if path is None:
        return NodesFile(driver="manual", command={}, sandbox={}, fence={})
    try:
        document = toml(path)
    except (OSError, ValueError) as error:
        raise Rejected(f"--nodes {path} cannot be read ({error}); give a TOML file") from error
    driver = document.get("driver", "")
    if driver not in DRIVERS:
        raise Rejected(f"--nodes {path}: driver {driver!r} is none of {', '.join(DRIVERS)}")
    tables = {name: document.get(name, {}) for name in ("command", "sandbox", "fence")}
    if not all(isinstance(each, dict) for each in tables.values()):
        raise Rejected(f"--nodes {path}: command, sandbox and fence are tables")
    return NodesFile(driver=driver, **tables)


def replacement(found: NodesFile) -> BrokerReplacement:
    """The driver `manual` or `command`. Raises `Rejected` for a template that cannot be used."""
    if found.driver != "command":
        from groupshift.adapters.replacement.manual import ManualReplacement

        return ManualReplacement()
    from groupshift.adapters.replacement.command import CommandReplacement, Programs

    texts = {name: _texts(found.command, "command", name) for name in ("start", "observe", "environment")}
    return CommandReplacement(Programs(**texts, timeout_s=_seconds(found.command, "command")))


def fenced(found: NodesFile, driver: BrokerReplacement) -> BrokerReplacement:
    """The driver, with the fence that the file names, if it does. Raises `Rejected` as `replacement`."""
    if not found.fence:
        return driver
    from groupshift.adapters.replacement.fenced import FencedReplacement, FencePrograms

    texts = {name: _texts(found.fence, "fence", name) for name in ("keep_out", "let_in", "environment")}
    return FencedReplacement(driver, FencePrograms(**texts, timeout_s=_seconds(found.fence, "fence")))


def _seconds(table: Mapping[str, Any], of: str) -> float:
    timeout = table.get("timeout_s", 600)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= _LONGEST_S:
        raise Rejected(f"{of}.timeout_s {timeout!r} is no number of seconds above 0, of a year at most")
    return float(timeout)


def _texts(table: Mapping[str, Any], of: str, name: str) -> tuple[str, ...]:
    value = table.get(name, [])
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise Rejected(f"{of}.{name} is no list of texts")
    return tuple(value)
