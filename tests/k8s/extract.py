"""Take from the published OpenAPI of Kubernetes what the fake API server serves: ``extract.py FOLDER``.

FOLDER is ``api/openapi-spec/v3`` of the Go module k8s.io/kubernetes at the release of the matrix's control
plane (``go mod download`` puts it into the module cache). Prose is left out; nothing else is changed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SOURCE = "k8s.io/kubernetes v1.35.4, api/openapi-spec/v3 (Apache License 2.0), descriptions left out"
_POD = "/api/v1/namespaces/{namespace}/pods"
_APPS = "/apis/apps/v1/namespaces/{namespace}"
SERVED = {
    "/api/v1/namespaces": ("get", "post"),
    _POD: ("get",),
    f"{_POD}/{{name}}": ("get", "delete"),
    f"{_POD}/{{name}}/status": ("patch",),
    f"{_POD}/{{name}}/binding": ("post",),
    **{f"{_APPS}/{each}": ("get", "post") for each in ("deployments", "statefulsets")},
    **{f"{_APPS}/{each}/{{name}}": ("get", "patch") for each in ("deployments", "statefulsets")},
    **{f"{_APPS}/{each}": ("get",) for each in ("replicasets", "controllerrevisions")},
    **{f"{_APPS}/{each}/{{name}}": ("get",) for each in ("replicasets", "controllerrevisions")},
}


def main(folder: Path) -> None:
    """Write ``openapi.json`` beside this file."""
    documents = [
        json.loads((folder / f"{n}_openapi.json").read_text()) for n in ("api__v1", "apis__apps__v1")
    ]
    paths = {k: v for each in documents for k, v in each["paths"].items() if k in SERVED}
    schemas = {k: v for each in documents for k, v in each["components"]["schemas"].items()}
    kept = {
        path: {
            method: _operation(paths[path][method], paths[path].get("parameters", []))
            for method in SERVED[path]
        }
        for path in sorted(SERVED)
    }
    wanted = [name for path in kept.values() for each in path.values() for name in _named(each)]
    found = _closure(wanted, schemas)
    document = {"source": SOURCE, "paths": kept, "schemas": {name: found[name] for name in sorted(found)}}
    (HERE / "openapi.json").write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")


def _operation(told: dict[str, Any], parameters: list[dict[str, Any]]) -> dict[str, Any]:
    """Query parameters with their types, the body's schema by media type, the answers' schemas by status."""
    query = {
        each["name"]: each["schema"]["type"]
        for each in (*told.get("parameters", []), *parameters)
        if each["in"] == "query"
    }
    body = {
        kind: _ref(each["schema"]) for kind, each in told.get("requestBody", {}).get("content", {}).items()
    }
    answers = {
        status: _ref(each["content"]["application/json"]["schema"])
        for status, each in told["responses"].items()
        if "application/json" in each.get("content", {})
    }
    return {"query": query, "body": body, "answers": answers}


def _ref(schema: dict[str, Any]) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _named(operation: dict[str, Any]) -> list[str]:
    return [*operation["body"].values(), *operation["answers"].values()]


def _closure(names: list[str], schemas: dict[str, Any]) -> dict[str, Any]:
    """These schemas and all that they refer to."""
    found: dict[str, Any] = {}
    waiting = [*names, "io.k8s.apimachinery.pkg.apis.meta.v1.Status"]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = _bare(schemas[name])
            waiting += [ref.rpartition("/")[2] for ref in _refs(found[name])]
    return found


def _bare(value: Any) -> Any:
    """Without descriptions (a property may have that name; its value is a schema, not a text)."""
    if isinstance(value, dict):
        return {k: _bare(v) for k, v in value.items() if not (k == "description" and isinstance(v, str))}
    return [_bare(each) for each in value] if isinstance(value, list) else value


def _refs(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [ref for each in value.values() for ref in _refs(each)]
    return [ref for each in value for ref in _refs(each)] if isinstance(value, list) else []


if __name__ == "__main__":
    main(Path(sys.argv[1]))
