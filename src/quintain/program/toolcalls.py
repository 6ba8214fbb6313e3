"""The tool calls that the assistant wrote, checked against the tools that exist."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

import msgspec

from quintain.program.reasoning import without_reasoning
from quintain.types import Fault, FaultKind, Finish, Message, Owner, Role

#: JSON types by the names that JSON Schema gives them.
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,), "number": (int, float), "integer": (int,), "boolean": (bool,), "array": (list,),
    "object": (dict,), "null": (type(None),),
}


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as the policy sees it: `arguments` name → JSON type; those not in `optional` must be there."""

    name: str
    arguments: dict[str, str]
    optional: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for argument, kind in self.arguments.items():
            if kind not in _TYPES:
                known = ", ".join(_TYPES)
                raise ValueError(f"tool {self.name!r}, argument {argument!r}: expected one of {known}; found {kind!r}")


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call that its tool accepts: `arguments` have the types that the tool declares."""

    name: str
    arguments: dict[str, object]


class _Invalid(Exception):
    """A call that no tool accepts; never leaves this module."""


def parse_tool_calls(
    reply: str, tools: Sequence[Tool], *, finish: Finish = Finish.STOP,
) -> tuple[ToolCall, ...] | Fault:
    """The calls in a reply of the assistant, in order; `invalid_tool_call` when one of them is not acceptable.

    Dialects: Hermes (`<tool_call>{"name": …, "arguments": {…}}</tool_call>`), the tagged form
    (`<tool_call><function=NAME><parameter=KEY>…`), `<invoke name="…"><parameter name="…">…`, and a whole reply that is
    OpenAI's `{"tool_calls": […]}`. Calls in reasoning or in a fenced block are not calls. Names and types are matched
    exactly and never coerced; in the two tagged forms, which carry text, an argument of another type than string is
    read as JSON. A call cut by the token limit is `truncated`. Raises ValueError when two tools have one name.
    """
    known = {tool.name: tool for tool in tools}
    if len(known) != len(tools):
        raise ValueError("expected tools with different names, found two with one name")
    spoken = without_reasoning(reply)
    if spoken.unclosed:
        return _fault(FaultKind.TRUNCATED if finish is Finish.LENGTH else FaultKind.NO_ANSWER,
                      "expected an answer after the reasoning; its thinking tag is never closed")
    try:
        return tuple(_check(name, arguments, known) for name, arguments in _written(spoken.text))
    except _Invalid as invalid:
        return _fault(FaultKind.INVALID_TOOL_CALL, str(invalid))
    except _CutError:
        if finish is Finish.LENGTH:
            return _fault(FaultKind.TRUNCATED, "the token limit cut a tool call")
        return _fault(FaultKind.INVALID_TOOL_CALL, "expected the closing tag of the tool call, found the end")


def tool_calls_in(messages: Sequence[Message], tools: Sequence[Tool]) -> tuple[ToolCall, ...] | Fault:
    """The calls in a conversation: only the assistant's messages are read, whatever other text imitates."""
    calls: list[ToolCall] = []
    for message in messages:
        if message.role is not Role.ASSISTANT:
            continue
        found = parse_tool_calls(message.text, tools)
        if isinstance(found, Fault):
            return found
        calls.extend(found)
    return tuple(calls)


class _CutError(Exception):
    """The text ends inside a call; never leaves this module."""


class _Text(str):
    """An argument that a tagged dialect carried as text."""


_START = re.compile(
    r"(?P<hermes><tool_call>)|(?P<invoke><invoke[ \t]+name=\"(?P<name>[^\"<>\n]{0,200})\"[ \t]*>)"
    r"|^[ \t]*+(?P<fence>`{3,}|~{3,})",
    re.MULTILINE,
)
_FUNCTION = re.compile(r"\s*<function=(?P<name>[^<>\n]{1,200})>")
_DECODER = json.JSONDecoder()


def _written(text: str) -> list[tuple[object, object]]:
    """(name, arguments) of each call as written, not yet checked."""
    stripped = text.strip()
    if stripped.startswith(("{", "[")) and '"tool_calls"' in stripped[:4096]:
        return _openai(stripped)
    calls: list[tuple[object, object]] = []
    position = 0
    while (start := _START.search(text, position)) is not None:
        if start["fence"] is not None:
            position = _after_fence(text, start)
        elif start["invoke"] is not None:
            arguments, position = _parameters(text, start.end(), "invoke", r'<parameter name="([^"<>\n]{1,200})">')
            calls.append((start["name"], arguments))
        elif (function := _FUNCTION.match(text, start.end())) is not None:
            arguments, position = _parameters(text, function.end(), "function", r"<parameter=([^<>\n]{1,200})>")
            calls.append((function["name"].strip(), arguments))
            position = _closing(text, position, "</tool_call>")
        else:
            value, position = _json(text, start.end())
            position = _closing(text, position, "</tool_call>")
            calls.append(_name_and_arguments(value))
    return calls


def _after_fence(text: str, start: re.Match[str]) -> int:
    """Where a fenced block ends; the end of the text when it is never closed."""
    marker = start["fence"]
    close = re.compile(rf"^[ \t]*{re.escape(marker[0])}{{{len(marker)},}}[ \t\r]*$", re.MULTILINE)
    end = close.search(text, start.end())
    return end.end() if end else len(text)


def _closing(text: str, position: int, tag: str) -> int:
    rest = re.compile(r"\s*").match(text, position)
    at = rest.end() if rest else position
    if text.startswith(tag, at):
        return at + len(tag)
    if at >= len(text):
        raise _CutError
    raise _Invalid(f"expected {tag} after the call, found {text[at:at + 40]!r}")


