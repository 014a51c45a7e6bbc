"""A pytest plugin: today's names of modules lead to the modules of an older commit.

``python -m pytest -p support.moved`` with ``src`` of that commit on the path. ``moved.toml`` beside this file
says which module was which. Without it a test that imports a module by its new name would fail for that
alone, and prove nothing about the code.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any

TABLE = Path(__file__).with_name("moved.toml")


class _Joined(ModuleType):
    """Modules of before as one; what is set here is set where it lay."""

    def __init__(self, name: str, parts: Iterable[ModuleType]) -> None:
        super().__init__(name)
        self.__dict__["_parts"] = tuple(parts)

    def __getattr__(self, name: str) -> Any:
        for part in self.__dict__["_parts"]:
            if name in part.__dict__:
                return part.__dict__[name]
        raise AttributeError(name)

    def __setattr__(self, name: str, value: Any) -> None:
        parts = () if name.startswith("__") else self.__dict__.get("_parts", ())
        owners = [part for part in parts if name in part.__dict__]
        for part in owners:
            setattr(part, name, value)
        if not owners:
            super().__setattr__(name, value)


class Moved(MetaPathFinder, Loader):
    """Finds a module under its present name where only its former ones are there."""

    def __init__(self, packages: Mapping[str, str], modules: Mapping[str, Sequence[str]]) -> None:
        self._packages, self._modules = packages, modules
        parts = [name.split(".") for name in modules]
        self._folders = {".".join(each[:n]) for each in parts for n in range(1, len(each))}

    def before(self, name: str) -> tuple[str, ...]:
        """The former names of a module; empty for one that did not move."""
        if name in self._modules:
            return tuple(self._modules[name])
        for new, old in self._packages.items():
            if name == new or name.startswith(f"{new}."):
                return (old + name.removeprefix(new),)
        return ()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`. A module that has no former name, or whose former ones are not
        there, is left to the others. A package that became one module counts as long as it is a package."""
        del target
        old = self.before(fullname)
        if not old and fullname in self._folders and PathFinder.find_spec(fullname, path) is None:
            return ModuleSpec(fullname, self, is_package=True)
        inner = {each for each in old if each.startswith(f"{fullname}.")}
        if not old or not all(_there(each) for each in old if each != fullname and each not in inner):
            return None
        own = PathFinder.find_spec(fullname, path) if fullname in old else None
        if fullname in old and (own is None or (inner and own.submodule_search_locations is None)):
            return None
        return ModuleSpec(fullname, self, loader_state=own, is_package=fullname in self._packages)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The former module itself, or the former ones as one; one of them may have had this very name. A
        package that is new is empty."""
        own: ModuleSpec | None = spec.loader_state
        parts: list[ModuleType] = []
        if own is not None and own.loader is not None:
            parts = [module_from_spec(own)]
            sys.modules[spec.name] = parts[0]
            own.loader.exec_module(parts[0])
            if own.submodule_search_locations is not None:
                return _with_names(parts[0], [each for each in self.before(spec.name) if each != spec.name])
        parts += [import_module(each) for each in self.before(spec.name) if each != spec.name]
        if not parts:
            return ModuleType(spec.name)
        return parts[0] if len(parts) == 1 else _Joined(spec.name, parts)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: the former modules ran when they were imported."""


def _with_names(package: ModuleType, modules: Iterable[str]) -> ModuleType:
    """A package that has the names of its modules, too."""
    for part in [import_module(each) for each in modules if _there(each)]:
        for name, value in vars(part).items():
            if not hasattr(package, name):
                setattr(package, name, value)
    return package


def _there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # its package is not there
        return False


def install(table: Mapping[str, Mapping[str, Any]]) -> None:
    """Put the finder before the others, and names where they are looked for today."""
    sys.meta_path.insert(0, Moved(table["packages"], table["modules"]))
    for present, old in table["names"].items():
        module, _, name = present.partition(":")
        if not (_there(module) and _there(old)):
            continue
        found, before = import_module(module), import_module(old)
        if not hasattr(found, name) and hasattr(before, name):
            setattr(found, name, getattr(before, name))


def pytest_configure() -> None:
    """Before anything of the product is imported."""
    install(tomllib.loads(TABLE.read_text()))
