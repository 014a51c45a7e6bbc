"""The trigger forms of the DAGs: clusters, numbers, and a move's request as parameters; and when they run.

The form of a move is made from the dataclass of its request, as the command line is
(`groupshift.domain.requests`). The defaults of every form change nothing."""

from __future__ import annotations

import os
from typing import Any

from airflow.sdk import Param

from groupshift.domain.requests import Option, options_of
from groupshift.errors import Rejected

_WHAT, SCOPE, HOW, ACT = "0. What", "1. Scope", "2. How", "3. Act"
_TYPES = {"text": "string", "integer": "integer", "number": "number", "flag": "boolean", "choice": "string"}
"""The type in the form of each kind of option."""
_BELOW = 1e-9
"""Moves an exclusive bound of a number to just outside of it; what is in between is refused by the plan."""


def _connection(title: str, default: str) -> Param:
    """The id of an Airflow connection of the type that has this title."""
    text = f"Id of an Airflow connection of type **Groupshift {title}**."
    return Param(default, type="string", minLength=1, title=title, section=SCOPE, description_md=text)


def kafka_cluster() -> dict[str, Param]:
    """Return which connection, where Kafka is all there is."""
    return {"kafka_conn_id": _connection("Kafka cluster", "groupshift_kafka_default")}


def clusters() -> dict[str, Param]:
    """Return which two connections."""
    zookeeper = _connection("ZooKeeper", "groupshift_zookeeper_default")
    return {**kafka_cluster(), "zookeeper_conn_id": zookeeper}


def schedule(dag: str, usual: str) -> str:
    """Return when a DAG runs on its own (cron or preset): as ``GROUPSHIFT_<DAG>_SCHEDULE`` of the environment
    says when the DAG file is parsed, else as usual."""
    return os.environ.get(f"GROUPSHIFT_{dag}_SCHEDULE") or usual


def number(title: str, text: str, default: int, limits: tuple[int, int]) -> Param:
    """Return a whole number between two limits.

    They are written as exclusive ones: with ``minimum`` and ``maximum`` Airflow's form puts the limit in
    place of what a person typed (-5 becomes 0), and says nothing."""
    low, high = limits
    bounds: dict[str, Any] = {"type": "integer", "exclusiveMinimum": low - 1, "exclusiveMaximum": high + 1}
    text = f"{text} From {low} to {high}."
    return Param(default, **bounds, title=title, section=HOW, description_md=text)


def flag(title: str, text: str, section: str) -> Param:
    """Return a switch that is off."""
    return Param(False, type="boolean", title=title, section=section, description_md=text)


def names(title: str, text: str, section: str) -> Param:
    """Return any number of names; none by default."""
    items = {"type": "string"}
    return Param([], type="array", items=items, title=title, section=section, description_md=text)


def of_request(request: type, *, zookeeper: bool = False) -> dict[str, Param]:
    """Return the parameters of a move with this request. Their defaults change nothing.

    Raises:
        Rejected: an option has the name of a parameter of every run.
    """
    own = {_key(each): param_of(each) for each in _asked(request)}
    execute = "**Off: plan only, nothing is changed.** On: act, after the approvals of the plan."
    beside = {**(clusters() if zookeeper else kafka_cluster()), **for_every_run(execute)}
    if twice := ", ".join(sorted(own.keys() & beside.keys())):
        raise Rejected(f"request {request.__name__}: {twice} is a parameter of every run; rename it")
    return {**own, **beside}


def for_every_run(execute: str) -> dict[str, Param]:
    """Return how a run waits, whether it takes over, and whether it acts."""
    silence = "A question that nobody answers in time is answered with no: nothing more is changed."
    take_over = "**On**: go on with a run that somebody else holds; that one stops at its next step."
    return {
        "gate_expiry_s": number("Gates expire after (seconds)", silence, 86_400, (5, 86_400)),
        "take_over": flag("Take over", take_over, HOW),
        "execute": flag("Execute", execute, ACT),
    }


def roll_back_form() -> dict[str, Param]:
    """Return the parameters of the DAG that takes any run back."""
    run = "Id of the run, as the list of runs and `groupshift status` show it."
    to = (
        "**Empty: all that the run changed.** Else a point that the move of this run names, such as "
        "`zookeeper_mode`."
    )
    text: dict[str, Any] = {"type": "string", "minLength": 1, "section": _WHAT}
    none: dict[str, Any] = {"type": ["string", "null"]}
    needed = "Id of an Airflow connection of type **Groupshift ZooKeeper**, if the move uses it."
    named: dict[str, Any] = {"title": "ZooKeeper", "section": SCOPE, "description_md": needed}
    return {
        "run": Param(**text, title="Run", description_md=run),
        "to": Param("", **none, title="How far back", section=_WHAT, description_md=to),
        **kafka_cluster(),
        "zookeeper_conn_id": Param("groupshift_zookeeper_default", **none, **named),
        **for_every_run("**Off: only show what would be undone.** On: roll back; of a group without a gate."),
    }


def watch_form() -> dict[str, Param]:
    """Return the parameters of a DAG that watches runs which are over. It changes nothing."""
    text = "Id of a run that is over; **empty: the latest** of this target."
    run = Param("", type=["string", "null"], title="Run", section=_WHAT, description_md=text)
    return {"run": run, **kafka_cluster()}


def values_of(request: type, params: Any) -> dict[str, Any]:
    """Return the values of a request's options in a filled form."""
    return {each.name: params[_key(each)] for each in _asked(request)}


def _asked(request: type) -> list[Option]:
    """The options that a run has."""
    return [each for each in options_of(request) if not each.assesses]


def _key(option: Option) -> str:
    """The name in the form: a field of the request that Python would not let be named so ends with ``_``."""
    return option.name.rstrip("_")


def param_of(option: Option) -> Param:
    """Return one option as a parameter: its help, choices and bounds.

    Bounds are written as exclusive ones, as `number` says why."""
    kind: Any = _TYPES[option.kind]
    low, high = option.minimum, option.maximum
    bounds = "" if high is None else f"At most {high:g}."
    if low is not None:
        bounds = f"At least {low:g}." if high is None else f"From {low:g} to {high:g}."
    schema: dict[str, Any] = {
        "type": ["null", kind] if option.optional else kind,
        "title": option.name.strip("_").replace("_", " ").capitalize(),
        "section": _WHAT,
        "description_md": f"{option.help} {bounds}".strip(),
    }
    if option.many:
        items = {"type": kind, **({"enum": list(option.choices)} if option.choices else {})}
        schema |= {"type": "array", "items": items}
    elif option.choices:
        schema["enum"] = [*option.choices, None] if option.optional else list(option.choices)
    elif option.kind == "text" and option.required:
        schema["minLength"] = 1
    if option.pattern:
        schema["pattern"] = f"^({option.pattern})$"
    past = 1 if option.kind == "integer" else _BELOW
    if low is not None and not option.many:
        schema["exclusiveMinimum"] = low - past
    if high is not None and not option.many:
        schema["exclusiveMaximum"] = high + past
    if option.required:
        return Param(**schema)
    default = [str(each) for each in option.default] if option.many else option.default
    named = option.choices and not option.many and default is not None
    return Param(str(default) if named else default, **schema)
