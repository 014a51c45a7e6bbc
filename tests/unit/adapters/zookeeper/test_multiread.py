"""Answers of ``multiRead`` that are none: an error of a lost connection, and never work without end."""

from __future__ import annotations

import random
import struct
from contextlib import suppress

import pytest
from kazoo.exceptions import ConnectionLoss, KazooException

from groupshift.adapters.zookeeper.session import Children, Data, MultiRead

pytestmark = pytest.mark.timeout(10)
HEADER, INT = struct.Struct("!iBi"), struct.Struct("!i")
FAILED, DATA, CHILDREN = -1, 4, 8


def names(count: int, *sizes: int, rest: bytes = b"") -> bytes:
    """The answer to one `Children`."""
    return HEADER.pack(CHILDREN, 0, 0) + INT.pack(count) + b"".join(map(INT.pack, sizes)) + rest


BAD = {
    "a negative size, for ever": names(2**31 - 1, -4),
    "null names": names(2, -1, -1),
    "more names than bytes": names(2**31 - 1, 0, 0),
    "a name that is cut off": names(1, 9, rest=b"short"),
    "a name that is no UTF-8": names(1, 2, rest=b"\xff\xfe"),
    "no count": HEADER.pack(CHILDREN, 0, 0),
    "nothing": b"",
    "an error that nobody knows": HEADER.pack(FAILED, 0, -4711) + INT.pack(-4711),
}


@pytest.mark.parametrize("what", BAD)
def test_s05_an_answer_that_is_none_is_a_lost_connection(what: str) -> None:
    """As for bytes that end in the middle; `ZookeeperConnection.call` knows what to do about it."""
    with pytest.raises(ConnectionLoss):
        MultiRead([Children("/x")], "").deserialize(BAD[what], 0)


def test_s05_a_node_that_is_cut_off_is_a_lost_connection() -> None:
    """Sizes beyond the answer, and no times behind the data."""
    for size in (-1, 0, 5, 2**31 - 1):
        with pytest.raises(ConnectionLoss):
            MultiRead([Data("/x")], "").deserialize(HEADER.pack(DATA, 0, 0) + INT.pack(size) + b"abc", 0)


def test_answers_of_any_bytes_meet_one_error_only() -> None:
    """A few thousand of them."""
    chance = random.Random(19)
    whole = names(2, 1) + b"a" + INT.pack(2) + b"bc"
    assert MultiRead([Children("/x")], "").deserialize(whole, 0) == [("a", "bc")]
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        with suppress(KazooException):
            MultiRead([Children("/x")], "").deserialize(bytes(data[: chance.randrange(len(data) + 1)]), 0)
