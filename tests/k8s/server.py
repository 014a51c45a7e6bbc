"""A Kubernetes API server in this process, for `make test`: published paths only, on 127.0.0.1.

Every request and every answer is held against the published OpenAPI (`k8s.openapi`); a request that does
not fit is answered with 400 and kept in `FakeServer.unpublished`, an answer that does not fails the test.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from k8s import controllers, openapi
from k8s.requests import STRATEGIC, Server
from k8s.store import KINDS, Document, Store

TURN_S = 0.02
REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    404: "NotFound",
    409: "Conflict",
    415: "UnsupportedMediaType",
}


class FailureError(Exception):
    """An answer that is no success."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class FakeServer(ThreadingHTTPServer):
    """The documents, the controllers' thread, and what tests may want to know or to plant.

    ``before_patch`` is called with the path of each patch before it is applied (to let somebody else be
    faster); ``failing`` answers requests of these paths with 503."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.store, self.token = Store(), secrets.token_hex(16)
        self.unpublished: list[str] = []
        self.requests: list[tuple[str, str]] = []
        self.broken: list[str] = []
        self.failing: set[str] = set()
        self.before_patch: list[Any] = []
        self.ended = threading.Event()

    @property
    def reached(self) -> Server:
        """How to reach it."""
        return Server(url=f"http://127.0.0.1:{self.server_address[1]}", token=self.token)

    def control(self) -> None:
        """The controllers' loop."""
        while not self.ended.is_set():
            controllers.turn(self.store)
            time.sleep(TURN_S)

    def answer(self, method: str, path: str, query: dict[str, str], sent: tuple[str, Any]) -> tuple[int, Any]:
        """Status and document of one request. Raises `FailureError`."""
        operation = openapi.find(method, path)
        if operation is None:
            raise FailureError(404, f"{method} {path} is not served here")
        try:
            operation.demand_query(query)
            if method in {"POST", "PATCH", "DELETE"}:
                operation.demand_body(*sent)
        except openapi.UnpublishedError as error:
            raise FailureError(400, str(error)) from error
        for interfere in list(self.before_patch) if method == "PATCH" else ():
            interfere(operation.path.split("/")[6], operation.variables["name"])
        with self.store.lock:
            return self._carry_out(method, operation, query, sent)

    def _carry_out(
        self, method: str, operation: openapi.Operation, query: dict[str, str], sent: tuple[str, Any]
    ) -> tuple[int, Any]:
        parts = operation.path.split("/")
        resource = next(part for part in reversed(parts) if part in KINDS)
        space, name = operation.variables.get("namespace", ""), operation.variables.get("name")
        if method == "POST" and parts[-1] == "binding":
            pod = self._found("pods", space, name)
            self.store.write("pods", {**pod, "spec": {**pod["spec"], "nodeName": sent[1]["target"]["name"]}})
            return 201, sent[1]
        if method == "POST":
            meta = {**sent[1]["metadata"], **({"namespace": space} if space else {})}
            if self.store.get(resource, space, meta["name"]) is not None:
                raise FailureError(409, f"{resource} {meta['name']} already exists")
            status = {} if resource == "namespaces" else {"status": {"replicas": 0}}
            return 201, self.store.create(resource, {**sent[1], "metadata": meta, **status})
        if name is None:
            return 200, self._listed(resource, space, query.get("labelSelector", ""))
        found = self._found(resource, space, name)
        if method == "PATCH":
            return 200, self._patched(operation, resource, found, sent)
        if method == "DELETE":
            self.store.remove(resource, found, at_once=sent[1].get("gracePeriodSeconds") == 0)
        return 200, found

    def _found(self, resource: str, namespace: str, name: str | None) -> Document:
        found = self.store.get(resource, namespace, name or "")
        if found is None:
            raise FailureError(404, f'{resource} "{name}" not found')
        return found

    def _listed(self, resource: str, namespace: str, selector: str) -> Document:
        pairs = [pair.partition("=")[::2] for pair in selector.split(",") if pair]

        def fits(document: Document) -> bool:
            labels = document["metadata"].get("labels", {})
            here = document["metadata"].get("namespace", "") == namespace
            return here and all(labels.get(key) == value for key, value in pairs)

        version, kind = KINDS[resource]
        # as the real server: documents of a list carry no kind of their own
        items = [
            {k: v for k, v in document.items() if k not in {"kind", "apiVersion"}}
            for document in self.store.list(resource, fits)
        ]
        return {
            "apiVersion": version,
            "kind": f"{kind}List",
            "metadata": {"resourceVersion": "0"},
            "items": items,
        }

    def _patched(
        self, operation: openapi.Operation, resource: str, found: Document, sent: tuple[str, Any]
    ) -> Document:
        kind, patch = sent
        if kind != STRATEGIC:
            raise FailureError(415, f"patches of type {kind} are not played here")
        told = patch.get("metadata", {}).get("resourceVersion")
        if told is not None and told != found["metadata"]["resourceVersion"]:
            raise FailureError(
                409,
                f'Operation cannot be fulfilled on {resource} "{found["metadata"]["name"]}": the object has '
                "been modified; please apply your changes to the latest version and try again",
            )
        of_status = operation.path.endswith("/status")
        result = openapi.merged(operation.document, found, patch)
        result = {**found, "status": result["status"]} if of_status else {**result, "status": found["status"]}
        try:
            openapi.demand(operation.document, result)
        except openapi.UnpublishedError as error:
            raise FailureError(400, str(error)) from error
        return self.store.write(resource, result)


class _Handler(BaseHTTPRequestHandler):
    """One connection: reads a request, answers it, holds both against the published OpenAPI."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: the client's kernel would wait 40 ms between two
    server: FakeServer

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        kind = self.headers.get("Content-Type", "")
        self.server.requests.append((self.command, parts.path))
        try:
            self._demand_served(parts.path)
            code, document = self.server.answer(
                self.command, parts.path, dict(parse_qsl(parts.query)), (kind, body)
            )
        except FailureError as failure:
            if failure.code in {400, 415}:
                self.server.unpublished.append(failure.message)
            code, document = failure.code, _failure(failure)
        self._answer(code, document, openapi.find(self.command, parts.path))

    def _demand_served(self, path: str) -> None:
        if self.headers.get("Authorization") != f"Bearer {self.server.token}":
            raise FailureError(401, "Unauthorized")
        if any(path.endswith(each) for each in self.server.failing):
            raise FailureError(503, "the server is currently unable to handle the request")

    def _answer(self, code: int, document: Any, operation: openapi.Operation | None) -> None:
        if operation is not None:
            try:
                operation.demand_answer(code, document)
            except openapi.UnpublishedError as error:
                self.server.broken.append(str(error))
        data = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815 - http.server's names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """Quiet: a failing test shows ``requests``."""


def _failure(failure: FailureError) -> Document:
    reason = REASONS.get(failure.code, "ServiceUnavailable")
    return {
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "code": failure.code,
        "message": failure.message,
        "reason": reason,
    }


@contextmanager
def fake_server() -> Iterator[FakeServer]:
    """Up until the end of the block, which fails when the published OpenAPI was not kept to."""
    server = FakeServer()
    threads = [threading.Thread(target=each, daemon=True) for each in (server.serve_forever, server.control)]
    for thread in threads:
        thread.start()
    try:
        yield server
    finally:
        server.ended.set()
        server.shutdown()
        for thread in threads:
            thread.join(10)
        server.server_close()
    assert not server.broken, f"the fake's own answers: {server.broken[:3]}"
