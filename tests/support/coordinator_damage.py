"""Damaged coordinator records, the same for the same seed: for the decoder and for its Spark twin."""

from __future__ import annotations

import random

from groupshift.log import LogRecord
from groupshift_testing.log_encoder import encode_key
from support.coordinator_vectors import KEYS, REAL_VALUES, VALUES

KEY_FIELDS = {
    "group": "g\u00e4",
    "groupId": "g\u00e4",
    "topic": "t",
    "partition": 7,
    "memberId": "m",
    "regularExpression": "a.*",
}
"""Fields for a key of any type."""


def _mutated(raw: bytes, dice: random.Random) -> bytes:
    """One to three random damages: cut, flip, put in, take out, write a varint too long, double."""
    out = bytearray(raw)
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(out) + 1)
        match dice.randrange(6):
            case 0:
                del out[at:]
            case 1 if at < len(out):
                out[at] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
            case 2:
                out[at:at] = dice.randbytes(dice.randint(1, 4))
            case 3:
                del out[at : at + dice.randint(1, 4)]
            case 4 if at < len(out):
                out[at : at + 1] = (out[at] | 0x80, 0)
            case _:
                out += out[at : at + 4]
    return bytes(out)


def damaged_records(count: int, seed: int) -> list[LogRecord]:
    """Records made of the vectors, damaged in key or value or both; the same for the same seed."""
    dice = random.Random(seed)
    keys = {number: encode_key(number, KEY_FIELDS) for number in range(25)}
    vectors = [bytes.fromhex(text) for text in KEYS.values()]
    values = [*VALUES.values(), *REAL_VALUES.values(), *((n, "0000" + "01" * 30) for n in range(25))]
    records = []
    for offset in range(count):
        number, text = dice.choice(values)
        key, value = keys[number], bytes.fromhex(text)
        if dice.randrange(4) == 0:
            key = _mutated(dice.choice((key, *vectors)), dice)
        else:
            value = _mutated(value, dice)
        records.append(
            LogRecord(
                partition=offset % 50,
                offset=offset,
                timestamp_ms=0,
                key=key,
                value=None if dice.randrange(50) == 0 else value,
            )
        )
    return records
