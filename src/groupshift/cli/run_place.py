"""Where a verb on runs works and remembers: its options, and the open journal with all that runs need."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from groupshift.bootstrap.moves import Place, journal, opened, submit, tools_of
from groupshift.cli.options import Ensemble, Servers, SettingsFile, ensemble, one_cluster
from groupshift.cli.options import settings as settings_of
from groupshift.domain.run import SparkJob
from groupshift.engine.move import Move, Tools
from groupshift.errors import Rejected
from groupshift.ports.runs import Runs
from groupshift.settings import (
    EvidenceSettings,
    FleetSettings,
    JournalSettings,
    KafkaSettings,
    Settings,
    ZookeeperSettings,
)

Nodes = Annotated[
    Path | None,
    typer.Option(
        "--nodes", help="TOML file: who replaces or restarts nodes. Default: a person.", show_default=False
    ),
]
State = Annotated[
    Path | None,
    typer.Option(
        "--state", help="With --bootstrap-servers: folder of journal and evidence.", show_default=False
    ),
]
Timeout = Annotated[float, typer.Option("--timeout", help="Seconds to wait for a server.", min=0.1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """What the options say of the place, as they were given."""

    settings_file: SettingsFile = None
    bootstrap_servers: Servers = ""
    zookeeper: Ensemble = ""
    state: State = None
    nodes: Nodes = None
    timeout: Timeout = 30.0


def placed(verb: Callable[..., int]) -> Callable[..., int]:
    """Let a verb that takes ``where`` have the options of `Where` on the command line instead; code still
    calls it with ``where``."""
    own = inspect.signature(verb, eval_str=True).parameters
    hints = inspect.get_annotations(Where, eval_str=True)
    place = [
        inspect.Parameter(
            each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name]
        )
        for each in fields(Where)
    ]
    asked = [each for each in own.values() if each.name != "where" and each.kind is not each.VAR_KEYWORD]
    names = {each.name for each in place}

    @wraps(verb)
    def called(*args: Any, **given: Any) -> int:
        named = {name: given.pop(name) for name in names if name in given}
        return verb(*args, **{"where": Where(**named), **given})

    return shaped(called, [*asked, *place])


def shaped(verb: Callable[..., int], parameters: list[inspect.Parameter]) -> Callable[..., int]:
    """Give a verb these parameters, from which its options are made."""
    plain: Any = verb
    plain.__signature__ = inspect.Signature(parameters)
    plain.__annotations__ = {each.name: each.annotation for each in parameters}
    if hasattr(plain, "__wrapped__"):
        del plain.__wrapped__
    return verb


def place_of(where: Where, *, servers: bool = True, remembers: bool = True) -> Place:
    """Return the place that the options name. Without ``servers`` only the journal is used, without
    ``remembers`` nothing is written down.

    Raises:
        Rejected: they name no such place, or two.
    """
    one_cluster(where.bootstrap_servers, where.settings_file)
    if where.zookeeper and not where.bootstrap_servers:
        raise Rejected("--zookeeper goes with --bootstrap-servers; a settings file names the ensemble")
    if where.state is None and not where.bootstrap_servers:
        return _place(where, settings_of(where.settings_file))
    if where.state is None and remembers:
        raise Rejected("--bootstrap-servers needs --state FOLDER: where the run is written down")
    if servers and not where.bootstrap_servers:
        raise Rejected("--state goes with --bootstrap-servers; a settings file names journal and evidence")
    home = where.state.absolute() if where.state is not None else None
    settings = Settings(
        kafka=KafkaSettings(bootstrap_servers=where.bootstrap_servers),
        zookeeper=ensemble(where.zookeeper) if where.zookeeper else ZookeeperSettings(),
        journal=JournalSettings(url=f"sqlite:///{home / 'journal.db'}" if home else "sqlite://"),
        evidence=EvidenceSettings(root=str(home / "evidence") if home else ""),
        fleet=FleetSettings(driver="manual"),
    )
    return _place(where, settings)


def _place(where: Where, settings: Settings) -> Place:
    return Place(settings=settings, nodes=where.nodes, timeout_s=where.timeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """An open journal at a place."""

    place: Place
    runs: Runs
    tools: Tools

    @contextmanager
    def ports(self, move: Move[Any], request: Any) -> Iterator[Any]:
        """Open the ports of a move."""
        with opened(move, self.place, request) as ports:
            yield ports

    def submit(self, job: SparkJob) -> None:
        """Run a Spark job to its end, with the Java of this machine where the settings name none."""
        from groupshift.adapters.spark_submit.java import java_home

        spark = self.place.settings.spark
        with_java = replace(spark, java_home=spark.java_home or str(java_home()))
        submit(replace(self.place.settings, spark=with_java))(job)


@contextmanager
def session(place: Place) -> Iterator[Session]:
    """Open the journal of a place."""
    with journal(place.settings) as runs:
        yield Session(place=place, runs=runs, tools=tools_of(runs, place.settings))
