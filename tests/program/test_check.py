"""Faults that the text of a source shows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.program import MAX_SOURCE_BYTES, check_source
from quintain.types import Entry, FaultKind

ENTRY = Entry(name="add")


def kind(source: str | bytes, entry: Entry | None = ENTRY, path: str = "solution.py") -> FaultKind | None:
    content = source.encode() if isinstance(source, str) else source
    fault = check_source(path, content, entry=entry)
    return fault.kind if fault else None


@pytest.mark.parametrize("source", [
    "def add(a, b): return a + b\n", "add = lambda a, b: a + b\n", "from operator import add\n", "import add\n",
    "try:\n    from x import add\nexcept ImportError:\n    def add(a, b): pass\n", "from x import *\n",
    "globals()['add'] = 1\n", "exec('def add(): pass')\n", "async def add(): pass\n", "add: int = 3\n",
    "class add: pass\n",
    "def f():\n    global add\n    add = 1\nf()\n", "a, (add, c) = 1, (2, 3)\n", "with x as add: pass\n",
])
def test_a_name_bound_in_any_way_at_top_level_is_found(source: str) -> None:
    assert kind(source) is None


@pytest.mark.parametrize("source", [
    "", "def sub(a, b): pass\n", "def f():\n    def add(): pass\n", "class A:\n    add = 1\n",
])
def test_a_name_that_nothing_binds_is_a_missing_entry_point(source: str) -> None:
    assert kind(source) is FaultKind.MISSING_ENTRY_POINT


def test_a_method_is_looked_for_in_its_class() -> None:
    entry = Entry(name="Solution.add")
    assert kind("class Solution:\n    def add(self): pass\n", entry) is None
    assert kind("class Solution:\n    def sub(self): pass\n", entry) is FaultKind.MISSING_ENTRY_POINT
    assert kind("class Solution(Base):\n    pass\n", entry) is None


@pytest.mark.parametrize(("source", "line"), [
    ("x = 1\ndef add(a, b)\n    pass\n", 2), ("x = 1\nreturn 5\n", 2), ("if x:\npass\n", 2), ("x = (\n", 1),
    (b"x = 1\n# \xff\n", 2), (b"# coding: latin-1\nx = (\n", 2), ("x = 1\ny = 0777\n", 2), ("a = 1\n\nawait a\n", 3),
])
def test_what_does_not_compile_is_a_syntax_error_with_its_line(source: str | bytes, line: int) -> None:
    content = source.encode() if isinstance(source, str) else source
    fault = check_source("solution.py", content, entry=ENTRY)
    assert fault is not None
    assert (fault.kind, fault.file, fault.line) == (FaultKind.SYNTAX_ERROR, "solution.py", line)


def test_a_html_escape_counts_only_where_nothing_binds_the_name() -> None:
    assert kind("def add(a, b):\n    return a &lt; b\n") is FaultKind.SYNTAX_ERROR
    assert kind("lt = 3\ndef add(a, b):\n    x = a &lt; return x\n") is None
    assert kind("def add(a, b):\n    return '&lt;' + a\n") is None


def test_hostile_sources_are_answered_quickly_and_never_crash() -> None:
    for source in ("-" * 200_000 + "1", "(" * 5000, "x" + ".a" * 100_000, "1 if 1 else " * 20_000 + "1",
                   "if 1: pass\n" + "elif 1: pass\n" * 15_000):
        assert kind(source) is FaultKind.SYNTAX_ERROR
    assert kind("x = '" + "a" * MAX_SOURCE_BYTES + "'") is FaultKind.BUILD_ERROR


def test_a_source_in_an_odd_codec_is_left_to_the_sandbox() -> None:
    assert kind(b"# coding: punycode\n" + b"a" * 100_000) is None


def test_other_languages_are_not_compiled_here() -> None:
    entry = Entry(path="a.js", name="add", language="javascript")
    assert kind("function (", entry, "a.js") is None
    assert kind("a\0b", entry, "a.js") is FaultKind.SYNTAX_ERROR
    assert kind(b"\0\1", ENTRY, "picture.png") is None


@given(st.binary(max_size=200))
def test_check_never_raises(content: bytes) -> None:
    check_source("solution.py", content, entry=ENTRY)
