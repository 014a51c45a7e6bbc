"""The folders of ``tests/unit`` are those of ``src``: where a module's tests lie follows from its package."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
UNIT = ROOT / "tests" / "unit"
PRODUCT = "groupshift"
OTHER_PACKAGES = ("groupshift_sandbox", "groupshift_testing")
OTHER_FOLDERS = {"support": "support", "benchmarks": "measuring"}
"""Folders of ``tests/unit`` for what is in no distribution, with the package that their tests import."""
ELSEWHERE = {
    "adapters/spark_submit": "tests/conformance/test_proof_runner.py",
    "adapters/sqlalchemy": "tests/conformance/test_runs.py",
    "engine": "tests/engine/test_toy.py",
}
"""Packages that are tested in another part of the suite, with a file there that imports them."""
THROUGH_OTHERS = {
    "moves/coordination/test_measurements.py": "drives the move by `support.coordination_runs`",
}
"""Files that import nothing of their package, each with the reason why it lies there all the same."""


@cache
def _imported(file: Path) -> frozenset[str]:
    """Modules that a file imports anywhere in it; a name that is imported from one counts as one, too."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    return frozenset(found)


def _reached(test: Path) -> frozenset[str]:
    """What a test imports, itself or by the fixtures beside it."""
    fixtures = test.with_name("conftest.py")
    return _imported(test) | (_imported(fixtures) if fixtures.is_file() else frozenset())


def _folder(path: Path) -> str:
    return path.parent.relative_to(UNIT).as_posix()


def _package(folder: str) -> str:
    """The package whose tests lie in a folder of ``tests/unit``; the root holds modules of the product's."""
    if folder == ".":
        return PRODUCT
    first, _, rest = folder.partition("/")
    top = OTHER_FOLDERS.get(first, first if first in OTHER_PACKAGES else f"{PRODUCT}.{first}")
    return ".".join([top, *rest.split("/")] if rest else [top])


def _packages() -> list[str]:
    """Packages that need a folder: the product's, those of its adapters, and the other distributions."""
    product = SRC / PRODUCT
    files = [file for pattern in ("*", "adapters/*") for file in product.glob(f"{pattern}/__init__.py")]
    return sorted(file.parent.relative_to(product).as_posix() for file in files) + list(OTHER_PACKAGES)


TESTS = sorted(UNIT.rglob("test_*.py"))
FOLDERS = sorted({_folder(path) for path in TESTS} - {"."})


@pytest.mark.parametrize("package", _packages())
def test_each_package_has_a_folder_of_tests(package: str) -> None:
    """Or a file elsewhere that imports it."""
    if package in ELSEWHERE:
        assert not any(folder == package for folder in FOLDERS), "has a folder: take it off the list"
        assert any(name.startswith(_package(package)) for name in _imported(ROOT / ELSEWHERE[package]))
    else:
        assert any(folder == package or folder.startswith(f"{package}/") for folder in FOLDERS)


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_folder_of_tests_has_the_name_of_a_package(folder: str) -> None:
    """Folders of tests for a package that is gone would keep its name alive."""
    if folder not in OTHER_FOLDERS:
        assert (SRC / _package(folder).replace(".", "/") / "__init__.py").is_file()


@pytest.mark.parametrize("test", TESTS, ids=[path.relative_to(UNIT).as_posix() for path in TESTS])
def test_each_file_of_tests_imports_what_it_lies_with(test: Path) -> None:
    """A file moves with what it tests, or is on the list with its reason."""
    package = _package(_folder(test))
    if test.parent == UNIT:
        package += f".{test.stem.removeprefix('test_')}"
    reaches = any(name == package or name.startswith(f"{package}.") for name in _reached(test))
    listed = test.relative_to(UNIT).as_posix() in THROUGH_OTHERS
    assert reaches != listed


def test_the_list_of_exceptions_names_files_that_exist() -> None:
    """Each with a reason."""
    assert [name for name, why in THROUGH_OTHERS.items() if not why or not (UNIT / name).is_file()] == []
