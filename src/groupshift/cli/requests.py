"""The options of a move's request: as options of the command line, and typed again.

What they are comes from the request's dataclass alone (`groupshift.domain.requests`). Their values are
checked there, too, so that one sentence names everything that is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from inspect import Parameter
from typing import Annotated, Any

import typer

from groupshift.domain.foreign_text_quoting import command
from groupshift.domain.requests import Option, options_of
from groupshift.engine.move import Move, request_data
from groupshift.errors import Rejected

ASKED = "What is asked for"
"""The panel of a move's own options in the help of its verbs."""
ASSESS = "assess"
_METAVARS: Mapping[str, str] = {"text": "TEXT", "integer": "INTEGER", "number": "NUMBER"}


def parameters(
    move: Move[Any], shared: Iterable[Parameter], *, assesses: bool = True
) -> tuple[Parameter, ...]:
    """Return the parameters of a verb of this move: its request's options, then the ``shared`` ones.
    ``assesses`` False: without those of ``assess`` alone.

    None is the value of an option that was not given. Raises `Rejected` when an option has the name of a
    shared one."""
    later = tuple(shared)
    flags = set()
    for each in later:
        info = each.annotation.__metadata__[0]
        named = [one for one in (info.default, *(info.param_decls or ())) if isinstance(one, str)]
        flags.update(named or [f"--{each.name.replace('_', '-')}"])
    options = options_of(move.request)
    if taken := [option.flag for option in options if option.flag in flags]:
        raise Rejected(f"move {move.name} has options that every move has: {', '.join(taken)}; rename them")
    return (*(_parameter(option) for option in options if assesses or not option.assesses), *later)


def _parameter(each: Option) -> Parameter:
    """An option as typer reads it. The request checks texts, so that one sentence names all faults."""
    kind: Any = list[str] | None if each.many else str | None
    flag, more = each.flag, dict[str, Any]()
    if each.kind == "flag":
        kind = bool | None
        flag += f"/--no-{flag.removeprefix('--')}" if each.optional or each.default is True else ""
    else:
        more["metavar"] = "|".join(each.choices) or _METAVARS[each.kind]
    if each.choices:
        more["autocompletion"] = lambda incomplete: [c for c in each.choices if c.startswith(incomplete)]
    option = typer.Option(flag, help=help_of(each), show_default=False, rich_help_panel=ASKED, **more)
    return Parameter(each.name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, option])


def help_of(each: Option) -> str:
    """Return the help of an option with its bounds and its default."""
    parts = [each.help or f"The {each.name.replace('_', ' ')}."]
    if each.many:
        parts.append("May be given several times.")
    if each.minimum is not None or each.maximum is not None:
        parts.append(f"{bounds_of(each)}.")
    default = default_of(each)
    if each.required or default:
        parts.append("Required." if each.required else f"Default: {default}.")
    return " ".join(parts)


def bounds_of(each: Option) -> str:
    """Return the least and the most that an option may be, in words; it has at least one of them."""
    if each.minimum is None:
        return f"At most {each.maximum:g}"
    return f"At least {each.minimum:g}" + ("" if each.maximum is None else f", at most {each.maximum:g}")


def default_of(each: Option) -> str:
    """Return what is taken where the option is not given, in words; empty: nothing, or nothing usual."""
    if each.setting:
        return f"the setting {each.setting}"
    if each.required or each.default in (None, "", ()) or each.default is False:
        return ""
    if each.many:
        return ", ".join(map(str, each.default))
    return "yes" if each.default is True else str(each.default)


def values_of(move: Move[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the request's options that were given."""
    names = [each.name for each in options_of(move.request)]
    return {name: values[name] for name in names if values.get(name) is not None and values[name] != []}


def asked_again(move: Move[Any], verb: str, request: Any) -> str:
    """Return the command that asks for the same: all options that are not at their default."""
    data, words = request_data(request), []
    for each in options_of(move.request):
        value = data[each.name]
        usual = list(each.default) if each.many and not each.required else each.default
        if value is None or value == usual or (each.assesses and verb != ASSESS):
            continue
        if each.kind == "flag":
            words.append(each.flag if value else f"--no-{each.flag.removeprefix('--')}")
            continue
        for one in value if each.many else (value,):
            words += [each.flag, str(one)]
    return command("groupshift", move.name, verb, *words)
