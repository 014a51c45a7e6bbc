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

REQUIRED: Final = MISSING
"""The default of an option that has to be given."""
Kind = Literal["text", "integer", "number", "flag", "choice"]
_KINDS: Mapping[type, Kind] = {str: "text", int: "integer", float: "number", bool: "flag"}
_SAYS: Mapping[type, str] = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
_TRUTHS: Mapping[object, bool] = {True: True, False: False, "true": True, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One field of a request.

    ``name`` is the field's, ``of`` the type of a value. ``many``: it is given any number of times, and the
    value is a tuple. ``default`` is `REQUIRED` where it has to be given. ``minimum`` and ``maximum`` bound a
    number (None: no bound); ``optional``: None is a value. ``setting`` names the setting that is taken where
    it is not given, such as ``fleet.driver`` (empty: none). ``pattern``, of the whole text, is what a form
    holds it to before it is sent (empty: nothing); the request itself says what is wrong. ``assesses``: only
    ``assess`` takes it; no run has it, and no form."""

    name: str
    of: type
    help: str = ""
    default: Any = REQUIRED
    many: bool = False
    optional: bool = False
    minimum: float | None = None
    maximum: float | None = None
    setting: str = ""
    pattern: str = ""
    assesses: bool = False

    @property
    def kind(self) -> Kind:
        """What a value is."""
        return _KINDS.get(self.of, "choice")

    @property
    def choices(self) -> tuple[str, ...]:
        """The values of a closed vocabulary, in their order; none of another type."""
        return tuple(each.value for each in self.of) if issubclass(self.of, StrEnum) else ()

    @property
    def flag(self) -> str:
        """The option of the command line, such as ``--brokers-only``; ``--from`` of a field ``from_``."""
        return f"--{self.name.rstrip('_').replace('_', '-')}"

    @property
    def required(self) -> bool:
        """Whether it has to be given."""
        return self.default is REQUIRED


def option(text: str, *, default: Any = REQUIRED, **about: float | str | None) -> Any:
    """Return the dataclass field of an option; ``text`` is its help, one sentence, ``about`` what else is
    said of it, by the names of `Option`."""
    return field(default=default, metadata={"help": text, **about})


def options_of(request: type) -> tuple[Option, ...]:
    """Return the options of a request dataclass, in the order of its fields.

    Raises:
        Rejected: a field has a type that no option has.
    """
    hints, options = get_type_hints(request), []
    for entry in fields(request):
        origin, parts = get_origin(hints[entry.name]), get_args(hints[entry.name])
        inner = [each for each in parts if each not in {NoneType, Ellipsis}]
        of = inner[0] if origin in {tuple, Union, UnionType} and len(inner) == 1 else hints[entry.name]
        if of not in _KINDS and not (isinstance(of, type) and issubclass(of, StrEnum)):
            raise Rejected(f"request {request.__name__}: field {entry.name} has a type that no option has")
        many, optional = origin is tuple, NoneType in parts
        about = {"default": entry.default, "many": many, "optional": optional, **entry.metadata}
        options.append(Option(name=entry.name, of=of, **about))
    return tuple(options)


def request_of(request: type, values: Mapping[str, Any]) -> Any:
    """Return the request with these values: of JSON, of a form, or texts of a command line.

    What is missing gets its default. Raises `Rejected` in one sentence that names each field, its value and
    what it may be."""
    known = {each.name: each for each in options_of(request)}
    problems = [f"{name} is not known; there are {', '.join(known)}" for name in values if name not in known]
    read: dict[str, Any] = {}
    for name, each in known.items():
        if name not in values:
            if each.required:
                problems.append(f"{name} is missing; give it with {each.flag}")
        elif not each.many:
            optional = values[name] is None and each.optional
            read[name] = None if optional else _read(each, values[name], problems)
        elif isinstance(values[name], list | tuple):
            read[name] = tuple(_read(each, part, problems) for part in values[name])
        else:
            problems.append(f"{name} {values[name]!r} is no list")
    if problems:
        raise Rejected(f"the request cannot be used: {'; '.join(problems)}")
    return request(**read)


def _read(each: Option, value: Any, problems: list[str]) -> Any:
    """The value in its type; a problem more where it has none, or is out of bounds."""
    parsed: Any = None
    if each.of in {int, float}:
        parsed = _number(value, whole=each.of is int)
    elif each.of is bool:
        parsed = _TRUTHS.get(value) if isinstance(value, bool | str) else None
    elif isinstance(value, str) and (each.of is str or value in each.choices):
        parsed = each.of(value)
    if parsed is None:
        wanted = f"one of {', '.join(each.choices)}" if each.choices else _SAYS[each.of]
        problems.append(f"{each.name} {value!r} is not {wanted}")
    elif each.minimum is not None and parsed < each.minimum:
        problems.append(f"{each.name} {value!r} is below {each.minimum:g}")
    elif each.maximum is not None and parsed > each.maximum:
        problems.append(f"{each.name} {value!r} is above {each.maximum:g}")
    return parsed


def _number(value: Any, *, whole: bool) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = int(value) if whole and isinstance(value, str) else float(value)
        if not math.isfinite(number) or (whole and number != int(number)):
            return None
    except (ValueError, OverflowError):
        return None
    return int(value) if whole else number
