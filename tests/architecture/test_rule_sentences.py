"""What rules say fits their tables: every sentence is said, by a rule of its table, with the values it names."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest

ROOT = Path(__file__).resolve().parents[2] / "src" / "groupshift"
TABLES = {
    "moves/downgrade/rules.toml": ("moves/downgrade/rules.py", "domain/cluster_rules.py"),
    "moves/expansion/rules.toml": ("moves/expansion/rules.py", "domain/cluster_rules.py"),
}
"""A table, and the modules that say its sentences."""


def named(table: str) -> dict[str, set[str]]:
    """Sentences of a table, each with the values it names; what a rule hints at counts where it has none."""
    found = {}
    for rule in tomllib.loads((ROOT / table).read_text()).values():
        for name, each in rule.items():
            if isinstance(each, dict):
                text = each["reason"] + each.get("hint", rule.get("hint", ""))
                found[name] = {field for _, field, _, _ in Formatter().parse(text) if field is not None}
    return found


def said(module: str) -> Iterator[tuple[str | None, set[str]]]:
    """What a module says: the name of the sentence (None: it is computed) and its values."""
    for node in ast.walk(ast.parse((ROOT / module).read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Says":
            (first,) = node.args
            name = str(first.value) if isinstance(first, ast.Constant) else None
            yield name, {str(each.arg) for each in node.keywords} - {"verdict"}


@pytest.mark.parametrize("table", TABLES)
def test_every_sentence_is_given_the_values_that_it_names(table: str) -> None:
    """A misspelt one would end an assessment."""
    sentences = named(table)
    for module in TABLES[table]:
        for name, values in said(module):
            if name is not None and (name in sentences or module.startswith("moves")):
                assert sentences[name] <= values, name


@pytest.mark.parametrize("table", TABLES)
def test_every_sentence_is_said(table: str) -> None:
    """By a literal, or as one of a family that a rule computes: its first word stands in an f-string, or it
    is named elsewhere in the module."""
    text = "".join((ROOT / module).read_text() for module in TABLES[table])
    for name in named(table):
        assert f'"{name}"' in text or f'f"{name.partition("_")[0]}_{{' in text, name
