"""The few requests that the driver `kubernetes` makes, over the official client, as plain documents.

The client's generated models are not used: they refuse what a server of another release answers. Paths are
those of the published OpenAPI of apps/v1 and core/v1.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from kubernetes import config
from kubernetes.client import ApiClient, ApiException, Configuration
from urllib3.exceptions import HTTPError

from groupshift.domain.addresses import api_server_problem
from groupshift.errors import Conflict, Rejected, Transient
from groupshift.foreign_files import opened
from groupshift.settings import KubernetesSettings

Document = dict[str, Any]

WORKLOADS = {"Deployment": "deployments", "StatefulSet": "statefulsets"}
"""The kinds whose members can be replaced, and their resource names in apps/v1."""
_REFUSED, _GONE, _CONFLICT, _TOO_MANY = (400, 401, 403, 405, 415, 422), 404, 409, 429


class KubernetesApi:
    """One namespace of one API server; connects at the first request.

    Every method raises `Transient` when the server does not answer (also 429 and 5xx), `Rejected` when it
    refuses (no login, no permission, an invalid document), each with the server's own sentence."""

    def __init__(self, settings: KubernetesSettings) -> None:
        self._settings = settings
        self._client: ApiClient | None = None
        self.namespace = settings.namespace

    def find(self, resource: str, selector: str) -> list[Document]:
        """The documents of an apps/v1 resource, or of ``pods``, that have these labels, by name."""
        base = "api/v1" if resource == "pods" else "apis/apps/v1"
        path = f"/{base}/namespaces/{self.namespace}/{resource}"
        found = self._request("GET", path, query=[("labelSelector", selector)])
        if not isinstance(found.get("items"), list) or not all(map(_is_named, found["items"])):
            raise _stranger(path)
        return sorted(found["items"], key=lambda document: str(document["metadata"]["name"]))

    def read(self, resource: str, name: str) -> Document | None:
        """One document of apps/v1; None when there is none of that name."""
        try:
            return self._request("GET", self._path(resource, name))
        except _GoneError:
            return None

    def patch(self, resource: str, name: str, change: Mapping[str, Any]) -> Document:
        """Apply a strategic merge patch. Raises `Conflict` when ``metadata.resourceVersion`` in it is no
        longer the document's, or the document is gone."""
        try:
            return self._request("PATCH", self._path(resource, name), body=change)
        except _GoneError as error:
            raise Conflict(f"{resource}/{name} is gone: {error}") from error

    def _path(self, resource: str, name: str) -> str:
        return f"/apis/apps/v1/namespaces/{self.namespace}/{resource}/{name}"

    def _request(
        self, method: str, path: str, *, query: list[tuple[str, str]] | None = None, body: object = None
    ) -> Document:
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/strategic-merge-patch+json"
        try:
            answer: Document = self._connected().call_api(
                path,
                method,
                query_params=query or [],
                header_params=headers,
                body=body,
                response_type="object",
                auth_settings=["BearerToken"],
                _return_http_data_only=True,
                _request_timeout=self._settings.timeout_s,
            )
        except ApiException as error:
            raise _family(method, path, error) from error
        except (HTTPError, OSError) as error:
            raise Transient(
                f"the Kubernetes API did not answer {method} {path} ({error}); try again"
            ) from error
        except (ValueError, RecursionError):
            raise _stranger(path) from None  # words of the library may hold the token
        if not isinstance(answer, dict):
            raise _stranger(path)
        return answer

    def _connected(self) -> ApiClient:
        if self._client is None:
            self._client = ApiClient(_configuration(self._settings))
        return self._client

    def close(self) -> None:
        """Close the connections, if there are any."""
        if self._client is not None:
            self._client.close()
            self._client = None


class _GoneError(Exception):
    """404: there is no such document."""


def _configuration(settings: KubernetesSettings) -> Configuration:
    """Where the server is and how to log in. Raises `Rejected` when that cannot be read."""
    made = Configuration()
    try:
        if settings.server:
            made.host = settings.server.rstrip("/")
            made.ssl_ca_cert = settings.ca or None
            if settings.token:
                made.api_key = {"authorization": f"Bearer {settings.token.strip()}"}
        elif settings.kubeconfig:
            _read_kubeconfig(settings, made)
        else:
            config.load_incluster_config(client_configuration=made)
        for path in filter(None, (made.ssl_ca_cert, made.cert_file, made.key_file)):
            opened(path).close()  # a named pipe would be waited for at the first request
    except (config.ConfigException, OSError) as error:
        raise Rejected(
            f"the Kubernetes API cannot be reached ({error}); name fleet.kubernetes.server or .kubeconfig"
        ) from error
    wrong = api_server_problem(made.host, "the Kubernetes API server")
    if wrong:
        raise Rejected(f"{wrong}; correct fleet.kubernetes.server, or the server in the kubeconfig")
    token = str(made.api_key.get("authorization", ""))
    if not (token.isascii() and token.isprintable()):
        raise Rejected(
            "the token of the Kubernetes API holds a character that no token has (not shown): write it on "
            "one line, into fleet.kubernetes.token or the kubeconfig"
        )
    made.retries = False
    made.debug = False
    return made


def _read_kubeconfig(settings: KubernetesSettings, made: Configuration) -> None:
    """Raises what `_configuration` catches, and `Rejected` without the parser's words, which may hold a
    token."""
    try:
        for path in settings.kubeconfig.split(os.pathsep):
            with suppress(FileNotFoundError):
                opened(Path(path).expanduser()).close()
        config.load_kube_config(settings.kubeconfig, settings.context or None, made, persist_config=False)
        made.host = made.host.rstrip("/")
    except (config.ConfigException, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever the library meets in a file of another shape
        raise Rejected(
            f"fleet.kubernetes.kubeconfig {settings.kubeconfig} is none ({type(error).__name__}): correct it"
        ) from None


def _is_named(document: object) -> bool:
    """Whether this is a document of the API."""
    metadata = document.get("metadata") if isinstance(document, dict) else None
    return isinstance(metadata, dict) and "name" in metadata


def _stranger(path: str) -> Rejected:
    return Rejected(
        f"what answers at {path} is no Kubernetes API: something stands before it, such as a page to log in; "
        "correct fleet.kubernetes.server, or the server in the kubeconfig"
    )


def _family(method: str, path: str, error: ApiException) -> Exception:
    said = _message(error)
    if error.status == _GONE:
        return _GoneError(said)
    if error.status == _CONFLICT:
        return Conflict(f"{path} was changed meanwhile: {said}")
    sentence = f"the Kubernetes API refused {method} {path} with {error.status}: {said}"
    if error.status in _REFUSED:
        return Rejected(f"{sentence}; correct the login, the role or the workload")
    return Transient(f"{sentence}; run the same command again")


def _message(error: ApiException) -> str:
    """The server's sentence; never the headers, which the exception's own text would show."""
    try:
        return str(json.loads(error.body or "")["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return str(error.reason)
