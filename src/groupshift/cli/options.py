"""Options that several commands share, and what they name: settings, a cluster, groups, the offsets log.

Also who is at the keyboard, and progress.
"""

from __future__ import annotations

import getpass
import os
import pwd
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from groupshift.cli.terminal import Console, progress_bar
from groupshift.domain.addresses import joined, kafka_servers, zookeeper_ensemble
from groupshift.errors import Rejected
from groupshift.ports.cluster import Progress
from groupshift.ports.log import OffsetsLog
from groupshift.settings import (
    EvidenceSettings,
    FleetSettings,
    JournalSettings,
    KafkaSettings,
    Settings,
    ZookeeperSettings,
    load,
)

SETTINGS_VARIABLE = "GROUPSHIFT_SETTINGS"
"""Environment variable that names the settings file."""
HOME_VARIABLE = "GROUPSHIFT_HOME"
"""Environment variable that names the folder of the sandbox."""
DEFAULT_HOME = ".groupshift/sandbox"


def option(flag: str, said: str, *also: str, **more: Any) -> Any:
    """Return an option whose default says nothing that ``said`` does not."""
    return typer.Option(flag, *also, help=said, show_default=False, **more)


def _servers(text: str) -> str:
    """The servers as every client understands them. Raises `Rejected` for what cannot be an address."""
    return joined(kafka_servers(text, "--bootstrap-servers")) if text else ""


Group = Annotated[str, option("--group", "The consumer group.", "-g")]
Groups = Annotated[str, option("--groups", "Names with a comma between them.")]
Execute = Annotated[bool, typer.Option("--execute", help="Act; without it only a plan is made.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
AllRules = Annotated[bool, typer.Option("--all", help="Show the rules that passed, too.")]
Page = Annotated[Path | None, option("--output", "Write the page here (one HTML file).")]
_SETTINGS = "Settings file (TOML). Default: the sandbox's, when it is up."
SettingsFile = Annotated[Path | None, option("--settings", _SETTINGS, envvar=SETTINGS_VARIABLE)]
_BROKERS = "Brokers without login; else those and the properties of the settings file."
Servers = Annotated[str, option("--bootstrap-servers", _BROKERS, callback=_servers)]
Ensemble = Annotated[str, option("--zookeeper", "With --bootstrap-servers: host:port,host:port/chroot.")]
_PLAN = "Whose plan this belongs to: neither older than it nor of another (journal of the settings)."
Bound = Annotated[str, option("--run", _PLAN, metavar="RUN")]
Timeout = Annotated[float, typer.Option(help="Seconds to wait for a broker, with all retries.", min=0.1)]


def settings(path: Path | None) -> Settings:
    """Return the settings of that file, or of the sandbox.

    Raises:
        Rejected: there are none, or they cannot be used.
    """
    chosen = path or _of_sandbox()
    if not has_settings(path):
        raise Rejected(
            f"no settings: name a file with --settings or {SETTINGS_VARIABLE}, "
            "or bring a sandbox up with: groupshift sandbox up"
        )
    return load(chosen)


def has_settings(path: Path | None) -> bool:
    """Return True where a file was named, or a sandbox has one."""
    return path is not None or _of_sandbox().exists()


def _of_sandbox() -> Path:
    """Where the settings of this machine's sandbox lie while it is up."""
    return Path(os.environ.get(HOME_VARIABLE) or DEFAULT_HOME) / "settings.toml"


def settings_at(bootstrap_servers: str, settings_file: Path | None, zookeeper: str = "") -> Settings:
    """Return the settings of a file (or of the sandbox), or these servers without login; those keep no
    journal and no evidence.

    Raises:
        Rejected: both name a cluster, or neither does.
    """
    if bootstrap_servers and settings_file is not None:
        raise Rejected("--bootstrap-servers and --settings both name a cluster: give one of them")
    if zookeeper and not bootstrap_servers:
        raise Rejected("--zookeeper goes with --bootstrap-servers; a settings file names its own")
    return servers_only(bootstrap_servers, zookeeper) if bootstrap_servers else settings(settings_file)


def servers_only(bootstrap_servers: str, zookeeper: str = "") -> Settings:
    """Return settings of these servers without login, with no journal that lasts, and no evidence.

    Raises:
        Rejected: ``zookeeper`` cannot be an address.
    """
    nodes = zookeeper_ensemble(zookeeper, "--zookeeper") if zookeeper else None
    return Settings(
        kafka=KafkaSettings(bootstrap_servers=bootstrap_servers),
        zookeeper=ZookeeperSettings(hosts=nodes.hosts, chroot=nodes.chroot) if nodes else ZookeeperSettings(),
        journal=JournalSettings(url="sqlite://"),
        evidence=EvidenceSettings(root=""),
        fleet=FleetSettings(driver="manual"),
    )


def account() -> str:
    """Return the account that this process runs as, whatever the environment claims."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


def who() -> str:
    """Return the person at the keyboard: the name that the environment tells, and beside it the account that
    the operating system does (`groupshift.engine.questions_and_approvers` reads it)."""
    real = account()
    try:
        claimed = getpass.getuser()
    except (OSError, KeyError):
        claimed = real
    beside = "" if claimed == real else f", {real}"
    return f"{claimed} (uid {os.getuid()}{beside})"


def run_name(verb: str) -> str:
    """Return a name that no other process has: every process that claims fences the ones before it."""
    return f"cli-{verb}-{account()}-{os.getpid()}-{time.time_ns()}"


def wanted(verb: str, groups: str, *, every: bool) -> list[str] | None:
    """Return the names in ``groups``, which have a comma between them; None for all.

    Raises:
        Rejected: not exactly one of the two is asked for.
    """
    names = [name.strip() for name in groups.split(",") if name.strip()]
    if every == bool(names):
        raise Rejected(f"{verb} needs either --groups NAME,NAME or --all: say which groups are meant")
    return names or None


def shown(what: str = "listing groups") -> AbstractContextManager[Progress]:
    """Return something to be told of progress, which a terminal shows as a bar."""
    return progress_bar(Console(stderr=True), what)


@contextmanager
def needing_spark(what: str) -> Iterator[None]:
    """Import what the extra ``spark`` has inside the block; ``what`` needs it.

    Raises:
        Rejected: the extra is missing.
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("groupshift"):
            raise
        raise Rejected(
            f"{what} needs the extra 'spark': pip install 'kafka-groupshift[spark]' "
            f"({missing.name} is missing)"
        ) from missing


def log_at(kafka: KafkaSettings, timeout_s: float) -> OffsetsLog:
    """Return the log of the offsets topic, from its brokers; ``timeout_s`` is the time of one request.

    Raises:
        Rejected: the extra ``spark`` is missing.
    """
    with needing_spark("reading the log"):
        from groupshift.bootstrap.connect import brokers_of
        from groupshift.spark.copied_log import DirectLog

        return DirectLog(brokers_of(kafka, timeout_s=timeout_s))
