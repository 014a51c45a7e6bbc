"""Moves modules and names of `src`, and every import, string and document that names them.

    python tests/support/refactor.py merge A B … --into C      modules A, B, … become the module C
    python tests/support/refactor.py carve A NAME … --to C     definitions go from module A to module C
    python tests/support/refactor.py names A                   ``a.name`` becomes ``name``, imported from A

Modules are dotted names (``groupshift.domain.plan``). The docstrings become one, to be written anew; a body
comes after those whose names it imports. What both define in the same words is kept once; a name that means
two things, a star import or a module that is a package is refused, with nothing changed. Afterwards ruff
sorts imports and drops unused ones, and ``tests/support/moved.toml`` tells where the modules lay.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_CODE = ("src", "plugins", "dags", "tests", "benchmarks")
_TEXT = {".py", ".md", ".toml", ".yaml", ".yml", ".sh", ".cfg"}
_UNTOUCHED = ("CHANGELOG.md", "tests/support/moved.toml", "tests/goldens/effects")


class Refused(Exception):
    """The move cannot be made as asked."""


@dataclass(frozen=True, slots=True)
class Source:
    """A module taken apart: its docstring with what it tells linters, its imports and what follows, as text;
    top-level names by the text that defines them; names that it imports, by (module, name)."""

    name: str
    doc: str
    marks: tuple[str, ...]
    imports: tuple[str, ...]
    body: str
    defined: Mapping[str, str]
    imported: Mapping[str, tuple[str, str]]


def path_of(root: Path, module: str) -> Path:
    """The file of a module that is no package. Raises `Refused` for a package."""
    path = root / "src" / (module.replace(".", "/") + ".py")
    if path.with_suffix("").is_dir():
        raise Refused(f"{module} is a package; name its modules")
    return path


def _text(lines: Sequence[str], node: ast.stmt) -> tuple[int, int]:
    """First and last line of a statement (from 0, end excluded), decorators and comments above included."""
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))]) - 1
    while first and lines[first - 1].startswith("#"):
        first -= 1
    return first, node.end_lineno or node.lineno


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [
        leaf.id
        for target in targets
        if target is not None
        for leaf in ast.walk(target)
        if isinstance(leaf, ast.Name)
    ]


def _for_types(node: ast.stmt) -> bool:
    """``if TYPE_CHECKING:``, whose imports stand with the others."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def read(path: Path, name: str) -> Source:
    """Take a module apart. Raises `Refused` for a star import and for one that is not there."""
    if not path.is_file():
        raise Refused(f"{name} is not there")
    found = path.read_text().splitlines(keepends=True)
    marks = tuple(line for line in found if line.startswith(("# ruff:", "# mypy:")))
    lines = [line for line in found if line not in marks]
    tree = ast.parse("".join(lines))
    doc, imports, rest, defined, imported = "", [], [], {}, {}
    before: list[str] = []
    for node in tree.body:
        first, last = _text(lines, node)
        said = "".join(lines[first:last])
        if node is tree.body[0] and _is_text(node):
            doc = said
        elif isinstance(node, ast.Import | ast.ImportFrom) or _for_types(node):
            imports.append(said)
            if isinstance(node, ast.ImportFrom) and node.module != "__future__":
                if any(each.name == "*" for each in node.names):
                    raise Refused(f"{name} imports * from {node.module}")
                imported |= {each.asname or each.name: (node.module or "", each.name) for each in node.names}
        else:
            before = before if _is_text(node) else _names(node)
            for each in before:
                defined[each] = defined.get(each, "") + said
            rest.append((first, last))
    body = _joined(lines, rest)
    return Source(name, doc, marks, tuple(imports), body, defined, imported)


def _joined(lines: Sequence[str], parts: Sequence[tuple[int, int]]) -> str:
    """The parts with the blank lines that stand between them."""
    if not parts:
        return ""
    out, at = [], parts[0][0]
    for first, last in parts:
        gap = "".join(line for line in lines[at:first] if not line.strip())
        out += [gap, "".join(lines[first:last])]
        at = last
    return "".join(out)


