"""The tool that joins and parts modules changes every place that names them, or nothing."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from support.refactor import Refused, carve, merge, names

_FUTURE = "from __future__ import annotations\n\n"
_ONE = f'"""First."""\n\n{_FUTURE}import os\n\n_T = 1\n"""One."""\n\n\ndef one() -> int:\n    return _T\n'
_TWO = (
    f'"""Second."""\n\n{_FUTURE}from p.first import one\n\n_T = 1\n"""One."""\n\n\n'
    "# why\nclass Two:\n    x = one()\n"
)
_THREE = "from p import first\nfrom p.second import Two\n\n\ndef three():\n    return first.one(), Two\n"
_TEST = 'import p.second\n\nTARGET = "p.first.one"\n\n\ndef test_it():\n    assert p.second.Two.x == 1\n'
_TREE = {
    "src/p/__init__.py": "",
    "src/p/first.py": _ONE,
    "src/p/second.py": _TWO,
    "src/p/third.py": _THREE,
    "tests/test_it.py": _TEST,
    "docs/a.md": "see `src/p/second.py` and p.first\n",
    "tests/support/moved.toml": "# where\n[packages]\n[modules]\n[names]\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A project of three modules in git."""
    for name, text in _TREE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


def _runs(tree: Path, code: str) -> None:
    subprocess.run([sys.executable, "-c", code], cwd=tree / "src", check=True)


def _texts(tree: Path) -> dict[str, str]:
    return {
        str(path.relative_to(tree)): path.read_text()
        for path in tree.rglob("*.*")
        if path.is_file() and ".git/" not in str(path)
    }


def test_two_modules_become_one(tree: Path) -> None:
    """What both define in the same words stands once, both docstrings stay; whoever names them follows."""
    merge(tree, ["p.first", "p.second"], "p.both")
    both = (tree / "src/p/both.py").read_text()
    assert both.count("_T = 1") == 1
    assert both.startswith('"""First.\n\nSecond.\n"""')
    assert "# why\nclass Two" in both
    assert "from p.first" not in both
    _runs(tree, "from p.third import three; assert three()[0] == 1 and three()[1].x == 1")
    assert "from p import both\n" in (tree / "src/p/third.py").read_text()
    assert 'TARGET = "p.both.one"' in (tree / "tests/test_it.py").read_text()
    assert (tree / "docs/a.md").read_text() == "see `src/p/both.py` and p.both\n"
    moved = tomllib.loads((tree / "tests/support/moved.toml").read_text())
    assert moved["modules"] == {"p.both": ["p.first", "p.second"]}


def test_a_module_keeps_its_name_where_the_new_one_means_something_else(tree: Path) -> None:
    """A variable of that name would hide it."""
    (tree / "src/p/third.py").write_text("from p import first\n\nboth = first.one()\n")
    merge(tree, ["p.first", "p.second"], "p.both")
    assert (tree / "src/p/third.py").read_text() == "from p import both as first\n\nboth = first.one()\n"


def test_a_module_that_moves_twice_keeps_its_oldest_names(tree: Path) -> None:
    """Whoever lays tests over an old commit finds it there."""
    merge(tree, ["p.first", "p.second"], "p.both")
    merge(tree, ["p.both"], "p.last")
    moved = tomllib.loads((tree / "tests/support/moved.toml").read_text())
    assert moved["modules"] == {"p.last": ["p.first", "p.second"]}


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("src/p/second.py", "_T = 2\n", "_T of p.second is defined in another module"),
        ("src/p/second.py", "from os import *\n", "imports \\*"),
        ("src/p/second.py", "from q import one\n", "imported from elsewhere and defined here: one"),
        ("src/p/second.py", "from p.first import one as uno\n", "alias"),
    ],
)
def test_what_would_change_a_meaning_is_refused(tree: Path, file: str, text: str, said: str) -> None:
    """With nothing changed."""
    (tree / file).write_text(text)
    before = _texts(tree)
    with pytest.raises(Refused, match=said):
        merge(tree, ["p.first", "p.second"], "p.both")
    assert _texts(tree) == before


def test_definitions_go_to_another_module(tree: Path) -> None:
    """A text below a definition goes with it; both modules import what they need of the other."""
    carve(tree, "p.first", ["_T"], "p.values")
    values = (tree / "src/p/values.py").read_text()
    assert '_T = 1\n"""One."""' in values
    assert "from p.values import _T" in (tree / "src/p/first.py").read_text()
    _runs(tree, "from p.third import three; assert three()[0] == 1")
    moved = tomllib.loads((tree / "tests/support/moved.toml").read_text())
    assert moved["names"] == {"p.values:_T": "p.first"}


def test_imports_of_a_definition_follow_it(tree: Path) -> None:
    """Beside names that stay."""
    (tree / "src/p/third.py").write_text(
        "from p.first import _T, one\n\n\ndef three():\n    return one(), _T\n"
    )
    carve(tree, "p.first", ["one"], "p.values")
    third = (tree / "src/p/third.py").read_text()
    assert "from p.first import _T\n" in third
    assert "from p.values import one\n" in third
    assert 'TARGET = "p.values.one"' in (tree / "tests/test_it.py").read_text()


def test_names_are_imported_where_a_module_was(tree: Path) -> None:
    """The other imports of that line stay."""
    (tree / "src/p/third.py").write_text(
        "from p import first, second\n\n\ndef three():\n    return first.one() + first.one(), second.Two\n"
    )
    names(tree, "p.first")
    third = (tree / "src/p/third.py").read_text()
    assert "return one() + one(), second.Two" in third
    assert "from p.first import one\nfrom p import second\n" in third


def test_a_name_that_a_file_uses_for_something_else_is_refused(tree: Path) -> None:
    """A parameter, for one."""
    (tree / "src/p/third.py").write_text("from p import first\n\n\ndef three(one):\n    return first.one()\n")
    with pytest.raises(Refused, match=r"third\.py uses one"):
        names(tree, "p.first")
