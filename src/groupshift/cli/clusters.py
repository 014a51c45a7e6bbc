"""What the verbs that look at whole clusters share: which groups, which brokers, and progress."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from groupshift.cli.terminal import Console, progress_bar
from groupshift.domain.addresses import joined, kafka_servers, zookeeper_ensemble
from groupshift.errors import Rejected
from groupshift.ports.cluster import Progress
from groupshift.settings import ZookeeperSettings

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
        "--migration",
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
