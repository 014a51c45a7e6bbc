"""The command that comes next asks the place that this one was told to ask."""

from __future__ import annotations

import pytest

from groupshift.cli.verbs import app

SETTINGS, BROKERS, STATE = "--settings", "--bootstrap-servers", "--state"


@pytest.mark.parametrize(
    ("given", "following", "typed"),
    [
        (
            [SETTINGS, "a b.toml"],
            "groupshift coordination run --group orders",
            "groupshift coordination run --group orders --settings 'a b.toml'",
        ),
        ([f"{SETTINGS}=x.toml"], "groupshift status m-1", "groupshift status m-1 --settings x.toml"),
        (
            [BROKERS, "b:1,c:2", STATE, "s"],
            "groupshift downgrade run --execute",
            f"groupshift downgrade run --execute {BROKERS} b:1,c:2 {STATE} s",
        ),
        (
            [BROKERS, "b:1"],
            "groupshift protocol assess --group g",
            f"groupshift protocol assess --group g {BROKERS} b:1",
        ),
        (
            [STATE, "s"],
            f"groupshift status {STATE} other",
            f"groupshift status {STATE} other",
        ),
        ([BROKERS, "b:1"], "groupshift verify-evidence folder", "groupshift verify-evidence folder"),
        ([STATE, "s"], "groupshift status m-1", f"groupshift status m-1 {STATE} s"),
        (
            [STATE, "s", "--nodes", "n.toml"],
            "groupshift continue r-1 --execute",
            f"groupshift continue r-1 --execute {STATE} s --nodes n.toml",
        ),
        ([STATE, "s"], "groupshift hazards", "groupshift hazards"),
        ([SETTINGS, "x.toml"], "look at the brokers", "look at the brokers"),
        ([SETTINGS, "x.toml"], "groupshift's journal", "groupshift's journal"),
        ([SETTINGS, "x.toml"], "kafka-topics.sh --list", "kafka-topics.sh --list"),
        (
            [BROKERS, "b:1"],
            "groupshift snapshot --all --output C0, then the steps of the plan",
            f"groupshift snapshot --all --output C0 {BROKERS} b:1, then the steps of the plan",
        ),
        (
            [BROKERS, "b:1"],
            "groupshift snapshot --groups 'a, b' --output AFTER, then compare --move protocol",
            f"groupshift snapshot --groups 'a, b' --output AFTER {BROKERS} b:1, then compare --move protocol",
        ),
        (
            [SETTINGS, "x.toml"],
            "groupshift watch r-1, once a day until Monday",
            f"groupshift watch r-1 {SETTINGS} x.toml, once a day until Monday",
        ),
        (
            [BROKERS, "b:1"],
            "stop the broker's clients: groupshift audit placement; then: groupshift downgrade assess",
            (
                f"stop the broker's clients: groupshift audit placement {BROKERS} b:1; "
                f"then: groupshift downgrade assess {BROKERS} b:1"
            ),
        ),
        (
            [BROKERS, "b:1"],
            "groupshift coordination assess --group 'x: groupshift audit'",
            f"groupshift coordination assess --group 'x: groupshift audit' {BROKERS} b:1",
        ),
        ([SETTINGS, "x.toml"], "groupshift status m's", "groupshift status m's"),
        ([SETTINGS, "x.toml"], "groupshift status m-1 \\", "groupshift status m-1 \\"),
        ([], "groupshift status m-1", "groupshift status m-1"),
    ],
)
def test_u03_the_place_is_told_again_to_verbs_that_take_it(
    given: list[str], following: str, typed: str
) -> None:
    """Quoted for a shell; not twice, not where it means nothing, and no sentence is touched, but
    a command in it is."""
    from groupshift.cli.output_and_next_command import again, repeating

    with repeating(["downgrade", "assess", *given], app):
        assert again(following) == typed
    assert again(following) == following
