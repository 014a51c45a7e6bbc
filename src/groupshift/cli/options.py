"""Options that several commands share.

Also how options are typed again in the next command, and what the commands for whole clusters share: which
groups, which brokers, and progress.
"""

from __future__ import annotations

import getpass
import os
import pwd
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from groupshift.cli.terminal import Console, progress_bar
from groupshift.domain.addresses import joined, kafka_servers, zookeeper_ensemble
from groupshift.errors import Rejected
from groupshift.ports.cluster import Progress
from groupshift.settings import Settings, ZookeeperSettings, load

Group = Annotated[str, typer.Option("--group", "-g", help="The consumer group.", show_default=False)]
Execute = Annotated[bool, typer.Option("--execute", help="Act; without it only a plan is made.")]
SETTINGS_VARIABLE = "GROUPSHIFT_SETTINGS"
HOME_VARIABLE = "GROUPSHIFT_HOME"
DEFAULT_HOME = ".groupshift/sandbox"

SettingsFile = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        envvar=SETTINGS_VARIABLE,
        help="Settings file (TOML). Default: the sandbox's, when it is up.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]


def settings(path: Path | None) -> Settings:
    """The settings of that file, or of the sandbox. Raises `Rejected` when there are none."""
    chosen = path or _of_sandbox()
    if not has_settings(path):
        raise Rejected(
            f"no settings: name a file with --settings or {SETTINGS_VARIABLE}, "
            "or bring a sandbox up with: groupshift sandbox up"
        )
    return load(chosen)


def has_settings(path: Path | None) -> bool:
    """Whether a file was named, or a sandbox has one."""
    return path is not None or _of_sandbox().exists()


def _of_sandbox() -> Path:
    return Path(os.environ.get(HOME_VARIABLE) or DEFAULT_HOME) / "settings.toml"


def account() -> str:
    """The account that this process runs as, whatever the environment claims."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


def who() -> str:
    """The person at the keyboard: the name that the environment tells, and beside it the account that the
    operating system does (`groupshift.engine.questions` reads it)."""
    real = account()
    try:
        claimed = getpass.getuser()
    except (OSError, KeyError):
        claimed = real
    beside = "" if claimed == real else f", {real}"
    return f"{claimed} (uid {os.getuid()}{beside})"


def run_name(verb: str) -> str:
    """A name no other process has: every process that claims fences the ones before it."""
    return f"cli-{verb}-{account()}-{os.getpid()}-{time.time_ns()}"


Groups = Annotated[str, typer.Option("--groups", help="Names with a comma between them.", show_default=False)]


def _servers(text: str) -> str:
    """The servers as every client understands them. Raises `Rejected` for what cannot be an address."""
    return joined(kafka_servers(text, "--bootstrap-servers")) if text else ""


Servers = Annotated[
    str,
    typer.Option(
        "--bootstrap-servers",
        callback=_servers,
        help="Brokers without login; else those and the properties of the settings file.",
        show_default=False,
    ),
]
Ensemble = Annotated[
    str,
    typer.Option(
        "--zookeeper",
        help="With --bootstrap-servers: host:port,host:port/chroot.",
        show_default=False,
    ),
]
Bound = Annotated[
    str,
    typer.Option(
        "--run",
        metavar="RUN",
        help="Whose plan this belongs to: neither older than it nor of another (journal of the settings).",
        show_default=False,
    ),
]
Timeout = Annotated[float, typer.Option(help="Seconds to wait for a broker, with all retries.", min=0.1)]


def wanted(verb: str, groups: str, *, every: bool) -> list[str] | None:
    """The names in ``groups``, None for all. Raises `Rejected` unless exactly one of the two is asked for."""
    names = [name.strip() for name in groups.split(",") if name.strip()]
    if every == bool(names):
        raise Rejected(f"{verb} needs either --groups NAME,NAME or --all: say which groups are meant")
    return names or None


def one_cluster(bootstrap_servers: str, settings_file: Path | None) -> None:
    """Raises `Rejected` when both name a cluster."""
    if bootstrap_servers and settings_file is not None:
        raise Rejected("--bootstrap-servers and --settings both name a cluster: give one of them")


def ensemble(zookeeper: str) -> ZookeeperSettings:
    """Hosts and chroot of ``host:port[,host:port][/chroot]``, without login. Raises `Rejected` for
    what cannot be an address."""
    found = zookeeper_ensemble(zookeeper, "--zookeeper")
    return ZookeeperSettings(hosts=found.hosts, chroot=found.chroot)


@contextmanager
def shown(console: Console) -> Iterator[Progress]:
    """Something to be told of progress, which a terminal shows as a bar."""
    with progress_bar(console, "listing groups") as told:
        yield told
