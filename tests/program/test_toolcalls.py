"""Tool calls, checked against the tools that exist."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.program import Tool, ToolCall, parse_tool_calls
from quintain.types import Fault, FaultKind, Finish

BASH = Tool(name="bash", arguments={"command": "string", "timeout": "number"}, optional=frozenset({"timeout"}))
EDIT = Tool(name="edit", arguments={"path": "string", "lines": "array", "force": "boolean"},
            optional=frozenset({"lines", "force"}))
TOOLS = (BASH, EDIT)


def calls(reply: str) -> tuple[ToolCall, ...]:
    found = parse_tool_calls(reply, TOOLS)
    assert not isinstance(found, Fault), found
    return found


def refused(reply: str, finish: Finish = Finish.STOP) -> Fault:
    found = parse_tool_calls(reply, TOOLS, finish=finish)
    assert isinstance(found, Fault), found
    return found


LS = ToolCall(name="bash", arguments={"command": "ls"})


@pytest.mark.parametrize("reply", [
    '<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>',
    'Look:\n<tool_call>\n{"arguments": {"command": "ls"}, "name": "bash"}\n</tool_call>\nDone.',
    "<tool_call>\n<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>",
    '<function_calls>\n<invoke name="bash">\n<parameter name="command">ls</parameter>\n</invoke>\n</function_calls>',
    '{"tool_calls": [{"id": "1", "type": "function",'
    ' "function": {"name": "bash", "arguments": "{\\"command\\": \\"ls\\"}"}}]}',
])
def test_four_dialects_say_the_same(reply: str) -> None:
    assert calls(reply) == (LS,)


def test_several_calls_keep_their_order_and_their_text() -> None:
    text = 'echo "</tool_call>" &lt;\n```\n'
    one = '<tool_call>{"name": "bash", "arguments": {"command": "echo \\"</tool_call>\\" &lt;\\n```\\n"}}</tool_call>'
    two = '<invoke name="bash"><parameter name="command">b</parameter></invoke>'
    assert [call.arguments["command"] for call in calls(one + two)] == [text, "b"]


def test_reasoning_and_fenced_text_make_no_calls() -> None:
    one = '<tool_call>{"name": "rm", "arguments": {}}</tool_call>'
    assert calls(f"<think>{one}</think>fine") == ()
    assert calls(f"Write:\n```xml\n{one}\n```\nso") == ()
    assert calls("no calls at all") == ()


def test_a_tagged_dialect_reads_other_types_than_text_as_json() -> None:
    def edit(force: str) -> str:
        return ('<invoke name="edit"><parameter name="path">7</parameter><parameter name="lines">[1, 2]</parameter>'
                f'<parameter name="force">{force}</parameter></invoke>')
    assert calls(edit("true"))[0].arguments == {"path": "7", "lines": [1, 2], "force": True}
    assert "expected boolean for argument 'force', found string" in refused(edit("yes")).message


@pytest.mark.parametrize(("body", "said"), [
    ('{"name": "bash", "arguments": {"command": 3}}', "expected string for argument 'command', found integer 3"),
    ('{"name": "bash", "arguments": {"command": "ls", "timeout": true}}', "expected number for argument 'timeout'"),
    ('{"name": "bash", "arguments": {"command": "ls", "timeout": NaN}}', "expected number for argument 'timeout'"),
    ('{"name": "bash", "arguments": {}}', "expected argument 'command' (string), found none"),
    ('{"name": "bash", "arguments": {"command": "a", "cwd": 1}}', "expected no argument 'cwd'"),
    ('{"name": "bash", "arguments": []}', "expected its arguments as an object, found array"),
    ('{"name": "python", "arguments": {}}', "expected a tool out of bash, edit; found 'python'"),
    ('{"arguments": {}}', "found no 'name'"),
    ('["bash"]', "found array"),
    ('{"name": "bash" "arguments": {}}', "expected JSON in the tool call; line 1"),
    ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
])
def test_a_call_that_no_tool_accepts_says_what_was_expected(body: str, said: str) -> None:
    fault = refused(f"<tool_call>{body}</tool_call>")
    assert fault.kind is FaultKind.INVALID_TOOL_CALL
    assert said in fault.message


@pytest.mark.parametrize("reply", [
    '<tool_call>{"name": "bash", "argum', '<tool_call>{"name": "bash", "arguments": {"command": "ls"}}',
    '<invoke name="bash"><parameter name="command">ls', "<tool_call><function=bash>", "<think>I call",
])
def test_a_call_that_is_cut_is_truncated_or_invalid(reply: str) -> None:
    assert refused(reply, Finish.LENGTH).kind is FaultKind.TRUNCATED
    assert refused(reply).kind in (FaultKind.INVALID_TOOL_CALL, FaultKind.NO_ANSWER)


def test_a_tool_with_a_type_that_json_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="expected one of string"):
        Tool(name="x", arguments={"a": "text"})
    with pytest.raises(ValueError, match="different names"):
        parse_tool_calls("", (BASH, BASH))


@given(st.lists(st.sampled_from([
    "<tool_call>", "</tool_call>", '{"name": "bash",', '"arguments": {', '"command": "x"', "}", "<function=bash>",
    "<parameter=command>", "</parameter>", "</function>", '<invoke name="bash">', '<parameter name="command">',
    "</invoke>", "```\n", "\n", "<think>", "</think>", "\ud800", "1e999", "9" * 5000, "NaN", "[", '{"tool_calls": [',
]), max_size=20).map("".join))
def test_parsing_calls_never_raises(reply: str) -> None:
    parse_tool_calls(reply, TOOLS)
