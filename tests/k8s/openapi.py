"""The published OpenAPI of Kubernetes: a judge of requests and answers, and the rules of a merge patch."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

_PUBLISHED = json.loads((Path(__file__).resolve().parent / "openapi.json").read_text())
_REF = "#/components/schemas/"
_TYPES = {"integer": r"-?\d+", "boolean": "true|false", "string": ".*"}


class UnpublishedError(Exception):
    """A request or an answer that the published OpenAPI does not allow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation of the published OpenAPI, with what the path says in its variable parts."""

    path: str
    told: dict[str, Any]
    variables: dict[str, str]

    def demand_query(self, query: dict[str, str]) -> None:
        """Raises `UnpublishedError` for a parameter that is not published, or of another type."""
        for name, value in query.items():
            kind = self.told["query"].get(name)
            if kind is None or not re.fullmatch(_TYPES[kind], value):
                raise UnpublishedError(f"query parameter {name}={value!r} is not published for {self.path}")

    def demand_body(self, kind: str, body: Any) -> None:
        """Raises `UnpublishedError` for a body of another media type or shape."""
        bodies = self.told["body"]
        name = bodies.get(kind) or bodies.get("*/*")
        if name is None:
            raise UnpublishedError(f"a body of type {kind} is not published for {self.path}")
        demand(name, body)

    def demand_answer(self, status: int, answer: Any) -> None:
        """Raises `UnpublishedError` for an answer of another shape."""
        error = "io.k8s.apimachinery.pkg.apis.meta.v1.Status"
        name = error if status >= 400 else self.told["answers"].get(str(status))
        if name is None:
            raise UnpublishedError(f"status {status} is not published for {self.path}")
        demand(name, answer)

    @property
    def document(self) -> str:
        """The schema of the document that this operation answers with."""
        return str(self.told["answers"]["200"])


def find(method: str, path: str) -> Operation | None:
    """The published operation of a request line; None when there is none (or it was not taken over)."""
    for template, methods in _PUBLISHED["paths"].items():
        pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", template)
        found = re.fullmatch(pattern, path)
        if found and method.lower() in methods:
            return Operation(path=template, told=methods[method.lower()], variables=found.groupdict())
    return None


def demand(name: str, document: Any) -> None:
    """Raises `UnpublishedError` unless the document is what this schema says, unknown fields included."""
    problems = _problems(name, json.dumps(document, sort_keys=True))
    if problems:
        raise UnpublishedError(f"{name}: {'; '.join(problems[:3])}")


@lru_cache(maxsize=4096)
def _problems(name: str, text: str) -> tuple[str, ...]:
    """What is wrong with a document; the same one is looked at once, since tests poll."""
    return tuple(
        f"{'.'.join(str(part) for part in each.absolute_path) or 'the document'}: {each.message[:200]}"
        for each in _validator(name).iter_errors(json.loads(text))
    )


@lru_cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": _REF + name, "components": {"schemas": _strict()}})


@lru_cache
def _strict() -> dict[str, Any]:
    """The schemas, closed: a field that is not published is a problem, as under fieldValidation=Strict."""
    return {
        name: {**schema, "additionalProperties": False}
        if "properties" in schema and "additionalProperties" not in schema
        else schema
        for name, schema in _PUBLISHED["schemas"].items()
    }


def merged(name: str, before: Any, patch: Any) -> Any:
    """A strategic merge patch applied: maps are merged (or replaced, where the patch says so), null removes,
    lists are merged by the published key or else replaced."""
    return _merge({"$ref": _REF + name}, before, patch)


def _merge(schema: dict[str, Any], before: Any, patch: Any) -> Any:
    if isinstance(patch, dict):
        fields, rest = _fields(schema)
        told = {key: value for key, value in patch.items() if key != "$patch"}
        start = before if isinstance(before, dict) and patch.get("$patch") != "replace" else {}
        found = dict(start)
        for key, value in told.items():
            if value is None:
                found.pop(key, None)
            else:
                found[key] = _merge(fields.get(key, rest), start.get(key), value)
        return found
    key = schema.get("x-kubernetes-patch-merge-key")
    strategy = str(schema.get("x-kubernetes-patch-strategy", ""))
    if isinstance(patch, list) and key and "merge" in strategy.split(","):
        return _merge_list(schema.get("items", {}), key, before or [], patch)
    return patch


def _merge_list(schema: dict[str, Any], key: str, before: list[Any], patch: list[Any]) -> list[Any]:
    found = list(before)
    for each in patch:
        place = next((n for n, old in enumerate(found) if old[key] == each[key]), None)
        if each.get("$patch") == "delete":
            found = [old for old in found if old[key] != each[key]]
        elif place is None:
            found.append(_merge(schema, {}, each))
        else:
            found[place] = _merge(schema, found[place], each)
    return found


def _fields(schema: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The schemas of the known fields of an object, and that of any other."""
    while "$ref" in schema or "allOf" in schema:
        ref = schema["$ref"] if "$ref" in schema else schema["allOf"][0]["$ref"]
        schema = _PUBLISHED["schemas"][ref.removeprefix(_REF)]
    rest = schema.get("additionalProperties")
    return schema.get("properties", {}), rest if isinstance(rest, dict) else {}
