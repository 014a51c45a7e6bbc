"""Whether this session may change nodes, asked of the server by transactions that cannot succeed.

ZooKeeper checks a transaction's operations one after the other and applies none of them when one fails. A
last one that always fails (a check of a node that nobody has) makes it a question: where an earlier one fails
by NoAuth, the identity lacks a right; where only the last one fails, it has them all. Nothing is changed and
no watch fires.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import NoAuthError, NoNodeError

from groupshift.adapters.zookeeper.connection import Session, ZookeeperConnection
from groupshift.adapters.zookeeper.mode import paths_of
from groupshift.errors import Transient
from groupshift.ports.cluster import Identity, Server

Change = Callable[[TransactionRequest], Any]
"""Adds one or more operations to a transaction."""


def ask(client: KazooClient, change: Change) -> Any:
    """Send the question; ``refused`` reads the answer that its result holds."""
    question = client.transaction()
    change(question)
    question.check(f"/{unique()}", -1)
    return question.commit_async()


def refused(answer: list[Any]) -> bool:
    """True when the identity may not do that."""
    return any(isinstance(each, NoAuthError) for each in answer)


def unique() -> str:
    """A name that no node has."""
    return f"groupshift-{uuid.uuid4().hex}"


def creating_below(directory: str) -> Change:
    """Create a node there and delete it."""
    path = f"{directory}/{unique()}"

    def change(question: TransactionRequest) -> None:
        question.create(path, b"")
        question.delete(path)

    return change


def writing(session: Session, path: str) -> Change:
    """Write the node at ``path`` and delete it, whether or not it and what lies above it are there."""
    names = path.split("/")
    above = ["/".join(names[:depth]) for depth in range(2, len(names))]
    there, missing = session.exists(path), [each for each in above if not session.exists(each)]

    def change(question: TransactionRequest) -> None:
        if there:
            question.set_data(path, b"")
        else:
            for each in (*missing, path):
                question.create(each, b"")
        question.delete(path)

    return change


class ZookeeperRights:
    """Whether the tool's session may do what a move does to a group's nodes: write its mode and who may write
    it. That it may read all the others shows when the group is read."""

    def __init__(self, connection: ZookeeperConnection) -> None:
        self._connection = connection

    def identity(self, group: str) -> Identity:
        """Raises as `ZookeeperConnection.call`."""
        paths = paths_of(group)

        def work(session: Session) -> tuple[str, ...]:
            return tuple(
                f"write {path}" for path in (paths.mode, paths.fence) if not _may_write(session, path)
            )

        missing = self._connection.call(work)
        return Identity(server=Server.ZOOKEEPER, who=self._connection.login.who, missing=missing)


def _may_write(session: Session, path: str) -> bool:
    """Asked again when the node came or went between looking and asking."""
    for _ in range(_ATTEMPTS):
        *changes, last = session.result(ask(session.client, writing(session, path)))
        if refused(changes):
            return False
        if isinstance(last, NoNodeError):
            return True
    raise Transient(f"{path} came and went while the right to write it was asked for: run it again")


_ATTEMPTS = 5
