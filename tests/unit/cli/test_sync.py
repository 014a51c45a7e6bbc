"""``groupshift sync``: what each verb prints, its exit code, and what it says to do next."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from groupshift.bootstrap.links import link_of
from groupshift.cli import sync
from groupshift.cli.main import main
from groupshift.domain.requests import options_of
from groupshift.errors import Rejected
from groupshift.links.link import Link, LinkKind
from groupshift.links.ports import TailBatch
from groupshift.links.sync_apply import lease
from groupshift.links.sync_plan import SyncRequest, plan_from
from groupshift.settings import parse
from groupshift_testing.link_sides import LinkWorld
from support.link_worlds import Cycles, filled, link

Run = Callable[..., tuple[int, str, str]]


class Place:
    """A link in memory where the verbs look for one."""

    def __init__(self, cycles: Cycles) -> None:
        self.cycles, self.world = cycles, cycles.world

    @contextmanager
    def open_link(self, _settings: Any, name: str) -> Iterator[Any]:
        """See `groupshift.bootstrap.links`."""
        if name != "dr":
            raise Rejected(f"link {name!r} is not in the settings")
        yield self.world.opened

    @contextmanager
    def journal(self, _settings: Any) -> Iterator[Any]:
        """See `groupshift.bootstrap.moves`."""
        yield self.cycles.runs

    @contextmanager
    def commit_tail(self, _settings: Any, _name: str) -> Iterator[Any]:
        """See `groupshift.bootstrap.links`."""
        yield self.world.tail


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Place:
    """400 records, copied; a group at 250 and one that is live on the target."""
    made = Place(filled())
    for name in ("open_link", "journal", "commit_tail"):
        monkeypatch.setattr(sync, name, getattr(made, name))
    monkeypatch.setattr(sync, "settings", lambda _file: None)
    made.world.commit("billing", 0, 250)
    return made


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Call a verb: exit code, standard output, standard error."""
    monkeypatch.setenv("COLUMNS", "300")

    def called(*words: object) -> tuple[int, str, str]:
        code = main(["sync", *map(str, words)])
        return code, *capsys.readouterr()

    return called


def test_the_options_of_plan_and_follow_are_those_of_the_request(run: Run) -> None:
    """One dataclass for the command line and for forms."""
    for verb in ("plan", "follow"):
        _, shown, _ = run(verb, "--help")
        for each in options_of(SyncRequest):
            assert each.flag in shown


def test_a_plan_is_shown_written_and_applied(place: Place, run: Run, tmp_path: Path) -> None:
    """Each output ends with what to do next."""
    file = tmp_path / "plan.jsonl"
    code, shown, _ = run("plan", "--link", "dr")
    assert code == 0
    assert "next: groupshift sync plan --link dr --output sync-dr.jsonl" in shown
    assert "1 offsets to write: 1 OK_NEW_GROUP" in shown
    code, shown, _ = run("plan", "--link", "dr", "--output", file)
    assert (code, f"next: groupshift sync apply {file} --execute" in shown) == (0, True)
    code, shown, _ = run("apply", file)
    assert (code, place.world.target.written) == (0, [])
    assert f"next: groupshift sync apply {file} --execute" in shown
    code, shown, _ = run("apply", file, "--execute")
    assert code == 0
    assert "1 offsets were written: 1 OK_NEW_GROUP" in shown
    assert "next: groupshift sync status --link dr" in shown
    assert place.world.offset("billing") == 250


def test_what_a_plan_prints_for_programs_is_the_plan(place: Place, run: Run) -> None:
    """JSON lines that apply takes; the header has what to do next."""
    _, shown, _ = run("plan", "--link", "dr", "--json")
    lines = shown.splitlines()
    assert json.loads(lines[0])["next"] == "groupshift sync plan --link dr --output sync-dr.jsonl"
    plan = plan_from(lines, "stdout")
    assert place.cycles.apply(plan).is_clean


