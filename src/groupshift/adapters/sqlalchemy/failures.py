"""What a failure of the database means, and how it may be told: passwords stay out of it."""

from __future__ import annotations

from urllib.parse import quote, quote_plus

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError, OperationalError

from groupshift.domain.secrets import struck_out

_PASSING = {
    "40001",  # serialization_failure
    "40P01",  # deadlock_detected
    "57P01",  # admin_shutdown
    "57P02",  # crash_shutdown
    "57P03",  # cannot_connect_now
}
"""SQLSTATEs (PostgreSQL, appendix A) after which the same transaction may succeed at once."""


def passing(error: DBAPIError) -> bool:
    """Whether another try is worth it: the connection broke, or the server is being restarted.

    A lock that was waited for in vain is not: the wait was the try. SQLite has no server that comes back."""
    if error.connection_invalidated or getattr(error.orig, "sqlstate", None) in _PASSING:
        return True
    connecting = isinstance(error, OperationalError) and error.statement is None
    return connecting and not type(error.orig).__module__.startswith("sqlite3")


def shown(url: URL) -> str:
    """The URL for a message: no password, and nothing of the query, which may hold one."""
    return url.set(query={}).render_as_string(hide_password=True)


def said(error: DBAPIError, url: URL) -> str:
    """Kind and words of the database's own error, in one line."""
    text = " ".join(f"{type(error.orig).__name__}: {error.orig}".split())
    values = [str(url.password or ""), *(str(value) for value in url.query.values())]
    return struck_out(text, {form for value in values for form in _forms(value)})


def _forms(value: str) -> set[str]:
    """A value as it is and as it stands in a URL; short ones would blacken words that say nothing."""
    return {value, quote(value, safe=""), quote_plus(value)} if len(value) > 2 else set()  # noqa: PLR2004
