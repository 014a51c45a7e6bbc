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
from kazoo.exceptions import NoAuthError

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
