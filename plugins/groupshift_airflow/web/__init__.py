"""Pages of the plugin; loaded when the first page is asked for, not when Airflow starts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


class LazyPages:
    """An ASGI application that imports the real one at the first request."""

    _pages: Any = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward to the pages."""
        if LazyPages._pages is None:
            from groupshift_airflow.web.pages import pages

            LazyPages._pages = pages
        await LazyPages._pages(scope, receive, send)
