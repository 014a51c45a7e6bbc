"""What one file of a pack is, by the pack that names it and by the journal that demands it."""

from __future__ import annotations

import pytest

from groupshift.domain.seal import Known, Pack, State, StoredFile, doubts, file_check

PATH = "report.html.part"
SEALED = StoredFile(path=PATH, sha256="a" * 64, bytes=1)
PACK = Pack(
    run="r", target="g", plan_hash="p", state="done", sealed_at_ms=1, files=(SEALED,), approvals=(),
    versions={}, brokers=(), doubts={}, signed=False,
)  # fmt: skip


@pytest.mark.parametrize(
    "now", [None, StoredFile(path=PATH, sha256="b" * 64, bytes=1)], ids=["gone", "other"]
)
def test_a_draft_of_a_sealing_that_was_killed_may_change_until_the_next_one(now: StoredFile | None) -> None:
    """The draft lay there when it was sealed, and a sealing that was begun since then took it away."""
    known = Known(left_over=lambda path: path.endswith(".part"), renewed=("report.html",))
    there = {PATH: now} if now else {}
    assert file_check(PATH, SEALED, now, known).state is State.LEFT_OVER
    assert not doubts(PACK, {}, there, {}, known)
    assert file_check(PATH, SEALED, now, Known()).state is (State.ALTERED if now else State.MISSING)
    assert len(doubts(PACK, {}, there, {}, Known())) == 1
