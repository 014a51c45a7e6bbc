"""The target of the toy move, one SQLite file: values by name, items that can be counted, a log of acts."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groupshift.domain.run import SparkJob
from groupshift.errors import Transient
from groupshift.settings import Settings

BEGINNING = {
    "colour": "red",
    "size": "0",
    "plugged": "no",
    "started": "no",
    "burned": "no",
    "finish": "open",
    "lamp": "off",
    "scratch": "no",
    "owner": "ann",
}


def _nothing(_act: str, _token: int) -> None:
    """Nothing happens."""


@dataclass(slots=True)
class Target:
    """The file, a folder for evidence, and who is told of each act right before it is made."""

    file: Path
    folder: Path
    on_act: Callable[[str, int], None] = _nothing
    asleep: bool = False

    @classmethod
    @contextmanager
    def opened(cls, settings: Settings, request: Any) -> Iterator[Target]:
        """Open the file that a request names, with evidence where the settings say."""
        yield cls(file=Path(request.file), folder=Path(settings.evidence.root))

    @contextmanager
    def _file(self) -> Iterator[sqlite3.Connection]:
        """The open file. Nothing waits for the disk: a toy has to outlive its processes, not the machine."""
        with closing(sqlite3.connect(self.file)) as opened:
            opened.execute("PRAGMA synchronous = OFF")
            yield opened

    def make(self) -> None:
        """Make the file as it is at first."""
        with self._file() as opened, opened:
            opened.execute("CREATE TABLE thing (name TEXT PRIMARY KEY, value TEXT)")
            opened.execute("CREATE TABLE item (number INTEGER PRIMARY KEY)")
            opened.execute("CREATE TABLE act (number INTEGER PRIMARY KEY, what TEXT, token INTEGER)")
            opened.executemany("INSERT INTO thing VALUES (?, ?)", BEGINNING.items())
            opened.executemany("INSERT INTO item VALUES (?)", [(1,), (2,)])

    def values(self) -> dict[str, str]:
        """Return all values; raises `Transient` while the target is asleep."""
        if self.asleep:
            raise Transient("the toy target does not answer; run it again")
        with self._file() as opened:
            return dict(opened.execute("SELECT name, value FROM thing"))

    def write(self, name: str, value: str) -> None:
        """Somebody who is no run writes a value."""
        with self._file() as opened, opened:
            opened.execute("UPDATE thing SET value = ? WHERE name = ?", (value, name))

    def act(self, name: str, value: str, token: int) -> None:
        """A run writes a value: nothing where it is there already."""
        if self.values()[name] == value:
            return
        self.on_act(f"{name} {value}", token)
        with self._file() as opened, opened:
            opened.execute("UPDATE thing SET value = ? WHERE name = ?", (value, name))
            opened.execute("INSERT INTO act (what, token) VALUES (?, ?)", (f"{name} {value}", token))

    def acts(self) -> list[tuple[str, int]]:
        """Return what runs wrote, in order, with their tokens."""
        with self._file() as opened:
            return list(opened.execute("SELECT what, token FROM act ORDER BY number"))

    def items(self) -> int:
        """Return how many items there are."""
        with self._file() as opened:
            return int(opened.execute("SELECT count(*) FROM item").fetchone()[0])

    def add_item(self) -> None:
        """Somebody adds an item."""
        with self._file() as opened, opened:
            opened.execute("INSERT INTO item DEFAULT VALUES")

    def take(self, name: str) -> dict[str, Any]:
        """Write a snapshot below a name: the values, and a manifest of them."""
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        values = json.dumps(self.values(), sort_keys=True).encode()
        (folder / "values.json").write_bytes(values)
        sha256 = hashlib.sha256(values).hexdigest()
        entry = {"file": "values.json", "rows": len(self.values()), "bytes": len(values), "sha256": sha256}
        manifest = {"version": 1, "files": [entry], "versions": {"toy": "1.0"}}
        (folder / "manifest.json").write_text(json.dumps(manifest))
        return {"folder": str(folder), "manifest_sha256": digest_of(folder), "brokers": ["toy 1.0"]}


def digest_of(folder: Path | str) -> str:
    """Return the digest of a snapshot's manifest."""
    return hashlib.sha256((Path(folder) / "manifest.json").read_bytes()).hexdigest()


def spark(job: SparkJob) -> None:
    """What Spark would do: compare two snapshots and leave the answer in the job's folder."""
    before, after = (json.loads((Path(each) / "values.json").read_text()) for each in job.arguments[:2])
    differs = sorted(name for name in before if before[name] != after[name])
    output = Path(job.output)
    output.mkdir(parents=True, exist_ok=True)
    answer = {"inputs": dict(job.inputs), "differs": differs, "versions": {"spark": "4.2.0"}}
    (output / "verdict.json").write_text(json.dumps(answer))
