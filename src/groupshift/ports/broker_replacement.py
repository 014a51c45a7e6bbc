"""How the nodes of a cluster get another release: the port of the drivers of a downgrade."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

from groupshift.log.releases import Coordinator


class NodeState(StrEnum):
    """What a driver knows of one node."""

    RUNNING = "running"
    CHANGING = "changing"
    DOWN = "down"
    UNKNOWN = "unknown"
    """The driver cannot know: the cluster decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """Start ``release`` over the folder of node ``node_id``, after it was stopped cleanly; without a release
    it is restarted as it is.

    ``coordinator`` is the group coordinator that it shall run (None: that of now), ``without`` are properties
    to leave out of its file, ``properties`` those to set there. ``change_id`` makes it idempotent; ``token``
    is the fencing token of the run, rising per ``fence`` (the run): a driver refuses one that is lower than
    the highest it met under that fence."""

    change_id: str
    node_id: int
    release: str = ""
    coordinator: Coordinator | None = None
    without: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    fence: str = ""
    token: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """What is known of a node: ``change_id`` of the last replacement applied to it, ``release`` that it
    runs (empty: not known), ``snapshot`` the offset of its newest metadata snapshot (None: the driver
    cannot see it), ``trouble`` why it does not run."""

    node_id: int
    state: NodeState
    release: str = ""
    change_id: str = ""
    snapshot: int | None = None
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The driver took the replacement: it works on it, or has done it."""

    change_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForPerson:
    """Somebody has to act; ``instruction`` says what, in Markdown."""

    change_id: str
    instruction: str


class BrokerReplacement(Protocol):
    """Replaces nodes one at a time.

    Every method raises `Transient` when the driver cannot be reached, and `Rejected` for a node or a
    release that it does not know, before anything is changed."""

    def start(self, replacement: Replacement) -> Accepted | ForPerson:
        """Begin, or do it. A replacement that was done before is not done again. A node that does not come
        up is no error here: `observe` tells it. Raises `Conflict`, and changes nothing, when a run with a
        higher token was here before."""
        ...

    def observe(self, node_id: int) -> NodeStatus:
        """The node now."""
        ...


@runtime_checkable
class ClientFence(Protocol):
    """What a driver may have besides: it keeps clients out of every group (an ACL, a quota, a closed
    listener), also those that start again by themselves; the tool's own login stays.

    Both methods may be called again, and raise `Transient` when they have to be, `Rejected` for good."""

    def keep_out(self, run: str) -> None:
        """No client commits or joins when this returns, until `let_in`; ``run`` names whose fence it is."""
        ...

    def let_in(self, run: str) -> None:
        """Undo `keep_out` of this run."""
        ...
