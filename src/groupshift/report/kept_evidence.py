"""What is kept of a run besides its journal, for its page: what is not as it was journaled is said, not
shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from groupshift.domain.evidence import MANIFEST, Moment, Row
from groupshift.domain.run import Json
from groupshift.domain.seal import JOURNAL, OWN, REPORT, Known, StoredFile, values_of
from groupshift.engine.evidence import brokers_met, exported, known_of, measured, versions_met
from groupshift.errors import Broken, GroupshiftError
from groupshift.ports.evidence import EvidenceStore, Ledger
from groupshift.ports.runs import Runs

T = TypeVar("T")
_MADE = frozenset({JOURNAL, REPORT, *OWN})
"""What sealing writes itself: a page says nothing of it."""


@dataclass(slots=True)
class Kept:
    """The evidence of one run: all its ``files`` by path, and those that a page names (``shown``, by path).
    ``known`` is what the journal demands of them, ``about`` what is told of it beside them. ``troubles``
    grows by a sentence for each part that cannot be relied on."""

    evidence: EvidenceStore
    run: str
    files: Mapping[str, StoredFile]
    known: Known
    shown: tuple[StoredFile, ...] = ()
    about: tuple[tuple[str, str], ...] = ()
    ledger: Ledger | None = None
    troubles: list[str] = field(default_factory=list)

    def relied_on(self, path: str) -> bool:
        """Return True where a file is there and is the one that was journaled; else it is said why not,
        unless there never was one."""
        demand, there = self.known.demands.get(path), self.files.get(path)
        if there is None and demand is None:
            return False
        if there is None:
            self._say(f"evidence {path} is gone; it is not shown")
        elif demand is None:
            self._say(f"evidence {path} was not journaled: nothing is known of it; it is not shown")
        elif demand.sha256 != there.sha256:
            self._say(f"evidence {path} was altered after it was journaled; it is not shown")
        else:
            return True
        return False

    def json(self, path: str) -> dict[str, Any] | None:
        """A JSON object; None where there is none, it is not one, or it cannot be relied on."""
        text = self._read(path, lambda: self.evidence.read_text(self.run, *path.split("/")))
        with suppress(ValueError):
            data = values_of(text or "null")
            return data if isinstance(data, dict) else None
        return None

    def rows(self, path: str) -> Sequence[Row]:
        """The rows of a Parquet file; none as for `json`."""
        return self._read(path, lambda: self.evidence.rows(self.run, *path.split("/"))) or ()

    def tables(self, attempt: str, moment: Moment) -> Mapping[str, Sequence[Row]] | None:
        """The tables of a snapshot of a group; None for one that cannot be relied on: its manifest, which has
        the SHA-256 of each table, has to be the one that was journaled."""
        manifest = f"{attempt}/{moment.value}/{MANIFEST}"
        return self._read(manifest, lambda: self.evidence.read(self.run, attempt, moment))

    def ledgers(self, read: Callable[[Ledger], T]) -> T | None:
        """What ``read`` finds in the members' ledgers; None where there are none, or they cannot be read."""
        try:
            return None if self.ledger is None else read(self.ledger)
        except Broken as unsound:
            self._say(str(unsound))
            return None

    def _read(self, path: str, read: Callable[[], T]) -> T | None:
        """What ``read`` finds in a file that can be relied on; None where it cannot, which is said."""
        if not self.relied_on(path):
            return None
        try:
            return read()
        except GroupshiftError as unsound:
            self._say(str(unsound))
            return None

    def _say(self, sentence: str) -> None:
        """Add a sentence to the troubles, once."""
        if sentence not in self.troubles:
            self.troubles.append(sentence)


def kept_of(
    evidence: EvidenceStore,
    runs: Runs,
    run: str,
    *,
    closing: Json | None = None,
    ledger: Ledger | None = None,
    below: str = "",
) -> Kept:
    """Measure what is kept of a run, with ``below`` that of one folder, as `measured`; ``closing`` is what is
    journaled of an end that is not written yet.

    Raises:
        Rejected: the run is not in the journal.
        Broken: a file cannot be read, or was replaced while it was read.
    """
    data = exported(runs, run, closing)
    files = {each.path: each for each in measured(evidence, run, below=below)}
    known = known_of(evidence, run, files, data)
    shown = tuple(files[path] for path in sorted(files) if path not in _MADE)
    about = [(name, ", ".join(each)) for name, each in versions_met(evidence, run, shown).items()]
    brokers = brokers_met(data)
    about += [("brokers met", "; ".join(brokers))] if brokers else []
    facts = (*about, *(("doubted", each) for each in known.doubts.values()))
    return Kept(evidence=evidence, run=run, files=files, known=known, shown=shown, about=facts, ledger=ledger)
