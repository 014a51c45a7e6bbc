"""A ZooKeeper log and ledgers that tell one story a topic, for the audit tests.

Times are milliseconds after `EPOCH_MS`. Members: ``m1-1`` old (recorded behind a pipe), ``m2-1`` and
``m3-1`` migration-aware, ``p1-1`` and ``p2-1`` plain consumers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from support import jute

GROUP = "g"
EPOCH_MS = 1_763_740_000_000
SESSIONS = {"m1-1": 11, "m2-1": 12, "m3-1": 13}
_CREATE, _DELETE, _SET, _SESSION, _CLOSE = 1, 2, 5, -10, -11


@dataclass
class Story:
    """Collects what happened; `write` turns it into files as ZooKeeper and the members leave them."""

    happened: list[tuple[int, int, bytes, int]] = field(default_factory=list)
    delivered: list[tuple[str, str, int, int]] = field(default_factory=list)
    committed: set[str] = field(default_factory=set)

    def _add(self, at: int, code: int, body: bytes, member: str) -> None:
        self.happened.append((at, code, body, SESSIONS.get(member, 99)))

    def registers(self, member: str) -> None:
        """The member's session and registration, at time 0; all but ``m1-1`` are migration-aware."""
        self._add(0, _SESSION, (6000).to_bytes(4, "big"), member)
        folders = ("ids",) if member == "m1-1" else ("ids", "migration/ids")
        for folder in folders:
            body = jute.create(f"/consumers/{GROUP}/{folder}/{GROUP}_{member}", b"{}", ephemeral=True)
            self._add(0, _CREATE, body, member)

    def owns(self, topic: str, member: str, since: int, until: int | None = None) -> None:
        """The owner node of partition 0 of the topic is there from `since` to `until`."""
        path = f"/consumers/{GROUP}/owners/{topic}/0"
        self._add(since, _CREATE, jute.create(path, f"{GROUP}_{member}-0".encode(), ephemeral=True), member)
        if until is not None:
            self._add(until, _DELETE, jute.delete(path), member)

    def commits(self, topic: str, offset: int, at: int) -> None:
        """The offset znode of partition 0 is written."""
        path = f"/consumers/{GROUP}/offsets/{topic}/0"
        data = str(offset).encode()
        again = topic in self.committed
        body = jute.set_data(path, data) if again else jute.create(path, data)
        self._add(at, _SET if again else _CREATE, body, "")
        self.committed.add(topic)

    def delivers(self, topic: str, member: str, offsets: Iterable[int], since: int, step: int = 10) -> None:
        """The member delivers these offsets of partition 0, one every `step` ms."""
        for number, offset in enumerate(offsets):
            self.delivered.append((member, topic, offset, since + number * step))

    def write(self, root: Path) -> tuple[Path, Path]:
        """The folders of the ledgers and of the log."""
        ledgers, log = root / "ledgers", root / "zookeeper" / "version-2"
        ledgers.mkdir(parents=True)
        log.mkdir(parents=True)
        ordered = sorted(self.happened, key=lambda one: one[0])
        entries = [
            jute.entry(zxid, code, body + jute.DIGEST, session=session, time_ms=EPOCH_MS + at)
            for zxid, (at, code, body, session) in enumerate(ordered, start=1)
        ]
        half = len(entries) // 2
        (log / "log.1").write_bytes(jute.log(*entries[:half]))
        (log / f"log.{half + 1:x}").write_bytes(jute.log(*entries[half:]))
        for member in {one[0] for one in self.delivered}:
            lines = [line(one) for one in self.delivered if one[0] == member]
            (ledgers / f"{member}.jsonl").write_text("".join(lines))
        return ledgers, log.parent


def line(delivery: tuple[str, str, int, int]) -> str:
    """One line of a ledger."""
    member, topic, offset, at = delivery
    data = {
        "member": f"{GROUP}_{member}",
        "topic": topic,
        "partition": 0,
        "offset": offset,
        "at_ms": EPOCH_MS + at,
    }
    return json.dumps(data, separators=(",", ":")) + "\n"


def _handed_over(story: Story, topic: str, committed: int, begins: int) -> None:
    """``m1-1`` delivers 0 to 9 and commits; ``m2-1`` takes over and delivers from `begins` to 19."""
    story.owns(topic, "m1-1", 1000, 5000)
    story.delivers(topic, "m1-1", range(10), 1500)
    story.commits(topic, committed, 4900)
    story.owns(topic, "m2-1", 5040, 9000)
    story.delivers(topic, "m2-1", range(begins, 20), 5500)
    story.commits(topic, 20, 8900)


def everything() -> Story:
    """Every story, each in its own topic (see the tests for what each must come to)."""
    story = Story()
    for member in SESSIONS:
        story.registers(member)
    _handed_over(story, "clean", committed=10, begins=10)
    _handed_over(story, "lost", committed=10, begins=13)
    _handed_over(story, "again", committed=7, begins=7)
    _handed_over(story, "rewound", committed=7, begins=4)
    _handed_over(story, "beyond", committed=10, begins=10)
    story.commits("beyond", 25, 8950)
    _handed_over(story, "zombie", committed=10, begins=10)
    story.owns("zombie", "m3-1", 9500)
    story.delivers("zombie", "m2-1", [20, 21], 9600)
    _handed_over(story, "late", committed=10, begins=11)
    story.delivers("late", "m1-1", [10], 5600)
    _handed_over(story, "twice", committed=10, begins=10)
    story.delivers("twice", "m2-1", [15], 8000)
    _plain(story)
    return story


def _plain(story: Story) -> None:
    story.owns("retired", "m2-1", 1000, 5000)
    story.delivers("retired", "m2-1", range(10), 1500)
    story.commits("retired", 9, 4900)
    story.delivers("retired", "p1-1", range(9, 15), 6000)
    story.delivers("retired", "p2-1", range(13, 20), 7000)
    story.delivers("resumed", "p1-1", range(5), 2000)
    story.delivers("resumed", "p2-1", range(3, 8), 3000)
    story.delivers("resumed", "p1-1", range(5, 8), 4000)
    story.owns("invaded", "m2-1", 1000, 5000)
    story.delivers("invaded", "m2-1", range(10), 1500, step=100)
    story.delivers("invaded", "p1-1", range(10, 12), 1810)


def topics(rows: Sequence[dict[str, object]]) -> set[object]:
    """The topics of some rows."""
    return {row["topic"] for row in rows}
