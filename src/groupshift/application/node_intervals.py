"""What each node ran while a run changed it: a picture's lanes, from the journal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from groupshift.application.run_account import P, RunAccount
from groupshift.domain.step import RunAct, RunStep, Stand
from groupshift.report.runs import NodeInterval


def intervals_of(
    account: RunAccount[P], act: RunAct, now: str, ran: Callable[[RunStep], str]
) -> tuple[NodeInterval, ...]:
    """What each node ran, from the plan (``now``) to what was journaled last, where steps of this kind change
    it to what ``ran`` says; nodes in the order of the plan."""
    found: list[NodeInterval] = []
    for node in dict.fromkeys(each.step.subject for each in account.of_act(act)):
        its = {each.step.key for each in account.steps if (each.step.act, each.step.subject) == (act, node)}
        found += _of_node(account, its, NodeInterval(node=node, ran=now, from_ms=0, to_ms=0), ran)
    return tuple(found)


def _of_node(
    account: RunAccount[P], its: Collection[str], first: NodeInterval, ran: Callable[[RunStep], str]
) -> Iterator[NodeInterval]:
    """``its`` are the keys of the steps that change this node."""
    now, since, before = first.ran, account.run.created_at_ms, account.run.created_at_ms
    for each in account.steps:
        if each.step.key in its and each.stand is not Stand.UNTOUCHED:
            done = each.stand is Stand.DONE
            until = each.at_ms if done else account.ended_ms
            yield replace(first, ran=now, from_ms=since, to_ms=before)
            yield replace(first, ran=ran(each.step), from_ms=before, to_ms=until, changing=True)
            if not done:
                return
            now, since = ran(each.step), each.at_ms
        before = max(before, each.at_ms)
    yield replace(first, ran=now, from_ms=since, to_ms=account.ended_ms)
