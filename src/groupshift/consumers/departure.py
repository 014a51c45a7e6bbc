"""How a member leaves: one order, whatever fails on the way (L3, N5)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from groupshift.consumers.parts import Parts
from groupshift.errors import GroupshiftError

_LOG = logging.getLogger(__name__)
_LEAVE_S = 4.0


def leave(parts: Parts, release: Callable[[], object], released: Callable[[], None]) -> None:
    """Stop → commit → delete owners → leave Kafka → delete ids → close ZooKeeper.

    ``release`` does the first three, ``released`` tells a revocation that waits for them. A step that
    fails is logged and the next one is done: a member that hangs would keep its owner nodes (N5).
    """

    def leave_kafka() -> None:
        if parts.membership is not None:
            parts.membership.close(_LEAVE_S)

    steps = (release, released, leave_kafka, parts.coordination.unregister, parts.coordination.close)
    for step in steps:
        try:
            step()
        except GroupshiftError as error:
            _LOG.warning("while leaving: %s", error)
        except Exception:  # noqa: BLE001 (logged; what is left to do is done all the same)
            _LOG.exception("while leaving, which goes on")
    parts.delivery.close()
