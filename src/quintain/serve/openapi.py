"""The OpenAPI 3.1 document of the API, made of the same table and the same types that check every request."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from quintain import __version__
from quintain.serve.operation import BYTES, JSON, SSE, Operation
from quintain.serve.words import Done, Ended, Piece, Problem

_WHY = {
    400: "The body is no JSON.", 401: "No key, or one that opens nothing.",
    403: "A key or a quota that does not reach.",
    404: "There is no such thing of yours.", 405: "Another method is meant.", 408: "The body came too slowly.",
    409: "Not in this state.", 410: "It has ended.", 413: "The body is too big.", 415: "Another media type is meant.",
    421: "Without keys only programs of this machine are served.", 422: "It means nothing here.",
    429: "Too much of yours at a time: after Retry-After.", 500: "The server failed.",
    503: "Too much at a time: after Retry-After.",
}
_REF = "#/components/schemas/{name}"


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    """Ready to be encoded."""
    types: list[Any] = [Problem, Piece, Done, Ended]
    for operation in operations:
        types += [one for one in (operation.body, operation.reply) if one not in (None, bytes)]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    shown = dict(zip(map(id, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation, shown)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Quintain", "version": __version__,
                 "description": "Runs, tasks and sandboxes. Byte fields are base64; times are Unix seconds."},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "quintain keys create"}},
        },
    }


def _described(operation: Operation, shown: dict[int, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {
        "operationId": operation.id, "summary": operation.says, "parameters": [*_path(operation), *_query(operation)],
        "responses": {str(operation.status): _reply(operation, shown), **{
            str(status): _refusal(status, shown) for status in _refusals(operation)}},
        "security": [] if operation.scope is None else [{"key": [operation.scope.value]}],
    }
    if operation.body is bytes:
        said["requestBody"] = {"required": True, "content": {BYTES: {"schema": {"type": "string", "format": "binary"}}}}
    elif operation.body is not None:
        said["requestBody"] = {"required": True, "content": {JSON: {
            "schema": shown[id(operation.body)], "example": msgspec.to_builtins(operation.example),
        }}}
    return said


def _reply(operation: Operation, shown: dict[int, Any]) -> dict[str, Any]:
    if operation.status == 204:
        return {"description": "Done."}
    if operation.media == BYTES:
        return {"description": "The bytes.", "content": {BYTES: {"schema": {"type": "string", "format": "binary"}}}}
    if operation.media == SSE:
        return {"description": "Server-sent events.", "content": {SSE: {}}}
    content: dict[str, Any] = {JSON: {"schema": shown[id(operation.reply)]}}
    if operation.id == "runCommand":
        content[SSE] = {}
    return {"description": "Done.", "content": content}


def _refusals(operation: Operation) -> list[int]:
    found = {405, 422, *operation.refusals}
    if operation.scope is not None:
        found |= {401, 403, 421, 429, 503}
    if operation.body is not None:
        found |= {400, 408, 413, 415}
    return sorted(found)


def _refusal(status: int, shown: dict[int, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {"description": _WHY[status], "content": {JSON: {"schema": shown[id(Problem)]}}}
    if status in (429, 503):
        said["headers"] = {"Retry-After": {"schema": {"type": "integer", "minimum": 1}, "description": "Seconds."}}
    return said


def _path(operation: Operation) -> list[dict[str, Any]]:
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
            for name in re.findall(r"{(\w+)}", operation.path)]


def _query(operation: Operation) -> list[dict[str, Any]]:
    if operation.query is None:
        return []
    _, components = msgspec.json.schema_components([operation.query], ref_template=_REF)
    whole = components[operation.query.__name__]
    found = []
    for name, one in whole["properties"].items():
        plain = {key: value for key, value in one.items() if key != "default"}
        if "anyOf" in plain:  # a parameter that is not given is simply not there
            [plain] = [part for part in plain["anyOf"] if part.get("type") != "null"]
        if "$ref" in plain:
            plain = components[plain["$ref"].rpartition("/")[2]]
        found.append({"name": name, "in": "query", "required": name in whole.get("required", ()), "schema": plain})
    return found
