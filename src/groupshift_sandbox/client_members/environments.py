"""A virtual environment for each confluent-kafka that is not ours, made when it is first needed.

It lies below the sandbox's cache and holds what its file of pins beside this module names, hashes included;
the index is the one that pip is configured with.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.resources import as_file, files
from pathlib import Path

from groupshift.adapters.system import cache_root, locked
from groupshift.errors import Transient

_DEADLINE_S = 300.0
_COMPLETE = "complete"


def interpreter_with(release: str) -> Path:
    """The interpreter of an environment with confluent-kafka ``release``.

    Raises `Transient` when it cannot be made now, with what venv or pip says."""
    python = f"py{sys.version_info.major}.{sys.version_info.minor}"
    folder = cache_root() / "clients" / f"confluent-kafka-{release}-{python}"
    with locked(folder):
        if not (folder / _COMPLETE).exists():
            shutil.rmtree(folder, ignore_errors=True)
            _run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
            with as_file(files(__package__) / f"confluent-kafka-{release}.txt") as pins:
                _run(
                    [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install",
                     "--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes", "-r", str(pins)]
                )  # fmt: skip
            (folder / _COMPLETE).touch()
    return folder / "bin" / "python"


def _run(argv: list[str]) -> None:
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=_DEADLINE_S, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as late:
        raise Transient(f"no answer within {_DEADLINE_S:g} s: {' '.join(argv[:4])} …; run it again") from late
    if done.returncode:
        why = done.stderr.strip()[-600:]
        raise Transient(f"{' '.join(argv[:4])} … ended with {done.returncode}; run it again. It says: {why}")
