"""The repairing policy: which edits it may make, what it reads, and that it sees no more than it may."""

from __future__ import annotations

import ast
import random

import pytest

from quintain.tasks import open_taskset
from quintain.train import case_of, demo_of, repair_cases
from quintain.train.repair_edits import Edit, read_code
from quintain.train.repair_features import Test, Tried, change_of, compared, features_of, renumbered
from quintain.types import Entry, Fault, FaultKind, Owner, Passed, Task, TestResult, Verdict

LOOP = "def f(xs):\n    total = 0\n    for x in xs:\n        if x > 0:\n            total += x\n    return total\n"


def test_an_edit_changes_one_token_and_nothing_else() -> None:
    code = read_code(LOOP)
    for edit in code.edits:
        after = read_code(code.edited(edit))
        changed = [(a.text, b.text) for a, b in zip(code.tokens, after.tokens, strict=True) if a.text != b.text]
        assert changed == [(code.tokens[edit.site].text, edit.text)]
        ast.parse(after.source)


def test_what_is_bound_stays_and_what_is_read_may_change() -> None:
    code = read_code(LOOP)
    sites = {(code.tokens[e.site].line, code.tokens[e.site].column) for e in code.edits}
    assert (2, 4) not in sites and (3, 8) not in sites and (1, 6) not in sites  # total = , for x, the parameter
    assert {(3, 13), (4, 11), (5, 21), (6, 11)} <= sites
    assert Edit(next(n for n, t in enumerate(code.tokens) if t.text == ">"), "<=") in code.edits


def test_every_fault_of_the_tasks_has_a_repair_among_the_edits() -> None:
    for item in open_taskset("repair-heldout"):
        demo = demo_of(item.task, (item.exam.oracle or {})["solution.py"])
        assert demo is not None
        assert case_of(item.task).code.edited(demo.edit).encode() == (item.exam.oracle or {})["solution.py"]


def test_a_minus_that_is_a_sign_is_no_operator() -> None:
    assert [e.text for e in read_code("def f():\n    return -1\n").edits] == ["0", "2"]
    assert "+" in [e.text for e in read_code("def f(a):\n    return a - 1\n").edits]


def test_what_cannot_be_read_as_tokens_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="expected Python"):
        read_code("def f(:\n  '''")


@pytest.mark.parametrize("test", [
    Test(call="f([1], 2)", expected="[3]"), Test(call="f('a == b')", expected="True", outcome="wrong", found="False"),
    Test(call="f()", expected="{1: 2}", outcome="late"),
    Test(call="f()", expected="1", outcome="IndexError", line=4), Test(call="f()", expected="1", outcome="other"),
])
def test_a_line_of_a_report_is_read_as_it_was_told(test: Test) -> None:
    assert repair_cases.read_told(f"- {test.call} == {test.expected}: {repair_cases.tell(test)}") == test


def test_of_a_verdict_only_the_shown_tests_are_read() -> None:
    wrong = Fault(owner=Owner.POLICY, kind=FaultKind.ASSERTION_ERROR,
                  message="AssertionError: assert f(2) == 3: found 4 == 3", line=9)
    raised = Fault(owner=Owner.POLICY, kind=FaultKind.WRONG_ANSWER if hasattr(FaultKind, "WRONG_ANSWER")
                   else FaultKind.ASSERTION_ERROR, message="IndexError: no", file="solution.py", line=4,
                   exception="IndexError")
    results = (
        TestResult(id="test_solution.py::test_0", passed=Passed.PASSED),
        TestResult(id="test_solution.py::test_1", passed=Passed.FAILED, fault=wrong),
        TestResult(id="test_solution.py::test_2", passed=Passed.FAILED, fault=raised),
        TestResult(id="test_solution.py::test_3", passed=Passed.FAILED, fault=wrong),
    )
    known = [Test(call=f"f({n})", expected=str(n + 1)) for n in (1, 2, 3)]
    seen = repair_cases.tests_after(known, Verdict(suite="s", level="L4", tests=results))
    assert [(t.outcome, t.found, t.line) for t in seen] == [
        ("passed", None, None), ("wrong", "4", None), ("IndexError", None, 4)]


def test_features_do_not_know_a_function_by_its_variables() -> None:
    def made(source: str) -> list[int]:
        tests = (Test(call="f([1])", expected="1", outcome="wrong", found="0"),)
        case = case_of(task_of(source))
        assert case.tests == tests
        return features_of(case).tokens_L

    assert made(LOOP) == made(LOOP.replace("total", "money").replace("xs", "coins"))
    assert made(LOOP) != made(LOOP.replace("> 0", "< 0"))


def task_of(source: str) -> Task:
    return Task.sealed(
        id="repair/f/0", exam="", files={"solution.py": source.encode()}, entry=Entry(name="f"),
        instructions="One token of `f` in `solution.py` is wrong. What it should return:\nThe sum.\n\n"
        "- f([1]) == 1: found 0\n")


def test_numbering_variables_anew_is_the_same_program() -> None:
    case = case_of(task_of(LOOP))
    plain = features_of(case)
    other = renumbered(plain, random.Random(3))
    assert plain.tokens_L != other.tokens_L
    back = dict(zip(other.tokens_L, plain.tokens_L, strict=True))
    assert [back[token] for token in other.tokens_L] == plain.tokens_L


def test_a_failed_attempt_is_closed_and_leaves_its_mark() -> None:
    case = case_of(task_of(LOOP))
    better = Tried(case.code.edits[2], (Test(call="f([1])", expected="1"),))
    case = type(case)(about=case.about, code=case.code, tests=case.tests, tried=(better,))
    features = features_of(case)
    assert [n for n, is_open in enumerate(features.open_C) if not is_open] == [2]
    assert change_of(case.tests, better.tests) == "better"
    assert [n for n, change in enumerate(features.changes_L) if change] == [case.code.edits[2].site]


@pytest.mark.parametrize(("expected", "found", "words"), [
    (3, 4, ["more", "one-off"]), (3, -3, ["less", "negated"]), ([1, 2], [2, 1], ["same-length", "order"]),
    ([1, 2], [1], ["shorter", "one-off", "front"]), ("ab", "", ["shorter", "empty", "front"]),
    (True, False, ["false"]), (1, None, ["none"]), (1, "1", ["type"]), (10, 40, ["more", "far"]),
])
def test_values_are_told_by_how_they_stand_to_each_other(expected: object, found: object, words: list[str]) -> None:
    assert compared(expected, found) == words


def test_a_task_that_is_no_repair_is_refused() -> None:
    task = Task.sealed(id="add", exam="", instructions="Add.", files={"solution.py": b"def f(): pass\n"})
    with pytest.raises(ValueError, match="expected lines `- CALL == VALUE"):
        case_of(task)
    with pytest.raises(ValueError, match=r"expected solution\.py among the task's files"):
        case_of(Task.sealed(id="add", exam="", instructions="Add."))