def _without(source: Source, names: Iterable[str]) -> str:
    """The body of a module without the definitions of these names."""
    text = source.body
    for name in names:
        text = text.replace(source.defined[name], "", 1)
    return text


def _own(line: str, inside: set[str]) -> bool:
    """Whether an import takes names from a module that is joined with this one."""
    node = ast.parse(line.strip()).body[0]
    if isinstance(node, ast.If):
        taken = {each.module for each in ast.walk(node) if isinstance(each, ast.ImportFrom)} & inside
        if taken:
            raise Refused(f"if TYPE_CHECKING imports of {', '.join(map(str, taken))}; import them outright")
        return False
    if isinstance(node, ast.ImportFrom) and {f"{node.module}.{each.name}" for each in node.names} & inside:
        raise Refused(f"{line.strip()}: a module that becomes local; import its names first")
    if not (isinstance(node, ast.ImportFrom) and node.module in inside):
        return False
    aliases = [each for each in node.names if each.asname and each.asname != each.name]
    if aliases:
        raise Refused(f"{line.strip()}: an alias of a name that becomes local; write the name first")
    return True


def _in_order(sources: Sequence[Source]) -> list[Source]:
    """Each after those that it imports from; otherwise as given. Raises `Refused` for a circle."""
    wanted = {
        each.name: {module for module, _ in each.imported.values()}
        & ({s.name for s in sources} - {each.name})
        for each in sources
    }
    found: list[Source] = []
    while len(found) < len(sources):
        done = {each.name for each in found}
        ready = [each for each in sources if each.name not in done and wanted[each.name] <= done]
        if not ready:
            raise Refused(f"{', '.join(sorted(set(wanted) - done))} import each other")
        found.append(ready[0])
    return found


def _docs(sources: Sequence[Source]) -> str:
    """The docstrings, a paragraph each, for whoever writes one of them."""
    texts = [each.doc.strip().removesuffix('"""').lstrip('r"').strip() for each in sources if each.doc]
    end = "\n" if len(texts) > 1 or "\n" in "".join(texts) else ""
    return f'"""{chr(10).join(chr(10) + text for text in texts).strip()}{end}"""\n' if texts else ""


def _imported_twice(sources: Sequence[Source], inside: set[str]) -> list[str]:
    found: dict[str, set[tuple[str, str]]] = {}
    for source in sources:
        for name, origin in source.imported.items():
            if origin[0] not in inside:
                found.setdefault(name, set()).add(origin)
    return sorted(name for name, origins in found.items() if len(origins) > 1)


