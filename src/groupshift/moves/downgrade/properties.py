"""Properties of a broker's file that an older release does not know, or knows with fewer values.

A property that is not known is only warned of; a known one with an unknown value ends the start. Source
of the rule: docs/reference/group-coordinator.md §6.1, step 8.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from groupshift.domain.cluster import Property
from groupshift.domain.group_protocol import ASSIGNORS, PROTOCOLS
from groupshift.domain.tables import parsed, shipped, unique
from groupshift.domain.versions import Version
from groupshift.errors import Rejected
from groupshift.moves.downgrade.releases import Target

_V37, _V39, _V40 = (Version.parse(text) for text in ("3.7.0", "3.9.0", "4.0.0"))
INTER_BROKER = "inter.broker.protocol.version"
"""With ZooKeeper: the version that brokers speak to each other and write by, in the place of features."""
_VERSION = re.compile(r"(\d{1,9})\.(\d{1,9})", re.ASCII)
_BOOTSTRAP = "controller.quorum.bootstrap.servers"
_PROTOCOLS_SINCE = {"classic": _V37, "consumer": _V37, "share": _V39, "streams": _V40}
FILE = "moves/downgrade/property_names.toml"
"""The table of names, below the package ``groupshift``."""
_NAME = re.compile(r"[a-z0-9]+(\.[a-z0-9]+)+", re.ASCII)


def read_names(text: str, file: str = FILE) -> dict[str, str]:
    """Name → line of releases that knows it first, such as ``4.3``, of a table in TOML.

    Raises:
        Rejected: the text is no TOML, a line is none, or a name is none or there twice; says file, line,
            value and what is allowed.
    """
    whole = parsed(text, file)
    if not whole.values:
        raise Rejected(f"{file} is empty; allowed: at least one line of releases such as 4.3")
    for line in whole.values:
        if not _VERSION.fullmatch(line):
            raise Rejected(f"{file}: the field {line!r} is unknown; allowed: lines of releases such as 4.3")
    pairs = [(name, line) for line in whole.values for name in whole.names(line, _NAME)]
    unique((name for name, _ in pairs), f"{file}, names")
    return dict(pairs)


FIRST_LINE = read_names(shipped(FILE))
"""What is not in it is as old as 3.4, or a plugin's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """A property that the target does not take as it is; ``fatal`` when the broker ends at its start."""

    name: str
    value: str
    why: str
    fatal: bool


def misfits(properties: Mapping[str, Property], target: Target) -> Iterator[Misfit]:
    """What in a broker's file the target does not know, by name."""
    for name in sorted(properties):
        value = properties[name].value or ""
        if not properties[name].static:
            continue
        why = _VALUES[name](value, target) if name in _VALUES else ""
        if why:
            yield Misfit(name=name, value=value, why=why, fatal=True)
        elif name in FIRST_LINE and target.version < Version.parse(f"{FIRST_LINE[name]}.0").lowest:
            yield Misfit(name=name, value=value, why=f"{target.release} ignores it", fatal=False)


def speaks_newer(properties: Mapping[str, Property], target: Target) -> bool:
    """With ZooKeeper: whether a broker speaks and writes by a version that the target does not know (by
    that of its own release where none is set)."""
    told = properties.get(INTER_BROKER)
    return told is None or bool(_inter_broker(told.value or "", target))


def _inter_broker(value: str, target: Target) -> str:
    """Also where nobody checks it any more (KRaft): a version that is not known ends the start."""
    found = _VERSION.match(value)
    highest = tuple(int(part) for part in target.line.name.split("."))
    if found is None or (int(found[1]), int(found[2])) <= highest or target.version >= _V40.lowest:
        return ""
    return f"{target.release} knows versions up to {target.line.name}"


def _voters(value: str, target: Target) -> str:
    if not value or target.version >= _V39.lowest:
        return ""
    return f"{target.release} wants controller.quorum.voters in its place (KIP-853 came with 3.9)"


def _protocols(value: str, target: Target) -> str:
    if target.version < _V37.lowest:
        return ""
    told = [each.strip().lower() for each in value.split(",") if each.strip()]
    unknown = [each for each in told if target.version < _PROTOCOLS_SINCE.get(each, _V37).lowest]
    return f"{target.release} does not know {', '.join(unknown)} and ends at its start" if unknown else ""


def _assignors(value: str, target: Target) -> str:
    short = [each.strip() for each in value.split(",") if each.strip() and "." not in each]
    known = _V37.lowest <= target.version < _V40.lowest
    if not short or not known:
        return ""
    return f"{target.release} wants names of classes, not {', '.join(short)}, and ends at its start"


_VALUES: Mapping[str, Callable[[str, Target], str]] = {
    PROTOCOLS: _protocols,
    ASSIGNORS: _assignors,
    _BOOTSTRAP: _voters,
    INTER_BROKER: _inter_broker,
}
