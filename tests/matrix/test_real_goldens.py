"""What each move does to real servers, there and back, is what it did when the goldens were written.

    make matrix MATRIX=real_goldens

The stories are in ``goldens/real_stories.py``, what is kept of them in ``goldens/effects/real.json``: it was
recorded once and is never edited, as the goldens of simulated moves (``goldens/test_effects.py``). To record
a story that has no golden yet:

    python -m matrix.test_real_goldens      (in tests/, with the interpreter of .venv)
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from goldens.real_stories import STORIES
from support.effects import KEPT, RENAMES, deviations, document, kept

REAL = "real"


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", STORIES, ids=[name.partition(":")[0] for name in STORIES])
def test_a_move_does_to_real_servers_and_decides_what_it_did(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The same changes in the same order, by at least the same reads, with the same verdicts; and a process
    can be killed at no fewer points of an act."""
    golden = kept(REAL)[name]
    assert deviations(golden, STORIES[name](tmp_path_factory.mktemp(REAL)), RENAMES) == []


def record_missing() -> None:
    """Record stories that have no golden; one that has is never written again."""
    path = KEPT / f"{REAL}.json"
    goldens = dict(kept(REAL)) if path.exists() else {}
    for name, record in STORIES.items():
        if name not in goldens:
            with tempfile.TemporaryDirectory(prefix=f"{REAL}-") as folder:
                goldens[name] = record(Path(folder)).golden()
            path.write_text(document(goldens))
            print(f"{name}: recorded in {path}")


if __name__ == "__main__":
    record_missing()
