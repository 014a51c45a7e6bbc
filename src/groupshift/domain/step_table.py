"""The steps that a move can plan, as a table in TOML: what each does, and what proves it.

A plan is Python: which steps it has, and in which order. What people read of a step, and how the engine
treats it whatever the target, is one entry of the table ``steps.toml`` beside the plan::

    [prove]
    phase = "go"
    kind = "prove"                    # left out: the name of the entry
    repeat = true                     # left out: false
    on_difference = "asked"           # left out: "stop"; a word of `OnDifference`
    when_late = "end"                 # left out: "park"; a word of `WhenLate`
    does = "ask every rule again"     # may have blanks for values, such as {to}
    proof = "no rule fails"           # left out: nothing

A table is read and checked when its move is imported, as those of `groupshift.domain.rules` are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from groupshift.domain.run import OnDifference, Step, WhenLate
from groupshift.domain.tables import Entry, parsed, shipped


class StepTable:
    """The steps of one file of the package, such as ``moves/expansion/steps.toml``.

    Raises:
        Rejected: the table is not whole; says file, entry, field, value and what is allowed.
    """

    def __init__(self, file: str) -> None:
        whole = parsed(shipped(file), file)
        self._steps = {name: _read(name, whole.table(name)) for name in whole.values}

    def step(
        self, name: str, subject: str = "", said: Mapping[str, object] | None = None, **own: Any
    ) -> Step:
        """Return the step of the entry ``name`` for a group, node, topic or snapshot.

        ``said`` are the values of its blanks; ``subject`` is one of them. ``own`` are further fields of
        `Step`: what only this plan knows, such as ``args``, ``undo``, ``gate`` and ``patience_s``.
        """
        template, values = self._steps[name], {"subject": subject, **(said or {})}
        does, proof = template.does.format(**values), template.proof.format(**values)
        return replace(template, subject=subject, does=does, proof=proof, **own)


def _read(name: str, entry: Entry) -> Step:
    """An entry as a step of no target yet; its texts still have their blanks."""
    entry.only(("phase", "does"), ("kind", "proof", "repeat", "on_difference", "when_late"))
    words: dict[str, Any] = {"on_difference": OnDifference, "when_late": WhenLate}
    chosen: dict[str, Any] = {
        field: entry.word(field, kind) for field, kind in words.items() if field in entry.values
    }
    repeat = entry.values.get("repeat", False)
    if not isinstance(repeat, bool):
        raise entry.fault("repeat", "true or false")
    return Step(
        phase=entry.text("phase"),
        kind=entry.text("kind", name),
        repeat=repeat,
        does=entry.text("does"),
        proof=entry.text("proof", ""),
        **chosen,
    )
