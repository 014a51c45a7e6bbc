"""How large the product is: ``make size`` prints each budget of the design with what there is.

A line of code is one that holds a token that is no comment, no docstring and no import; a line of prose holds
a docstring or a comment. Exit code 0 when every budget holds, 1 when one does not.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_SILENT = {tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
SMALL = 80
"""Lines below which a module that one other imports should be a part of it."""


@dataclass(frozen=True, slots=True)
class Size:
    """Lines of a file or of many: all, of code, of docstrings and comments; ``files`` that were counted."""

    files: int = 0
    lines: int = 0
    code: int = 0
    prose: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(
            self.files + other.files,
            self.lines + other.lines,
            self.code + other.code,
            self.prose + other.prose,
        )


@dataclass(frozen=True, slots=True)
class Budget:
    """A line of the table."""

    what: str
    value: float
    limit: float
    at_least: bool = False

    @property
    def holds(self) -> bool:
        """Whether the value keeps to the limit."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit


def size_of(text: str) -> Size:
    """The size of one module."""
    tree = ast.parse(text)
    docstrings = {line for node in ast.walk(tree) for line in _docstrings(node)}
    comments: set[int] = set()
    imports = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        lines = range(token.start[0], token.end[0] + 1)
        if token.type == tokenize.COMMENT:
            comments.update(lines)
        elif token.type not in _SILENT:
            code.update(lines)
    return Size(1, text.count("\n"), len(code - docstrings - imports), len(docstrings | comments))


def _docstrings(node: ast.AST) -> Iterable[int]:
    """The lines of the texts that stand alone in the body of a node: docstrings, and those below names."""
    if not isinstance(node, _DOCUMENTED):
        return
    for each in node.body:
        if (
            isinstance(each, ast.Expr)
            and isinstance(each.value, ast.Constant)
            and isinstance(each.value.value, str)
        ):
            yield from range(each.lineno, (each.end_lineno or each.lineno) + 1)


def size_below(*folders: Path) -> Size:
    """The size of every module below these folders."""
    files = [file for folder in folders for file in sorted(folder.rglob("*.py"))]
    return sum((size_of(file.read_text()) for file in files), Size())


def lonely(texts: Mapping[str, str]) -> list[str]:
    """Modules under `SMALL` lines that exactly one other module imports; ``texts`` by dotted name. Packages'
    faces, entry points and verbs of the command line are left out."""
    importers: Counter[str] = Counter()
    for name, text in texts.items():
        found = set(re.findall(r"^\s*from (groupshift[\w.]*) import", text, re.MULTILINE))
        found |= {
            f"{package}.{each.split(' as ')[0].strip()}"
            for package, names in re.findall(
                r"^\s*from (groupshift[\w.]*) import ([^(\n]+)$", text, re.MULTILINE
            )
            for each in names.split(",")
        }
        importers.update(found - {name})
    return sorted(
        name
        for name, text in texts.items()
        if importers[name] == 1
        and text.count("\n") < SMALL
        and not name.startswith(("groupshift.cli.", "groupshift.jobs."))
    )


def budgets(root: Path) -> list[Budget]:
    """The table of sizes for a checkout."""
    source = root / "src" / "groupshift"
    product, everything = size_below(source), size_below(root / "src", root / "plugins")
    texts = {
        ".".join(file.relative_to(root / "src").with_suffix("").parts): file.read_text()
        for file in source.rglob("*.py")
        if file.name != "__init__.py"
    }
    return [
        Budget("lines of code in src/groupshift", product.code, 31_000),
        Budget("lines of code in src and plugins", everything.code, 38_000),
        Budget("files in src/groupshift", product.files, 280),
        Budget(
            "docstrings and comments, % of lines", round(100 * product.prose / product.lines, 1), 15, True
        ),
        Budget(f"modules under {SMALL} lines with one importer", len(lonely(texts)), 5),
    ]


def main() -> int:
    """Print the table."""
    found = budgets(ROOT)
    wide = max(len(each.what) for each in found)
    for each in found:
        sign = "≥" if each.at_least else "≤"
        end = "holds" if each.holds else "DOES NOT HOLD"
        print(f"{each.what:{wide}}  {each.value:>9,}  {sign} {each.limit:>6,}  {end}")
    return int(not all(each.holds for each in found))


if __name__ == "__main__":
    sys.exit(main())