def test_skips_and_losses_end_with_1_and_are_said(place: Place, run: Run, tmp_path: Path) -> None:
    """With what to do about each, in the plan and after it was applied."""
    place.world.target.join("billing")
    file = tmp_path / "plan.jsonl"
    code, shown, _ = run("plan", "--link", "dr", "--output", file)
    assert code == 1
    assert "group billing has members on the target (state Stable)" in shown
    code, shown, _ = run("apply", file, "--execute", "--json")
    assert code == 1
    assert json.loads(shown.splitlines()[0])["next"] == (
        "do what is said of each, then: groupshift sync plan --link dr"
    )


def test_force_is_said_before_it_rewinds(place: Place, run: Run, tmp_path: Path) -> None:
    """In the plan, and where it is shown before it is applied."""
    place.world.target.commit_as_client("billing", place.world.at_target(0), 390)
    file = tmp_path / "plan.jsonl"
    said = "offsets of the target that are ahead are lowered"
    assert said in run("plan", "--link", "dr", "--rewind-policy", "force", "--output", file)[1]
    assert said in run("apply", file)[1]
    assert run("apply", file, "--execute")[0] == 0
    assert place.world.offset("billing") == 250


def test_status_says_how_far_groups_are_and_who_writes(place: Place, run: Run) -> None:
    """A group by itself is shown partition by partition, as `translate` has it."""
    code, shown, _ = run("status", "--link", "dr")
    assert code == 1
    assert "link dr is free: no process writes it" in shown
    assert "next: groupshift sync plan --link dr" in shown
    place.cycles.cycle()
    code, shown, _ = run("status", "--link", "dr", "--json")
    document = json.loads(shown)
    assert (code, document["next"]) == (0, "groupshift sync follow --link dr")
    assert [(each["group"], each["behind"]) for each in document["groups"]] == [("billing", 0)]
    assert document["groups"][0]["last_write_ms"] > 0
    code, shown, _ = run("status", "--link", "dr", "--group", "billing")
    assert (code, "primary.orders-0" in shown) == (0, True)
    with lease(place.world.opened, place.cycles.runs, "somebody"):
        assert "link dr is written by somebody" in run("status", "--link", "dr")[1]


