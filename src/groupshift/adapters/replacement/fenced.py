"""A driver of nodes that keeps clients out, too: `groupshift.ports.driver.ClientFence`.

Two argument templates, ``keep_out`` and ``let_in``; none goes through a shell. What they do is up to the
deployer: an ACL, a quota, a listener that is closed. docs/expansion.md is the contract for people.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from groupshift.adapters.fleet.arguments import problems, put
from groupshift.adapters.fleet.program import masked, run_program
from groupshift.errors import Rejected, Transient
from groupshift.ports.driver import (
    Accepted,
    BrokerReplacement,
    ForPerson,
    NodeStatus,
    Replacement,
)

_FIELDS = ("run",)
_REJECTED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class FencePrograms:
    """The argument templates (``{run}`` is the run's id), seconds that each may take, and names of variables
    that they are given of our environment besides PATH and the like."""

    keep_out: tuple[str, ...]
    let_in: tuple[str, ...]
    timeout_s: float = 600.0
    environment: tuple[str, ...] = ()


class FencedReplacement:
    """``driver``, and programs that keep clients out. One that exits with 2 refuses (`Rejected`), any other
    failure is `Transient`: the same call is made again, so both have to be idempotent."""

    def __init__(
        self, driver: BrokerReplacement, programs: FencePrograms, environment: Mapping[str, str] = os.environ
    ) -> None:
        templates = {"keep_out": programs.keep_out, "let_in": programs.let_in}
        wrong = [
            each for name, argv in templates.items() for each in problems(f"fence.{name}", argv, _FIELDS)
        ]
        if wrong:
            raise Rejected(f"the fence cannot be used: {'; '.join(wrong)}; correct the file of --nodes")
        self._driver, self._templates, self._timeout_s = driver, templates, programs.timeout_s
        kept = {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", *programs.environment}
        self._environment = {name: value for name, value in environment.items() if name in kept}
        self._secrets = tuple(environment[name] for name in programs.environment if environment.get(name))

    def start(self, replacement: Replacement) -> Accepted | ForPerson:
        """See the driver."""
        return self._driver.start(replacement)

    def observe(self, node_id: int) -> NodeStatus:
        """See the driver."""
        return self._driver.observe(node_id)

    def keep_out(self, run: str) -> None:
        """See the port."""
        self._ask("keep_out", run)

    def let_in(self, run: str) -> None:
        """See the port."""
        self._ask("let_in", run)

    def _ask(self, name: str, run: str) -> None:
        argv = put(self._templates[name], {"run": run}, {})
        ran = run_program(argv, self._environment, self._timeout_s, key=f"fence.{name}")
        if ran.code == 0:
            return
        said = masked(ran.trouble, self._secrets) or "nothing on its standard error"
        how = "did not end in time" if ran.code is None else f"ended with {ran.code}"
        sentence = f"the program of fence.{name} ({self._templates[name][0]}) {how}: {said}"
        if ran.code == _REJECTED:
            raise Rejected(sentence)
        raise Transient(f"{sentence}; look at what it says and run the same command again")
