"""Where a verb on runs works and remembers: its options, and the open journal with all that runs need."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, is_dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from groupshift.bootstrap.moves import Place, journal, opened, submit, tools_of
from groupshift.cli.options import Ensemble, Servers, SettingsFile, option, servers_only, settings_at
from groupshift.domain.run import SparkJob
from groupshift.engine.installed_moves import move_named
from groupshift.engine.move import Move, Run, Tools
from groupshift.errors import Rejected
from groupshift.ports.runs import RunRecord, Runs
from groupshift.settings import EvidenceSettings, JournalSettings

_DRIVERS = "TOML file: who replaces or restarts nodes. Default: a person."
_FOLDER = "With --bootstrap-servers: folder of journal and evidence."
State = Annotated[Path | None, option("--state", _FOLDER)]
Timeout = Annotated[float, typer.Option("--timeout", help="Seconds to wait for a server.", min=0.1)]


@dataclass(frozen=True, kw_only=True)
class Where:
    """What the options say of the place, as they were given."""

    settings_file: SettingsFile = None
    bootstrap_servers: Servers = ""
    zookeeper: Ensemble = ""
    state: State = None
    nodes: Annotated[Path | None, option("--nodes", _DRIVERS)] = None
    timeout: Timeout = 30.0


def placed(verb: Callable[..., int]) -> Callable[..., int]:
    """Return a verb in which a parameter that is a dataclass of options, as `Where`, is those options on the
    command line; code may still call it with the dataclass."""
    own = inspect.signature(verb, eval_str=True).parameters
    groups: dict[str, Any] = {name: e.annotation for name, e in own.items() if is_dataclass(e.annotation)}
    parameters: list[inspect.Parameter] = []
    for name, each in own.items():
        hints = inspect.get_annotations(each.annotation, eval_str=True) if name in groups else {}
        parameters += [] if hints else [each]
        for option_name, hint in hints.items():
            usual = getattr(each.annotation, option_name)
            parameters.append(inspect.Parameter(option_name, each.kind, default=usual, annotation=hint))

    @wraps(verb)
    def called(*args: Any, **options: Any) -> int:
        for name, group in groups.items():
            named = {each: options.pop(each) for each in inspect.get_annotations(group) if each in options}
            options.setdefault(name, group(**named))
        return verb(*args, **options)

    return shaped(called, parameters)


def shaped(verb: Callable[..., int], parameters: list[inspect.Parameter]) -> Callable[..., int]:
    """Give a verb these parameters, from which its options are made, and return it."""
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
    home = where.state.absolute() if where.state is not None else None
    if where.bootstrap_servers or home is None:
        settings = settings_at(where.bootstrap_servers, where.settings_file, where.zookeeper)
    elif servers or where.zookeeper:
        raise Rejected("--state goes with --bootstrap-servers; a settings file names journal and evidence")
    else:
        settings = servers_only("")
    if where.bootstrap_servers and home is None and remembers:
        raise Rejected("--bootstrap-servers needs --state FOLDER: where the run is written down")
    if home is not None:
        settings = replace(
            settings,
            journal=JournalSettings(url=f"sqlite:///{home / 'journal.db'}"),
            evidence=EvidenceSettings(root=str(home / "evidence")),
        )
    return Place(settings=settings, nodes=where.nodes, timeout_s=where.timeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSession:
    """An open journal at a place."""

    place: Place
    runs: Runs
    tools: Tools

    def ports(self, move: Move[Any], request: Any) -> AbstractContextManager[Any]:
        """Open the ports of a move."""
        return opened(move, self.place, request)

    def find(self, run: str) -> Found:
        """Return a run with its move.

        Raises:
            Rejected: the run is not in the journal, or its move is not installed.
        """
        record = self.runs.find(run)
        return Found(at=self, record=record, move=move_named(record.move))

    def submit(self, job: SparkJob) -> None:
        """Run a Spark job to its end, with the Java of this machine where the settings name none.

        Raises:
            Transient: the job fails.
        """
        from groupshift.adapters.spark_submit.java import java_home

        spark = self.place.settings.spark
        with_java = replace(spark, java_home=spark.java_home or str(java_home()))
        submit(replace(self.place.settings, spark=with_java))(job)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A run of the journal, with its move."""

    at: JournalSession
    record: RunRecord
    move: Move[Any]

    @property
    def request(self) -> Any:
        """What was asked for, as the move's own request."""
        return self.move.request_from(json.loads(self.record.request))

    def ports(self) -> AbstractContextManager[Any]:
        """Open the ports of its move."""
        return self.at.ports(self.move, self.request)

    def reader(self, ports: Any = None) -> Run[Any]:
        """Return the run for reading; without ports only its journal can be read."""
        return Run.reader(self.move, self.at.tools, ports, self.record.run)


@contextmanager
def session(place: Place) -> Iterator[JournalSession]:
    """Open the journal of a place, and close it at the end.

    Raises:
        Rejected: the URL of the journal cannot be used.
    """
    with journal(place.settings) as runs:
        yield JournalSession(place=place, runs=runs, tools=tools_of(runs, place.settings))
