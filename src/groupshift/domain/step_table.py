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

from groupshift.domain.plain import from_plain
from groupshift.domain.run import Step
from groupshift.domain.tables import table_of

_Table = dict[str, Mapping[str, Any]]


class StepTable:
    """The steps of one file of the package, such as ``moves/expansion/steps.toml``.

    Raises:
        Rejected: it is no TOML.
        TypeError: an entry is not whole; says field and value.
    """

    def __init__(self, file: str) -> None:
        entries = table_of(_Table, file)
        self._steps = {name: from_plain(Step, {"kind": name, **entry}) for name, entry in entries.items()}

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
