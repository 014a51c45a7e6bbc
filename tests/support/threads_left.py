"""Which threads of this process have a name in their names, and what each of them is doing."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Collection

from groupshift.errors import Transient
from groupshift_sandbox.processes import wait_until


def threads_of(name: str, *, besides: Collection[str] = ()) -> list[threading.Thread]:
    """The living threads with ``name`` in their names, without those whose names begin with one of
    ``besides``."""
    return [
        each
        for each in threading.enumerate()
        if name in each.name and not each.name.startswith(tuple(besides))
    ]


def await_no_thread(name: str, deadline_s: float, *, besides: Collection[str] = ()) -> None:
    """Wait until `threads_of` finds none; fails with the names and stacks of those that are left."""
    try:
        wait_until(lambda: not threads_of(name, besides=besides), deadline_s, f"no thread of {name} is left")
    except Transient as late:
        frames = sys._current_frames()
        left = [
            f"{each.name}:\n{''.join(traceback.format_stack(frames.get(each.ident)))}"
            for each in threads_of(name, besides=besides)
        ]
        raise AssertionError("\n".join([str(late), *left])) from None