def test_follow_writes_until_its_time_is_over(
    place: Place, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the clock lets pass here; commits that come meanwhile are on the target at the end."""
    poll = place.world.tail.poll

    def polled(timeout_s: float) -> Any:
        place.world.clock.sleep(0.1)
        if len(place.world.target.written) == 1:
            place.world.commit("billing", 0, 300)
        return poll(timeout_s)

    monkeypatch.setattr(type(place.world.tail), "poll", lambda _self, timeout_s: polled(timeout_s))
    code, shown, _ = run("follow", "--link", "dr", "--execute", "--for", "30", "--json")
    last = json.loads(shown[shown.index("{\n") :])
    assert (code, last["clean"], last["next"]) == (0, True, "groupshift sync status --link dr")
    assert last["writes"] == 2
    assert place.world.offset("billing") == 300
    assert place.cycles.holder == ""


def test_follow_outlives_a_cluster_that_does_not_answer(
    place: Place, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says so, and goes on when it answers again."""
    place.world.source.down.add("committed")
    slept = place.world.clock.sleep

    def sleep(seconds: float) -> None:
        slept(seconds)
        place.world.source.down.clear()

    monkeypatch.setattr(place.world.clock, "sleep", sleep)
    monkeypatch.setattr(type(place.world.tail), "poll", lambda _self, _timeout: (slept(0.5), TailBatch())[1])
    code, _, said = run("follow", "--link", "dr", "--execute", "--for", "5")
    assert (code, said.count("transient: cluster cluster-s does not answer (committed)")) == (0, 1)
    assert place.world.offset("billing") == 250
    assert place.cycles.holder == ""


def test_follow_without_execute_shows_a_plan(place: Place, run: Run) -> None:
    """And nothing is written."""
    code, shown, said = run("follow", "--link", "dr")
    assert (code, "1 OK_NEW_GROUP" in shown) == (0, True)
    assert "with --execute commits are followed" in said
    assert place.world.target.written == []


def test_each_bad_input_is_one_sentence(place: Place, run: Run, tmp_path: Path) -> None:
    """With the exit code of its family, and nothing is written."""
    file = tmp_path / "plan.jsonl"
    run("plan", "--link", "dr", "--output", file, "--plan-max-age-s", "60")
    with lease(place.world.opened, place.cycles.runs, "somebody"):
        code, _, said = run("apply", file, "--execute")
        assert code == 3
        assert "fenced: link dr is being written by somebody; wait until it ends, or add --take-over" in said
    place.world.clock.sleep(100)
    for words, sentence in (
        (
            ("apply", file, "--execute"),
            "rejected: the plan is 100 s old, and plan_max_age_s is 60; plan again",
        ),
        (("apply", tmp_path / "none"), "cannot be read"),
        (("plan", "--link", "other"), "rejected: link 'other' is not in the settings"),
        (("plan",), "link is missing; give it with --link"),
        (("plan", "--link", "dr", "--groups", "("), "groups: '('"),
        (("plan", "--link", "dr", "--rewind-policy", "back"), "rewind_policy 'back' is not one of never,"),
    ):
        code, _, said = run(*words)
        assert (code, said.count("\n")) == (2, 1), said
        assert sentence in said
    assert place.world.target.written == []


def test_the_lease_is_no_run_that_could_be_gone_on_with(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It is in the list of runs, and the verbs of runs say where to look."""
    place.cycles.cycle()
    monkeypatch.setattr("groupshift.cli.run_place.journal", place.journal)
    (record,) = place.cycles.runs.recent(9)
    where = ("--bootstrap-servers", "one:9092", "--state", str(tmp_path))
    for verb in ("continue", "roll-back", "report"):
        assert main([verb, record.run, *where]) == 2
        assert f"run {record.run} says who writes link dr, and nothing else" in capsys.readouterr().err
    assert main(["status", *where]) == 0
    assert record.run in capsys.readouterr().out


# -- links of the settings -----------------------------------------------------------------------------------


def settings_with(**changes: Any) -> Any:
    """Settings with one link."""
    side = {"bootstrap_servers": "one:9092"}
    described = {"kind": "mm2-default", "source_alias": "primary", "target_alias": "backup"}
    return parse(
        {
            "kafka": side,
            "journal": {"url": "sqlite://"},
            "evidence": {"root": "evidence"},
            "fleet": {"driver": "manual"},
            "links": {
                "dr": {"source": side, "target": {"bootstrap_servers": "two:9092"}, **described, **changes}
            },
        }
    )


def test_a_link_of_the_settings_is_the_link() -> None:
    """With the defaults of the link itself."""
    assert link_of(settings_with(), "dr") == link()
    declared = settings_with(kind="header", provenance_header="src", altered_topics=["orders"], separator=".")
    expected = Link(
        name="dr",
        kind=LinkKind.HEADER,
        source_alias="primary",
        target_alias="backup",
        provenance_header="src",
        altered_topics=frozenset({"orders"}),
    )
    assert link_of(declared, "dr") == expected


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"kind": "mm3"}, "link dr: kind 'mm3' is not known; use one of mm2-default,"),
        ({"target_alias": "primary"}, "source_alias and target_alias are both 'primary'"),
        ({"target": {"bootstrap_servers": " "}}, "links.dr.target.bootstrap_servers is empty"),
        ({"colour": "red"}, "unknown key links.dr.colour"),
        ({"altered_topics": "orders"}, "links.dr.altered_topics is not a list of texts"),
    ],
)
def test_a_link_that_is_described_wrongly_is_refused(changes: dict[str, Any], sentence: str) -> None:
    """Before anything is opened."""
    with pytest.raises(Rejected, match=sentence.replace("[", r"\[")):
        link_of(settings_with(**changes), "dr")


def test_a_link_that_the_settings_have_not_is_refused_with_those_that_they_have() -> None:
    """So a wrong name is seen."""
    with pytest.raises(Rejected, match=r"link 'rd' is not in the settings, which have dr; add \[links.rd\]"):
        link_of(settings_with(), "rd")


def test_a_world_of_any_kind_of_link_opens() -> None:
    """The names of its copies follow the kind."""
    assert LinkWorld(link(kind=LinkKind.MM2_IDENTITY)).copy == "orders"