def _json(text: str, position: int) -> tuple[object, int]:
    blank = re.compile(r"\s*").match(text, position)
    at = blank.end() if blank else position
    try:
        value, end = _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        if error.pos >= len(text.rstrip()) or "Unterminated string" in error.msg:
            raise _CutError from None
        line = text.count("\n", 0, error.pos) + 1
        found = text[error.pos:error.pos + 40]
        raise _Invalid(f"expected JSON in the tool call; line {line}: {error.msg}, found {found!r}")
    except (RecursionError, ValueError):
        raise _Invalid("expected JSON in the tool call; it is nested too deeply or has a number out of range")
    return value, end


def _parameters(text: str, position: int, kind: str, opening: str) -> tuple[dict[str, object], int]:
    """The parameters of a tagged call up to its closing tag, and where that ends."""
    tag = re.compile(rf"\s*(?:{opening}|(</{kind}>))")
    arguments: dict[str, object] = {}
    while (match := tag.match(text, position)) is not None:
        if match[2] is not None:
            return arguments, match.end()
        end = text.find("</parameter>", match.end())
        if end < 0:
            raise _CutError
        if match[1] in arguments:
            raise _Invalid(f"expected parameter {match[1]!r} once, found it twice")
        value = text[match.end():end].removeprefix("\n").removesuffix("\n")
        arguments[match[1]] = _Text(value)
        position = end + len("</parameter>")
    if not text[position:].strip():
        raise _CutError
    raise _Invalid(f"expected a parameter or </{kind}>, found {text[position:position + 40].strip()!r}")


def _openai(text: str) -> list[tuple[object, object]]:
    value, end = _json(text, 0)
    if text[end:].strip():
        raise _Invalid(f"expected one JSON value, found more after it: {text[end:end + 40]!r}")
    listed = value.get("tool_calls") if isinstance(value, dict) else None
    if not isinstance(listed, list):
        raise _Invalid("expected 'tool_calls' to be a list")
    return [_name_and_arguments(call.get("function", call) if isinstance(call, dict) else call) for call in listed]


def _name_and_arguments(value: object) -> tuple[object, object]:
    if not isinstance(value, dict):
        raise _Invalid(f'expected an object with "name" and "arguments", found {_type_of(value)}')
    missing = [key for key in ("name", "arguments") if key not in value]
    if missing:
        raise _Invalid(f'expected "name" and "arguments" in the tool call, found no {missing[0]!r}')
    arguments = value["arguments"]
    if isinstance(arguments, str):  # OpenAI's form carries them as JSON in a string
        arguments, _ = _json(arguments, 0)
    return value["name"], arguments


def _check(name: object, arguments: object, known: Mapping[str, Tool]) -> ToolCall:
    tool = known.get(name) if isinstance(name, str) else None
    if tool is None:
        names = ", ".join(known) or "none"
        found = f"{str(name)[:100]!r}{_detail(arguments)}{_near_miss(name, arguments, known)}"
        raise _Invalid(f"expected a tool out of {names}; found {found}")
    if not isinstance(arguments, dict):
        raise _Invalid(f"tool {tool.name!r}: expected its arguments as an object, found {_type_of(arguments)}")
    problems = _problems(arguments, tool)
    if problems:
        raise _Invalid(f"tool {tool.name!r}: {'; '.join(problems)}")
    return ToolCall(
        name=tool.name, arguments={key: _typed(value, tool.arguments[key]) for key, value in arguments.items()},
    )


def _detail(arguments: object) -> str:
    return f" with arguments {', '.join(map(repr, list(arguments)[:5]))}" if isinstance(arguments, dict) else ""


def _near_miss(name: object, arguments: object, known: Mapping[str, Tool]) -> str:
    """What else would be wrong, had the name been written in the right case."""
    near = next((tool for tool in known.values() if tool.name.lower() == str(name).lower()), None)
    if near is None or not isinstance(arguments, dict):
        return ""
    return f" (names are case-sensitive; for {near.name!r}: {'; '.join(_problems(arguments, near)) or 'arguments fit'})"


def _problems(arguments: Mapping[str, object], tool: Tool) -> list[str]:
    problems = [
        f"expected argument {key!r} ({kind}), found none"
        for key, kind in tool.arguments.items() if key not in arguments and key not in tool.optional
    ]
    for key, value in arguments.items():
        expected = tool.arguments.get(key)
        if expected is None:
            problems.append(f"expected no argument {key[:100]!r}, found {_type_of(value)}")
        elif not _fits(_typed(value, expected), expected):
            shown = "" if isinstance(value, list | dict) else " " + json.dumps(value)[:40]
            problems.append(f"expected {expected} for argument {key!r}, found {_type_of(value)}{shown}")
    return problems


def _typed(value: object, expected: str) -> object:
    """The value that a tagged dialect's text stands for; other values as they are."""
    if not isinstance(value, _Text):
        return value
    if expected == "string":
        return str(value)
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return str(value)


def _fits(value: object, expected: str) -> bool:
    if isinstance(value, bool) and expected in ("number", "integer"):
        return False
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return False
    return isinstance(value, _TYPES[expected])


def _type_of(value: object) -> str:
    if isinstance(value, bool | int):
        return "boolean" if isinstance(value, bool) else "integer"
    return next((name for name, types in _TYPES.items() if isinstance(value, types)), type(value).__name__)


def _fault(kind: FaultKind, message: str) -> Fault:
    return Fault(owner=Owner.POLICY, kind=kind, message=message[:2000])
