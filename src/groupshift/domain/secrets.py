"""How a text is shown that may hold a secret: one place strikes it out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

STRUCK = "***"
_WORD = re.compile(r"\S+")


def struck_out(text: str, secrets: Iterable[str]) -> str:
    """``text`` without the ``secrets``; the longest first, since one may hold another."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, STRUCK)
    return text


def holds_login(address: str) -> bool:
    """Whether an address may hold a user name and a password: there is an ``@``, written out or encoded.

    Such an address is never shown: where its password ends, only its author knows."""
    return "@" in address or "%40" in address or "\uff20" in address or "\ufe6b" in address


def without_login(text: str) -> str:
    """``text`` with what stands before an ``@`` in each URL, and what follows a ``?``, struck out: for words
    of other programs, and for URIs of stores, whose keys may be at either place."""
    return _WORD.sub(lambda word: _without_login(word[0]), text)


def data_without_login(data: Any) -> Any:
    """``data`` of JSON with each of its texts as `without_login` returns it; a key of a mapping is one."""
    match data:
        case str():
            return without_login(data)
        case Mapping():
            return {data_without_login(key): data_without_login(value) for key, value in data.items()}
        case list() | tuple():
            return [data_without_login(each) for each in data]
        case _:
            return data


def _without_login(word: str) -> str:
    before, slashes, rest = word.partition("//")
    _, login, place = rest.rpartition("@")
    place, query, _ = place.partition("?")
    return before + slashes + (f"{STRUCK}@" if login else "") + place + (f"?{STRUCK}" if query else "")