def joined(sources: Sequence[Source]) -> str:
    """The text of one module made of several. Raises `Refused` for a name that means two things."""
    inside = {each.name for each in sources}
    known: dict[str, str] = {}
    bodies, imports = [], []
    for source in _in_order(sources):
        same = [name for name, text in source.defined.items() if known.get(name) == text]
        other = [name for name, text in source.defined.items() if known.get(name, text) != text]
        if other:
            raise Refused(f"{', '.join(sorted(other))} of {source.name} is defined in another module, too")
        bodies.append(_without(source, same).strip("\n"))
        known |= source.defined
        imports += [line for line in source.imports if not _own(line, inside)]
    twice = _imported_twice(sources, inside)
    if twice:
        raise Refused(f"imported from two modules: {', '.join(twice)}")
    clash = [
        f"{name} ({source.name})"
        for source in sources
        for name, (module, old) in source.imported.items()
        if name in known and module not in inside and old
    ]
    if clash:
        raise Refused(f"imported from elsewhere and defined here: {', '.join(sorted(clash))}")
    future = "from __future__ import annotations\n"
    others = [line for line in dict.fromkeys(imports) if line.strip() != future.strip()]
    others.sort(key=lambda line: line.startswith("if "))
    marks = "".join(dict.fromkeys(mark for source in sources for mark in source.marks))
    head = [_docs(sources), marks, future + "\n" + "".join(others)]
    parts = [part for part in (*head, *bodies) if part]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def files(root: Path) -> Iterator[Path]:
    """Every file that may name a module."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    for name in listed:
        path = root / name
        wanted = path.suffix in _TEXT or path.name in {"Makefile", "Dockerfile"}
        if name and wanted and not name.startswith(_UNTOUCHED) and path.is_file() and not path.is_symlink():
            yield path


def renamed(text: str, old: str, new: str, *, python: bool) -> str:
    """``text`` with the module ``old`` named ``new``: dotted, as a path, and where it is imported as a
    module."""
    text = re.sub(rf"(?<![\w.]){re.escape(old)}(?!\w)", new, text)
    slashed, after = (name.replace(".", "/") for name in (old, new))
    text = re.sub(rf"(?<![\w-]){re.escape(slashed)}(?=\.py\b)", after, text)
    return _as_module(text, old, new) if python else text


def _as_module(text: str, old: str, new: str) -> str:
    """``from package import module`` and ``module.name``."""
    (package, _, last), (target, _, final) = old.rpartition("."), new.rpartition(".")
    if not re.search(rf"^\s*from {re.escape(package)} import .*\b{last}\b", text, re.MULTILINE):
        return text
    tree = ast.parse(text)
    spots = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and node.module == package
        and any(each.name == last for each in node.names)
    ]
    if not spots:
        return text
    plain = any(each.name == last and not each.asname for node in spots for each in node.names)
    hidden = final != last and (not plain or final in _bound(tree))
    edits = [
        (node.lineno, node.col_offset, last, final)
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id == last and not hidden
    ]
    lines = text.splitlines(keepends=True)
    for line, column, was, now in sorted(edits, reverse=True):
        raw = lines[line - 1].encode()
        lines[line - 1] = (raw[:column] + now.encode() + raw[column + len(was.encode()) :]).decode()
    for node in sorted(spots, key=lambda each: -each.lineno):
        others = [
            each.name + (f" as {each.asname}" if each.asname else "")
            for each in node.names
            if each.name != last
        ]
        indent = " " * node.col_offset
        local = next((each.asname for each in node.names if each.name == last and each.asname), "")
        local = local or (last if hidden and plain else "")
        said = [f"{indent}from {target} import {final}{f' as {local}' if local else ''}\n"]
        said += [f"{indent}from {package} import {', '.join(others)}\n"] if others else []
        lines[node.lineno - 1 : node.end_lineno] = said
    return "".join(lines)


def merge(root: Path, modules: Sequence[str], into: str) -> None:
    """Make one module of several. Raises `Refused`, having changed nothing."""
    paths = [path_of(root, each) for each in modules]
    sources = [read(path, name) for path, name in zip(paths, modules, strict=True)]
    target = path_of(root, into)
    if target.exists() and target not in paths:
        raise Refused(f"{into} is there already; name it among the modules")
    text = joined(sources)
    ast.parse(text)
    for path in paths:
        path.unlink()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    _git(root, "add", "-A", "src")
    for old in modules:
        if old != into:
            _rename_everywhere(root, old, into)
    _note(root, modules, into)


def _rename_everywhere(root: Path, old: str, new: str) -> None:
    for path in files(root):
        before = path.read_text()
        after = renamed(before, old, new, python=path.suffix == ".py")
        if after != before:
            path.write_text(after)


def carve(root: Path, module: str, names: Sequence[str], to: str) -> None:
    """Move definitions of one module to another, which may be new. Raises `Refused`, having changed
    nothing."""
    source, target = read(path_of(root, module), module), path_of(root, to)
    missing = [name for name in names if name not in source.defined]
    if missing:
        raise Refused(f"{module} does not define {', '.join(missing)}")
    moved = "\n\n".join(source.defined[name].strip("\n") for name in dict.fromkeys(names))
    left = _without(source, dict.fromkeys(names))
    needed = sorted(name for name in source.defined if name not in names and _uses(moved, name))
    wanted = sorted(name for name in names if _uses(left, name))
    future = "from __future__ import annotations\n"
    own = [line for line in source.imports if line.strip() != future.strip()]
    there = read(target, to) if target.exists() else None
    known = set(there.defined) if there else set()
    back = f"from {module} import {', '.join(needed)}\n" if needed else ""
    if there:
        clash = [name for name in names if name in known]
        if clash:
            raise Refused(f"{to} defines {', '.join(clash)} already")
        kept = [line for line in there.imports if line.strip() != future.strip() and not _takes(line, module)]
        body = f"{moved}\n\n\n{there.body.strip(chr(10))}"
        doc = there.doc + "".join(there.marks)
    else:
        kept, body, doc = [], moved, f'"""{to}."""\n' + "".join(source.marks)
    taken = [said for line in own if (said := _needed(line, moved, known, to))]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(f"{doc}\n{future}\n{''.join(dict.fromkeys(kept + taken))}{back}\n\n{body}\n")
    forth = f"from {to} import {', '.join(wanted)}\n" if wanted else ""
    path_of(root, module).write_text(
        f"{source.doc}{''.join(source.marks)}\n{future}\n{''.join(own)}{forth}\n\n{left.strip(chr(10))}\n"
    )
    _git(root, "add", "-A", "src")
    _import_from(root, module, set(names), to)
    _note_names(root, module, names, to)


def _needed(line: str, text: str, known: set[str], to: str) -> str:
    """An import of what ``text`` uses and the module ``to`` does not define; empty when nothing is left."""
    node = ast.parse(line.strip()).body[0]
    if isinstance(node, ast.If):
        return line
    if not isinstance(node, ast.Import | ast.ImportFrom) or _takes(line, to):
        return ""
    said = [
        each.name + (f" as {each.asname}" if each.asname else "")
        for each in node.names
        if _uses(text, (each.asname or each.name).split(".")[0]) and (each.asname or each.name) not in known
    ]
    if not said:
        return ""
    head = f"from {node.module} import " if isinstance(node, ast.ImportFrom) else "import "
    return f"{head}{', '.join(said)}\n"


def _takes(line: str, module: str) -> bool:
    node = ast.parse(line.strip()).body[0]
    return isinstance(node, ast.ImportFrom) and node.module == module


def _uses(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text) is not None


def _import_from(root: Path, module: str, names: set[str], to: str) -> None:
    """Imports of these names, wherever they stand, take them from the other module."""
    for path in files(root):
        text = path.read_text()
        for name in names:
            text = re.sub(rf"(?<![\w.]){re.escape(module)}\.{name}(?!\w)", f"{to}.{name}", text)
        if path.suffix == ".py" and module in text:
            text = _split_imports(text, module, names, to)
        if text != path.read_text():
            path.write_text(text)


def _split_imports(text: str, module: str, names: set[str], to: str) -> str:
    lines = text.splitlines(keepends=True)
    found = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom)
        and node.module == module
        and names & {each.name for each in node.names}
    ]
    for node in sorted(found, key=lambda each: -each.lineno):
        said, indent = [], " " * node.col_offset
        for source, wanted in ((module, False), (to, True)):
            parts = [
                each.name + (f" as {each.asname}" if each.asname else "")
                for each in node.names
                if (each.name in names) is wanted
            ]
            said += [f"{indent}from {source} import {', '.join(parts)}\n"] if parts else []
        lines[node.lineno - 1 : node.end_lineno] = said
    return "".join(lines)


def names(root: Path, module: str) -> None:
    """Import the names of a module where the module itself is imported. Raises `Refused` where a file uses
    one of these names for something else; files before it are changed by then."""
    for path in files(root):
        text = path.read_text()
        if path.suffix == ".py" and module.rpartition(".")[2] in text:
            after = _by_name(text, module, path)
            if after != text:
                path.write_text(after)


def _by_name(text: str, module: str, path: Path) -> str:
    package, _, last = module.rpartition(".")
    tree = ast.parse(text)
    spots = {
        each.asname or each.name: node
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == package
        for each in node.names
        if each.name == last
    }
    lines = text.splitlines(keepends=True)
    for local, spot in spots.items():
        uses = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == local
        ]
        taken = {node.attr for node in uses}
        clash = taken & (_bound(tree) - _imported_from(tree, module))
        other = sum(isinstance(node, ast.Name) and node.id == local for node in ast.walk(tree)) - len(uses)
        if clash or other:
            raise Refused(f"{path.name} uses {', '.join(sorted(clash)) or local} for something else")
        for node in sorted(uses, key=lambda each: (each.lineno, each.col_offset), reverse=True):
            raw = lines[node.lineno - 1].encode()
            end = node.col_offset + len(local.encode()) + 1
            lines[node.lineno - 1] = (raw[: node.col_offset] + raw[end:]).decode()
        others = [
            each.name + (f" as {each.asname}" if each.asname else "")
            for each in spot.names
            if each.name != last
        ]
        indent = " " * spot.col_offset
        said = [f"{indent}from {module} import {', '.join(sorted(taken))}\n"] if taken else []
        said += [f"{indent}from {package} import {', '.join(others)}\n"] if others else []
        lines[spot.lineno - 1 : spot.end_lineno] = said
    return "".join(lines)


def _imported_from(tree: ast.AST, module: str) -> set[str]:
    return {
        each.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == module
        for each in node.names
        if each.asname is None
    }


def _bound(tree: ast.AST) -> set[str]:
    """Every name that is bound somewhere in a file, in whatever scope; methods hide none."""
    found: set[str] = set()
    methods = {id(each) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for each in node.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found |= set() if id(node) in methods else {node.name}
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {each.asname or each.name.split(".")[0] for each in node.names}
    return found


def _moved(root: Path) -> tuple[Path, dict[str, dict[str, object]]]:
    path = root / "tests" / "support" / "moved.toml"
    return path, tomllib.loads(path.read_text()) if path.exists() else {}


def _note(root: Path, modules: Sequence[str], into: str) -> None:
    """Write where the parts of a module lay at first."""
    path, table = _moved(root)
    known = table.get("modules", {})
    oldest: list[str] = []
    for each in modules:
        before = known.pop(each, [each])
        oldest += [name for name in before if name not in oldest]  # type: ignore[attr-defined]
    if oldest != [into]:
        known[into] = oldest
    names = {
        key if key.partition(":")[0] not in modules else f"{into}:{key.partition(':')[2]}": old
        for key, old in table.get("names", {}).items()
    }
    _write(path, {**table, "modules": known, "names": names})


def _note_names(root: Path, module: str, names: Sequence[str], to: str) -> None:
    path, table = _moved(root)
    known = table.get("names", {})
    for name in names:
        known[f"{to}:{name}"] = known.pop(f"{module}:{name}", module)
    _write(path, {**table, "names": known})


_HEADS = {
    "packages": "present name = name before",
    "modules": "present name = the modules that it was made of",
    "names": "present module:name = module before",
}


def _write(path: Path, table: Mapping[str, Mapping[str, object]]) -> None:
    text = "".join(line for line in path.read_text().splitlines(keepends=True) if line.startswith("#"))
    for head, meaning in _HEADS.items():
        text += f"\n[{head}]  # {meaning}\n"
        for key, value in sorted(table.get(head, {}).items()):
            name = key if re.fullmatch(r"\w+", key) else f'"{key}"'
            said = f'"{value}"' if isinstance(value, str) else "[" + ", ".join(f'"{v}"' for v in value) + "]"  # type: ignore[attr-defined]
            text += f"{name} = {said}\n"
    path.write_text(text)


def _git(root: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=root, check=True)


def _tidy(root: Path) -> None:
    """Sort imports, drop unused ones, format."""
    ruff = [sys.executable, "-m", "ruff"]
    subprocess.run([*ruff, "check", "-q", "--select", "I,F401", "--fix", *_CODE], cwd=root, check=False)
    subprocess.run([*ruff, "format", "-q", *_CODE], cwd=root, check=True)
    _git(root, "add", "-A")


def main(arguments: Sequence[str]) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    joining, carving = verbs.add_parser("merge"), verbs.add_parser("carve")
    joining.add_argument("modules", nargs="+")
    joining.add_argument("--into", required=True)
    carving.add_argument("module")
    carving.add_argument("names", nargs="+")
    carving.add_argument("--to", required=True)
    verbs.add_parser("names").add_argument("module")
    asked = parser.parse_args(arguments)
    try:
        if asked.verb == "merge":
            merge(ROOT, asked.modules, asked.into)
        elif asked.verb == "names":
            names(ROOT, asked.module)
        else:
            carve(ROOT, asked.module, asked.names, asked.to)
    except Refused as why:
        print(f"refused: {why}")
        return 2
    _tidy(ROOT)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
