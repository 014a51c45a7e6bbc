"""What somebody may ask of a move: the fields of its request dataclass, read as options.

Command line, Airflow form and docs are made from them, so they cannot differ. `option` declares a field::

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Request:
        to: str = option("Release that the brokers get.")
        partitions: int = option("New partition count.", default=50, minimum=1)

Types are str, int, float, bool and a `StrEnum`; each of them or None; ``tuple`` of str or of a `StrEnum`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from groupshift.errors import Rejected


class Missing(StrEnum):
    """The default of an option that has to be given."""

    MISSING = "missing"


REQUIRED: Final = Missing.MISSING
Kind = Literal["text", "integer", "number", "flag", "choice"]
_KINDS: Mapping[type, Kind] = {str: "text", int: "integer", float: "number", bool: "flag"}
_SAYS: Mapping[Kind, str] = {
    "text": "a text",
    "integer": "a whole number",
    "number": "a number",
    "flag": "true or false",
    "choice": "a choice",
}
_TRUTHS: Mapping[object, bool] = {True: True, False: False, "true": True, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One field of a request.

    ``name`` is the field's, ``flag`` how the command line spells it (``from_`` is ``--from``). ``many``: it
    is given any number of times, and the value is a tuple. ``choices`` are the values of a closed vocabulary,
    in their order. ``default`` is `REQUIRED` where it has to be given. ``minimum`` and ``maximum`` bound a
    number (None: no bound); ``optional``: None is a value. ``setting`` names the setting that is taken where
    it is not given, such as ``fleet.driver`` (empty: none). ``pattern``, of the whole text, is what a form
    holds it to before it is sent (empty: nothing); the request itself says what is wrong. ``assesses``: only
    ``assess`` takes it; no run has it, and no form."""

    name: str
    kind: Kind
    help: str = ""
    default: Any = REQUIRED
    many: bool = False
    optional: bool = False
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    setting: str = ""
    pattern: str = ""
    assesses: bool = False

    @property
    def flag(self) -> str:
        """The option of the command line, such as ``--brokers-only``."""
        return f"--{self.name.rstrip('_').replace('_', '-')}"

    @property
    def required(self) -> bool:
        """Whether it has to be given."""
        return self.default is REQUIRED


def option(
    text: str,
    *,
    default: Any = REQUIRED,
    minimum: float | None = None,
    maximum: float | None = None,
    setting: str = "",
    pattern: str = "",
    assesses: bool = False,
) -> Any:
    """Return the dataclass field of an option; ``text`` is its help, one sentence."""
    metadata = {
        "help": text,
        "minimum": minimum,
        "maximum": maximum,
        "setting": setting,
        "pattern": pattern,
        "assesses": assesses,
    }
    return field(metadata=metadata) if default is REQUIRED else field(default=default, metadata=metadata)


def options_of(request: type) -> tuple[Option, ...]:
    """Return the options of a request dataclass, in the order of its fields.

    Raises:
        Rejected: a field has a type that no option has.
    """
    hints = get_type_hints(request)
    return tuple(_option(request, each, hints[each.name]) for each in fields(request))


def _option(request: type, entry: Any, hint: Any) -> Option:
    many, optional = get_origin(hint) is tuple, False
    if many:
        hint = get_args(hint)[0]
    elif get_origin(hint) in {Union, UnionType}:
        inner = [each for each in get_args(hint) if each is not NoneType]
        optional, hint = True, inner[0] if len(inner) == 1 else None
    choice = isinstance(hint, type) and issubclass(hint, StrEnum)
    if hint not in _KINDS and not choice:
        raise Rejected(f"request {request.__name__}: field {entry.name} has a type that no option has")
    return Option(
        name=entry.name,
        kind="choice" if choice else _KINDS[hint],
        default=REQUIRED if entry.default is MISSING else entry.default,
        many=many,
        optional=optional,
        choices=tuple(each.value for each in hint) if choice else (),
        **entry.metadata,
    )


def request_of(request: type, values: Mapping[str, Any]) -> Any:
    """Return the request with these values: of JSON, of a form, or texts of a command line.

    What is missing gets its default. Raises `Rejected` in one sentence that names each field, its value and
    what it may be."""
    known = {each.name: each for each in options_of(request)}
    problems = [f"{name} is not known; there are {', '.join(known)}" for name in values if name not in known]
    hints, read = get_type_hints(request), {}
    for name, each in known.items():
        if name in values:
            read[name] = _value(each, values[name], hints[name], problems)
        elif each.required:
            problems.append(f"{name} is missing; give it with {each.flag}")
    if problems:
        raise Rejected(f"the request cannot be used: {'; '.join(problems)}")
    return request(**read)


def _value(each: Option, value: Any, hint: Any, problems: list[str]) -> Any:
    if each.many:
        if isinstance(value, str) or not isinstance(value, list | tuple):
            problems.append(f"{each.name} {value!r} is no list")
            return ()
        return tuple(_single(each, part, get_args(hint)[0], problems) for part in value)
    if value is None and each.optional:
        return None
    inner = next((part for part in get_args(hint) if part is not NoneType), hint)
    return _single(each, value, inner, problems)


def _single(each: Option, value: Any, hint: Any, problems: list[str]) -> Any:
    found = _read(each, value, hint)
    if found is None:
        wanted = f"one of {', '.join(each.choices)}" if each.choices else _SAYS[each.kind]
        problems.append(f"{each.name} {value!r} is not {wanted}")
    elif each.minimum is not None and found < each.minimum:
        problems.append(f"{each.name} {value!r} is below {each.minimum:g}")
    elif each.maximum is not None and found > each.maximum:
        problems.append(f"{each.name} {value!r} is above {each.maximum:g}")
    return found


def _read(each: Option, value: Any, hint: Any) -> Any:
    """The value in its type, None where it has none."""
    match each.kind:
        case "text":
            return value if isinstance(value, str) else None
        case "flag":
            return _TRUTHS.get(value) if isinstance(value, bool | str) else None
        case "choice":
            return hint(value) if value in each.choices else None
        case "integer" | "number":
            return _number(value, whole=each.kind == "integer")


def _number(value: Any, *, whole: bool) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except ValueError:
        return None
    if not math.isfinite(found) or (whole and found != int(found)):
        return None
    return int(value) if whole else found
