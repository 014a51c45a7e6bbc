"""A consumer's metrics over HTTP, on 127.0.0.1 only."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from groupshift.errors import Rejected

_HOST = "127.0.0.1"


class MetricsEndpoint:
    """Serves what ``text`` returns at ``/metrics``; ``port`` 0 takes a free one.

    Raises `Rejected` when the port is taken."""

    def __init__(self, port: int, text: Callable[[], str]) -> None:
        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = self.path.partition("?")[0] == "/metrics"
                body = text().encode() if found else b""
                self.send_response(HTTPStatus.OK if found else HTTPStatus.NOT_FOUND)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """A scrape is not worth a line."""

        try:
            self._server = ThreadingHTTPServer((_HOST, port), Answer)
        except OSError as error:
            raise Rejected(f"metrics.port {port} cannot be opened ({error}); choose another or 0") from error
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="groupshift-metrics", daemon=True, args=(0.1,)
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
