"""The equality rules of one comparison, read from the JSON that `groupshift.domain.equality` makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groupshift import foreign_files
from groupshift.domain.equality import RULES_VERSION
from groupshift.domain.foreign_json import FILE_BYTES, load_json
from groupshift.errors import Rejected
from groupshift.foreign_files import text_of
from groupshift.spark.transforms import Difference


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What one comparison allows. ``allowed`` says it per class of offset difference; ``replaced``
    members changed from kind ``old`` to ``new``; ``gap`` is in records; ``mode_text`` is the text the
    mode node must hold afterwards (None: absent); ``effective_mode`` is ``kafka`` or ``zookeeper``;
    ``nobody``: the group is to be empty afterwards. ``log`` is what the log answers about offsets that
    advanced and were delivered to nobody: topic, partition, from, to (exclusive), answer, and why."""

    stage: str
    moment: str
    allowed: Mapping[Difference, bool]
    gap: int
    kafka_mode: bool
    replaced: int
    old: str
    new: str
    mode_text: str | None
    ledger_required: bool
    nobody: bool = False
    log: tuple[tuple[str, int, int, int, str, str], ...] = ()

    @property
    def effective_mode(self) -> str:
        """The mode that must be in effect in the later snapshot."""
        return "kafka" if self.kafka_mode else "zookeeper"


def _allowed(offsets: Mapping[str, Any]) -> dict[Difference, bool]:
    words = {"allowed": True, "never": False}
    return {kind: words[offsets[kind.value]] for kind in Difference}


def from_data(data: Mapping[str, Any]) -> Rules:
    """Rules from plain values. Raises `Rejected`, naming the key, when they are not complete."""
    try:
        if data["version"] != RULES_VERSION:
            raise Rejected(f"rules version {data['version']!r} is not {RULES_VERSION}; update groupshift")
        members = data["members"]
        equal = members["change"] == "equal"
        return Rules(
            stage=str(data["stage"]),
            moment=str(data["moment"]),
            allowed=_allowed(data["offsets"]),
            gap=int(data["commit_interval_records"]),
            kafka_mode=bool(data["kafka_mode"]),
            replaced=0 if equal else int(members["count"]),
            old="" if equal else str(members["from"] or ""),
            new="" if equal else str(members["to"] or ""),
            mode_text=data["mode_node"]["to"],
            ledger_required=data.get("ledger") == "required",
            nobody=data.get("owners") == "nobody",
            log=tuple(_answer(each) for each in data.get("log", ())),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Rejected(f"the rules lack or spoil the key {error}; plan the migration again") from error


def _answer(each: Mapping[str, Any]) -> tuple[str, int, int, int, str, str]:
    return (
        str(each["topic"]),
        int(each["partition"]),
        int(each["from"]),
        int(each["to"]),
        str(each["answer"]),
        str(each["reason"]),
    )


def read(path: Path) -> Rules:
    """Rules from a JSON file. Raises `Rejected` when it is missing or not such a file."""
    try:
        data = load_json(text_of(foreign_files.read(path)), "it", at_most=FILE_BYTES)
    except FileNotFoundError:
        raise Rejected(f"the rules file {path} does not exist; give --rules an existing file") from None
    except OSError as error:
        why = error.strerror or error
        raise Rejected(f"the rules file {path} cannot be read ({why}); give --rules another") from error
    except (ValueError, Rejected) as error:
        raise Rejected(f"the rules file {path} is not JSON ({error})") from error
    if not isinstance(data, dict):
        raise Rejected(f"the rules file {path} holds no JSON object")
    return from_data(data)
