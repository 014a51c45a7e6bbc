"""Today's names of modules lead to those of an older commit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.moved import TABLE

_OLD = {
    "old/__init__.py": "",
    "old/box/__init__.py": "",
    "old/box/home.py": "ROOT = 'there'\ndef root(): return ROOT\n",
    "old/first.py": "A = 1\n",
    "old/second.py": "B = 2\ndef b(): return B\n",
    "old/folder.py": "",
    "old/same.py": "C = 4\n",
    "old/beside.py": "from old.same import C\nD = C + 1\n",
    "old/pack/__init__.py": "from old.pack.one import E\n",
    "old/pack/one.py": "E = 5\n",
    "old/pack/two.py": "from old.pack.one import E\nF = E + 1\n",
}
_TABLE = """
[packages]
new_box = "old.box"
nowhere = "old.missing"
[modules]
"old.both" = ["old.first", "old.second"]
"old.same" = ["old.same", "old.beside"]
"old.pack" = ["old.pack", "old.pack.one", "old.pack.two", "old.pack.three"]
"old.new.first" = ["old.first"]
[names]
"old.folder:root" = "old.box.home"
"old.gone:root" = "old.box.home"
"""
_CODE = """
import tomllib
from support import moved
moved.install(tomllib.loads({table!r}))
import old.both as both, old.box.home as home, new_box.home as new, old.folder, old.second
assert new is home and new.root() == "there"
assert (both.A, both.b()) == (1, 2)
both.B = 3
assert both.b() == old.second.b() == 3
assert old.folder.root is home.root
import old.same as same, old.new.first
assert old.new.first.A == 1
assert (same.C, same.D) == (4, 5)
import old.pack.two, old.pack as pack
assert (pack.E, pack.F, pack.two.F) == (5, 6, 6)
for name in ("nowhere", "nowhere.part", "old.absent"):
    try:
        __import__(name)
    except ModuleNotFoundError:
        continue
    raise AssertionError(name)
"""


def test_a_module_is_found_under_its_present_name(tmp_path: Path) -> None:
    """A package that moved, modules that became one, and names that lie elsewhere."""
    for name, text in _OLD.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    ran = subprocess.run(
        [sys.executable, "-c", _CODE.format(table=_TABLE)],
        env={"PYTHONPATH": f"{tmp_path}:{TABLE.parents[1]}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
