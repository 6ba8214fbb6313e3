"""A check is split into tests only where all of them together say what it said."""

from __future__ import annotations

import ast

import pytest

from quintain.tasks.formats.testfile import as_test_file, collected, doctest_asserts, split_asserts


def split(text: str) -> list[str]:
    return ["\n".join(map(ast.unparse, body)) for body in split_asserts(ast.parse(text).body, candidate={"f"})]


def test_asserts_become_tests_with_what_stood_before_them() -> None:
    assert split("import math\nx = [1]\nassert f(x) == 1\ny = 2\nassert f(y) == math.pi\n") == [
        "x = [1]\nassert f(x) == 1", "import math\ny = 2\nassert f(y) == math.pi",
    ]


def test_a_loop_with_asserts_is_one_test() -> None:
    assert split("assert f(1)\nfor x in range(3):\n    assert f(x)") == [
        "assert f(1)", "for x in range(3):\n    assert f(x)",
    ]


@pytest.mark.parametrize("text", [
    "x = [1]\nassert f(x)\nassert f(x)",  # one object in two units: the first call may change it
    "x = f(1)\nassert x == 1\nassert f(2) == 2",  # a shared statement calls the candidate
    "x = 1\nx += 1\nassert f(x) == 2\nassert f(3)",  # more than plain assignments
    "for x in [1]:\n    assert f(x)\nassert f(x)",  # a loop leaves its variable behind
    "with open('x') as y:\n    pass\nassert f(1)\nassert f(2)",
])
def test_what_could_change_the_verdict_stays_in_one_piece(text: str) -> None:
    assert split(text) == [ast.unparse(ast.parse(text))]


def test_what_cannot_fail_earns_nothing() -> None:
    assert split("'words'\nprint\nassert True, 'hint'\nassert f(1)") == ["assert f(1)"]
    with pytest.raises(ValueError, match="at least one assert"):
        split("assert True")


def test_a_candidate_named_like_a_test_is_not_collected_as_one() -> None:
    text, names = as_test_file([ast.parse("assert test_x(1)").body], imports={"solution": ["test_x", "other"]})
    assert names == ("test_1",)
    assert collected("t.py", text) == ["t.py::test_1"]
    assert text.decode().startswith("from solution import other\n")


def test_examples_of_a_docstring_become_asserts() -> None:
    found = doctest_asserts(">>> f([1, 2])\n3\n>>> g(1)\n2\n>>> f(x)\n1\n>>> f(1)\n<object>\n>>> f('a')\n'b'\n", "f")
    assert [ast.unparse(statement) for statement in found] == ["assert f([1, 2]) == 3", "assert f('a') == 'b'"]


def test_tests_are_collected_without_running_the_file() -> None:
    text = b'''
import unittest
from unittest import TestCase
raise SystemExit("never run")
class Base(unittest.TestCase):
    def test_a(self): ...
    @unittest.skip("extra")
    def test_skipped(self): ...
class Inner(Base):
    def test_b(self): ...
class Helper:
    def test_no(self): ...
class TestPlain:
    def test_c(self): ...
def test_d(): ...
def helper(): ...
'''
    assert collected("t.py", text) == [
        "t.py::test_d", "t.py::Base::test_a", "t.py::Inner::test_a", "t.py::Inner::test_b", "t.py::TestPlain::test_c",
    ]
