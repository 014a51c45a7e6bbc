"""One JSON request to a Kubernetes API server, for what the tests themselves do there."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

STRATEGIC = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Where a server is, and its administrator's token (empty: it asks for none)."""

    url: str
    token: str = ""
    ca: str = ""

    def ask(self, method: str, path: str, body: object = None, kind: str = "application/json") -> Any:
        """The answer's document. Raises `urllib.error.HTTPError` for any other status than 2xx."""
        headers = {"Content-Type": kind, "Accept": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)  # noqa: S310
        context = ssl.create_default_context(cafile=self.ca) if self.ca else None
        with urllib.request.urlopen(request, timeout=20, context=context) as answer:  # noqa: S310
            return json.load(answer)

    def answers(self, path: str) -> bool:
        """Whether this path is served now."""
        try:
            self.ask("GET", path)
        except (OSError, ValueError, urllib.error.HTTPError):
            return False
        return True
