"""Options of a request: on the command line, typed again, and in the docs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from inspect import Parameter, Signature
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from groupshift.cli.requests import asked_again, parameters, values_of
from groupshift.domain.requests import option, options_of, request_of
from groupshift.errors import Rejected
from support.option_tables import markdown


class Way(StrEnum):
    """How."""

    ROLLING = "rolling"
    OFFLINE = "offline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One option of each kind."""

    to: str = option("Release of the brokers.")
    groups: tuple[str, ...] = option("Groups | that move.", default=())
    way: Way = option("How members are replaced.", default=Way.ROLLING)
    partitions: int = option("New count.", default=50, minimum=1, maximum=900)
    share: float | None = option("Share of the members.", default=None)
    live: bool = option("Commits go on.", default=False)
    watched: bool = option("Watch the canary.", default=True)
    driver: str = option("Who replaces members.", default="", setting="fleet.driver")


MOVE: Any = SimpleNamespace(name="mine", request=Request)
EXECUTE = Parameter(
    "execute", Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, typer.Option("--execute")]
)


def app(made: list[dict[str, Any]], move: Any = MOVE) -> typer.Typer:
    """A verb with the options of the move."""

    def verb(**given: Any) -> None:
        made.append(given)

    verb.__signature__ = Signature(parameters(move, [EXECUTE]))  # type: ignore[attr-defined]
    verb.__annotations__ = {each.name: each.annotation for each in parameters(move, [EXECUTE])}
    built = typer.Typer(pretty_exceptions_enable=False)
    built.command("go")(verb)
    built.command("other")(lambda: None)
    return built


def test_each_kind_of_option_is_read() -> None:
    """Several times, as a choice, as a number, as a flag and as its opposite."""
    made: list[dict[str, Any]] = []
    typed = [
        "go",
        "--to",
        "3.9.2",
        "--groups",
        "a,b",
        "--groups",
        "c",
        "--way",
        "offline",
        "--partitions",
        "7",
    ]
    ended = CliRunner().invoke(app(made), [*typed, "--share", "0.5", "--live", "--no-watched", "--execute"])
    assert ended.exit_code == 0, ended.output
    request = request_of(Request, values_of(MOVE, made[0]))
    assert request == Request(
        to="3.9.2",
        groups=("a,b", "c"),
        way=Way.OFFLINE,
        partitions=7,
        share=0.5,
        live=True,
        watched=False,
    )
    assert made[0]["execute"] is True


def test_what_is_not_given_is_left_to_the_request() -> None:
    """And what is missing or wrong is one sentence."""
    made: list[dict[str, Any]] = []
    assert CliRunner().invoke(app(made), ["go", "--way", "by-foot", "--partitions", "0"]).exit_code == 0
    assert values_of(MOVE, made[0]) == {"way": "by-foot", "partitions": "0"}
    with pytest.raises(Rejected, match="to is missing; give it with --to; way 'by-foot' is not one of"):
        request_of(Request, values_of(MOVE, made[0]))


def test_the_help_says_bounds_defaults_and_what_is_required() -> None:
    """From the dataclass."""
    shown = " ".join(CliRunner().invoke(app([]), ["go", "--help"], env={"COLUMNS": "200"}).output.split())
    assert "Release of the brokers. Required." in shown
    assert "New count. At least 1, at most 900. Default: 50." in shown
    assert "Who replaces members. Default: the setting fleet.driver." in shown
    assert "rolling|offline" in shown


def test_the_same_is_asked_again_with_all_that_is_not_usual() -> None:
    """Quoted for a shell; a list is repeated and never joined."""
    asked = Request(to="3.9.2", groups=("a b", "c"), live=True, watched=False, share=0.5)
    assert asked_again(MOVE, "run", asked) == (
        "groupshift mine run --to 3.9.2 --groups 'a b' --groups c --share 0.5 --live --no-watched"
    )
    assert asked_again(MOVE, "assess", Request(to="x")) == "groupshift mine assess --to x"


def test_an_option_that_every_move_has_is_refused() -> None:
    """It would hide the other one."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Odd:
        execute: bool = option("Act.", default=False)

    with pytest.raises(Rejected, match="move odd has options that every move has: --execute"):
        parameters(SimpleNamespace(name="odd", request=Odd), [EXECUTE])  # type: ignore[arg-type]


def test_the_docs_get_a_table_of_the_options() -> None:
    """Nothing in it breaks the table."""
    table = markdown(options_of(Request)).splitlines()
    assert table[0] == "| option | value | what it is | default |"
    assert "| `--to` | text | Release of the brokers. | required |" in table
    assert "| `--way` | rolling offline | How members are replaced. | rolling |" in table
    assert "| `--partitions` | number | New count. At least 1, at most 900. | 50 |" in table
    assert r"| `--groups` | text | Groups \| that move. May be given several times. | - |" in table
    assert "| `--watched` | yes or no | Watch the canary. | yes |" in table


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessed:
    """One option that a run does not have."""

    to: str = option("Release of the brokers.")
    copy: str = option("A copy of the log.", default="", assesses=True)


def test_an_option_of_assess_alone_is_none_of_a_run() -> None:
    """Neither as an option nor in the command that comes next."""
    move: Any = SimpleNamespace(name="mine", request=Assessed)
    assert [each.name for each in parameters(move, [])] == ["to", "copy"]
    assert [each.name for each in parameters(move, [], assesses=False)] == ["to"]
    assert values_of(move, {"to": "3.9.2"}) == {"to": "3.9.2"}
    asked = Assessed(to="3.9.2", copy="folder")
    assert asked_again(move, "assess", asked) == "groupshift mine assess --to 3.9.2 --copy folder"
    assert asked_again(move, "run", asked) == "groupshift mine run --to 3.9.2"
