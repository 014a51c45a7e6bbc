"""The fields of a request as options."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pytest

from groupshift.domain.requests import REQUIRED, option, options_of, request_of
from groupshift.errors import Rejected


class Colour(StrEnum):
    """A closed vocabulary."""

    RED = "red"
    GREEN = "green"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One field of each kind."""

    to: str = option("Where to.")
    count: int = option("How many.", default=5, minimum=1, maximum=50)
    share: float = option("A share.", default=0.5)
    live: bool = option("Commits go on.", default=False)
    colour: Colour = option("The colour.", default=Colour.RED)
    groups: tuple[str, ...] = option("Groups.", default=())
    colours: tuple[Colour, ...] = option("Colours.", default=())
    limit: int | None = option("A limit.", default=None, minimum=0)


def test_each_field_is_an_option_in_its_order() -> None:
    """With kind, default, bounds and choices."""
    found = options_of(Request)
    assert [each.name for each in found] == [
        "to",
        "count",
        "share",
        "live",
        "colour",
        "groups",
        "colours",
        "limit",
    ]
    assert [each.kind for each in found] == [
        "text",
        "integer",
        "number",
        "flag",
        "choice",
        "text",
        "choice",
        "integer",
    ]
    assert [each.many for each in found] == [False] * 5 + [True, True, False]
    assert found[0].required
    assert found[0].default is REQUIRED
    assert (found[1].default, found[1].minimum, found[1].maximum) == (5, 1, 50)
    assert found[4].choices == ("red", "green")
    assert found[7].optional
    assert found[0].help == "Where to."


def test_the_command_line_spells_it_with_dashes() -> None:
    """And a field with underscores is one option."""

    @dataclass
    class Long:
        brokers_only: bool = option("Only brokers.", default=False)
        from_: str = option("Where from.", default="")

    Long.__annotations__ = {"brokers_only": bool, "from_": str}
    assert [each.flag for each in options_of(Long)] == ["--brokers-only", "--from"]


@pytest.mark.parametrize(
    ("values", "field", "wanted"),
    [
        ({"count": "7"}, "count", 7),
        ({"count": 7}, "count", 7),
        ({"share": "0.25"}, "share", 0.25),
        ({"live": "true"}, "live", True),
        ({"live": True}, "live", True),
        ({"colour": "green"}, "colour", Colour.GREEN),
        ({"groups": ["a", "b,c"]}, "groups", ("a", "b,c")),
        ({"colours": ["green", "red"]}, "colours", (Colour.GREEN, Colour.RED)),
        ({"limit": None}, "limit", None),
        ({"limit": "0"}, "limit", 0),
    ],
)
def test_values_of_texts_and_of_json_are_read(values: dict[str, Any], field: str, wanted: object) -> None:
    """Both come to the value of the field's type."""
    found = getattr(request_of(Request, {"to": "x", **values}), field)
    assert found == wanted
    assert type(found) is type(wanted)


def test_what_is_not_given_has_its_default() -> None:
    """Only what is required has to be given."""
    assert request_of(Request, {"to": "x"}) == Request(to="x")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "to is missing; give it with --to"),
        ({"to": 3}, "to 3 is not a text"),
        ({"count": "many"}, "count 'many' is not a whole number"),
        ({"count": 1.5}, "count 1.5 is not a whole number"),
        ({"count": True}, "count True is not a whole number"),
        ({"count": "0"}, "count '0' is below 1"),
        ({"count": 51}, "count 51 is above 50"),
        ({"count": "9" * 400}, "9' is not a whole number"),
        ({"count": 10**400}, "0 is not a whole number"),
        ({"share": "nan"}, "share 'nan' is not a number"),
        ({"live": "yes"}, "live 'yes' is not true or false"),
        ({"live": 1}, "live 1 is not true or false"),
        ({"colour": "blue"}, "colour 'blue' is not one of red, green"),
        ({"groups": "a,b"}, "groups 'a,b' is no list"),
        ({"colours": ["blue"]}, "colours 'blue' is not one of red, green"),
        ({"limit": -1}, "limit -1 is below 0"),
        ({"other": 1}, "other is not known; there are to, count"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(values: dict[str, Any], said: str) -> None:
    """With the field, the value and what it may be."""
    given = values if not values or "to" in values else {"to": "x", **values}
    with pytest.raises(Rejected, match="the request cannot be used") as refused:
        request_of(Request, given)
    assert said in str(refused.value)


def test_all_that_is_wrong_is_in_one_sentence() -> None:
    """A person corrects it once."""
    with pytest.raises(Rejected) as refused:
        request_of(Request, {"count": 0, "colour": "blue"})
    assert str(refused.value).count(";") >= 2


def test_a_field_of_another_type_is_refused() -> None:
    """A move that declares one is told so."""

    @dataclass
    class Odd:
        things: Any = None

    Odd.__annotations__ = {"things": dict}
    with pytest.raises(Rejected, match="field things has a type that no option has"):
        options_of(Odd)
