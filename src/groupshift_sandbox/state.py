"""The one state file of a sandbox: what runs, where it answers, and how to find it again.

It is written before and after every start, under a file lock and by atomic replacement, so that
``down`` finds every process whatever killed the one that started it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from groupshift.adapters.system import locked
from groupshift.errors import Broken
from groupshift_sandbox.home import Home

Document = dict[str, Any]


def read_document(path: Path) -> Document:
    """The JSON object in ``path``, empty when there is none. Raises `Broken` when it is no JSON object."""
    try:
        document = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise Broken(
            f"{path} is not valid JSON ({error}); remove it after `groupshift sandbox down`"
        ) from error
    if not isinstance(document, dict):
        raise Broken(f"{path} does not hold a JSON object; remove it after `groupshift sandbox down`")
    return document


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Replace ``path`` atomically; only the owner may read it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as handle:
        json.dump(document, handle, indent=1, sort_keys=True)
        handle.flush()
        os.fsync(handle.fileno())
    draft.replace(path)


class SandboxState:
    """Reads and changes ``state.json``: ``processes`` by name, ``addresses`` by name."""

    def __init__(self, home: Home) -> None:
        self._path = home.state_file

    @contextmanager
    def _changing(self) -> Iterator[Document]:
        with locked(self._path):
            document = read_document(self._path)
            document.setdefault("processes", {})
            document.setdefault("addresses", {})
            yield document
            write_document(self._path, document)

    def processes(self) -> dict[str, Document]:
        """Every process known, in order of start: ``pid``, ``ticks`` (both absent while starting),
        ``argv``, ``log``, ``order``."""
        entries: dict[str, Document] = read_document(self._path).get("processes", {})
        return dict(sorted(entries.items(), key=lambda item: int(item[1].get("order", 0))))

    def put_process(self, name: str, **fields: Any) -> None:
        """Replace the entry of a process, keeping its place in the order."""
        with self._changing() as document:
            entries = document["processes"]
            last = max((int(entry.get("order", 0)) for entry in entries.values()), default=0)
            order = entries.get(name, {}).get("order", last + 1)
            entries[name] = {**fields, "order": order}

    def forget_process(self, name: str) -> None:
        """Remove the entry of a process that was stopped; unknown names are fine."""
        with self._changing() as document:
            document["processes"].pop(name, None)

    def addresses(self) -> dict[str, str]:
        """Where servers answer: ``zookeeper``, ``kafka``, ``airflow``, ..."""
        return dict(read_document(self._path).get("addresses", {}))

    def put_address(self, name: str, address: str) -> None:
        """Publish an address (``host:port`` or a URL without secrets)."""
        with self._changing() as document:
            document["addresses"][name] = address
