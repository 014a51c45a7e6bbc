"""Topic filters: what Java and Python read alike is taken, all else refused."""

from __future__ import annotations

import string
import time

import pytest

from groupshift.domain.topic_filter import clean_filter, compile_filter
from groupshift.errors import Rejected


@pytest.mark.parametrize(
    ("written", "cleaned"),
    [
        (" a , b ", "a|b"),
        ("\"'a.*'\"", "a.*"),
        ("\ta b\n", "ab"),
        ("a'b", "a'b"),
        ("x{1,3}", "x{1|3}"),
    ],
)
def test_cleaning_is_that_of_every_reader(written: str, cleaned: str) -> None:
    """§3.2: trim, comma to bar, no blanks, no quotes at the ends."""
    assert clean_filter(written) == cleaned


@pytest.mark.parametrize(
    ("text", "matching", "other"),
    [
        ("a.*", "a.b", "ba"),
        (r"a\.b.*", "a.bc", "axb"),
        ("orders,clicks", "clicks", "click"),
        ("[a-c]+?[^.]", "abx", "ab."),
        (r"[\]x]", "x", "y"),
        (r"t\d{3}", "t123", "t12"),
        (r"[\w-]+", "a-b", "a.b"),
        ("(?:a|b)(?!x).*", "ay", "ax"),
        ("(a)(b)\\2", "abb", "aba"),
        ("(?i)ORDERS", "orders", "order"),
        (r"\x61\u0062", "ab", "a"),
        ("a||b", "", "ab"),
        ("^a$", "a", "aa"),
        ("a}b", "a}b", "ab"),
    ],
)
def test_the_shared_part_of_the_dialects_matches_whole_names(text: str, matching: str, other: str) -> None:
    """Each of these was also given to java.util.regex, with the same answers."""
    assert compile_filter(text).fullmatch(matching)
    assert not compile_filter(text).fullmatch(other)


def test_classes_are_ascii_as_in_java() -> None:
    """Python alone would take any Unicode digit or letter."""
    assert not compile_filter(r"\d").fullmatch("٣")
    assert not compile_filter(r"\w").fullmatch("é")


@pytest.mark.parametrize(
    "text",
    [
        "a*+", "a++", "a?+", "(?>a)", r"\p{Alpha}", r"\P{L}", r"\h+", r"\v", r"\R", r"\Qa\E", r"\Ga", r"a\z",
        "[a-z&&[^b]]", "[a[bc]]", "[a--z]", "[]a]", "[a", "(?i:a)", "a(?i)b", "(?s)a", "(?x)a", "(?<n>a)",
        "(?P<n>a)", r"\k<n>", r"\01", r"(a)\10", r"[\01]", r"[\b]", "x{1,3}", "x{,3}", "x{2", "{2}x{",
        r"\N{DIGIT ONE}", r"\cA", r"\e", r"\X", "a**", "*a", "a\\", "(a", "(?#x)a", "(?(1)a)", r"[\p{L}]",
        r"[\h]", "x{٣}", "{٣}",
    ],
)  # fmt: skip
def test_what_the_dialects_read_differently_is_refused(text: str) -> None:
    """One sentence that holds the filter."""
    with pytest.raises(Rejected, match="topic filter"):
        compile_filter(text)


@pytest.mark.parametrize(
    "text", ["(.?){200}", "(((.?){3}){3}){22}", "((.*)(.*)){90}!", "((((a+)+)+)+)+(.?){190}"]
)
def test_what_explodes_is_followed_in_time_of_name_times_expression(text: str) -> None:
    """Whoever may write a registration chooses it: every member evaluates it beside its commits."""
    found, began = compile_filter(text), time.process_time()
    assert not any(found.fullmatch(f"{'a' * 10}!{each * 10}" * 11) for each in string.ascii_letters)
    assert time.process_time() - began < 5
