"""Every error groupshift raises on purpose: one root, four families.

The family says who has to do what:

* `Rejected` - your input cannot be used; nothing was changed; correct it.
* `Conflict` - someone else acted in between; nothing was changed; look and decide again.
* `Transient` - a dependency did not answer within its bounded retries; run the same command again.
* `Broken` - a promise was violated (evidence altered, two owners, a lost offset); a person must look.

Messages are one sentence that names the field, the value and the remedy.
"""

from __future__ import annotations


class GroupshiftError(Exception):
    """Root of all errors raised on purpose; `exit_code` is what the command line returns."""

    exit_code = 1


class Rejected(GroupshiftError):
    """The caller's input cannot be used; nothing was changed."""

    exit_code = 2


class Conflict(GroupshiftError):
    """Another actor changed the state first; nothing was changed by this call."""

    exit_code = 3


class Void(Conflict):
    """An approval no longer holds, because what it was given for changed; approve again to go on."""


class Fenced(Conflict):
    """Another run took over what this one worked on: it may neither change nor ask anything any more."""


class Transient(GroupshiftError):
    """A dependency failed after a bounded retry; repeating the call is safe."""

    exit_code = 4


class Broken(GroupshiftError):
    """A promise was violated; going on could lose data."""

    exit_code = 5
