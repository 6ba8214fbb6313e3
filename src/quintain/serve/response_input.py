"""The items of OpenAI's Responses as the messages, tools and formats of Chat Completions. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from quintain.serve.base import Refused

_ROLES = {"developer": "system", "system": "system", "user": "user", "assistant": "assistant"}


def messages_of(given: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What was said, called and thought between two results of tools is one message of the assistant's. Raises
    Refused(400)."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    made: list[dict[str, Any]] = []

    def speaking() -> dict[str, Any]:
        """The message that the assistant is in the middle of."""
        if not made or made[-1]["role"] != "assistant":
            made.append({"role": "assistant", "content": None})
        return made[-1]

    for item in given:
        match item.get("type", "message"):
            case "message":
                role = _ROLES.get(str(item.get("role")))
                if role is None:
                    raise Refused(400, f"expected a role of {', '.join(_ROLES)}, found {item.get('role')!r}")
                content = _content(item.get("content"))
                held = made[-1] if made and role == "assistant" and made[-1]["role"] == "assistant" else None
                if held is not None and held["content"] is None and "tool_calls" not in held:
                    held["content"] = content
                else:
                    made.append({"role": role, "content": content})
            case "function_call":
                speaking().setdefault("tool_calls", []).append({
                    "id": item.get("call_id"), "type": "function",
                    "function": {"name": item.get("name"), "arguments": item.get("arguments", "")}})
            case "function_call_output":
                made.append({"role": "tool", "tool_call_id": item.get("call_id"),
                             "content": _content(item.get("output"))})
            case "reasoning":
                thought = "".join(str(part.get("text", "")) for part in item.get("content") or ())
                if thought:
                    made.append({"role": "assistant", "content": None, "reasoning_content": thought})
            case other:
                raise Refused(400, "expected messages, function_call, function_call_output or reasoning, found "
                              f"{other!r}")
    return made


def reply_message(items: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """A reply as it is repeated to the model."""
    made = messages_of(list(items))
    if not made:
        return {"role": "assistant", "content": ""}
    whole = made[0]
    for further in made[1:]:
        whole["content"] = (whole["content"] or "") + (further["content"] or "") or None
        whole.setdefault("tool_calls", []).extend(further.get("tool_calls", ()))
    return whole


def tool(given: dict[str, Any]) -> dict[str, object]:
    """Raises Refused(400) for a tool that OpenAI runs itself."""
    if given.get("type") != "function":
        raise Refused(400, f"expected tools of type function, found {given.get('type')!r}, which this model has not")
    function = {name: given[name] for name in ("name", "description", "parameters", "strict")
                if given.get(name) is not None}
    return {"type": "function", "function": function}


def tool_choice(given: str | dict[str, Any] | None) -> object:
    if isinstance(given, dict):
        if given.get("type") != "function":
            raise Refused(400, f"expected a tool_choice of type function, found {given.get('type')!r}")
        return {"type": "function", "function": {"name": given.get("name")}}
    return given


def response_format(given: object) -> object:
    """`text.format` as `response_format`."""
    if not isinstance(given, dict) or given.get("type") == "text":
        return None
    if given.get("type") != "json_schema":
        return given
    schema = {name: given[name] for name in ("name", "description", "schema", "strict") if given.get(name) is not None}
    return {"type": "json_schema", "json_schema": schema}


def _content(given: object) -> object:
    """Text as it is; parts as Chat Completions has them, one text where they are nothing else."""
    if given is None or isinstance(given, str):
        return given or ""
    if not isinstance(given, list) or any(not isinstance(part, dict) for part in given):
        raise Refused(400, f"expected content as a text or a list of parts, found {type(given).__name__}")
    parts: list[dict[str, Any]] = []
    for part in given:
        match part.get("type"):
            case "input_text" | "output_text" | "text":
                parts.append({"type": "text", "text": str(part.get("text", ""))})
            case "refusal":
                parts.append({"type": "text", "text": str(part.get("refusal", ""))})
            case "input_image" if part.get("image_url"):
                parts.append({"type": "image_url", "image_url": {"url": str(part["image_url"])}})
            case other:
                raise Refused(400, f"expected parts of text or images with a URL, found {other!r}")
    if all(part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts)
    return parts
