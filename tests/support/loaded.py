"""What a browser would load by itself when it opens a page: every reference to another host, or to a file."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_LOADING = {"src", "srcset", "poster", "background", "data"}
_STYLE = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


class _Loading(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            loaded = name in _LOADING or (tag in {"link", "base"} and name == "href")
            if loaded and not (value or "").startswith("data:"):
                self.found.append(value or "")
            if name == "style":
                self._styled(value or "")
        self._style = tag == "style"

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002
        self._style = False

    def handle_data(self, data: str) -> None:
        if self._style:
            self._styled(data)

    def _styled(self, text: str) -> None:
        self.found.extend(one or other for one, other in _STYLE.findall(text))


def loads(page: str) -> list[str]:
    """The references, in order; links that a reader has to click on are none."""
    parser = _Loading()
    parser.feed(page)
    parser.close()
    return parser.found
