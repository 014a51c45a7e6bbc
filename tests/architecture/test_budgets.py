"""The size, naming and hygiene budgets of the architecture, measured on the files git tracks."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FUNCTION_STATEMENTS = 45
MODULE_LINES = 600
LINES_OF = {"dags": 80}
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}
PARTICIPLES = {"told", "asked", "seen", "given", "found"}
"""Words that say nothing of what they hold."""
TEXT = {".py", ".md", ".sql", ".toml", ".yaml", ".yml", ".sh", ".html", ".css", ".js", ".lock", ".cfg", ""}


def _tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


TRACKED = _tracked()
PYTHON = [path for path in TRACKED if path.suffix == ".py"]
OURS = [path for path in PYTHON if path.relative_to(ROOT).parts[0] != "tests"]
PRODUCT = [path for path in OURS if path.relative_to(ROOT).parts[0] in {"src", "plugins", "dags"}]


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _statements(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Statements of a function, those of inner blocks included, its docstring not."""
    prose = 1 if ast.get_docstring(function, clean=False) is not None else 0
    return sum(isinstance(node, ast.stmt) for node in ast.walk(function)) - 1 - prose


def _bound(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Each name that a module binds and its line: of functions, classes, arguments, variables and fields."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node.lineno
            case ast.arg():
                yield node.arg, node.lineno
            case ast.Name(ctx=ast.Store()):
                yield node.id, node.lineno
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr.lstrip("_"), node.lineno
            case ast.alias(asname=str(name)):
                yield name, node.lineno
            case (
                ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
            ):
                yield name, node.lineno
            case _:
                pass


def _ids(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


@pytest.mark.parametrize("path", PYTHON, ids=_ids(PYTHON))
def test_modules_stay_within_their_line_budget(path: Path) -> None:
    """A module is at most 600 lines, a DAG 80."""
    limit = LINES_OF.get(path.relative_to(ROOT).parts[0], MODULE_LINES)
    assert path.read_text().count("\n") <= limit


@pytest.mark.parametrize("path", OURS, ids=_ids(OURS))
def test_functions_stay_within_their_budget_of_statements(path: Path) -> None:
    """A function has at most 45 statements; its docstring is not counted."""
    long = {f"{path.name}:{node.lineno} {node.name}": _statements(node) for node in _functions(path)}
    assert {name: count for name, count in long.items() if count > FUNCTION_STATEMENTS} == {}


@pytest.mark.parametrize("path", OURS, ids=_ids(OURS))
def test_functions_take_few_positional_and_no_boolean_positional_parameters(path: Path) -> None:
    """At most five positional parameters besides self, none of them a flag."""
    bad = []
    for node in _functions(path):
        names = [a for a in (*node.args.posonlyargs, *node.args.args) if a.arg not in {"self", "cls"}]
        flags = [a.arg for a in names if isinstance(a.annotation, ast.Name) and a.annotation.id == "bool"]
        if len(names) > 5 or flags:
            bad.append(f"{path.name}:{node.lineno} {node.name} {flags or len(names)}")
    assert bad == []


@pytest.mark.parametrize("path", PRODUCT, ids=_ids(PRODUCT))
def test_no_name_is_a_participle_that_says_nothing(path: Path) -> None:
    """A name says what the thing is: none of the product is `told`, `asked`, `seen`, `given` or `found`."""
    bound = _bound(ast.parse(path.read_text()))
    assert sorted(f"{path.name}:{line} {name}" for name, line in bound if name in PARTICIPLES) == []


def test_no_module_is_named_after_nothing() -> None:
    """A function lives with the concept it serves: no utils, helpers, common or manager."""
    assert [
        p for p in _ids(PYTHON) if FORBIDDEN_NAMES & {part.removesuffix(".py") for part in Path(p).parts}
    ] == []


def test_no_file_names_a_path_of_one_machine_or_a_package_index() -> None:
    """The repository works on any machine: no absolute home or work paths, no index hosts."""
    private = re.compile(r"(?<![\w.$}])/(?:work|farm|root|home)/\w")
    index = re.compile(
        "|".join((r"pypi\." + "org", "python" + "hosted", r"repo1?\.maven\.apache" + r"\.org"))
    )
    found = []
    for path in TRACKED:
        if path.suffix not in TEXT or path.stat().st_size > 1_000_000:
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if private.search(line) or index.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert found == []


def test_public_functions_and_classes_of_the_package_have_docstrings() -> None:
    """Public names say what they take, give and raise."""
    bare = []
    for path in OURS:
        if path.relative_to(ROOT).parts[0] != "src":
            continue
        for node in ast.parse(path.read_text()).body:
            public = isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_")
            if public and ast.get_docstring(node) is None:
                bare.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}")
    assert bare == []


def test_sql_files_hold_one_statement_each() -> None:
    """A named query is one file with one statement."""
    many = [
        str(path.relative_to(ROOT))
        for path in TRACKED
        if path.suffix == ".sql"
        and len([s for s in re.sub(r"--[^\n]*", "", path.read_text()).split(";") if s.strip()]) != 1
    ]
    assert many == []
