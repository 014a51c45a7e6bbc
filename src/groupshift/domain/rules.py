"""Numbered rules: what each looks at is Python, and what it says is a table in TOML.

A table has one entry for each rule, in the order in which they are asked::

    [C01]
    holds = "the group exists"                 # the sentence of the passed finding

    [C01.group_unknown]                        # what it may say instead, by a name that the table has once
    verdict = "fail"
    reason = "group {group} is known neither to ZooKeeper nor to Kafka"
    hint = "check the name and the chroot of the ZooKeeper connection"

A rule may have a ``hint`` for all sentences without one. The look beside it says
``yield Says("group_unknown", group=…)``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from groupshift.domain.facts import sentence_list
from groupshift.domain.tables import table_of
from groupshift.domain.verdict import Finding, Verdict
from groupshift.errors import Rejected

F = TypeVar("F")
"""What the rules of one table look at."""
_NUMBER = re.compile(r"[A-Z]{1,2}\d\d", re.ASCII)


class Says:
    """What a rule has to say: the name of a sentence of its table, and the values in it; ``verdict`` is
    another one than the sentence's own; a sentence that is made to pass gives no hint. A list of values is
    told as by `sentence_list`."""

    def __init__(self, sentence: str, /, *, verdict: Verdict | None = None, **values: object) -> None:
        self.sentence = sentence
        self.verdict = verdict
        self.values = {
            name: sentence_list([str(each) for each in value]) if isinstance(value, list | tuple) else value
            for name, value in values.items()
        }


def some(sentence: str, /, **values: Any) -> Iterator[Says]:
    """What there is to say when a list in the sentence has anything: yields nothing where all are empty."""
    if any(value for value in values.values() if isinstance(value, list | tuple)):
        yield Says(sentence, **values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A finding with blanks for values, such as ``{group}``; ``hint`` empty: that of its rule."""

    verdict: Verdict
    reason: str
    hint: str = ""


_Table = dict[str, dict[str, Sentence | str]]
Look = Callable[[F], Iterator[Says]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Generic[F]):
    """One rule. ``holds`` is the sentence of the passed finding; ``look`` yields what is wrong, or a passed
    sentence of its own; where ``moot`` is true nothing that it looks at is there. ``hint`` is that of each of
    the table's ``sentences`` that has none."""

    number: str
    holds: str
    hint: str
    sentences: Mapping[str, Sentence]
    look: Look[F]
    moot: Callable[[F], bool]

    def ask(self, facts: F) -> tuple[Finding, ...]:
        """Return what is wrong as findings, or one passed finding."""
        findings = []
        for said in self.look(facts):
            sentence = self.sentences[said.sentence]
            hint = "" if said.verdict is Verdict.PASS else sentence.hint or self.hint
            verdict, reason = said.verdict or sentence.verdict, sentence.reason.format(**said.values)
            hint = hint.format(**said.values)
            findings.append(Finding(rule=self.number, verdict=verdict, reason=reason, hint=hint))
        if findings:
            return tuple(findings)
        applies = not self.moot(facts)
        return (Finding(rule=self.number, verdict=Verdict.PASS, reason=self.holds, applies=applies),)


class Rules(Mapping[str, Rule[F]]):
    """The rules of one table by number, in its order; `rule` adds to each what it looks at. ``letters`` are
    those of their numbers, where the table has others, too; any may say any sentence of it. ``text`` is
    taken instead of what the file holds.

    Raises:
        Rejected: the table is not whole; says file, rule, field, value and what is allowed.
    """

    def __init__(self, file: str, letters: str = "", text: str = "") -> None:
        self.file = file
        self.sentences: dict[str, Sentence] = {}
        self._entries: dict[str, Mapping[str, str]] = {}
        self._rules: dict[str, Rule[F]] = {}
        for number, entry in table_of(_Table, file, text).items():
            sentences = {name: said for name, said in entry.items() if isinstance(said, Sentence)}
            texts = {name: text for name, text in entry.items() if isinstance(text, str)}
            if not _NUMBER.fullmatch(number) or not {"holds"} <= texts.keys() <= {"holds", "hint"}:
                raise Rejected(
                    f"{file}, {number}: allowed: one or two capitals, two digits, what holds, and a hint"
                )
            for name in sentences.keys() & self.sentences.keys():
                raise Rejected(f"{file}, {number}: sentence {name!r} is there twice; allowed: once")
            self.sentences |= sentences
            if not letters or number[:-2] == letters:
                self._entries[number] = texts

    def rule(self, number: str, moot: Callable[[F], bool] = lambda _: False) -> Callable[[Look[F]], Look[F]]:
        """Return a decorator for what this rule looks at. Raises `Rejected` for a number without an entry."""
        entry = self._entries.get(number)
        if entry is None:
            raise Rejected(f"{self.file}: rule {number} is missing; allowed: an entry for each rule")

        def keep(look: Look[F]) -> Look[F]:
            self._rules[number] = Rule(
                number=number,
                holds=entry["holds"],
                hint=entry.get("hint", ""),
                sentences=self.sentences,
                look=look,
                moot=moot,
            )
            return look

        return keep

    def __getitem__(self, number: str) -> Rule[F]:
        """Return the rule of a number."""
        return self._rules[number]

    def __iter__(self) -> Iterator[str]:
        """Return every number, in the order of the table."""
        return iter(self._entries)

    def __len__(self) -> int:
        """Return how many rules there are."""
        return len(self._entries)

    def ask(self, facts: F, numbers: Iterable[str] | None = None) -> tuple[Finding, ...]:
        """Return what these rules say (None: all, in the order of the table), passed ones included."""
        numbers = self if numbers is None else numbers
        return tuple(finding for number in numbers for finding in self[number].ask(facts))
