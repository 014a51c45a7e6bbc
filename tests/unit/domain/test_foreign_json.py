"""One bounded reader for what others wrote: every hostile text is one sentence."""

from __future__ import annotations

import pytest

from groupshift.errors import Rejected

HOSTILE = {
    "deep list": (b"[" * 1200, "nested more than 64 deep"),
    "deep object": (b'{"a":' * 100_000, "nested more than 64 deep"),
    "deep and closed": (b"[" * 65 + b"]" * 65, "nested more than 64 deep"),
    "deep after strings": (b'["\\"]", ' + b"[" * 64, "nested more than 64 deep"),
    "5,000 digits": (b"9" * 5000, "is no decimal number"),
    "20 digits": (b'{"a":12345678901234567890}', "is no decimal number of at most 19 digits"),
    "above 64 bits": (b'{"a":9223372036854775808}', "is not within"),
    "below 64 bits": (b"-9223372036854775809", "is not within"),
    "infinite": (b'{"a":1e999}', "'1e999' is no finite number"),
    "NaN": (b'{"a":NaN}', "'NaN' is no finite number"),
    "Infinity": (b"-Infinity", "'-Infinity' is no finite number"),
    "a key twice": (b'{"a":1,"b":2,"a":3}', "names 'a' twice"),
    "a key twice inside": (b'{"x":[{"a":1,"\\u0061":3}]}', "names 'a' twice"),
    "no UTF-8": (b'{"a":"\xff"}', "no UTF-8"),
    "half a character": (b'{"a":"\\ud800"}', "half of a character"),
    "UTF-16": ('{"a":1}'.encode("utf-16"), "no UTF-8"),
    "byte order mark": (b"\xef\xbb\xbf{}", "not JSON"),
    "empty": (b"", "not JSON"),
    "absent": (None, "nothing is not JSON"),
    "more after it": (b"{} {}", "not JSON"),
    "unfinished": (b'{"a":', "not JSON"),
    "large": (b" " * 4_194_305, "at most 4194304 are read"),
    "half a character in text": ('"\udc80"', "no UTF-8"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_s03_hostile_json_is_one_short_sentence(name: str) -> None:
    """Depth, size, digits, doubles, encodings: `Rejected` with the node's name, and short."""
    from groupshift.domain.foreign_json import load_json

    data, reason = HOSTILE[name]
    with pytest.raises(Rejected, match=reason) as refused:
        load_json(data, "/consumers/g/ids/c")
    assert str(refused.value).startswith("/consumers/g/ids/c: ")
    assert len(str(refused.value)) < 400


def test_s03_what_is_within_the_bounds_is_read_as_before() -> None:
    """The bounds refuse nothing that is ordinary."""
    from groupshift.domain.foreign_json import load_json, load_object

    assert load_json(b"[" * 64 + b"]" * 64, "x")
    assert load_json('{"a":[1,-2,2.5,true,null,"\u00e9\\u00e9\\ud83d\\ude00"]}', "x") == {
        "a": [1, -2, 2.5, True, None, "\u00e9\u00e9\U0001f600"]
    }
    assert load_json(b'"' + b"[" * 1000 + b'\\""', "x") == "[" * 1000 + '"'
    assert load_json(b"[-9223372036854775808, 9223372036854775807]", "x") == [-(2**63), 2**63 - 1]
    with pytest.raises(Rejected, match="not a JSON object"):
        load_object(b"[1]", "x")


@pytest.mark.parametrize(
    "text", ["", "-", "+5", " 5", "5\n", "1_000", "1e3", "0x10", "٣", "5" * 20, "9223372036854775808", "-1"]
)
def test_s03_a_decimal_number_has_nineteen_digits_and_64_bits(text: str) -> None:
    """As text and as bytes."""
    from groupshift.domain.foreign_json import decimal

    with pytest.raises(Rejected, match="offset"):
        decimal(text, "offset")
    with pytest.raises(Rejected, match="offset"):
        decimal(text.encode(), "offset")


def test_s03_a_decimal_number_within_the_bounds_is_read() -> None:
    """Leading zeros too; JSON's booleans and fractions are no whole numbers."""
    from groupshift.domain.foreign_json import decimal, whole_number

    assert decimal(b"9223372036854775807", "offset") == 2**63 - 1
    assert decimal("007", "offset") == 7
    assert decimal("-1", "offset", low=-1) == -1
    assert whole_number(3, "count", low=1) == 3
    for wrong in (True, 1.0, "1", None, [1], {}, -1, 2**63):
        with pytest.raises(Rejected, match="count"):
            whole_number(wrong, "count")
