"""Candidates whose verdict is known, for each kind of suite: one that must pass, one that must fail in one place."""

from __future__ import annotations

import msgspec

from quintain.tasks import JavaScriptSuite, PythonSuite, ShellSuite, StdioCase, StdioSuite, Suite
from quintain.types import FaultKind, Program


class Pinned(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`good` must solve the suite; `bad` must pass exactly `bad_share` of its tests and fail the rest by `bad_kind`."""

    suite: Suite
    good: Program
    bad: Program
    bad_share: float = 0.5
    bad_kind: FaultKind = FaultKind.ASSERTION_ERROR


_PYTHON = b"""
from solution import Stack, mean

def test_values():
    assert mean([1, 2, 6]) == 3.0
    assert mean([-0.5]) == -0.5

def test_state():
    stack = Stack()
    stack.push([1])
    stack.push({"k": (2, None)})
    assert len(stack) == 2
    assert stack.pop() == {"k": (2, None)}
"""
_PYTHON_GOOD = b"""
def mean(values):
    return sum(values) / len(values)

class Stack:
    def __init__(self):
        self.items = []
    def push(self, item):
        self.items.append(item)
    def pop(self):
        return self.items.pop()
    def __len__(self):
        return len(self.items)
"""
_JAVASCRIPT = b"""
const { mean, Stack } = require('./solution');
test('values', () => { expect(mean([1, 2, 6])).toBe(3); });
test('state', () => {
  const stack = new Stack();
  stack.push([1]);
  stack.push({ k: [2, null] });
  expect(stack.pop()).toEqual({ k: [2, null] });
});
"""
_JAVASCRIPT_GOOD = b"""
const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
class Stack {
  constructor() { this.items = []; }
  push(item) { this.items.push(item); }
  pop() { return this.items.pop(); }
}
module.exports = { mean, Stack };
"""
_SHELL = b"""
test_values() {
  [ "$(add 3 4)" = 7 ]
}
test_more() {
  [ "$(add 20 22)" = 42 ]
}
"""
_STDIO = (
    StdioCase(name="one", stdin=b"3 4\n", stdout=b"7\n"),
    StdioCase(name="two", stdin=b"20 22\n", stdout=b"42\n"),
)


def _shell_program(text: bytes) -> Program:
    return Program(files={"main.sh": text}, argv=("sh", "main.sh"), language="shell")


#: What Health judges, unless it is told otherwise.
PINNED: tuple[Pinned, ...] = (
    Pinned(
        suite=PythonSuite(files={"test_pinned.py": _PYTHON},
                          required=("test_pinned.py::test_values", "test_pinned.py::test_state")),
        good=Program(files={"solution.py": _PYTHON_GOOD}),
        bad=Program(files={"solution.py": _PYTHON_GOOD.replace(b"items.pop()", b"items.pop(0)")}),
    ),
    Pinned(
        suite=JavaScriptSuite(files={"pinned.test.js": _JAVASCRIPT},
                              required=("pinned.test.js::values", "pinned.test.js::state")),
        good=Program(files={"solution.js": _JAVASCRIPT_GOOD}, language="javascript"),
        bad=Program(files={"solution.js": _JAVASCRIPT_GOOD.replace(b"items.pop()", b"items.shift()")},
                    language="javascript"),
    ),
    Pinned(
        suite=ShellSuite(files={"test_pinned.sh": _SHELL}, functions=("add",),
                         required=("test_pinned.sh::test_values", "test_pinned.sh::test_more")),
        good=Program(files={"solution.sh": b"add() { echo $(($1 + $2)); }\n"}, language="shell"),
        bad=Program(files={"solution.sh": b"add() { echo 7; }\n"}, language="shell"),
    ),
    Pinned(
        suite=StdioSuite(cases=_STDIO), bad_kind=FaultKind.WRONG_ANSWER,
        good=_shell_program(b"read a b\necho $((a + b))\n"), bad=_shell_program(b"read a b\necho 7\n"),
    ),
)
